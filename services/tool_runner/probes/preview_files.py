"""What files hold, as one JSON line: {"summary", "data": {"files": {virtual path: facts}}}.

Usage: preview_files.py --rows 5 /data/table.csv /data/scan.nii.gz ...
A file that cannot be read gets an `error` and does not stop the others.
"""

import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

_MAX_JSON = 300_000_000
_BUDGET = 150_000
"""Characters of all facts together."""


def preview(virtual: str, rows: int) -> dict[str, Any]:
    from _images import FORMATS, describe  # type: ignore[import-not-found]
    from _paths import extension, real_path, reason  # type: ignore[import-not-found]
    from _tables import table  # type: ignore[import-not-found]

    path: Path = real_path(virtual)
    kind = extension(path.name).lower()
    try:
        size = path.stat().st_size
        if size == 0:
            return {"kind": "empty", "size": 0, "error": "the file is empty (0 bytes)"}
        if kind in FORMATS or _is_dicom(path):
            found = {"kind": "image", **describe(path, FORMATS.get(kind, "dicom"))}
        elif kind in (".csv", ".tsv"):
            found = table(path, rows)
        elif kind == ".json":
            found = _json(path, rows)
        elif kind in (".jsonl", ".ndjson"):
            found = _json_lines(path, rows)
        elif kind == ".xlsx":
            found = _workbook(path, rows)
        else:
            found = _text(path, rows)
        return {"size": size, **found}
    except Exception as error:
        return {"kind": "unreadable", "error": reason(error)}


def _is_dicom(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(132)[128:] == b"DICM"


def _json(path: Path, rows: int) -> dict[str, Any]:
    from _tables import records

    if path.stat().st_size > _MAX_JSON:
        return {**_text(path, rows), "notes": ["too big to parse here; read it piece by piece in run_script"]}
    raw = path.read_bytes()
    facts: dict[str, Any] = {"kind": "json", "notes": []}
    if raw.startswith(b"\xef\xbb\xbf"):
        facts["notes"].append("begins with a byte order mark, which strict JSON readers refuse: open with utf-8-sig")
    text = raw.decode("utf-8-sig")
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        line = text.split("\n")[error.lineno - 1]
        comment = text[error.pos :].lstrip().startswith(("//", "#", "/*"))
        said = f"no valid JSON: {error.msg} at line {error.lineno}, column {error.colno}: {line.strip()[:120]}"
        said += " (JSON has no comments)" if comment else ""
        return {**facts, "error": said, "line": error.lineno, "column": error.colno, "head": text[:500]}
    facts |= _shape(value, rows)
    items = value if isinstance(value, list) else list(value.values()) if isinstance(value, dict) else []
    if items and all(isinstance(item, dict) for item in items):
        facts["columns"] = records(items)
    elif items and isinstance(value, dict) and len(items) > 20:
        facts["values"] = records([{"value": item} for item in items])["value"]
    return facts


def _shape(value: Any, rows: int) -> dict[str, Any]:
    if isinstance(value, dict):
        keys = list(value)
        example = {key: bounded(value[key]) for key in keys[:rows]}
        return {"type": "object", "length": len(keys), "keys": [key[:200] for key in keys[:50]], "first": example}
    if isinstance(value, list):
        kinds: dict[str, int] = {}
        for item in value:
            kinds[type(item).__name__] = kinds.get(type(item).__name__, 0) + 1
        return {"type": "list", "length": len(value), "of": kinds, "first": [bounded(item) for item in value[:rows]]}
    return {"type": type(value).__name__, "length": 1, "first": bounded(value)}


def bounded(value: Any, depth: int = 3) -> Any:
    """The same value with long parts cut and said to be so."""
    if isinstance(value, str):
        return value if len(value) <= 300 else value[:300] + f"... ({len(value)} characters)"
    if isinstance(value, dict):
        if depth == 0:
            return f"object of {len(value)}"
        short = {key: bounded(item, depth - 1) for key, item in list(value.items())[:20]}
        return short if len(value) <= 20 else {**short, "...": f"{len(value) - 20} more keys"}
    if isinstance(value, list):
        if depth == 0:
            return f"list of {len(value)}"
        items = [bounded(item, depth - 1) for item in value[:10]]
        return items if len(value) <= 10 else [*items, f"... {len(value) - 10} more"]
    return value


def _json_lines(path: Path, rows: int) -> dict[str, Any]:
    from _tables import records

    items: list[dict[str, Any]] = []
    with path.open(encoding="utf-8-sig") as text:
        for number, line in enumerate(text, 1):
            if not line.strip():
                continue
            try:
                item = json.loads(line)
            except json.JSONDecodeError as error:
                return {
                    "kind": "jsonl",
                    "error": f"line {number} is no JSON: {error.msg}",
                    "line": number,
                    "rows": len(items),
                }
            items.append(item if isinstance(item, dict) else {"value": item})
            if len(items) >= 500_000:
                break
    return {
        "kind": "jsonl",
        "rows": len(items),
        "columns": records(items),
        "first_rows": [bounded(i) for i in items[:rows]],
    }


def _workbook(path: Path, rows: int) -> dict[str, Any]:
    """First sheet of a workbook by the standard library alone: text and numbers as stored, no formats."""
    import re
    import zipfile
    from xml.etree import ElementTree

    from _tables import records

    space = {"x": "http://schemas.openxmlformats.org/spreadsheetml/2006/main"}
    with zipfile.ZipFile(path) as book:
        sheets = sorted(name for name in book.namelist() if re.fullmatch(r"xl/worksheets/sheet\d+\.xml", name))
        if not sheets or sum(book.getinfo(name).file_size for name in sheets[:1]) > 200_000_000:
            raise ValueError("no sheet found, or one that is too big")
        shared: list[str] = []
        if "xl/sharedStrings.xml" in book.namelist():
            strings = ElementTree.fromstring(book.read("xl/sharedStrings.xml"))
            shared = ["".join(part.text or "" for part in item.iterfind(".//x:t", space)) for item in strings]
        sheet = ElementTree.fromstring(book.read(sheets[0]))
    lines: list[dict[str, str]] = []
    for row in sheet.iterfind(".//x:row", space):
        cells = {}
        for cell in row.iterfind("x:c", space):
            value = cell.find("x:v", space)
            text = (
                "".join(part.text or "" for part in cell.iterfind(".//x:t", space))
                if value is None
                else value.text or ""
            )
            column = re.sub(r"\d", "", cell.get("r", ""))
            cells[column] = shared[int(text)] if cell.get("t") == "s" else text
        lines.append(cells)
    header, body = (lines[0], lines[1:]) if lines else ({}, [])
    named = [{header.get(column, column): text for column, text in line.items()} for line in body]
    notes = [f"{len(sheets)} sheets, the first is described"] if len(sheets) > 1 else []
    return {"kind": "table", "rows": len(body), "columns": records(named), "first_rows": named[:rows], "notes": notes}


def _text(path: Path, rows: int) -> dict[str, Any]:
    with path.open("rb") as file:
        start = file.read(65536)
        if b"\0" in start:
            return {"kind": "binary", "error": f"binary content of unknown format, begins with {start[:8].hex(' ')}"}
        lines = start.count(b"\n") + sum(block.count(b"\n") for block in iter(lambda: file.read(1 << 20), b""))
    try:
        text, encoding = start.decode("utf-8-sig", "strict"), "utf-8"
    except UnicodeDecodeError as error:
        cut = len(start) == 65536 and error.start > 65530
        text, encoding = (start.decode("utf-8", "ignore"), "utf-8") if cut else (start.decode("latin-1"), "latin-1")
    head = [line[:300] for line in text.split("\n")[: max(rows, 5) * 4]]
    return {"kind": "text", "lines": lines + (not start.endswith(b"\n")), "encoding": encoding, "head": "\n".join(head)}


def lines_of(virtual: str, facts: dict[str, Any]) -> list[str]:
    from _tables import lines_of as column_lines

    if "error" in facts:
        return [f"{virtual}: NOT READ: {facts['error']}"]
    said = []
    match facts["kind"]:
        case "table":
            said.append(f"{virtual}: {facts['rows']:,} rows x {len(facts['columns'])} columns")
            said[0] += (
                f", delimiter {facts['delimiter']!r}, {facts['encoding']}" if "delimiter" in facts else ", workbook"
            )
            said[0] += " with a byte order mark (open with utf-8-sig)" if facts.get("bom") else ""
        case "image":
            shape = "x".join(map(str, facts.get("shape", [])))
            said.append(f"{virtual}: {facts['format']}, {shape} {facts.get('dtype', '')}".rstrip())
            hidden = ("format", "shape", "dtype", "kind", "size", "notes", "tags")
            said.extend(f"  {key}: {json.dumps(value)[:400]}" for key, value in facts.items() if key not in hidden)
            said.extend(f"  {key}: {json.dumps(value)[:200]}" for key, value in facts.get("tags", {}).items())
        case "json":
            said.append(f"{virtual}: JSON {facts['type']} of {facts['length']:,}")
            if "keys" in facts:
                said.append("  keys: " + ", ".join(facts["keys"][:15]) + (" ..." if facts["length"] > 15 else ""))
            said.append(f"  first: {json.dumps(facts['first'])[:600]}")
        case "jsonl":
            said.append(f"{virtual}: JSON Lines, {facts['rows']:,} records")
        case _:
            said.append(f"{virtual}: text of {facts['lines']:,} lines, {facts['encoding']}\n{facts['head'][:2000]}")
    said.extend(f"  note: {note}" for note in facts.get("notes", ()))
    said.extend(column_lines(facts["columns"]) if "columns" in facts else ())
    said.extend(f"  row {number}: {json.dumps(row)[:400]}" for number, row in enumerate(facts.get("first_rows", ()), 1))
    return said


def main(arguments: list[str]) -> None:
    rows, paths = int(arguments[1]), arguments[2:]
    files: dict[str, Any] = {}
    summary: list[str] = []
    for virtual in paths:
        facts = preview(virtual, rows)
        summary.extend(lines_of(virtual, facts))
        for heavy in ("first_rows", "first", "columns", "head"):
            if len(json.dumps(facts)) > _BUDGET // len(paths) and heavy in facts:
                del facts[heavy]
                facts.setdefault("notes", []).append(f"{heavy} left out: too long. Preview fewer files at a time")
        files[virtual] = facts
    failed = all("error" in facts for facts in files.values())
    print(json.dumps({"summary": "\n".join(summary)[:60_000], "data": {"files": files}, "failed": failed}))


if __name__ == "__main__":
    main(sys.argv[1:])
