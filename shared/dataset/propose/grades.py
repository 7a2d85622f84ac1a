"""Which classes are grades, from least to most: names say degrees (`mild`, `severe`), or numbers are called grades."""

import re
from collections.abc import Mapping
from itertools import pairwise

from shared.dataset.tables.words import unsure
from shared.vocabulary.reading import plain

FEWEST, _GAP = 3, 1
"""Classes whose order is worth telling, and grades that no case may have: `9` is none beside 1, 2 and 3."""
_NOTHING = re.compile(
    r"(?:no|non|none|not|normal|absent|healthy|negative|kein\w*|ohne|sans|aucun\w*|sin|ninguna?)\b", re.I
)
_DEGREES = tuple(
    re.compile(rf"\b(?:{words})\b", re.I)
    for words in (
        r"minimal\w*|minor|trace|doubtful|questionable|fraglich\w*",
        r"mild\w*|slight\w*|low|early|leicht\w*|gering\w*|leger\w*|leve|ligera?",
        r"moderat\w*|moderad\w*|modere\w*|medium|intermediate|mittel\w*|massig\w*",
        r"severe\w*|sever[ao]|marked|high|late|advanced|schwer\w*|hochgradig\w*|ausgepragt\w*|grave",
    )
)
_VERY = re.compile(r"\b(?:very|extremely|sehr|tres|muy)\b", re.I)
_GRADES = re.compile(
    r"(?<![A-Za-z])(?:grad(?:e|es|ed|ing|o|os)?|schweregrad\w*|stages?|staging|stadi\w*|estadi\w*|severit\w*|severidad|degrees?"
    r"|scores?|scale|ordinal|kellgren|isup|gleason|fazekas|kappa|qwk)(?![A-Za-z])", re.I,
)  # fmt: skip
_NUMBERED = re.compile(r"([A-Za-z ]*?) ?(\d{1,2}|I{1,3}|IV|V)")
_ROMAN = {"I": 1, "II": 2, "III": 3, "IV": 4, "V": 5}


def from_least(classes: Mapping[str, str], said: str) -> tuple[str, ...]:
    """The names of `classes` (value -> name) from least to most; empty where they are kinds, or it cannot be told.

    `said` is what a header, a data dictionary and the request say of them.
    """
    names = list(dict.fromkeys(classes.values()))
    if len(names) < FEWEST or any(map(unsure, names)):
        return ()
    degrees = {name: degree for name in names if (degree := _degree(name)) is not None}
    by_degree = tuple(sorted(degrees, key=lambda name: degrees[name]))
    several = len({degree for degree in degrees.values() if degree}) > 1 and _rising(
        [degrees[one] for one in by_degree]
    )
    if several and len(degrees) == len(names):
        return by_degree
    numbers = _numbers(classes) or _numbers({name: name for name in names})
    by_number = tuple(sorted(numbers, key=lambda name: numbers[name]))
    if several:
        told = [degrees[name] for name in by_number if name in degrees]
        return by_number if _rising(told) else by_number[::-1] if _rising(told[::-1]) else ()
    return by_number if _GRADES.search(plain(" ".join([said, *names]))) else ()


def _degree(name: str) -> float | None:
    """0 where there is nothing; `mild to moderate` is between the two."""
    text = plain(name)
    found = [number for number, words in enumerate(_DEGREES, 1) if words.search(text)]
    if not found:
        return 0.0 if _NOTHING.match(text) else None
    middle = sum(found) / len(found)
    return middle + (0.25 if middle > 2 else -0.25) * bool(_VERY.search(text))


def _numbers(classes: Mapping[str, str]) -> dict[str, int]:
    """Name -> the number of its value (`2`, `Grade II`, `G2`); empty where one has none, or they do not follow each
    other. Nothing to be found is less than any number."""
    found: dict[str, int] = {}
    leads = set()
    for value, name in classes.items():
        told = _NUMBERED.fullmatch(plain(value.removesuffix(".0")))
        if told:
            leads.add(told[1].lower())
            found[name] = _ROMAN.get(told[2]) or int(told[2])
        elif _NOTHING.match(plain(value)):
            found[name] = -1
    several = [number for number in found.values() if number >= 0]
    whole = len(set(found.values())) == len(found) == len(classes) and len(leads) == 1 and len(several) > 1
    return found if whole and max(several) - min(several) < len(several) + _GAP else {}


def _rising(degrees: list[float]) -> bool:
    return all(one < other for one, other in pairwise(degrees))
