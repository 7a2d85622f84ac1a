"""Columns of tables and of lists of records: types, empties, distinct values."""

import csv
import io
import math
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

MAX_ROWS = 2_000_000
_MAX_DISTINCT = 20_000
_SHOWN = 20
_EMPTY = {"", "nan", "NaN", "NA", "N/A", "null", "NULL", "None"}


class Column:
    """Facts of one column, fed cell by cell; memory stays bounded."""

    def __init__(self) -> None:
        self.rows = self.blank = self.words_for_empty = 0
        self.counts: Counter[str] = Counter()
        self.full = False
        self.kinds: Counter[str] = Counter()
        self.low, self.high, self.longest = math.inf, -math.inf, 0

    def add(self, cell: Any) -> None:
        self.rows += 1
        text = cell if isinstance(cell, str) else "" if cell is None else str(cell)
        stripped = text.strip()
        if not stripped:
            self.blank += 1
            return
        if stripped in _EMPTY:
            self.words_for_empty += 1
        else:
            self._measure(cell, stripped)
        if self.full and text not in self.counts:
            return
        self.counts[text] += 1
        self.full = len(self.counts) >= _MAX_DISTINCT

    def _measure(self, cell: Any, text: str) -> None:
        self.longest = max(self.longest, len(text))
        if isinstance(cell, list | dict | bool):
            self.kinds[type(cell).__name__] += 1
            return
        try:
            number = float(text)
        except ValueError:
            self.kinds["text"] += 1
            return
        self.low, self.high = min(self.low, number), max(self.high, number)
        digits = text.lstrip("+-")
        leading_zero = len(digits) > 1 and digits[0] == "0" and digits.isdecimal()
        self.kinds["digits with leading zeros" if leading_zero else "integer" if digits.isdecimal() else "number"] += 1

    def facts(self) -> dict[str, Any]:
        kinds = set(self.kinds)
        if kinds == {"integer", "number"}:
            kind = "number"
        elif "digits with leading zeros" in kinds and kinds <= {"integer", "digits with leading zeros"}:
            kind = "digits with leading zeros"
        else:
            kind = next(iter(kinds)) if len(kinds) == 1 else "mixed" if kinds else "empty"
        found: dict[str, Any] = {"type": kind, "empty": self.blank + self.words_for_empty, "distinct": len(self.counts)}
        if self.full:
            found["distinct_at_least"] = True
        if self.words_for_empty:
            found["words_for_empty"] = {word: self.counts[word] for word in self.counts if word.strip() in _EMPTY}
        if kind == "mixed":
            found["types"] = dict(self.kinds)
        if math.isfinite(self.low) and kind in ("integer", "number"):
            found["min"], found["max"] = self.low, self.high
        if kind in ("text", "mixed"):
            found["longest"] = self.longest
        if not self.full and self.rows and len(self.counts) == self.rows:
            found["unique"] = True
        few = len(self.counts) <= _SHOWN
        top = self.counts.most_common(_SHOWN if few else 5)
        found["values" if few else "most_common"] = {_short(value, 120): number for value, number in top}
        return found


def table(path: Path, rows: int) -> dict[str, Any]:
    """Delimited text: `columns` maps names to facts, cells are as written. Raises ValueError for an empty file."""
    with path.open("rb") as file:
        start = file.read(1 << 16)
    if not start.strip():
        raise ValueError("the file is empty" if not start else "the file holds white space only")
    if b"\0" in start:
        raise ValueError("binary content, no delimited text")
    facts: dict[str, Any] = {"kind": "table", "encoding": "utf-8"}
    encoding = "utf-8-sig"
    if start.startswith(b"\xef\xbb\xbf"):
        facts["bom"] = True
    try:
        with path.open(encoding=encoding) as text:
            for _ in iter(lambda: text.read(1 << 20), ""):
                pass
    except UnicodeDecodeError:
        encoding = facts["encoding"] = "latin-1"
    csv.field_size_limit(1 << 24)
    with path.open(encoding=encoding, newline="") as text:
        delimiter = facts["delimiter"] = sniff(start.decode(encoding, "replace"), path.suffix.lower())
        reader = csv.reader(text, delimiter=delimiter)
        header = next(reader, [])
        names, notes = _names(header)
        columns = [Column() for _ in names]
        first: list[dict[str, str]] = []
        total = ragged = 0
        for row in reader:
            if not row:
                continue
            total += 1
            ragged += len(row) != len(names)
            for column, cell in zip(columns, row, strict=False):
                column.add(cell)
            if len(first) < rows:
                first.append({name: _short(cell, 200) for name, cell in zip(names, row, strict=False)})
            if total >= MAX_ROWS:
                notes.append(f"stopped after {MAX_ROWS:,} rows")
                break
    if ragged:
        notes.append(f"{ragged:,} rows have another number of cells than the header")
    if names and header and all(_is_number(cell) for cell in header):
        notes.append("the first line looks like data: there may be no header")
    found = {name: column.facts() for name, column in list(zip(names, columns, strict=True))[:200]}
    if len(names) > 200:
        notes.append(f"{len(names)} columns, the first 200 are described")
    return {**facts, "rows": total, "columns": found, "first_rows": first, "notes": notes}


def records(items: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Keys of a list of records as columns; `present` counts the records that have the key."""
    columns: dict[str, Column] = {}
    lengths: dict[str, Counter[int]] = {}
    for item in items:
        for key, value in item.items():
            if key not in columns and len(columns) >= 200:
                continue
            columns.setdefault(str(key), Column()).add(value)
            if isinstance(value, list):
                lengths.setdefault(str(key), Counter())[len(value)] += 1
    found = {}
    for key, column in columns.items():
        found[key] = {"present": column.rows, **column.facts()}
        if key in lengths:
            found[key]["lengths"] = {str(size): number for size, number in sorted(lengths[key].items())[:20]}
    return found


def sniff(start: str, suffix: str) -> str:
    """The delimiter that splits the first lines into the same number of cells, more than one."""
    if suffix == ".tsv":
        return "\t"
    lines = start.split("\n")
    sample = "\n".join(lines[: min(20, len(lines) - 1 or 1)])
    best, most = ",", 1
    for delimiter in (",", ";", "\t", "|"):
        try:
            widths = [len(row) for row in csv.reader(io.StringIO(sample), delimiter=delimiter) if row]
        except csv.Error:
            continue
        if widths and widths[0] > most and widths.count(widths[0]) > len(widths) / 2:
            best, most = delimiter, widths[0]
    return best


def _names(header: list[str]) -> tuple[list[str], list[str]]:
    names: list[str] = []
    notes: list[str] = []
    for number, cell in enumerate(header):
        name = cell.strip()
        if not name or name.startswith("Unnamed:"):
            if number == 0:
                notes.append("the first column has no name: an index that some program wrote")
            name = name or f"(unnamed {number})"
        if name != cell and cell.strip():
            notes.append(f"column {name!r} has white space around its name in the file")
        while name in names:
            notes.append(f"the column name {name!r} occurs more than once")
            name += "'"
        names.append(name)
    return names, notes


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _short(value: str, limit: int) -> str:
    return value if len(value) <= limit else value[:limit] + "..."


def lines_of(columns: dict[str, dict[str, Any]]) -> Iterator[str]:
    """One line a column, for the summary."""
    for name, facts in columns.items():
        said = [facts["type"], f"{'at least ' if facts.get('distinct_at_least') else ''}{facts['distinct']:,} distinct"]
        said += [f"in {facts['present']:,} records"] if "present" in facts else []
        said += [f"{facts['min']:g} to {facts['max']:g}"] if "min" in facts else []
        said += [f"{facts['empty']:,} empty"] if facts["empty"] else []
        said += ["all different"] if facts.get("unique") else []
        said += [f"lengths {', '.join(facts['lengths'])}"] if "lengths" in facts else []
        values = facts.get("values") if not facts.get("unique") else None
        if values:
            said.append("values " + ", ".join(f"{_short(value, 40)} ({number:,})" for value, number in values.items()))
        elif facts["type"] != "empty":
            shown = list(facts.get("values") or facts.get("most_common") or [])[:3]
            said.append("such as " + ", ".join(_short(value, 40) for value in shown))
        yield f"  {name}: {', '.join(said)}"
