"""Everything in a dataset that may hold texts, as tables: CSV, TSV, XLSX, JSON, JSONL, XML and text files.

A table is a list of records, column -> text or list of texts. Files that hold one case each (XML, JSON, text) are
records of one table. Standard library only; what cannot be read is left out. Runs in the sandbox.
"""

import csv
import json
import os
import re
import zipfile
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any
from xml.etree import ElementTree

from shared.trainkit.index import is_hidden, natural_key, suffix_of
from shared.trainkit.listings import read_table

NAME, FOLDER = "(name)", "(folder)"
"""Columns of what a file or an entry is called: its name, and the folder that it lies in."""
_LARGEST = 400 << 20
_LARGEST_TEXT = 1 << 20
_NO_CASE = re.compile(
    r"(?:read ?me|licen[cs]e|changelog|changes|notice|citation|requirements|copying)\b.*", re.IGNORECASE
)
_LABELS = {"label", "name", "type", "section", "key"}
_X = {"x": "http://schemas.openxmlformats.org/spreadsheetml/2006/main"}

Cell = str | list[str]
Record = dict[str, Cell]


@dataclass(frozen=True)
class Table:
    name: str
    """Path of the file, or what the files have in common; a part of a file stands after `#`."""
    records: list[Record]
    base: str = ""
    """Folder to which paths in it may be relative."""

    @property
    def columns(self) -> list[str]:
        return list(dict.fromkeys(column for record in self.records for column in record))

    def cells(self, column: str) -> list[str]:
        """The texts of a column, those of lists one by one; empty ones are left out."""
        return [text for record in self.records for text in texts_of(record.get(column))]


def texts_of(cell: Cell | None) -> list[str]:
    """The one text or the texts of a cell, without empty ones."""
    return [text for text in ([cell] if isinstance(cell, str) else cell or []) if text.strip()]


def read_tables(data: Path) -> list[Table]:
    """All tables below `data`, in a stable order."""
    tables: list[Table] = []
    alone: dict[str, list[tuple[PurePosixPath, Record]]] = defaultdict(list)
    for path in _files(data):
        name = path.relative_to(data).as_posix()
        try:
            found = list(_read(path, name))
        except (OSError, ValueError, KeyError, RecursionError, csv.Error, zipfile.BadZipFile, ElementTree.ParseError):
            continue
        for table in found:
            if table.name == name and len(table.records) == 1 and suffix_of(name) in (".json", ".xml", ".txt"):
                alone[suffix_of(name)].append((PurePosixPath(name), table.records[0]))
            elif table.records:
                tables.append(table)
    for suffix, members in alone.items():
        tables += _of_files(suffix, members)
    return tables


def _files(data: Path) -> Iterator[Path]:
    for root, folders, names in os.walk(data):
        folders[:] = sorted((name for name in folders if not is_hidden(name)), key=natural_key)
        for name in sorted(names, key=natural_key):
            path = Path(root, name)
            known = suffix_of(name) in _READERS and not (is_hidden(name) or _NO_CASE.fullmatch(name))
            if known and path.is_file():
                most = _LARGEST_TEXT if suffix_of(name) in (".txt", ".xml") else _LARGEST
                if path.stat().st_size <= most:
                    yield path


def _of_files(suffix: str, members: list[tuple[PurePosixPath, Record]]) -> Iterator[Table]:
    """Files of one case each. A name that recurs from folder to folder says what the text is, not whose."""
    times = Counter(path.stem.lower() for path, _ in members)
    groups: dict[str, list[Record]] = defaultdict(list)
    for path, record in members:
        stem = path.stem.lower()
        recurs = times[stem] > 1
        whose: Record = {FOLDER: str(path.parent)}
        if not recurs:
            whose[NAME] = str(path.with_suffix(""))
        told = {stem if recurs and column == "text" else column: cell for column, cell in record.items()}
        groups[stem if recurs else ""].append({**whose, **told})
    for stem, records in groups.items():
        yield Table(f"the {stem or '*'}{suffix} files", records)


def _read(path: Path, name: str) -> Iterator[Table]:
    base = str(PurePosixPath(name).parent)
    for part, records in _READERS[suffix_of(name)](path):
        yield Table(f"{name}#{part}" if part else name, records, "" if base == "." else base)


def _table(path: Path) -> Iterator[tuple[str, list[Record]]]:
    records: list[Record] = []
    for row in read_table(path):
        records.append({key: value for key, value in row.items() if isinstance(value, str)})
    yield "", records


def _workbook(path: Path) -> Iterator[tuple[str, list[Record]]]:
    """First sheet, first row as header; text and numbers as stored."""
    with zipfile.ZipFile(path) as book:
        names = book.namelist()
        sheets = sorted((name for name in names if re.fullmatch(r"xl/worksheets/sheet\d+\.xml", name)), key=natural_key)
        if not sheets or book.getinfo(sheets[0]).file_size > _LARGEST:
            return
        shared: list[str] = []
        if "xl/sharedStrings.xml" in names and book.getinfo("xl/sharedStrings.xml").file_size <= _LARGEST:
            strings = ElementTree.fromstring(book.read("xl/sharedStrings.xml"))
            shared = ["".join(part.text or "" for part in item.iterfind(".//x:t", _X)) for item in strings]
        sheet = ElementTree.fromstring(book.read(sheets[0]))
    rows = [
        {re.sub(r"\d", "", cell.get("r", "")): _shown(cell, shared) for cell in row.iterfind("x:c", _X)}
        for row in sheet.iterfind(".//x:row", _X)
    ]
    header = {place: text for place, text in (rows[0] if rows else {}).items() if text}
    yield "", [{header[place]: text for place, text in row.items() if place in header} for row in rows[1:]]


def _shown(cell: ElementTree.Element, shared: list[str]) -> str:
    value = cell.find("x:v", _X)
    if value is None:
        return "".join(part.text or "" for part in cell.iterfind(".//x:t", _X))
    text = value.text or ""
    return shared[int(text)] if cell.get("t") == "s" else text


def _json(path: Path) -> Iterator[tuple[str, list[Record]]]:
    yield from _parts(json.loads(path.read_text(encoding="utf-8-sig", errors="replace")), "", path.stem)


def _lines(path: Path) -> Iterator[tuple[str, list[Record]]]:
    lines = path.read_text(encoding="utf-8-sig", errors="replace").split("\n")
    yield from _parts([json.loads(line) for line in lines if line.strip()], "", path.stem)


def _parts(content: Any, place: str, called: str) -> Iterator[tuple[str, list[Record]]]:
    """A list of objects is a table. So is an object that maps names to texts (the column is `called` as the file or the
    key is), to objects, or its keys (train, test) to lists; any other object is one record."""
    if isinstance(content, list):
        if content and all(isinstance(item, Mapping) for item in content):
            yield place, [_record(item) for item in content]
        elif content and all(isinstance(item, str | int) for item in content):
            yield place, [{NAME: str(item)} for item in content]
    elif isinstance(content, Mapping) and content:
        values = list(content.values())
        if all(isinstance(value, str) for value in values) and _are_names(content):
            yield place, [{NAME: str(key), called: value} for key, value in content.items()]
        elif all(isinstance(value, Mapping) for value in values) and _alike(values):
            yield place, [{NAME: str(key), **_record(value)} for key, value in content.items()]
        else:
            nested = {key: value for key, value in content.items() if isinstance(value, list | Mapping)}
            listed = {key for key, value in nested.items() if isinstance(value, list) and value}
            if len(nested) == len(content) or any(isinstance(content[key][0], Mapping) for key in listed):
                for key, value in nested.items():
                    yield from _parts(value, f"{place}.{key}".strip("."), str(key))
            else:
                yield place, [_record(content)]


def _are_names(keys: Mapping[str, Any]) -> bool:
    """Whether an object's keys name cases rather than fields: fields have no digits, and there are few of them."""
    return sum(bool(re.search(r"\d|[./]", str(key))) for key in keys) > 0.5 * len(keys)


def _alike(values: list[Mapping[str, Any]]) -> bool:
    shared = set.intersection(*(set(value) for value in values))
    return bool(shared) and not all(isinstance(value[key], Mapping) for value in values for key in shared)


def _record(item: Mapping[str, Any]) -> Record:
    found: Record = {}
    for key, value in item.items():
        if isinstance(value, str | int | float) and not isinstance(value, bool):
            found[str(key)] = str(value)
        elif isinstance(value, list) and all(isinstance(one, str | int) for one in value):
            found[str(key)] = [str(one) for one in value]
        elif isinstance(value, Mapping):
            found |= {f"{key}.{inner}": str(text) for inner, text in value.items() if isinstance(text, str | int)}
    return found


def _xml(path: Path) -> Iterator[tuple[str, list[Record]]]:
    """One record: a column is an element's label or else its tag; attributes `id` stand under the element's tag."""
    found: dict[str, list[str]] = defaultdict(list)
    for element in ElementTree.parse(path).getroot().iter():
        tag = re.sub(r"^\{.*\}", "", str(element.tag))
        labels = [value for key, value in element.attrib.items() if key.lower() in _LABELS]
        if element.text and element.text.strip():
            found[labels[0] if labels else tag].append(element.text.strip())
        found[f"{tag} id"] += [value for key, value in element.attrib.items() if key.lower() == "id"]
    yield "", [{column: texts[0] if len(texts) == 1 else texts for column, texts in found.items() if texts}]


def _text(path: Path) -> Iterator[tuple[str, list[Record]]]:
    yield "", [{"text": path.read_text(encoding="utf-8-sig", errors="replace")}]


_READERS = {
    ".csv": _table, ".tsv": _table, ".xlsx": _workbook, ".json": _json, ".jsonl": _lines, ".xml": _xml, ".txt": _text,
}  # fmt: skip
