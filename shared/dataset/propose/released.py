"""Rows that count where a table has several of one key, by what a column says of their state."""

from collections import defaultdict

from shared.dataset.survey.table_looks import TableLook
from shared.dataset.tables.blocks import FINAL, STATE
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


def _final(value: str) -> bool:
    own = split_words(value)
    return any(word in FINAL for word in own) and not {"not", "non", "no", "nicht", "niet"} & set(own)
