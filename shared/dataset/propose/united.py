"""Columns of several tables that tell of different images, as of sites with a table each: one after the other."""

from collections.abc import Hashable, Sequence

from shared.contracts.values import Source
from shared.dataset.propose.draft import Draft
from shared.dataset.propose.tables import with_table
from shared.dataset.propose.values import share
from shared.dataset.survey.joins import TableLook
from shared.dataset.survey.survey import Survey

_MORE, _TWICE = 0.05, 0.02
"""Share of the images that a further column has to tell of, and of them those that another told of before."""
_WHOLE = 0.95

Values = Sequence[str | None]


def apart(columns: Sequence[Values], tables: Sequence[Hashable]) -> list[int]:
    """Places of columns, each of another of the `tables`, that together tell of more images than any alone and hardly
    of one twice; the fullest first. Fewer than two: none are so."""
    found: list[int] = []
    told: list[bool] = []
    for place in sorted(range(len(columns)), key=lambda place: -share(columns[place])):
        here = [bool(value) for value in columns[place]]
        if not found:
            if share(columns[place]) >= _WHOLE:
                return []
            found, told = [place], here
            continue
        both = sum(one and other for one, other in zip(here, told, strict=True))
        if tables[place] in {tables[one] for one in found} or sum(here) - both < _MORE * len(here):
            continue
        if both <= _TWICE * sum(here):
            found.append(place)
            told = [one or other for one, other in zip(here, told, strict=True)]
    return found


def merged(columns: Sequence[Values]) -> list[str | None]:
    """Of each image what the first column says that says anything."""
    return [next(filter(None, values), None) for values in zip(*columns, strict=True)]


def with_sources(draft: Draft, survey: Survey, told: Sequence[tuple[TableLook, str]]) -> tuple[Draft, Source] | None:
    """The draft with the tables, and the source that takes their columns one after the other."""
    names = []
    for table, column in told:
        made = with_table(draft, survey, table)
        if made is None:
            return None
        draft = made[0]
        names.append((made[1], column))
    source: Source | None = None
    for name, column in reversed(names):
        source = Source(table=name, column=column, otherwise=source)
    return (draft, source) if source else None
