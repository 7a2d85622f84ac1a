"""Tables and lists: rows whose files are missing, files that no row names, labels and texts that are empty."""

import csv
import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Any

from shared.trainkit.gate.dataset import Dataset
from shared.trainkit.gate.locate import Finder
from shared.trainkit.gate.tree import IMAGES
from shared.trainkit.imagefile import suffix_of
from shared.trainkit.listings import records
from shared.trainkit.patients import COLUMN

MOST_TABLES = 50
MOST_ROWS = 300_000
_LARGEST_JSON = 24 << 20
_LARGEST_CSV = 512 << 20
_LOOK = 1_000
"""Rows by which columns are told apart."""
LABEL = re.compile(r"label|class|diag|group|target|category|grade|status|outcome|disease", re.IGNORECASE)
_TEXT = re.compile(r"find|impress|report|text|caption|conclusion", re.IGNORECASE)
_SPLIT = re.compile(r"split|set|partition|fold_?type", re.IGNORECASE)
_SIDE = re.compile(r"(?:^|[-_. ])(train(?:ing)?|test(?:ing)?|val(?:id(?:ation)?)?)(?:[-_. ]|$)", re.IGNORECASE)
_EMPTY = {"", "nan", "none", "null", "na", "n/a", ".", "-", "not given", "not given."}
_MOST_LABELS = 50
_MANY_LABELS = 0.2

Rows = Mapping[str, Any]


@dataclass
class Labels:
    """A column that holds classes."""

    source: str
    of: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Sample -> its label; several, or none, where a cell is a list."""
    column: str = ""
    several: set[str] = field(default_factory=set)
    """Samples with different labels in different rows."""
    empty: int = 0


@dataclass
class Told:
    """What all tables together say."""

    labels: list[Labels] = field(default_factory=list)
    splits: dict[str, str] = field(default_factory=dict)
    """Sample -> split."""
    covered: set[str] = field(default_factory=set)
    patients: dict[str, str] = field(default_factory=dict)
    """Sample -> patient."""
    patients_from: str = ""


def check_tables(data: Dataset) -> Told:
    told, find = Told(), Finder(data)
    tables = data.tree.tables
    if len(tables) > MOST_TABLES:
        data.tree.skipped.append(f"tables read: {MOST_TABLES} of {len(tables)}")
    read = []
    for table in tables[:MOST_TABLES]:
        path = data.tree.root / table
        if problem := _unreadable(path):
            data.findings.add("table_unreadable", table, problem)
            continue
        if path.stat().st_size > (_LARGEST_CSV if path.suffix.lower() in (".csv", ".tsv") else _LARGEST_JSON):
            data.tree.skipped.append(f"{table} is too large to be read ({path.stat().st_size:,} bytes)")
            continue
        if rows := _table(data, table, find, told):
            read.append(f"{table} ({rows:,} rows)")
    data.facts["tables"] = read[:20]
    samples = set(data.samples)
    covered = told.covered & samples
    if len(samples) * 0.5 <= len(covered) < len(samples):
        data.findings.add_all("file_without_row", [name for name in data.samples if name not in covered])
        data.findings.measure("file_without_row", with_row=len(covered), images=len(samples))
    for labels in told.labels:
        _spellings(data, labels)
    return told


def _unreadable(path: Path) -> str | None:
    try:
        if path.stat().st_size == 0:
            return "the file is empty"
        if path.suffix.lower() == ".json" and path.stat().st_size <= _LARGEST_JSON:
            json.loads(path.read_text(encoding="utf-8-sig", errors="replace"))
        elif path.suffix.lower() in (".csv", ".tsv"):
            with path.open("rb") as stream:
                if b"\0" in stream.read(1 << 16):
                    return "binary content, no delimited text"
    except (ValueError, RecursionError) as error:
        return f"no JSON: {error}"[:160]
    except OSError as error:
        return error.strerror or str(error)
    return None


def _rows(path: Path) -> Iterator[Rows]:
    """Rows of a table as they come; a CSV is never held whole."""
    if path.suffix.lower() not in (".csv", ".tsv"):
        for _, record in records(path):
            yield record
        return
    csv.field_size_limit(1 << 24)
    with path.open(newline="", encoding="utf-8-sig", errors="replace") as handle:
        head = handle.read(65536)
        handle.seek(0)
        try:
            dialect: Any = csv.Sniffer().sniff(head, delimiters=",;\t|")
        except csv.Error:
            dialect = csv.excel
        try:
            for row in csv.DictReader(handle, dialect=dialect):
                yield {str(key): value for key, value in row.items()}
        except csv.Error:
            return


@dataclass
class _Columns:
    paths: list[str]
    """Columns that hold file names."""
    ids: list[str]
    """The one column, if any, that names files without their suffix, or scans by their folder."""
    labels: list[str]
    texts: list[str]
    split: str | None
    patient: str | None


def _columns(path: Path, base: PurePosixPath, find: Finder) -> _Columns:
    filled, hits, named, length = Counter[str](), Counter[str](), Counter[str](), Counter[str]()
    values: dict[str, set[str]] = defaultdict(set)
    lists: set[str] = set()
    for row in islice(_rows(path), _LOOK):
        for column, cell in row.items():
            for text in _texts(cell):
                filled[column] += 1
                length[column] += len(text)
                values[column].add(text)
                lists |= {column} if isinstance(cell, list) else set()
                if len(text) < 400:
                    named[column] += suffix_of(text) in IMAGES
                    hits[column] += find(text, base) is not None
    paths = [column for column in filled if named[column] * 2 >= filled[column]]
    ids = [column for column in filled if column not in paths and column not in lists
           and hits[column] * 2 >= filled[column] and len(values[column]) * 3 >= filled[column]]  # fmt: skip
    few = [column for column in filled if column not in paths and column not in ids
           and 1 <= len(values[column]) <= _MOST_LABELS and max(map(len, values[column])) <= 60]  # fmt: skip

    def is_text(name: str) -> bool:
        return bool(_TEXT.search(name)) and length[name] > 20 * filled[name]

    return _Columns(
        paths=paths,
        ids=sorted(ids, key=lambda column: -hits[column])[:1],
        labels=[name for name in few if LABEL.search(name) or (name in lists and len(values[name]) > 1)],
        texts=[name for name in filled if name not in paths and is_text(name)],
        split=next((name for name in few if _SPLIT.fullmatch(name)), None),
        patient=next((name for name in filled if COLUMN.search(name) and name not in paths), None),
    )  # fmt: skip


def _texts(cell: Any) -> list[str]:
    items = cell if isinstance(cell, list) else [cell]
    return [text for item in items if isinstance(item, str | int | float) and (text := str(item).strip())]


def _table(data: Dataset, table: str, find: Finder, told: Told) -> int:
    """Read one table through; rows."""
    path, base = data.tree.root / table, PurePosixPath(table).parent
    columns = _columns(path, base, find)
    if path.suffix.lower() == ".json":
        told.covered |= _strings(path, base, find)
    side = found[1].lower() if (found := _SIDE.search(PurePosixPath(table).stem)) else ""
    data.facts.setdefault("texts", []).extend(f"{name} of {table}" for name in columns.texts)
    labels = {name: Labels(f"column {name!r} of {table}", column=name) for name in columns.labels}
    empty: Counter[str] = Counter()
    count = 0
    for count, row in enumerate(islice(_rows(path), MOST_ROWS), 1):  # noqa: B007
        cells = [text for column in columns.paths or columns.ids for text in _texts(row.get(column))[:1]]
        named = [name for text in cells if (name := find(text, base))]
        for text in cells:
            if not find.exists(text, base):
                data.findings.add(
                    "row_without_file", text, f"in {table}" + (f"; {like}" if (like := find.like(text)) else "")
                )
        empty.update(name for name in columns.texts if name in row and _is_empty(row[name]))
        if not named:
            continue
        sample = find.sample(named[0])
        told.covered.update(find.sample(name) for name in named)
        if split := str(row.get(columns.split) or "").strip().lower() if columns.split else side:
            told.splits[sample] = split
        if columns.patient and (patient := str(row.get(columns.patient) or "").strip()):
            told.patients[sample] = patient
            told.patients_from = f"column {columns.patient!r} of {table}"
        for name, one in labels.items():
            _label(one, sample, row.get(name))
    for name, number in sorted(empty.items()):
        data.findings.add("empty_text", f"{table}: {name}", f"{number} of {count} rows", number)
    for one in labels.values():
        _settle(data, one, told)
    return count


def _is_empty(cell: Any) -> bool:
    return cell is None or (isinstance(cell, str | float) and str(cell).strip().lower() in _EMPTY)


def _strings(path: Path, base: PurePosixPath, find: Finder) -> set[str]:
    """Samples that are named anywhere in a JSON file, such as in plain lists."""
    found: set[str] = set()
    stack: list[Any] = [json.loads(path.read_text(encoding="utf-8-sig", errors="replace"))]
    while stack:
        item = stack.pop()
        if isinstance(item, dict):
            stack += [*item.keys(), *item.values()]
        elif isinstance(item, list):
            stack += item
        elif isinstance(item, str) and len(item) < 400 and (name := find(item, base)):
            found.add(find.sample(name))
    return found


def _label(labels: Labels, sample: str, cell: Any) -> None:
    label = tuple(sorted(set(_texts(cell))))
    if not label and not isinstance(cell, list):
        labels.empty += 1
        return
    if labels.of.setdefault(sample, label) != label:
        labels.several.add(sample)


def _settle(data: Dataset, labels: Labels, told: Told) -> None:
    """Keep a column of classes; a second one that parts the samples in the same way says nothing new."""
    if len(all_labels(labels.of)) > _MOST_LABELS or not labels.of or labels.empty > len(labels.of):
        return
    if len(labels.several) > _MANY_LABELS * len(labels.of):
        return  # rows are not samples here: boxes, lesions, visits
    for name in sorted(labels.several):
        data.findings.add("rows_disagree", name, f"{labels.source}")
    if labels.empty:
        data.findings.add("empty_label", labels.source, f"{labels.empty} rows", labels.empty)
    for other in told.labels:
        if other.column == labels.column and not labels.of.keys() & other.of.keys():  # a table for each side of a split
            other.of |= labels.of
            other.source += f", {labels.source.rpartition(' of ')[2]}"
            return
    if not any(same_parts(labels.of, other.of) for other in told.labels):
        told.labels.append(labels)


def all_labels(of: Mapping[str, tuple[str, ...]]) -> Counter[str]:
    """Label -> samples."""
    return Counter(label for labels in of.values() for label in labels)


def same_parts(one: Mapping[str, tuple[str, ...]], other: Mapping[str, tuple[str, ...]]) -> bool:
    both = {(one[name], other[name]) for name in one.keys() & other.keys()}
    parts = {first for first, _ in both}
    return bool(both) and len(both) == len(parts) == len({second for _, second in both}) and one.keys() == other.keys()


def _spellings(data: Dataset, labels: Labels) -> None:
    spelled: dict[str, set[str]] = defaultdict(set)
    counts = all_labels(labels.of)
    for label in counts:
        spelled[re.sub(r"[\s_-]+", " ", label).strip().casefold()].add(label)
    for forms in spelled.values():
        if len(forms) > 1:
            rows = sum(counts[label] for label in forms)
            data.findings.add("label_spelling", " / ".join(sorted(forms)), f"{labels.source}, {rows} samples")
