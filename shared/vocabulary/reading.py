"""What a text says: concepts of the vocabulary, what it limits itself to or leaves out, and the words that are left."""

import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path

import yaml

BREAK = "|"
"""Stands between parts of a sentence: no term reaches across."""


@dataclass(frozen=True)
class Reading:
    said: Mapping[str, Mapping[str, int]]
    """Kind -> concept -> place of its first term, in `text`."""
    text: str
    """Words of the parts that say what is wanted, without accents, `|` between parts."""
    limited: tuple[str, ...]
    """Of them, the parts that say what alone is wanted: `liver only`."""
    left_out: tuple[str, ...]
    """Parts that say what is to be left out: `without the vessels`, `normal ignored`."""
    denied: frozenset[str]
    """Concepts of tasks in parts that leave something out or deny it: `no contours`."""
    words: frozenset[str]
    """Words that no term takes, in lower case and singular."""

    def concepts(self, kind: str) -> frozenset[str]:
        return frozenset(self.said.get(kind, ()))


@lru_cache(maxsize=4096)
def read(text: str) -> Reading:
    """Of a request or of a description."""
    wanted, left_out, denied = _parts(text)
    joined = f" {BREAK} ".join(wanted)
    said: dict[str, dict[str, int]] = {}
    rest = joined
    for kind in vocabulary():
        spans = found(kind, joined)
        said[kind] = {}
        for start, end, concept in spans:
            said[kind].setdefault(concept, start)
            if kind != "collective":  # `organs` says something of the images, too
                rest = rest[:start] + " " * (end - start) + rest[end:]
    return Reading(
        said=said,
        text=joined,
        limited=tuple(part for part in wanted if any(concept == "only" for *_, concept in found("limit", part))),
        left_out=tuple(left_out),
        denied=frozenset(concept for part in left_out + denied for *_, concept in found("task", part)),
        words=frozenset(singular(word) for word in re.findall(r"[a-z][a-z0-9]{3,}", rest.lower())),
    )


def found(kind: str, text: str) -> list[tuple[int, int, str]]:
    """Start, end and concept of terms in plain `text`, in order; a term within a longer one does not count."""
    spans = [
        (match.start(), match.end(), concept)
        for concept, pattern in vocabulary()[kind].items()
        for match in pattern.finditer(text)
    ]
    return sorted(
        one for one in spans if not any(a <= one[0] and one[1] <= b and b - a > one[1] - one[0] for a, b, _ in spans)
    )


def plain(text: str) -> str:
    """Letters and digits without accents, a space between words; `kneeMRI` is two."""
    text = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", text)
    decomposed = unicodedata.normalize("NFKD", text.replace("ß", "ss").replace("æ", "ae").replace("œ", "oe"))
    return " ".join(re.findall(r"[A-Za-z0-9]+", "".join(one for one in decomposed if not unicodedata.combining(one))))


def singular(word: str) -> str:
    return word[:-1] if len(word) > 4 and word.endswith("s") and not word.endswith(("ss", "us", "is")) else word


def special(concepts: Iterable[str]) -> set[str]:
    """Concepts without those of which another is a part or a kind."""
    some = set(concepts)
    return {one for one in some if not any(other.startswith(f"{one}/") for other in some)}


def _parts(text: str) -> tuple[list[str], list[str], list[str]]:
    """The parts of sentences that say what is wanted, those that leave something out, and those that deny."""
    wanted: list[str] = []
    left_out: list[str] = []
    denied: list[str] = []
    text = _EVERYTHING_BUT.sub(r"\1 except ", text)
    for piece in re.split(
        r"[,;:.!?()\[\]\n]|\s[-–—>]+\s|->|\s(?:but(?! not)|aber|sondern|mais|pero|sino)\s",
        text,
    ):
        for part in _before_exclusions(plain(piece)):
            limits = {concept for start, _, concept in found("limit", part) if concept == "ignored" or not start}
            if limits & {"ignored", "without"}:
                left_out.append(part)
            elif part:
                (denied if "no" in limits and not _CONDITION.search(part) else wanted).append(part)
    return wanted, left_out, denied


_CONDITION = re.compile(r"\b(?:where|if|when|wenn|falls|si|quand|cuando|donde|quando|indien)\b", re.IGNORECASE)
"""Says when something is not to be done: `no marks where there is no nodule` denies no task."""
_EVERYTHING_BUT = re.compile(r"\b((?:everything|anything|all)(?: [\w-]+){0,6}) but (?!not\b)", re.IGNORECASE)
_BOTH = re.compile(r"(?i:(?<![a-z0-9])(?:(?:with|mit|avec|con) \w+|yes|ja|oui|si|or|oder|ou)) $")
"""Before a negation that is one of two sides: `with and without`, `yes or no`."""


def _before_exclusions(part: str) -> list[str]:
    """`liver without vessels` is two parts, as is `triage no contours`; `with and without tumours` is one."""
    needs = [start for start, _, concept in found("task", part) if concept not in ("tell", "find", "lesion")]
    cuts = [0]
    for start, end, concept in found("limit", part):
        # Within a part, `no` denies what is to be done alone: patients may have `no fracture`.
        cut = concept == "without" or (
            concept == "no" and any(end < one and len(part[end:one].split()) < 2 for one in needs)
        )
        if start and cut and not _BOTH.search(part[:start]):
            cuts.append(start)
    return [part[start:end].strip() for start, end in zip(cuts, [*cuts[1:], None], strict=True)]


@cache
def vocabulary() -> Mapping[str, Mapping[str, re.Pattern[str]]]:
    """Kind -> concept -> pattern over plain text."""
    kinds = yaml.safe_load(Path(__file__).with_name("terms.yaml").read_text(encoding="utf-8"))
    return {
        kind: {
            concept: re.compile("|".join(map(_pattern, sorted(terms.split(", "), key=len, reverse=True))))
            for concept, terms in concepts.items()
        }
        for kind, concepts in kinds.items()
    }


def _pattern(term: str) -> str:
    letters = re.sub(r"(?<=\w) (?=[a-z]{3})", " ?", term).replace("*", "[A-Za-z0-9]*")
    return (
        rf"(?<![A-Za-z0-9])(?:{letters})(?![A-Za-z0-9])"
        if term.isupper()
        else rf"(?i:(?<![a-z0-9]){letters}(?![a-z0-9]))"
    )
