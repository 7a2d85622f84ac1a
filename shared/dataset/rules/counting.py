"""Rows of a table that count, and what their keys are (`shared.contracts.rules.Table`)."""

import re
from collections.abc import Mapping, Sequence

from shared.contracts.values import Table
from shared.dataset.rules.found import RulesError
from shared.dataset.tables.blocks import standing
from shared.dataset.tables.cells import Table as Rows
from shared.dataset.tables.cells import TableError, comparable
from shared.dataset.tables.dates import formatted, orders
from shared.imaging.order import natural

Row = dict[str, str]
COLUMN = re.compile(r"\{([^{}]+)\}")
_SHOWN = 10
"""Values of a column that are named."""


def column_of(table: str, rows: Rows, name: str) -> str:
    """A column as the table calls it. Raises RulesError with those that there are."""
    try:
        return rows.column(name)
    except TableError as error:
        raise RulesError(f"table {table!r}: {error}") from None


def counting(name: str, table: Table, rows: Rows) -> Rows:
    """Without the rows that `only` leaves out."""
    for column, values in table.only.items():
        wanted, called = set(map(comparable, values)), column_of(name, rows, column)
        kept = [row for row in rows.rows if comparable(row[called]) in wanted]
        if not kept:
            there = natural({text for row in rows.rows if (text := row[called])})
            shown = ", ".join(there[:_SHOWN]) + (", ..." if len(there) > _SHOWN else "")
            raise RulesError(
                f"table {name!r}: no row that counts has {', '.join(values)} in {called!r}; there is {shown}"
            )
        rows = Rows(rows.columns, kept)
    return rows


def keys_of(name: str, key: str, rows: Rows) -> list[str]:
    """The key of each row: the text of a column, or of several in a template."""
    try:
        if "{" not in key:
            column = rows.column(key)
            return [row[column] for row in rows.rows]
        columns = {text: rows.column(text.partition(":%")[0]) for text in COLUMN.findall(key)}
        dates = {
            text: formatted(list(dict.fromkeys(row[column] for row in rows.rows)), "%" + form)
            for text, column in columns.items()
            if (form := text.partition(":%")[2])
        }
    except (TableError, ValueError) as error:
        raise RulesError(f"table {name!r}, key: {error}") from None
    if not columns:
        raise RulesError(f"table {name!r}: the key {key!r} names no column; write {{column}}")
    told = ({text: row[column] for text, column in columns.items()} for row in rows.rows)
    return [_filled(key, one | {text: known[one[text]] for text, known in dates.items()}) for one in told]


def chosen(name: str, table: Table, rows: Rows, joined: Sequence[list[Row]]) -> list[list[Row]]:
    """Of the rows of each case those that count: final ones, then what `prefer` and `latest` say."""
    kept = [standing(some) for some in joined]
    for column, values in table.prefer.items():
        called = column_of(name, rows, column)
        kept = [_preferred(some, called, list(map(comparable, values))) for some in kept]
    return kept if table.latest is None else _latest(name, table.latest, rows, kept)


def _latest(name: str, column: str, rows: Rows, joined: Sequence[list[Row]]) -> list[list[Row]]:
    """Of each case the rows with the last date or number of a column."""
    called = column_of(name, rows, column)
    texts = list(dict.fromkeys(row[called] for some in joined for row in some))
    try:
        order = dict(zip(texts, orders(texts), strict=True))
    except ValueError as error:
        raise RulesError(f"table {name!r}, latest, column {called!r}: {error}") from None
    kept = []
    for some in joined:
        last = max((when for row in some if (when := order[row[called]]) is not None), default=None)
        kept.append([row for row in some if order[row[called]] == last])
    return kept


def _filled(key: str, told: Mapping[str, str]) -> str:
    """A template's lines, without those of which a column is empty."""
    lines = [line for line in key.split("\n") if all(told[name] for name in COLUMN.findall(line))]
    return "\n".join(COLUMN.sub(lambda found: told[found[1]], line) for line in lines)


def _preferred(rows: list[Row], column: str, values: Sequence[str]) -> list[Row]:
    """Of several rows those with the first of `values` that there is; all where there is none."""
    said = [comparable(row[column]) for row in rows]
    best = next((value for value in values if value in said), None)
    return rows if best is None else [row for row, one in zip(rows, said, strict=True) if one == best]
