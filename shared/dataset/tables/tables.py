"""Tables of a dataset as columns and rows of text: CSV, TSV, Excel, JSON, JSON Lines, YAML, XML, HL7, text;
in any encoding."""

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from shared.dataset.tables import documents, messages, separated, workbooks
from shared.dataset.tables.blocks import blocks
from shared.dataset.tables.cells import MAX_ROWS, Table, TableError, named_columns, tidy
from shared.dataset.tables.inner import inner_records
from shared.imaging.formats import sniffed

__all__ = ["MAX_ROWS", "Table", "TableError", "is_table", "read_record", "read_table", "sheets"]

SEPARATED = (".csv", ".tsv", ".csv.gz", ".tsv.gz", ".tab")
_OTHERS = {
    ".xls": "save it as .xlsx or .csv (Excel: Save As)",
    ".xlsb": "save it as .xlsx or .csv (Excel: Save As)",
    ".ods": "save it as .xlsx or .csv",
    ".parquet": "convert it to CSV",
    ".feather": "convert it to CSV",
    ".sav": "export it as CSV",
    ".dta": "export it as CSV",
    ".rds": "export it as CSV",
    ".docx": "save it as a text file",
    ".pdf": "save it as a text file",
}
_READ = (*SEPARATED, ".xlsx", ".xlsm", ".jsonl", ".ndjson", ".txt", ".hl7", ".xml", ".json", ".yaml", ".yml")


def is_table(name: str) -> bool:
    """Whether a file's name is one of a table (or of a record): what `read_table` takes."""
    return name.lower().endswith(_READ)


def sheets(path: Path) -> tuple[str, ...]:
    """Names of the sheets of an Excel file; nothing of any other file. Raises TableError where it cannot be read."""
    return workbooks.sheets(path) if path.suffix.lower() in (".xlsx", ".xlsm") else ()


def read_table(path: Path, sheet: str | None = None, each: str | None = None) -> Table:
    """Rows of a table; `each` leads to those that stand deep in an XML or JSON file. Cells are text without spaces
    around them, '' where they are empty or say so (`n/a`, `nan`).

    Raises TableError where the file cannot be read as a table, or is larger than `MAX_ROWS`.
    """
    if each is not None:
        return _records(inner_records(path, each), path)
    name = _name(path)
    if name.endswith(SEPARATED):
        return _headed(separated.rows(path), path)
    if name.endswith((".xlsx", ".xlsm")):
        return _headed(workbooks.rows(path, sheet), path)
    if name.endswith((".json", ".yaml", ".yml")):
        return _records(documents.json_records(path), path)
    if name.endswith((".jsonl", ".ndjson")):
        return _records(documents.json_lines(path), path)
    if name.endswith(".xml"):
        return _records(documents.xml_records(path), path)
    if name.endswith(".hl7"):
        return _records(messages.records(separated.read_text(path)), path)
    if name.endswith(".txt"):
        lines = separated.lines_of_table(path)
        return _headed(lines, path) if lines is not None else _records(_texts(path), path)
    raise TableError(f"{path.name} is no table that is read; {_OTHERS.get(path.suffix.lower(), 'convert it to CSV')}")


def _texts(path: Path) -> list[dict[str, str]]:
    """Of a text file with many reports one for each, with those headings that most of them have; else one record."""
    found = blocks(separated.read_text(path))
    if not found:
        return [documents.text_record(path)]
    parts = [documents.headed(one["text"]) for one in found]
    known = Counter(name for one in parts for name in one)
    usual = {name for name, many in known.items() if many * 2 > len(found)}
    told = [{name: text for name, text in one.items() if name in usual} for one in parts]
    return [{**part, **one} for part, one in zip(told, found, strict=True)]


def _name(path: Path) -> str:
    """Lower case, with the suffix that the content asks for where the name has none that is known."""
    name = path.name.lower()
    if name.endswith(".txt"):
        return f"{name}.hl7" if sniffed(path) == ".hl7" else name
    return name if name.endswith((*_READ, *_OTHERS)) else name + sniffed(path)


def read_record(path: Path) -> dict[str, str]:
    """The one record of a file that belongs to one case, such as a report: column -> text.

    XML and JSON are flattened to columns by path, text has the column `text` and one for each heading. Of a table, its
    first row. Raises TableError where it cannot be read.
    """
    name = _name(path)
    if name.endswith(".xml"):
        return tidy(documents.xml_record(path))
    if name.endswith((".json", ".yaml", ".yml")):
        return tidy(documents.json_record(path))
    if name.endswith(".txt"):
        return tidy(documents.text_record(path))
    rows = read_table(path).rows
    return rows[0] if rows else {}


def _headed(rows: Iterable[Sequence[str]], path: Path) -> Table:
    """A table from rows of which one is the header."""
    return named_columns(rows, path.name)


def _records(records: Iterable[dict[str, str]], path: Path) -> Table:
    """A table from records that name their columns themselves."""
    rows: list[dict[str, str]] = []
    columns: dict[str, None] = {}
    for record in records:
        if len(rows) >= MAX_ROWS:
            raise TableError(f"{path.name} has more than {MAX_ROWS} rows; split it into several tables")
        rows.append(tidy(record))
        columns.update(dict.fromkeys(rows[-1]))
    filled = tuple(columns)
    return Table(filled, [{name: row.get(name, "") for name in filled} for row in rows])
