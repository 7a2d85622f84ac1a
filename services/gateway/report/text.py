"""A report for a terminal or a file, in a given width."""

import textwrap
from collections.abc import Iterable
from itertools import zip_longest

from services.gateway.blocks import Row, Table
from services.gateway.report.facts import Facts
from services.gateway.report.sections import sections, title

_GAP = 2
_NARROWEST = 8


def text(facts: Facts, width: int = 110) -> str:
    lines = [title(facts)]
    for one in sections(facts):
        lines += ["", one.title, "-" * len(one.title)]
        for place, block in enumerate(one.blocks):
            if place and Table in (type(block), type(one.blocks[place - 1])):
                lines.append("")
            lines += _table(block, width) if isinstance(block, Table) else textwrap.wrap(block, width)
    return "\n".join(lines) + "\n"


def _table(table: Table, width: int) -> list[str]:
    rows = [table.head, *table.rows] if table.head else list(table.rows)
    columns = max(len(row) for row in rows)
    widths = [max(len(row[column]) if column < len(row) else 0 for row in rows) for column in range(columns)]
    while sum(widths) + _GAP * (columns - 1) > width and max(widths) > _NARROWEST:
        widths[widths.index(max(widths))] -= 1
    return [line for row in rows for line in _row(row, widths)]


def _row(row: Row, widths: list[int]) -> Iterable[str]:
    # A sha256 or a path has no blank to break at; it must not push the columns apart.
    cells = [textwrap.wrap(cell, size, break_on_hyphens=False) for cell, size in zip(row, widths, strict=False)]
    for parts in zip_longest(*cells, fillvalue=""):
        yield (" " * _GAP).join(f"{part:<{size}}" for part, size in zip(parts, widths, strict=False)).rstrip()
