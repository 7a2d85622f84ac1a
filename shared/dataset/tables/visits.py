"""Rows of one key that are of different visits or sides: those of one, with what the others say for all."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence

Row = dict[str, str]
Unfilled = Mapping[str, frozenset[str]]


def unfilled(rows: Sequence[Mapping[str, str]], column: str) -> Unfilled:
    """Visit in a column -> columns that no row of it fills, such as the sex that is asked at the first visit."""
    filled: defaultdict[str, set[str]] = defaultdict(set)
    for row in rows:
        filled[row[column]].update(name for name, text in row.items() if text)
    every = set().union(*filled.values())
    return {visit: frozenset(every - own) for visit, own in filled.items()}


def of_visit(rows: Sequence[Row], column: str, mine: Collection[str], empty: Unfilled) -> list[Row]:
    """Those of the rows of a key that are of a visit, as its column may write it (`mine`); what no row of the visit has
    they take from the other rows."""
    kept = [row for row in rows if row[column] in mine]
    if len(kept) == len(rows):
        return kept
    made = []
    for row in kept:
        others = {name: {one[name] for one in rows if one.get(name)} for name in empty.get(row[column], ())}
        made.append({**row, **{name: texts.pop() for name, texts in others.items() if len(texts) == 1}})
    return made
