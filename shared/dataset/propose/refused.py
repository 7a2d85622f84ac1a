"""Images that are not to be used by a column of a table: since it says so itself (`exclude` yes, `quality`
non-diagnostic), or since the request wants others (`frontal views`, `C-views are not wanted`)."""

from shared.contracts.rules import Excluded
from shared.contracts.values import Source
from shared.dataset.propose.draft import Draft
from shared.dataset.propose.meant import unasked
from shared.dataset.propose.tables import with_table
from shared.dataset.propose.values import cell_of, look_at
from shared.dataset.survey.survey import Survey
from shared.dataset.tables.column_words import picked, refused

_MOST = 0.5
"""Share of the images from which on a column that refuses them is understood wrongly."""
_FEWEST = 0.1
"""Share of the images that a request means at the least."""


def with_refused(draft: Draft, survey: Survey, target: str) -> Draft:
    """The draft without them. Columns of class, split and patient refuse nothing."""
    look = look_at(draft)
    for table in survey.tables:
        for column in table.columns if table.key is not None else ():
            values: tuple[str | None, ...] = refused(column.name, column.values)
            most = _MOST
            if not values:
                values, most = unasked(column.name, tuple(column.values), target), 1 - _FEWEST
            held = look.of(cell_of(survey, table, column.name)) if values else []
            unless = () if values else picked(column.name, column.values)
            if unless:  # the others have no value
                held, values, most = look.of(cell_of(survey, table, column.name)), (None,), 1 - _FEWEST
            if not 0 < sum(value in values for value in held) < most * len(held):
                continue
            made = with_table(draft, survey, table)
            if made is None or made[0].case != draft.case or (made[1], column.name) in _targets(made[0]):
                continue
            source = Source(table=made[1], column=column.name)
            said = f"{column.name} in {table.said} is {'empty' if unless else ' or '.join(map(str, values))}"
            kind = {"unless": unless} if unless else {"values": values}
            exclude = (*draft.exclude, Excluded(source=source, reason=said, **kind))
            words = "; ".join(filter(None, (draft.says.get("exclude"), f"left out where {said}")))
            draft = made[0].change(exclude=exclude).said("exclude", words)
    return draft


def _targets(draft: Draft) -> set[tuple[str | None, str | None]]:
    """Table and column of what tells class, split and patient."""
    sources = (draft.patient, draft.label and draft.label.source, draft.split and draft.split.source)
    flags = {(draft.label.table, name) for name in draft.label.columns} if draft.label else set()
    return {(one.table, one.column) for one in sources if one} | flags
