"""Rows and files that do not meet, classes with few patients, patients on both sides of a split."""

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from shared.dataset.profile.findings import DOUBTFUL, NOTE, UNUSABLE, Findings
from shared.dataset.survey.evidence import LIKELY, Evidence
from shared.dataset.survey.splits import split_of
from shared.dataset.survey.table_looks import TableLook, keys_of, plain
from shared.dataset.tables.column_words import label_likeness
from shared.dataset.tables.tables import SEPARATED
from shared.dataset.tables.words import outcomes

if TYPE_CHECKING:
    from shared.dataset.survey.survey import Survey

_SURE = 0.5
"""Score of patients for each image that has one, below which nothing but numbers in names tells them."""
_TABLES = (*SEPARATED, ".xlsx", ".xls", ".xlsm")
_SCALING = re.compile(r"rescale.?(?:slope|intercept)", re.IGNORECASE)
_NEEDED, _WISHED = 3, 10
"""Patients of a class: below the first train, validation and test cannot all have one."""


def check_tables(seen: "Survey", found: Findings) -> None:
    whole = len(seen.units.files) == seen.units.total
    used = {one.table for part in (seen.labels, seen.patients, seen.texts) for one in part[:1]}
    for table in seen.tables:
        if table.unread and table.file.lower().endswith(_TABLES):
            example = f"{table.file} ({table.unread})"
            found.add(DOUBTFUL, [example], "table(s) cannot be read", "save it as CSV in UTF-8")
        if table.key is not None and table.pattern is None and table.share >= 0.5 and table.file in used:
            _rows(seen, table, whole, found)
        scaling = [one.name for one in table.columns if _SCALING.search(one.name)]
        if scaling:
            found.say(NOTE, f"Columns {' and '.join(scaling[:2])} of {table.said} tell how numbers become values: "
                            "name them as slope and intercept in the rules where headers do not")  # fmt: skip
    likely = [one for one in seen.labels if one.score >= LIKELY * one.share]
    label = next((one for one in likely if _called_so(one, seen)), None)
    patient = next(iter(seen.patients), None)
    sure = patient if patient and patient.score >= _SURE * patient.share else None
    for one in seen.labels if likely else ():
        _spellings(one, found)
    if label:
        _classes(seen, label, sure, found)
        _disagree(seen, label, found)
        _sources(seen, label, found)
        _shortcut(seen, label, found)
    if patient is None and seen.units.total:
        found.say(NOTE, "Nothing tells patients apart: each image counts as a patient of its own; ask for patient ids")
    elif patient and not sure:
        found.say(NOTE, f"Patients are only guessed ({patient.where}): say what names them, or that each image is one")
    elif sure and sure.share < 0.95 and not sure.source.header:
        without = [file for number, file in seen.units.files if not sure.of(number, file)]
        found.add(NOTE, without, f"image(s) without patient in {sure.where}", "each counts as a patient of its own",
                  _all(seen, without))  # fmt: skip
    if sure and seen.splits:
        _sides(seen, sure, seen.splits[0], found)


def _rows(seen: "Survey", table: TableLook, whole: bool, found: Findings) -> None:
    said = f"column {table.key} of {table.said}"
    missing = [file for number, file in seen.units.files if not table.rows_of(seen.units, (number, file))]
    if missing and len(missing) * 2 < len(seen.units.files):
        found.add(DOUBTFUL, missing, f"image(s) without a row (by {said})",
                  "they have no entry: have the rows added, or they are left out", _all(seen, missing))  # fmt: skip
    if not whole:
        return
    known = {key for unit in seen.units.files for _, key in keys_of(seen.units, unit, (table.by,))}
    if table.by == "stem":
        known |= {plain(file) for file in seen.listing.files} | {file for _, file in seen.units.files}
    gone = [
        table.rows[row][table.key or ""]
        for key, rows in table.index.items()
        if key and key not in known
        for row in rows
    ]
    if len(gone) < len(table.rows):
        found.add(DOUBTFUL, gone, f"row(s) of {table.said} without a file",
                  "they are left out; copy the files from their source")  # fmt: skip


def _called_so(label: Evidence, seen: "Survey") -> bool:
    """Whether a header calls them classes, or nothing but names and folders could: what is said of a column of visits
    is said of nothing that anybody learns."""
    column = label.source.column or label.source.array or ", ".join(label.columns)
    if column:
        return label_likeness(column) > 0.5 or bool(label.columns) or outcomes(label.values)
    return outcomes(label.values) or not any(table.key for table in seen.tables)


def _classes(seen: "Survey", label: Evidence, patient: Evidence | None, found: Findings) -> None:
    """Patients a class; files where nothing tells patients apart."""
    people: dict[str, set[str]] = defaultdict(set)
    for number, file in seen.units.files:
        value = label.of(number, file)
        if value:
            who = patient.of(number, file) if patient and not patient.source.header else None
            for part in value.split(label.separator) if label.separator else [value]:
                people[part.strip()].add(who or file)
    if not people or seen.units.scale > 1.01:
        return
    if label.columns or label.separator:
        people = {name: people[name] for name in people if name}
    what = "patients" if patient and not patient.source.header else "images"
    few, scarce = _fewer(people, 1, _NEEDED), _fewer(people, _NEEDED, _WISHED)
    found.add(UNUSABLE if len(people) - len(few) < 2 else DOUBTFUL, few,
              f"class(es) have fewer than {_NEEDED} {what} ({label.where})",
              "join them with others, leave them out, or add patients")  # fmt: skip
    found.add(NOTE, scarce, f"class(es) have fewer than {_WISHED} {what} ({label.where})",
              "expect wide intervals for their scores")  # fmt: skip
    counts = sorted(map(len, people.values()))
    if len(counts) > 1 and counts[0] >= _NEEDED and counts[-1] > 10 * counts[0]:
        found.say(NOTE, f"The largest class has {counts[-1] / counts[0]:.0f} times the {what} of the smallest "
                        f"({label.where}): judge by balanced accuracy")  # fmt: skip


def _fewer(people: Mapping[str, set[str]], least: int, most: int) -> list[str]:
    """Classes with `least` to below `most` patients, the fewest first, as `rare (2)`."""
    found = sorted((len(members), name) for name, members in people.items() if least <= len(members) < most)
    return [f"{name} ({count})" for count, name in found]


def _spellings(label: Evidence, found: Findings) -> None:
    spelled: dict[str, list[str]] = defaultdict(list)
    for value in label.values:
        spelled[" ".join(value.lower().replace("_", " ").replace("-", " ").split())].append(value)
    several = [" and ".join(f"'{value}'" for value in values) for values in spelled.values() if len(values) > 1]
    found.add(DOUBTFUL, several, f"class(es) are spelled in several ways ({label.where})",
              "name them as one class in the rules")  # fmt: skip


def _disagree(seen: "Survey", label: Evidence, found: Findings) -> None:
    """Images with several rows that say different classes."""
    table = next((one for one in seen.tables if one.file == label.table), None)
    column = label.source.column
    if table is None or column is None or label.separator or label.columns:
        return
    odd = []
    for unit in seen.units.files:
        values = {row[column] for row in table.rows_of(seen.units, unit) if row[column]}
        if len(values) > 1:
            odd.append(f"{unit[1]} ({', '.join(sorted(values)[:3])})")
    found.add(DOUBTFUL, odd, f"image(s) have several rows with different values ({label.where})",
              "say which row counts, or take them as several labels", _all(seen, odd))  # fmt: skip


def _sources(seen: "Survey", label: Evidence, found: Findings) -> None:
    """Images whose class two sources with the same classes tell differently."""
    for other in seen.labels:
        same = {value.lower() for value in other.values} & {value.lower() for value in label.values}
        if other is label or len(same) < 2 or other.separator or label.separator:
            continue
        odd = []
        for number, file in seen.units.files:
            one, two = label.of(number, file), other.of(number, file)
            if one and two and one.lower() != two.lower():
                odd.append(f"{file} ({one} and {two})")
        if len(odd) * 4 < len(seen.units.files):
            found.add(DOUBTFUL, odd, f"image(s) with another class by {label.where} than by {other.where}",
                      "say which of them counts", _all(seen, odd))  # fmt: skip


def _shortcut(seen: "Survey", label: Evidence, found: Findings) -> None:
    """Classes that the kind of file alone tells."""
    kinds: dict[str, set[str]] = defaultdict(set)
    for number, file in seen.units.files:
        if value := label.of(number, file):
            kinds[value].add(seen.units.families[number].suffix)
    own = {suffix for one in kinds.values() for suffix in one if len(one) == 1}
    if len(kinds) > 1 and len(own) == len(kinds):
        shown = ", ".join(f"{value} is {next(iter(one))}" for value, one in list(kinds.items())[:3])
        found.say(DOUBTFUL, f"The format of the files alone tells the class ({shown}): a model could learn the export "
                            "instead of the disease; have all exported alike")  # fmt: skip
        return
    shapes: dict[str, Counter[tuple[int, ...]]] = defaultdict(Counter)
    for one in seen.images:
        for look in seen.looker.known.values():
            if look.header and one.has(look.file) and (value := label.of(one.number, look.file)):
                shapes[value][look.header.shape] += 1
    known = {value: counts for value, counts in shapes.items() if sum(counts.values()) >= 3}
    alone = len(known) == len(label.values) > 1 and all(len(counts) == 1 for counts in known.values())
    if alone and len({next(iter(counts)) for counts in known.values()}) == len(known):
        shown = ", ".join(
            f"{value} {' x '.join(map(str, next(iter(counts))))}" for value, counts in list(known.items())[:3]
        )
        found.say(DOUBTFUL, f"The size of the images alone tells the class ({shown}): a model could learn the export "
                            "instead of the disease")  # fmt: skip


def _sides(seen: "Survey", patient: Evidence, split: Evidence, found: Findings) -> None:
    sides: dict[str, set[str]] = defaultdict(set)
    for number, file in seen.units.files:
        who, side = patient.of(number, file), split_of(split.of(number, file) or "")
        if who and side:
            sides[who].add(side)
    both = [f"{who} ({', '.join(sorted(said))})" for who, said in sides.items() if len(said) > 1]
    # Where nearly all are on both sides, numbers begin anew on each.
    if len(both) < 0.9 * len(sides):
        found.add(DOUBTFUL, both, f"patient(s) stand on several sides of the dataset's own split ({split.where})",
                  "a new split by patient is made unless told otherwise")  # fmt: skip


def _all(seen: "Survey", examples: Sequence[str]) -> int:
    """How many of all images, from those of the sample."""
    return round(len(examples) * seen.units.scale)
