"""Rows that count, by what a column says of their state: final ones of several of a key, forms that are complete."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence

from shared.dataset.survey.table_looks import TableLook
from shared.dataset.tables.blocks import FINAL, STATE
from shared.dataset.tables.boxes import complete
from shared.dataset.tables.words import split_words

_FEW = 8
_MOST = 0.9
"""Of the keys with several rows, those with one final row."""


def released(look: TableLook, key: str) -> dict[str, tuple[str, ...]]:
    """`only` of a table: final rows (`freigegeben`, `definitief`, or `F` among letters) of a column of states, where
    nearly each key with several rows has one of them. Empty where no column tells."""
    rows = defaultdict(list)
    for row in look.rows:
        rows[row.get(key, "")].append(row)
    several = [some for name, some in rows.items() if name and len(some) > 1]
    for column in look.columns if several else ():
        values = [value for value in column.values if value]
        if not STATE.search(column.name) or not 2 <= len(values) <= _FEW:
            continue
        letters = all(len(value) == 1 for value in values)
        final = tuple(value for value in values if _final(value) or (letters and value.upper() == "F"))
        one = sum(sum(row[column.name] in final for row in some) == 1 for some in several)
        if final and len(final) < len(values) and one >= _MOST * len(several):
            return {column.name: final}
    return {}


def form(look: TableLook, columns: Collection[str]) -> tuple[str, tuple[str, ...]]:
    """The column behind some that says in which state their form is, and how it says that it is complete."""
    own = {*columns, *(name for column in columns if column in look.sides for name in look.sides[column][1].values())}
    written = [*(look.written or look.columns)]
    behind = written[max((at + 1 for at, one in enumerate(written) if one.name in own), default=len(written)) :]
    states = ((one.name, final) for one in behind if (final := complete(one.name, one.values)) is not None)
    return next(states, ("", ()))


def finished(
    look: TableLook, columns: Collection[str], rows: Sequence[Mapping[str, str]]
) -> dict[str, tuple[str, ...]]:
    """`only` of a table: rows in which the form with some columns is complete. Empty where too few of the `rows` of
    images are, where no other holds anything, and where a visit of the images leaves the form out."""
    state, final = form(look, columns)
    held = [row[state] in final for row in rows if any(row.get(column) for column in columns)] if final else []
    left_out = any(state in empty for one in look.apart for visit, empty in one.empty.items() if visit in one.called)
    return {state: final} if held and not all(held) and sum(held) * 2 >= len(held) and not left_out else {}


def _final(value: str) -> bool:
    own = split_words(value)
    return any(word in FINAL for word in own) and not {"not", "non", "no", "nicht", "niet"} & set(own)
