"""Tables that say what the columns of another one mean: data dictionaries, as REDCap and many others export them, and
lists of codes, a row for each code of each column."""

import re
from collections.abc import Collection, Sequence

from shared.dataset.survey.table_looks import TableLook

_FEWEST, _MOST = 3, 5000
_NAMED = 0.5
"""Of a dictionary's rows, which name columns; the others are of other tables."""
_CODE = re.compile(r"\s*(-?\w{1,8})\s*[,=:]\s*(\S.*?)\s*")


def describe(tables: Sequence[TableLook]) -> None:
    """Gives columns what a dictionary among the tables says of them."""
    for book in tables:
        if not _FEWEST <= len(book.rows) <= _MOST or book.pattern:
            continue
        for table in tables:
            known = {column.name.strip().lower(): column for column in table.columns}
            named = next((one.name for one in book.columns if _names(book, one.name, known.keys())), None)
            if table is book:
                continue
            if named is None:
                _listed(book, table)
                continue
            said = _saying(book, named)
            for row in book.rows:
                column = known.get(row[named].strip().lower())
                if column is not None:
                    column.about = row[said] if said else ""
                    column.codes = next((codes for cell in row.values() if (codes := codes_in(cell))), {})


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
    for mark in ("|", "\n", ";"):
        found = [_CODE.fullmatch(part) for part in cell.split(mark) if part.strip()]
        if len(found) > 1 and all(found):
            return {one[1]: one[2] for one in found if one}
    return {}
