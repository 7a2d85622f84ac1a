"""Whose each case is by what the files themselves say, whatever the rules make of it.

A source is trusted where it says that it tells people apart: PatientID of DICOM headers, a column whose header names
patients (`ColumnLook.names_people`), or a part of names behind such a word (`patient07`, `sub-07`). It counts wherever
it has a value, also where other files are named in another way. A remark in a row that calls its patient the same as
another one makes one of both. Not trusted are

- values without a digit other than 0, or with a word for nobody (`ANON1`), and one of more than half of the cases;
- a source that follows from the class or the side of the split, as `patients1` and `controls2` do;
- a number in names that begins anew in each class. In another folder it is another person, unless the folder is an
  occasion (`visit2`, `2019-05-03`).
"""

import re
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from shared.contracts.cases import CaseSpec, Persons
from shared.dataset.files.listing import Listing
from shared.dataset.files.series import headers
from shared.dataset.survey.candidates import of_names
from shared.dataset.survey.evidence import Unit
from shared.dataset.survey.survey import Survey, survey
from shared.imaging.formats import kind_of

MOST = 0.5
"""Share of the cases above which a value names nobody."""
_WORD = r"(?:patient|pat|subject|subj|sub-|person|participant|volunteer)[-_ ]?"
_BEFORE = re.compile(rf"(?:.*[^a-z])?{_WORD}", re.IGNORECASE)
_FOLDER = re.compile(rf"{_WORD}[a-z]{{0,3}}[-_ ]?\d+", re.IGNORECASE)
_SOMEBODY = re.compile(r"(?!.*(?:anon|unknown|dummy|test)).*[1-9]", re.IGNORECASE)
_OCCASION = re.compile(
    r"(?:visit|ses(?:sion)?|scan|time(?:point)?|day|week|month|year|exam|study|t)?[-_ ]?\d[\d._-]*"
    r"|baseline|follow[-_ ]?up.*",
    re.IGNORECASE,
)

_SAME = re.compile(
    r"\b(?:ident\w*|same|alias|formerly|früher|vormals|derselbe|dieselbe|mismo|même|stesso)\W+(?:\w+\W+){0,2}?"
    r"(?:pat\w*|person|subject|case|fall|id|nr|no|number|nummer)\W+(\w*\d\w*)", re.IGNORECASE)  # fmt: skip
"""`identical to patient 143`."""

Texts = dict[str, str]
"""File -> what it says of its person."""


def persons(root: Path, listing: Listing, cases: Sequence[CaseSpec]) -> list[Persons]:
    """The trusted sources in which somebody has several cases, with the person of each case."""
    seen = survey(root, listing=listing)
    first = {case.key: case.images[0][0].files[0] for case in cases}
    family = {file: one.number for one in seen.images for file in one.files}
    units = [(family[file], file) for file in set(first.values()) if file in family]
    found = []
    for where, stated, texts in (*_header(root, first.values()), *_columns(seen, units), *_names(seen, units)):
        of = _numbered({key: texts[file] for key, file in first.items() if file in texts}, len(cases))
        labels, sides = ({case.key: told(case) for case in cases if case.key in of} for told in (_label, _side))
        anew = not stated and _differ(of, labels)
        if of and not anew and not _follows(of, labels) and not _follows(of, sides):
            found.append(Persons(where=where, stated=stated, of=of))
    return found


def _label(case: CaseSpec) -> Hashable:
    return case.label


def _side(case: CaseSpec) -> Hashable:
    return case.split


def _header(root: Path, files: Iterable[str]) -> Iterator[tuple[str, bool, Texts]]:
    read = headers(root, [file for file in set(files) if kind_of(root / file) == "dicom"], ("PatientID",))
    yield "PatientID of the DICOM headers", True, {file: said.get("PatientID", "") for file, said in read.items()}


def _columns(seen: Survey, units: Sequence[Unit]) -> Iterator[tuple[str, bool, Texts]]:
    for table in seen.tables:
        for name in [column.name for column in table.columns if table.key and column.names_people]:
            cells = {unit[1]: {row[name] for row in table.rows_of(seen.units, unit)} - {""} for unit in units}
            other = _others(table.rows, name)
            texts = {file: other.get(text := one.pop(), text) for file, one in cells.items() if len(one) == 1}
            yield f"column {name} of {table.said}", True, texts


def _others(rows: Sequence[Mapping[str, str]], name: str) -> Texts:
    """Number of a person -> another one of the same person, as remarks in the rows say."""
    known = {row[name] for row in rows}
    found: Texts = {}
    for row in rows:
        said = {hit for column, text in row.items() if column != name for hit in _SAME.findall(text)} & known
        if row[name] and len(said - {row[name]}) == 1:
            found.setdefault(row[name], *(said - {row[name]}))
    # Of two that name each other the smaller counts for both.
    return {one: min(one, other) if found.get(other) == one else other for one, other in found.items()}


def _names(seen: Survey, units: Sequence[Unit]) -> Iterator[tuple[str, bool, Texts]]:
    for named, one in of_names(seen.units):
        texts = {unit[1]: text for unit in units if (text := one.of(*unit))}
        if named.level is not None:
            texts = {file: text for file, text in texts.items() if _FOLDER.fullmatch(text)}
        elif not _BEFORE.fullmatch(named.hint):
            continue
        yield one.where, False, {file: f"{_above(file, named.hint + text)}/{text}" for file, text in texts.items()}


def _above(file: str, text: str) -> str:
    """The folders above the first name that has a text, without those that are occasions."""
    parts = file.lower().split("/")
    level = next((level for level, part in enumerate(parts) if text.lower() in part), 0)
    return "/".join(part for part in parts[:level] if not _OCCASION.fullmatch(part))


def _numbered(texts: Mapping[str, str], cases: int) -> dict[str, int]:
    """Case -> number of its person, from 0; empty where nobody has two."""
    somebody = {key: text.strip().casefold() for key, text in texts.items() if _SOMEBODY.match(text.rpartition("/")[2])}
    times = Counter(somebody.values())
    numbers = {text: number for number, text in enumerate(sorted(times)) if times[text] <= MOST * cases}
    if all(times[text] == 1 for text in numbers):
        return {}
    return {key: numbers[text] for key, text in somebody.items() if text in numbers}


def _differ(of: Mapping[str, int], told: Mapping[str, Hashable]) -> bool:
    """Whether of most people with several cases no two have the same class."""
    classes: defaultdict[int, list[Hashable]] = defaultdict(list)
    for key, person in of.items():
        classes[person].append(told[key])
    several = [some for some in classes.values() if len(some) > 1]
    return sum(len(set(some)) == len(some) for some in several) * 2 > len(several)


def _follows(of: Mapping[str, int], told: Mapping[str, Hashable]) -> bool:
    """Whether all cases of a class are of one person."""
    return len({(told[key], person) for key, person in of.items()}) == len(set(told.values())) > 1
