"""Templates of families written as patterns: what is constant stays literal, what repeats is one field."""

import re
from collections.abc import Sequence
from typing import TypeVar

from shared.dataset.files.patterns import PatternError, compile

_LOOK = 2000
_CHECK = 5_000
_GOLDEN = 0.618033988749895
_MOST_FIELDS = 8
"""Of one folder or file name, as patterns allow."""

Template = list[list[str | None]]
"""Tokens of each folder and of the stem; None is a field."""
Item = TypeVar("Item")


def pattern_of(template: Template, suffix: str, paths: Sequence[str]) -> str:
    """The most particular pattern that takes all of `paths`, with the template's fields named part1, part2, ..."""
    if len(paths) == 1:
        return _kept(_escaped(paths[0]))
    looked, checked = evenly(paths, _LOOK), evenly(paths, _CHECK)
    plain = [_bounded(segment) for segment in template]
    values = _values(plain, suffix, looked)
    for names in (_names(values), [str(number) for number in range(len(values))]):
        try:
            pattern = _numbered(_cased(_write(plain, suffix, names), looked[0]))
            if all(compile(pattern).match(path) is not None for path in checked):
                return pattern
        except PatternError:
            continue
    # Names that are in no order that a pattern tells, such as one with a line break or a brace.
    return "/".join(f"{{part{number}}}" for number in range(1, len(template) + 1))


def evenly(items: Sequence[Item], most: int) -> Sequence[Item]:
    """`most` of `items` from all over, the first among them, always the same ones. Steps between them differ, so that
    what alternates does not hide."""
    if len(items) <= most:
        return items
    step = len(items) / most
    return [items[min(len(items) - 1, int((at + at * _GOLDEN % 1) * step))] for at in range(most)]


def shared_start(texts: Sequence[str]) -> str:
    """The longest beginning that all of `texts` have."""
    first, last = min(texts), max(texts)
    length = next((at for at, (one, other) in enumerate(zip(first, last, strict=False)) if one != other), len(first))
    return first[: min(length, len(last))]


def _escaped(text: str) -> str:
    """As a literal of a pattern; the few characters that mean something there may be any."""
    return re.sub(r"[{}*\\]+", "*", text)


def _kept(pattern: str) -> str:
    """Spaces at either end, which patterns drop, may be any."""
    return re.sub(r"^\s+|\s+$", "*", pattern)


def _bounded(segment: list[str | None]) -> list[str | None]:
    """At most eight fields: the rest of a longer name is one of them."""
    places = [place for place, token in enumerate(segment) if token is None]
    if len(places) <= _MOST_FIELDS:
        return segment
    return segment[: places[_MOST_FIELDS - 1] + 1]


def _write(template: Template, suffix: str, names: Sequence[str]) -> str:
    """With each field in turn as the text that `names` gives: `=text` is a literal, anything else a field."""
    left = iter(names)
    parts = []
    for segment in template:
        tokens = []
        for token in segment:
            name = next(left) if token is None else "=" + token
            tokens.append(_escaped(name[1:]) if name.startswith("=") else f"{{part{name}}}")
        parts.append("".join(tokens))
    return _kept("/".join(parts) + _escaped(suffix))


def _values(template: Template, suffix: str, paths: Sequence[str]) -> list[list[str]]:
    """Values of each field, over paths that fit."""
    count = sum(token is None for segment in template for token in segment)
    compiled = compile(_write(template, suffix, [str(number) for number in range(count)]))
    found = [match for path in paths if (match := compiled.match(path)) is not None]
    return [[match[f"part{number}"] for match in found] for number in range(count)]


def _names(values: Sequence[Sequence[str]]) -> list[str]:
    """A literal for a field of one value, the number of an earlier field where both always agree."""
    names: list[str] = []
    for number, column in enumerate(values):
        lower = [value.lower() for value in column]
        if len(set(lower)) == 1:
            names.append("=" + column[0])
            continue
        earlier = (before for before in range(number) if [value.lower() for value in values[before]] == lower)
        names.append(str(next(earlier, number)))
    return names


def _cased(pattern: str, path: str) -> str:
    """With literals spelled as in `path`."""
    found = compile(pattern).regex.fullmatch(path)
    if not found:
        return pattern
    spans = sorted((found.span(name), name) for name in found.groupdict())
    written, repeated = pattern, dict.fromkeys(name for _, name in spans)
    pieces = re.split(r"(\{\w+\}|\*)", written)
    values = found.groupdict()
    at, spelled = 0, []
    for piece in pieces:
        if piece == "*":
            return pattern
        if piece[:1] == "{" and piece[1:-1] in repeated:
            spelled.append(piece)
            at += len(values[piece[1:-1]])
        else:
            spelled.append(path[at : at + len(piece)])
            at += len(piece)
    return "".join(spelled)


def _numbered(pattern: str) -> str:
    """Fields numbered from 1 in the order in which they stand."""
    known: dict[str, str] = {}
    return re.sub(r"\{(\w+)\}", lambda found: f"{{{known.setdefault(found[1], f'part{len(known) + 1}')}}}", pattern)
