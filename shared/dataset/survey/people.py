"""Which names, columns and headers may tell patients apart: measured over all image files."""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from statistics import median

from shared.contracts.values import Source
from shared.dataset.survey.candidates import best_of, of_column, of_names, scored
from shared.dataset.survey.evidence import Evidence, Units
from shared.dataset.survey.names import Named
from shared.dataset.survey.table_looks import TableLook

PERSONS = "patient|pat|subject|subj|sub|person|participant|volunteer"
PERSON = re.compile(rf"(?:^|[^a-z])(?:{PERSONS}|case|pt|p|s)[-_ ]?$", re.IGNORECASE)
PERSON_VALUE = re.compile(rf"(?:{PERSONS}|case|pt|p|s)[-_ ]?\d+$", re.IGNORECASE)
"""Words for people, the end of what stands before a patient's number, and both together."""
_ID = re.compile(r"(?:^|[-_ ])(?:id|uid|no|nr)$|[a-z]I[dD]$|^uid$|study|exam|accession", re.IGNORECASE)


def patient_evidence(
    units: Units, tables: Sequence[TableLook], labels: Sequence[Evidence], splits: Sequence[Evidence]
) -> list[Evidence]:
    """Headers, columns and names with more groups than classes; images of one group lie together."""
    found = list(_headers(units))
    if not units.files:
        return []
    for table in tables:
        for column in table.columns:
            weak = bool(_ID.search(column.name)) and column.kind in ("id", "integer", "category")
            if table.key is None or column.distinct < 2 or not (column.names_people or weak):
                continue
            key = column.name == table.key
            one = of_column(units, table, column)
            if one.distinct < (2 if column.names_people else 10) or one.share <= 0.02:
                continue
            if not column.names_people and one.distinct > 0.95 * one.share * len(units.files):
                continue  # a number of the image itself
            if column.names_people or not key:
                found.append(scored(one, one.share * (1.08 if key else 1.1 if column.names_people else 0.4)))
    sides = {one.where for one in splits}
    classes = max((one.distinct for one in labels[:2] if one.score > 0.2), default=1)
    for named, one in of_names(units):
        if one.distinct < max(3, classes + 1) or one.share < 0.05 or one.where in sides:
            continue
        hinted = bool(PERSON.search(named.hint)) or (named.folder and _person_folders(one, units))
        several = len(units.files) * one.share / one.distinct
        # A number that begins anew in each folder tells nobody apart, one of slices neither.
        if named.level is None and not hinted and _restarts(units, named):
            continue
        score = one.share * (0.35 + 0.35 * hinted + 0.2 * named.folder + 0.1 * (several > 1.2))
        if named.order and not hinted:
            score *= 0.5  # the first number of a name is whose it is, the next ones count
        found.append(scored(one, score))
    return best_of(found)


def _headers(units: Units) -> Iterator[Evidence]:
    """PatientID of the DICOM headers looked at; the share is of these."""
    seen: dict[tuple[int, str], str] = {}
    total = 0
    for number, family in units.families.items():
        looks = [look.header for look in family.looks if look.header]
        dicom = [one for one in looks if one.kind == "dicom"]
        if not dicom:
            continue
        total += len(family.units)
        for look in family.looks:
            if look.header and (value := look.header.dicom.get("PatientID")):
                seen[number, look.file] = value
    if not seen or len(set(seen.values())) < 2:
        return
    groups: dict[str, int] = defaultdict(int)
    for value in seen.values():
        groups[value] += 1
    yield Evidence(
        Source(header="PatientID"), "PatientID of the DICOM headers", len(groups), total / max(1, units.total), {},
        lambda number, file: seen.get((number, file)), score=1.05,
    )  # fmt: skip


def _person_folders(one: Evidence, units: Units) -> bool:
    names = list(one.values) or [one.of(*unit) or "" for unit in units.files[:50]]
    return sum(bool(PERSON_VALUE.match(name)) for name in names) * 2 > len(names)


def _restarts(units: Units, named: Named) -> bool:
    """Whether the same values occur in most folders, as numbers of slices do."""
    folders: dict[str, set[str]] = defaultdict(set)
    for number, file in units.files[:5000]:
        if value := named.of(units, number, file):
            folders[value].add(file.rpartition("/")[0])
    several = [len(found) for found in folders.values()]
    return bool(several) and median(several) > 1
