"""Images that a table itself says are not to be used: `exclude` yes, `usable` no, `quality` non-diagnostic."""

from shared.contracts.rules import Excluded, Source
from shared.dataset.propose.draft import Draft
from shared.dataset.propose.tables import with_table
from shared.dataset.propose.values import cell_of, look_at
from shared.dataset.survey import Survey
from shared.dataset.words import refused

_MOST = 0.5
"""Share of the images from which on a column is understood wrongly."""


def with_refused(draft: Draft, survey: Survey) -> Draft:
    """The draft without images whose rows say so plainly, in a column that tells nothing else of a case."""
    look = look_at(draft)
    for table in survey.tables:
        for column in table.columns if table.key is not None else ():
            values = refused(column.name, column.values)
            if not values:
                continue
            held = look.of(cell_of(survey, table, column.name))
            hit = sum(value in values for value in held)
            if not 0 < hit < _MOST * len(held):
                continue
            made = with_table(draft, survey, table)
            if made is None or made[0].case != draft.case or (made[1], column.name) in _targets(made[0]):
                continue
            source = Source(table=made[1], column=column.name)
            said = f"{column.name} in {table.said} is {' or '.join(values)}"
            exclude = (*draft.exclude, Excluded(source=source, values=values, reason=said))
            draft = made[0].change(exclude=exclude).said("exclude", f"left out is what {said}")
    return draft


def _targets(draft: Draft) -> set[tuple[str | None, str | None]]:
    """Table and column of what tells class, split and patient."""
    sources = (draft.patient, draft.label and draft.label.source, draft.split and draft.split.source)
    flags = {(draft.label.table, name) for name in draft.label.columns} if draft.label else set()
    return {(one.table, one.column) for one in sources if one} | flags
