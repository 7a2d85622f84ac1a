"""Tables that say what the columns of another one mean: data dictionaries, as REDCap and many others export them, and
lists of codes, a row for each code of each column."""

import re
from collections import defaultdict
from collections.abc import Collection, Sequence

from shared.dataset.survey.column_looks import ColumnLook
from shared.dataset.survey.table_looks import TableLook
from shared.dataset.tables.boxes import box, is_record
from shared.dataset.tables.cells import mark

_FEWEST, _MOST = 3, 5000
_NAMED = 0.5
"""Of a dictionary's rows, which name columns; the others are of other tables."""
_CODE = re.compile(r"\s*(-?\w{1,8})\s*[,=:]\s*(\S.*?)\s*")


def describe(tables: Sequence[TableLook]) -> None:
    """Gives columns what a dictionary among the tables says of them, or their own header does."""
    for table in tables:
        for column in table.columns:
            answer = box(column.name)[1]
            column.choice = "" if answer.lstrip("-").isdecimal() else answer
        if table.columns and is_record([column.name for column in table.columns]):
            table.columns[0].names_people = True
    for book in tables:
        if not _FEWEST <= len(book.rows) <= _MOST or book.pattern:
            continue
        for table in tables:
            known: dict[str, list[ColumnLook]] = defaultdict(list)
            for column in table.columns:
                known[(box(column.name)[0] or column.name).strip().lower()].append(column)
            named = next((one.name for one in book.columns if _names(book, one.name, known.keys())), None)
            if table is book:
                continue
            if named is None:
                _listed(book, table)
                continue
            said = _saying(book, named)
            for row in book.rows:
                codes = next((codes for cell in row.values() if (codes := codes_in(cell))), {})
                answers = {code.lower(): name for code, name in codes.items()}
                for column in known.get(row[named].strip().lower(), ()):
                    column.choice = answers.get(box(column.name)[1].lower(), column.choice)
                    column.about = ": ".join(filter(None, (row[said] if said else "", column.choice)))
                    ticked = {value: column.choice for value in column.values if mark(value) == "1"}
                    column.codes = ticked if column.choice else codes


def _listed(book: TableLook, table: TableLook) -> None:
    """Gives columns of `table` the codes that `book` lists: column, code and meaning in a row."""
    if len(book.columns) < 3:
        return
    known = {column.name.strip().lower(): column for column in table.columns}
    values = {name: {value.strip().casefold() for value in column.values} for name, column in known.items()}
    for named in [one.name for one in book.columns]:
        rows = [(row, name) for row in book.rows if (name := row[named].strip().lower()) in known]
        if len(rows) < max(_FEWEST, 0.9 * len(book.rows)):
            continue
        others = [one.name for one in book.columns if one.name != named]
        codes = max(others, key=lambda one: sum(row[one].strip().casefold() in values[name] for row, name in rows))
        if sum(row[codes].strip().casefold() in values[name] for row, name in rows) < _NAMED * len(rows):
            continue
        rest = [one for one in others if one != codes]
        said = max(rest, key=lambda one: sum(len(row[one].split()) for row, _ in rows))
        for row, name in rows:
            if row[codes] and row[said]:
                known[name].codes = {**known[name].codes, row[codes].strip(): row[said]}
        return


def _names(book: TableLook, name: str, known: Collection[str]) -> bool:
    cells = {row[name].strip().lower() for row in book.rows if row[name]}
    return len(cells) >= 0.9 * len(book.rows) and len(cells & set(known)) >= max(_FEWEST, _NAMED * len(cells))


def _saying(book: TableLook, named: str) -> str | None:
    """The column with the description: that of most words, but for codes."""

    def words(name: str) -> float:
        cells = [row[name] for row in book.rows if row[name] and not codes_in(row[name])]
        return sum(len(cell.split()) for cell in cells) / len(book.rows)

    others = [one.name for one in book.columns if one.name != named]
    return max(others, key=words, default=None)


def codes_in(cell: str) -> dict[str, str]:
    """`0, none | 1, mild` and `0=none; 1=mild` as code -> name; empty of anything else."""
    for between in ("|", "\n", ";"):
        found = [_CODE.fullmatch(part) for part in cell.split(between) if part.strip()]
        if len(found) > 1 and all(found):
            return {one[1]: one[2] for one in found if one}
    return {}
