"""The column of yes and no, or of counts, that tells images with nothing to mark from those that lack their mask."""

import re
from collections.abc import Collection

from shared.contracts.values import Source
from shared.dataset.propose.draft import Draft
from shared.dataset.propose.tables import with_table
from shared.dataset.propose.values import cell_of, look_at
from shared.dataset.survey.family import MASK_WORD
from shared.dataset.survey.survey import Survey
from shared.dataset.tables.cells import present
from shared.vocabulary.reading import plain, read

_SURE, _MOST = 0.9, 0.5
"""Share of the images with a mask of which the column says yes, and of those without of which it says no."""
_FINDING = re.compile(r"\b(?:positive|abnormal\w*|patholog\w*|findings?|present|befund|positiv)\b", re.I)
_WORK = re.compile(
    r"\b(?:annotat\w*|label?led|segmented|contoured|drawn|review\w*|read|available|done|complete\w*)\b", re.I
)
"""Of columns that say whether somebody has drawn: where nobody has, nothing is known."""


def with_marked(draft: Draft, survey: Survey, hits: Collection[str]) -> Draft:
    """The draft with `marked` of its masks, where a column says it. `hits` are images that have a mask."""
    look = look_at(draft)
    there = [file in hits for _, file in look.units]
    if all(there) or not any(there):
        return draft
    for table in survey.tables:
        for column in table.columns if table.key is not None else ():
            told = {present(value) for value in column.values} == {"0", "1"}
            if not told or not _says_finding(column.name, column.about):
                continue
            said = [present(value or "") for value in look.of(cell_of(survey, table, column.name))]
            held = [one for one, has in zip(said, there, strict=True) if has]
            bare = [one for one, has in zip(said, there, strict=True) if not has]
            if held.count("1") < _SURE * len(held) or bare.count("0") < _MOST * len(bare):
                continue
            made = with_table(draft, survey, table)
            if made is None or made[0].case != draft.case:
                continue
            source = Source(table=made[1], column=column.name)
            masks = tuple(one.model_copy(update={"marked": source}) for one in made[0].masks)
            words = f"{draft.says['target']}; where {column.name} in {table.said} says no, nothing is there to mark"
            return made[0].change(masks=masks).said("target", words)
    return draft


def _says_finding(header: str, about: str) -> bool:
    text = plain(f"{header} {about}")
    seen = read(text)
    told = (
        seen.concepts("finding") or "lesion" in seen.concepts("task") or MASK_WORD.search(text) or _FINDING.search(text)
    )
    return bool(told) and not _WORK.search(text)
