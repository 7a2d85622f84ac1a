"""Which report belongs to which images, by the tables' own keys, and what the tables say of the images besides.

A record names its images itself (a path, a name, the head of names), or through another table that has the same key
beside the files. Of several texts for an image the one counts that is about the fewest images. Runs in the sandbox.
"""

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

from shared.trainkit.reports.columns import (
    INTERCEPT,
    SLOPE,
    STUDY,
    column_of,
    patient_column,
    place_of,
    split_column,
    split_named,
    study_column,
    view_column,
    view_named,
)
from shared.trainkit.reports.naming import FILE, HOW, Names
from shared.trainkit.reports.tables import Record, Table, texts_of
from shared.trainkit.reports.texts import Section, divided, tidy

_LOOKED_AT = 300
_COVERED = 0.5
"""Of a table's records that have to name images before what it says of them is taken."""


@dataclass(frozen=True)
class Key:
    """How the records of a table name their images: by a column, or by one that another table has, too."""

    column: str
    share: float
    how: int
    through: str = ""
    files: Mapping[str, tuple[str, ...]] | None = None
    """Of a key through another table: its value -> files."""

    def of(self, record: Record, names: Names, base: str) -> list[str]:
        found: list[str] = []
        for value in texts_of(record.get(self.column)):
            if self.files is not None:
                found += self.files.get(_plain(value), ())
            elif said := names.find(value, base):
                found += said[1]
        return names.sorted(found)


@dataclass(eq=False)
class Report:
    """The texts of one record, or of the records of one study, and the images that it is about."""

    key: str
    """What the table calls it."""
    table: str
    sections: dict[Section, str] = field(default_factory=dict)
    files: list[str] = field(default_factory=list)
    study: str = ""
    """Value of the column that says so, where records of one study came together."""


@dataclass
class Image:
    """What is known of an image; empty texts are not known."""

    texts: dict[Section, Report] = field(default_factory=dict)
    patient: str = ""
    place: str = ""
    view: str = ""
    study: str = ""
    slope: str = ""
    intercept: str = ""


@dataclass
class Joined:
    images: dict[str, Image]
    reports: int = 0
    without: list[str] = field(default_factory=list)
    """Reports that no image belongs to, by what their table calls them."""
    missing: set[str] = field(default_factory=set)
    """Image files that a table lists and that do not exist."""
    ways: list[str] = field(default_factory=list)
    patients_from: str = ""

    @property
    def says(self) -> str:
        more = f"; and {len(self.ways) - 3} further tables" if len(self.ways) > 3 else ""
        return "reports: " + "; ".join(self.ways[:3]) + more


def join(tables: Sequence[Table], sections: Mapping[str, Mapping[Section, str]], names: Names) -> Joined:
    """Texts and facts of every image that a table names."""
    direct = {table.name: _direct(table, names, tuple(sections.get(table.name, {}).values())) for table in tables}
    found = Joined(defaultdict(Image))
    for table in tables:
        if table.name not in sections:
            continue
        columns = sections[table.name]
        key = _through(table, direct[table.name], tables, direct, names, tuple(columns.values()))
        reports = _reports(table, columns, key, names)
        found.reports += len(reports)
        found.without += [report.key for report in reports if not report.files]
        if key:
            how = f"through {key.through}" if key.through else HOW[key.how]
            found.ways.append(f"{', '.join(columns.values())} of {table.name} by {key.column!r} ({how})")
        for report in reports:
            for file in report.files:
                _tell(found.images[file], report)
    for table in sorted(tables, key=lambda table: table.name in sections):
        if known := direct[table.name]:
            _facts(table, known, names, found)
    found.without = [name for name in found.without if name not in found.missing]
    return found


def _tell(image: Image, report: Report) -> None:
    for section in report.sections:
        known = image.texts.get(section)
        if known is None or (len(report.files), not report.sections[section]) < (
            len(known.files),
            not known.sections[section],
        ):
            image.texts[section] = report


def _direct(table: Table, names: Names, texts: Sequence[str]) -> Key | None:
    """The column that names images most often, and most surely."""
    records = table.records[:: -(-len(table.records) // _LOOKED_AT)]
    best: tuple[tuple[float, float, float], Key] | None = None
    for column in table.columns:
        if column in texts:
            continue
        each = [[said for value in texts_of(record.get(column)) if (said := names.find(value, table.base))]
                for record in records]  # fmt: skip
        hits = [said for said in each if said]
        if not hits:
            continue
        how = median(max(how for how, _ in said) for said in hits)
        rank = (-round(len(hits) / len(records), 1), how, sum(len(files) for said in hits for _, files in said))
        if best is None or rank < best[0]:
            best = rank, Key(column, len(hits) / len(records), int(how))
    return best[1] if best else None


def _through(
    table: Table,
    direct: Key | None,
    tables: Sequence[Table],
    keys: Mapping[str, Key | None],
    names: Names,
    texts: Sequence[str],
) -> Key | None:
    """The table's own key if that names files, else one that it shares with a table whose key does."""
    best = direct
    if direct and direct.how == FILE and direct.share >= _COVERED:
        return direct
    for other in tables:
        key = keys[other.name]
        if other is table or not key or key.how != FILE or key.share < _COVERED:
            continue
        for column in table.columns:
            for theirs in other.columns if column not in texts else ():
                if theirs == key.column or not _same(column, theirs):
                    continue
                files: dict[str, list[str]] = defaultdict(list)
                for record in other.records:
                    for value in texts_of(record.get(theirs)):
                        files[_plain(value)] += key.of(record, names, other.base)
                told = [bool(files.get(_plain(value))) for value in table.cells(column)]
                share = sum(told) / len(table.records)
                if share > 0 and share >= (best.share if best else 0.0) * 0.9:
                    best = Key(column, share, FILE, other.name, {one: tuple(many) for one, many in files.items()})
    return best


def _same(one: str, other: str) -> bool:
    """Columns that hold the same kind of key: of one name, or `id` beside `image_id`."""
    first, second = (re.sub(r"[^a-z0-9]", "", name.lower()) for name in (one, other))
    return first == second or ("id" in (first, second) and first.endswith("id") and second.endswith("id"))


def _plain(value: str) -> str:
    return re.sub(r"\.0$", "", value.strip().lower())


def _reports(table: Table, columns: Mapping[Section, str], key: Key | None, names: Names) -> list[Report]:
    study = study_column(table, tuple(columns.values()))
    found: dict[str, Report] = {}
    for number, record in enumerate(table.records):
        files = key.of(record, names, table.base) if key else []
        called = key.column if key else next((name for name in record if name not in columns.values()), "")
        said = texts_of(record.get(called))
        whose = texts_of(record.get(study)) if study else []
        name = f"study {whose[0]}" if whose else f"record {number}"
        report = found.setdefault(name, Report(said[0] if said else name, table.name, study=whose[0] if whose else ""))
        report.files = names.sorted([*report.files, *files])
        if not report.sections:
            for section, column in columns.items():
                text = " ".join(texts_of(record.get(column)))
                if section == "report":
                    for part, body in divided(text).items():
                        report.sections.setdefault(part, body)
                else:
                    report.sections[section] = tidy(text)
    return list(found.values())


def _facts(table: Table, key: Key, names: Names, found: Joined) -> None:
    """What a table says of images besides reports. A table that names files comes before one that names more."""
    place = place_of(table.name)
    columns = {
        "patient": patient_column(table),
        "place": split_column(table),
        "view": view_column(table),
        "study": column_of(table, STUDY),
        "slope": column_of(table, SLOPE),
        "intercept": column_of(table, INTERCEPT),
    }
    if key.share < _COVERED and not place:
        return
    if columns["patient"] and not found.patients_from:
        found.patients_from = f"column {columns['patient']!r} of {table.name}"
    for record in table.records:
        files = key.of(record, names, table.base)
        found.missing |= {value for value in texts_of(record.get(key.column)) if names.lacks(value, table.base)}
        told = {
            fact: said[0].strip()
            for fact, column in columns.items()
            if column and (said := texts_of(record.get(column)))
        }
        told["place"] = split_named(told.get("place", "")) or place
        told["view"] = view_named(told.get("view", ""))
        for file in files:
            image = found.images[file]
            for fact, value in told.items():
                if value and not getattr(image, fact):
                    setattr(image, fact, value)
