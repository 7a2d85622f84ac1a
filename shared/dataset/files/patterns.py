"""Patterns of rules (`shared.contracts.rules`): which files they take, and what their fields say."""

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

_TOKEN = re.compile(r"\{([^{}]*)\}|(\*\*/|\*\*|\*)|([^{}*]+)|(.)", re.DOTALL)
_FIELD = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,39}")
_MOST = 8
"""Fields and `*` of one part between two `/`: more of them take too long to match."""


class PatternError(ValueError):
    """A pattern that cannot be read; the text says why."""


@dataclass(frozen=True)
class Compiled:
    """A pattern, ready to match. Where a path fits in several ways, a field takes as much as it can, but a field that
    `*` follows in the same name takes as little: `{patient}_*.png` reads P1 from `P1_2_3.png`."""

    pattern: str
    fields: tuple[str, ...]
    regex: re.Pattern[str]
    prefix: str
    """Literal beginning, lower case: what does not begin so does not match."""
    suffix: str
    """Literal end, lower case."""
    literal: bool
    """Whether the pattern names one file, without fields and `*`."""

    def match(self, path: str) -> dict[str, str] | None:
        """Fields of `path` (relative, `/` as separator) as they are written there; None where it does not fit."""
        path = _plain(path)
        if self.prefix and path[: len(self.prefix)].lower() != self.prefix:
            return None
        if self.suffix and path[-len(self.suffix) :].lower() != self.suffix:
            return None
        found = self.regex.fullmatch(path)
        return found.groupdict() if found else None


@lru_cache(maxsize=512)
def compile(pattern: str) -> Compiled:
    """Raises PatternError where `pattern` is none."""
    text = _plain(pattern.strip())
    while text.startswith("./"):
        text = text[2:]
    _check(text, pattern)
    tokens = [(found[1], found[2], found[3], found[4]) for found in _TOKEN.finditer(text)]
    fields: list[str] = []
    parts: list[str] = []
    for place, (name, star, literal, stray) in enumerate(tokens):
        if stray:
            raise PatternError(f"`{pattern}`: `{stray}` stands alone; a field is written {{name}}, `*` takes anything")
        if literal:
            parts.append(re.escape(literal))
        elif star:
            at_start = not parts or _before(tokens, place).endswith("/")
            # `**/` also takes no folder at all: `**/x.png` fits `x.png`.
            parts.append({"**/": "(?:.*/)?" if at_start else ".*/", "**": ".*", "*": "[^/]*"}[star])
        else:
            parts.append(_field(name, pattern, fields, _star_follows(tokens[place + 1 :])))
    regex = re.compile("".join(parts), re.IGNORECASE | re.DOTALL)
    first, last = (_ascii(tokens[place][2]) for place in (0, -1))
    literal = not any(name is not None or star for name, star, _, _ in tokens)
    return Compiled(text, tuple(fields), regex, prefix=first, suffix=last, literal=literal)


def first_match(patterns: Sequence[Compiled], path: str) -> dict[str, str] | None:
    """Fields by the first of `patterns` that takes `path`; None where none does."""
    for pattern in patterns:
        fields = pattern.match(path)
        if fields is not None:
            return fields
    return None


def _before(tokens: Sequence[tuple[str | None, ...]], place: int) -> str:
    name, star, literal, _ = tokens[place - 1]
    return literal or star or f"{{{name}}}"


def _plain(path: str) -> str:
    # Names from a Mac come decomposed; an umlaut is the same letter either way.
    return path if path.isascii() else unicodedata.normalize("NFC", path)


def _ascii(literal: str | None) -> str:
    # Lower case of other letters may be longer than they are.
    return literal.lower() if literal and literal.isascii() else ""


def _check(text: str, pattern: str) -> None:
    if not text:
        raise PatternError("a pattern is empty; `**` takes every file")
    if text.startswith("/") or re.match(r"[A-Za-z]:[/\\]", text):
        raise PatternError(f"`{pattern}` is no path relative to the dataset; leave out the beginning of the path")
    if "\\" in text:
        raise PatternError(f"`{pattern}` has a backslash; write / between folders")
    if ".." in text.split("/"):
        raise PatternError(f"`{pattern}` leaves the dataset; patterns are relative to it, without ..")
    for part in text.split("/"):
        if part.count("*") + part.count("{") > _MOST:
            raise PatternError(f"`{pattern}` has more than {_MOST} fields and `*` in one name; use fewer")


def _field(name: str | None, pattern: str, fields: list[str], lazy: bool) -> str:
    if not name or not _FIELD.fullmatch(name):
        raise PatternError(f"`{pattern}`: `{{{name or ''}}}` is no field; its name has letters, digits and _ only")
    if name in fields:
        return f"(?P={name})"
    fields.append(name)
    return f"(?P<{name}>[^/]+{'?' if lazy else ''})"


def _star_follows(tokens: Sequence[tuple[str | None, ...]]) -> bool:
    """Whether the next that is not literal is a `*` of the same name."""
    for _, star, literal, _ in tokens:
        if literal and "/" in literal:
            return False
        if not literal:
            return star is not None
    return False
