"""Tables that say a side or a visit apart: in a column of their rows, or with a column for each."""

import re
from collections.abc import Mapping, Sequence

from shared.dataset.rules.found import Found, RulesError
from shared.dataset.rules.gather import fields_of
from shared.dataset.tables.cells import Table, TableError, nearest
from shared.dataset.tables.forms import same
from shared.dataset.tables.visits import of_visit, unfilled

Row = dict[str, str]
_FIELD = re.compile(r"\{([^{}]+)\}")


def columns_of(name: str, found: Sequence[Found], table: Table, called: Mapping[str, str]) -> list[str | None]:
    """The column of each case, in whose name fields stand for their text; None where the table has none for it."""
    fields = _FIELD.findall(name)
    for field in fields:
        _check(field, found)
    written = {same(said): text for text, said in called.items()}
    known: dict[tuple[str, ...], str | None] = {}
    made = []
    for case in found:
        texts = tuple(case.fields.get(field, "") for field in fields)
        if texts not in known:
            known[texts] = _first(
                table, [_filled(name, texts), _filled(name, [written.get(same(t), t) for t in texts])]
            )
        made.append(known[texts])
    if found and not any(made):
        raise RulesError(f"there is no column {_filled(name, next(iter(known)))!r}{nearest(name, table.columns)}")
    return made


def _filled(name: str, texts: Sequence[str]) -> str:
    left = iter(texts)
    return _FIELD.sub(lambda _: next(left), name)


def _first(table: Table, names: Sequence[str]) -> str | None:
    for name in names:
        try:
            return table.column(name)
        except TableError:
            continue
    return None


def rows_told(
    rows: Sequence[list[Row]], found: Sequence[Found], column: str, field: str, called: Mapping[str, str], whole: Table
) -> list[list[Row]]:
    """Of each case the rows whose column says what a field says."""
    _check(field, found)
    empty = unfilled(whole.rows, column)
    said = [same(case.fields.get(field, "")) for case in found]
    mine = {own: {text for text in empty if same(called.get(text, text)) == own} for own in set(said)}
    return [of_visit(some, column, mine[own], empty) for some, own in zip(rows, said, strict=True)]


def rows_between(
    rows: Sequence[list[Row]], found: Sequence[Found], field: str, columns: tuple[str, str]
) -> list[list[Row]]:
    """Of each case the rows between whose two numbers the number in a field is."""
    _check(field, found)
    first, last = columns
    kept = []
    for some, case in zip(rows, found, strict=True):
        number = _number(case.fields.get(field, ""))
        kept.append([row for row in some if _within(number, _number(row[first]), _number(row[last]))])
    return kept


def _number(text: str) -> int | None:
    """The last number in a text."""
    digits = re.findall(r"\d+", text)
    return int(digits[-1]) if digits else None


def _within(number: int | None, first: int | None, last: int | None) -> bool:
    """Of a range with one end that end alone."""
    low, high = first if first is not None else last, last if last is not None else first
    return number is not None and low is not None and high is not None and low <= number <= high


def _check(field: str, found: Sequence[Found]) -> None:
    there = fields_of(found)
    if found and field not in there:
        raise RulesError(f"no case has one value of the field {field!r}{nearest(field, there)}")
