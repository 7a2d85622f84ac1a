"""Rows of one key that a table of the images tells apart: which lesion of an examination a picture shows."""

from collections.abc import Sequence

from shared.dataset.survey.joins import plain
from shared.dataset.survey.survey import Survey
from shared.dataset.survey.table_looks import TableLook, tailed

_MOST_ROWS = 20_000
_SINGLE = 0.9
"""Of the rows of a table of images: keys that differ."""
_APART = 0.98
"""Of the rows of a table, those that key and columns tell apart."""
_SAME = 0.9
"""Of the values in a column, those that a column of the same name has, too."""


def told_apart(survey: Survey, look: TableLook, key: str) -> tuple[TableLook, tuple[str, ...]] | None:
    """The table with a row an image, and the columns of both tables which together with the key name one row of
    `look`. None where a row a key is all that there is, and where no table tells."""
    rows = [row for row in look.rows[:_MOST_ROWS] if row[key]]
    tail = int(look.by[4:]) if key == look.key and look.by.startswith("tail") else 1
    if len({tailed(row[key], tail) for row in rows}) > _APART * len(rows):
        return None
    for other in survey.tables:
        if other is look or not other.key or other.pattern or other.also or other.unread or other.share < 0.5:
            continue
        if other.column(other.key).distinct < _SINGLE * len(other.rows):
            continue
        names = {column.name for column in other.columns} - {other.key, key}
        shared = [column.name for column in look.columns if column.name in names and _alike(look, other, column.name)]
        columns = _fewest(rows, key, shared)
        if columns:
            return other, columns
    return None


def _alike(look: TableLook, other: TableLook, name: str) -> bool:
    mine, theirs = ({plain(row[name]) for row in one.rows[:_MOST_ROWS]} - {""} for one in (look, other))
    return len(mine) > 1 and len(mine & theirs) >= _SAME * len(theirs) > 0


def _fewest(rows: Sequence[dict[str, str]], key: str, shared: Sequence[str]) -> tuple[str, ...]:
    """Columns one by one, that which tells most rows apart first, until nearly all are; none where they never are."""
    taken: tuple[str, ...] = ()
    while left := [name for name in shared if name not in taken]:
        taken += (max(left, key=lambda name: len(_known(rows, (key, *taken, name)))),)
        if len(_known(rows, (key, *taken))) >= _APART * len(rows):
            return taken
    return ()


def _known(rows: Sequence[dict[str, str]], columns: Sequence[str]) -> set[tuple[str, ...]]:
    return {tuple(plain(row[column]) for column in columns) for row in rows}
