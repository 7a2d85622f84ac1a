"""Tables that are parts of one: a file or a sheet for each side of the split, each hospital, each year."""

import re
from collections.abc import Sequence

from shared.dataset.survey.column_looks import column_look
from shared.dataset.survey.splits import split_of
from shared.dataset.survey.table_looks import TableLook, plain

_UNNAMED = re.compile(r"column_\d+")
_SAME = 0.8
_SHARED = 0.6
"""Of the columns of two parts: where names say that they are parts, and where they only differ in a word."""


def united(tables: Sequence[TableLook]) -> list[TableLook]:
    """Tables, of which those that names and columns call parts of one are one."""
    found: list[TableLook] = []
    for table in tables:
        other = next((one for one in found if _parts(one, table)), None)
        if other is None:
            found.append(table)
        else:
            _unite(other, table)
    return found


def _unite(one: TableLook, other: TableLook) -> None:
    """Take the rows of another part of the same table into the first."""
    names = dict.fromkeys(column.name for column in (*one.columns, *other.columns))
    one.rows = [dict.fromkeys(names, "") | row for row in (*one.rows, *other.rows)]
    one.columns = [column_look(name, one.rows) for name in names]
    one.total, one.rest = one.total + other.total, one.rest + other.rest
    if other.file != one.file:
        one.also = (*one.also, other.file, *other.also)
    elif other.sheet:
        one.sheets = (*one.sheets, other.sheet, *other.sheets)


def _parts(one: TableLook, other: TableLook) -> bool:
    """Whether two are parts of one table: nearly the same columns, and names that differ in the split or the folder."""
    if one.pattern is not None or other.pattern is not None or min(len(one.columns), len(other.columns)) < 2:
        return False
    ours, theirs = (
        {column.name for column in table.columns if not _UNNAMED.fullmatch(column.name)} for table in (one, other)
    )
    if other.file != one.file and (one.sheets or one.sheet != other.sheet):
        return False
    names = [f"{table.file.rpartition('/')[2]} {table.sheet or ''}".lower() for table in (one, other)]
    words = [[word for word in re.split(r"[\W_\d]+", name) if word] for name in names]
    if all(any(map(split_of, some)) for some in words):  # as in `a. Training labels.csv`
        words = [[word for word in some if len(word) > 1 and not split_of(word)] for some in words]
    return words[0] == words[1] and len(ours & theirs) >= _SAME * len(ours | theirs)


def of_other_images(tables: list[TableLook], keyed: Sequence[dict[str, str]]) -> list[TableLook]:
    """Tables that took in others which have most columns in common and are of other images, such as one a hospital or
    a year. Those that were taken in are gone from `tables`."""
    found: list[TableLook] = []
    named: dict[int, set[int]] = {}
    for table in [one for one in tables if one.key and not one.pattern and not one.rest]:
        keys = {plain(row[table.key or ""]) for row in table.rows}
        own = {at for at, one in enumerate(keyed) if one.get(table.by) in keys}
        other = next((one for one in tables if id(one) in named and _alike(one, table, named[id(one)], own)), None)
        if other is None:
            named[id(table)] = own
            continue
        named[id(other)] |= own
        _unite(other, table)
        tables[:] = [one for one in tables if one is not table]
        found = [*(one for one in found if one is not other), other]
    return found


def _alike(one: TableLook, other: TableLook, ours: set[int], theirs: set[int]) -> bool:
    """Whether two tables are parts of one: names of files differ in a word, and all images, but few columns."""
    names = [re.findall(r"[^\W_]+", table.file.rpartition("/")[2].lower()) for table in (one, other)]
    apart = sum(first != second for first, second in zip(*names, strict=False))
    columns = [{column.name for column in table.columns} for table in (one, other)]
    return (
        one.key == other.key and one.by == other.by and not one.sheet and not other.sheet
        and one.file.rpartition("/")[0] == other.file.rpartition("/")[0]
        and len(names[0]) == len(names[1]) and apart == 1
        and bool(ours and theirs) and not ours & theirs
        and len(columns[0] & columns[1]) >= _SHARED * len(columns[0] | columns[1])
    )  # fmt: skip
