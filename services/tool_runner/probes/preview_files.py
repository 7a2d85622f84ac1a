"""What files hold, as one JSON line: {"summary", "data": {"files": {virtual path: facts}}}.

Usage: preview_files.py --rows 5 /data/table.csv /data/scan.nii.gz ...
A file that cannot be read gets an `error` and does not stop the others.
"""

import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

_BUDGET = 150_000
"""Characters of all facts together."""
_COLUMNS, _CELL, _HEAD = 200, 300, 2000


def preview(virtual: str, rows: int) -> dict[str, Any]:
    from _facts import image_facts
    from _paths import real_path, reason

    from shared.dataset.tables.tables import TableError, is_table
    from shared.imaging.formats import is_image, refusal

    path: Path = real_path(virtual)
    try:
        size = path.stat().st_size
        if size == 0:
            return {"kind": "empty", "size": 0, "error": "the file is empty (0 bytes)"}
        if is_image(path):
            return {"kind": "image", "size": size, **image_facts(path)}
        if why := refusal(path):
            return {"kind": "image", "size": size, "error": why}
        if is_table(path.name):
            try:
                found = table(path, rows)
                if found.get("rows") == 1 and [*found["columns"]] == ["text"]:
                    return {"size": size, **text(path)}  # one text, such as a README
                return {"kind": "table", "size": size, **found}
            except TableError as error:
                # Text that is no table, such as a licence or a COCO file, is still worth a look.
                found = text(path)
                return {"size": size, **found, **_why(found, str(error))}
        return {"size": size, **text(path)}
    except Exception as error:  # libraries fail in their own ways; the reason is the answer
        return {"kind": "unreadable", "error": reason(error)}


def _why(found: dict[str, Any], no_table: str) -> dict[str, Any]:
    return {"error": no_table} if "error" in found else {"notes": [no_table]}


def table(path: Path, rows: int) -> dict[str, Any]:
    """Columns and first rows of each sheet, as rules see them. Raises TableError."""
    from shared.dataset.tables.tables import sheets

    names = sheets(path)
    if len(names) > 1:
        return {"sheets": {name: sheet(path, name, rows) for name in names[:20]}}
    return sheet(path, None, rows)


def sheet(path: Path, name: str | None, rows: int) -> dict[str, Any]:
    from shared.dataset.survey.column_looks import column_look
    from shared.dataset.tables.large_tables import read_head

    found, rest = read_head(path, name)
    columns = {}
    for column in found.columns[:_COLUMNS]:
        look = column_look(column, found.rows)
        facts: dict[str, Any] = {"type": look.kind, "filled": round(look.filled, 3), "distinct": look.distinct}
        if look.values and look.distinct < max(2, len(found.rows)):
            facts["values"] = {_cut(value): number for value, number in list(look.values.items())[:20]}
        else:
            facts["such_as"] = [_cut(row[column]) for row in found.rows[:50] if row[column]][:3]
        columns[column] = facts
    notes = [f"{len(found.columns)} columns, the first {_COLUMNS} are described"] if found.columns[_COLUMNS:] else []
    notes += [f"columns are described by the first {len(found.rows):,} rows"] if rest else []
    first = [{column: _cut(text) for column, text in row.items()} for row in found.rows[:rows]]
    total = len(found.rows) + (sum(1 for _ in rest.stream) if rest else 0)
    return {"rows": total, "columns": columns, "first_rows": first, "notes": notes}


def text(path: Path) -> dict[str, Any]:
    """Beginning of a text file."""
    from shared.dataset.tables.separated import encoding_of

    with path.open("rb") as file:
        start = file.read(65536)
        lines = start.count(b"\n") + sum(block.count(b"\n") for block in iter(lambda: file.read(1 << 20), b""))
    if b"\0" in start and start[:2] not in (b"\xff\xfe", b"\xfe\xff"):
        return {"kind": "binary", "error": f"binary content of unknown format, begins with {start[:8].hex(' ')}"}
    encoding = encoding_of(path)
    return {"kind": "text", "lines": lines, "encoding": encoding, "head": start.decode(encoding, "replace")[:_HEAD]}


def _quoted(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)


def _cut(value: str) -> str:
    return value if len(value) <= _CELL else f"{value[:_CELL]}... ({len(value)} characters)"


def lines_of(virtual: str, facts: dict[str, Any]) -> list[str]:
    from _facts import line_of

    if "error" in facts:
        return [f"{virtual}: NOT READ: {facts['error']}"]
    notes = [f"  note: {note}" for note in facts.get("notes", ())]
    if facts["kind"] == "image":
        tags = [f"  {name}: {value[:200]}" for name, value in facts.get("tags", {}).items()]
        arrays = [f"  array {name}: {what}" for name, what in facts.get("arrays", {}).items()]
        return [f"{virtual}: {line_of(facts)}", *tags, *arrays]
    if facts["kind"] == "text":
        return [f"{virtual}: text of {facts['lines']:,} lines, {facts['encoding']}", *notes, facts["head"]]
    if "sheets" in facts:
        sheets = facts["sheets"].items()
        return [line for name, one in sheets for line in lines_of(f"{virtual} sheet {name}", {"kind": "table", **one})]
    said = [f"{virtual}: {facts['rows']:,} rows x {len(facts['columns'])} columns", *notes]
    for name, column in facts["columns"].items():
        # In quotation marks a number is a cell, not a count.
        values = [f"{_quoted(value)} ({number:,})" for value, number in column.get("values", {}).items()]
        such = f"values {', '.join(values)}" if values else f"such as {', '.join(map(_quoted, column['such_as']))}"
        empty = f", {1 - column['filled']:.0%} empty" if column["filled"] < 1 else ""
        said.append(f"  {name}: {column['type']}, {column['distinct']:,} distinct{empty}, {such[:600]}")
    rows = [json.dumps([*row.values()], ensure_ascii=False)[:400] for row in facts["first_rows"]]
    return said + [f"  row {n}: {row}" for n, row in enumerate(rows, 1)]


def main(arguments: list[str]) -> None:
    rows, paths = int(arguments[1]), arguments[2:]
    files: dict[str, Any] = {}
    summary: list[str] = []
    for virtual in paths:
        facts = preview(virtual, rows)
        summary.extend(lines_of(virtual, facts))
        for heavy in ("first_rows", "columns", "sheets", "head"):
            if len(json.dumps(facts)) > _BUDGET // len(paths) and heavy in facts:
                del facts[heavy]
                facts.setdefault("notes", []).append(f"{heavy} left out: too long. Preview fewer files at a time")
        files[virtual] = facts
    failed = all("error" in facts for facts in files.values())
    print(json.dumps({"summary": "\n".join(summary)[:60_000], "data": {"files": files}, "failed": failed}))


if __name__ == "__main__":
    main(sys.argv[1:])
