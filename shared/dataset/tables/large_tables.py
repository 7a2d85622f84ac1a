"""Tables of which only the beginning is held: the other rows pass by once, and those that are needed are kept."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from shared.dataset.tables.cells import Table, cell, named_columns
from shared.dataset.tables.separated import rows
from shared.dataset.tables.tables import SEPARATED, read_table

HEAD = 10_000
"""Rows that are held of a large table."""
_LARGE = 1 << 19
"""Bytes."""


@dataclass
class Rest:
    """The rows behind the first ones of a table, which pass by once."""

    stream: Iterator[Sequence[str]]
    columns: Sequence[str]

    def where(self, column: str | None, wanted: Callable[[str], bool]) -> Iterator[dict[str, str] | None]:
        """Each row in turn: as column -> cell where the cell of `column` is wanted, else None. Raises TableError."""
        at = self.columns.index(column) if column else -1
        for row in self.stream:
            yield self._named(row) if 0 <= at < len(row) and wanted(cell(row[at])) else None

    def _named(self, row: Sequence[str]) -> dict[str, str]:
        return dict(zip(self.columns, [*map(cell, row), *[""] * (len(self.columns) - len(row))], strict=False))


def read_head(path: Path, sheet: str | None) -> tuple[Table, Rest | None]:
    """A table; of a large one with separators its first 10,000 rows, and the others. Raises TableError."""
    if not path.name.lower().endswith(SEPARATED) or path.stat().st_size <= _LARGE:
        return read_table(path, sheet), None
    stream = rows(path)
    table = named_columns(islice(stream, HEAD), path.name)
    return table, Rest(stream, table.columns)
