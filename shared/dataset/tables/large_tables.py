"""Tables of which only the beginning is held: the other rows pass by once, and those that are needed are kept."""

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from shared.dataset.tables.cells import Table, cell, named_columns
from shared.dataset.tables.separated import rows
from shared.dataset.tables.tables import SEPARATED, read_table

HEAD = 10_000
"""Rows that are held of a large table."""
_LARGE = 1 << 19
"""Bytes."""

Rest = Iterator[dict[str, str]]


def read_head(path: Path, sheet: str | None) -> tuple[Table, Rest | None]:
    """A table; of a large one with separators its first 10,000 rows, and the others as an iterator. Raises TableError,
    the iterator too."""
    if not path.name.lower().endswith(SEPARATED) or path.stat().st_size <= _LARGE:
        return read_table(path, sheet), None
    stream = rows(path)
    table = named_columns(islice(stream, HEAD), path.name)
    return table, _rest(stream, table.columns)


def _rest(stream: Iterator[Sequence[str]], columns: Sequence[str]) -> Rest:
    for row in stream:
        yield dict(zip(columns, [*map(cell, row), *[""] * (len(columns) - len(row))], strict=False))
