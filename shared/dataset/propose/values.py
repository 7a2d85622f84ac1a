"""What each image of a draft has in a field or a column, on a sample: for choosing, before rules are tried."""

import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from shared.dataset.propose.draft import Draft
from shared.dataset.survey.evidence import Evidence, Unit
from shared.dataset.survey.joins import TableLook
from shared.dataset.survey.pieces import braces
from shared.dataset.survey.survey import Survey


@dataclass(frozen=True)
class Look:
    """Images of the first channel, an even sample of each family, and the fields of their patterns."""

    units: tuple[Unit, ...]
    rows: tuple[dict[str, str], ...]

    def column(self, name: str) -> list[str | None]:
        return [row.get(name) for row in self.rows]

    def of(self, read: Callable[[int, str], str | None]) -> list[str | None]:
        return [read(number, file) for number, file in self.units]


def look_at(draft: Draft) -> Look:
    units: list[Unit] = []
    rows: list[dict[str, str]] = []
    channel = draft.channels[0]
    for piece in channel.pieces:
        files = [channel.parts(file, draft.case == "entry")[0] for file in piece.sample]
        units += [(piece.family_of(file).number, file) for file in files]
        rows += piece.rows
    return Look(tuple(units), tuple(rows))


def cell_of(survey: Survey, table: TableLook, column: str) -> Callable[[int, str], str | None]:
    """Value of an image in a column; None where it has none, or several."""

    def of(number: int, file: str) -> str | None:
        cells = {row[column] for row in table.rows_of(survey.units, (number, file)) if row.get(column)}
        return cells.pop() if len(cells) == 1 else None

    return of


def table_of(survey: Survey, evidence: Evidence) -> TableLook | None:
    source = evidence.source
    return next(
        (one for one in survey.tables if one.name == source.table and (one.file == evidence.table or one.pattern)), None
    )


def segment_of(draft: Draft, name: str) -> str:
    """The folder or name of the first pattern in which a field stands first."""
    for part in draft.channels[0].pieces[0].pattern.split("/"):
        if braces(name) in part:
            return part
    return ""


def before(draft: Draft, name: str) -> str:
    """The literal text just before a field, such as `sub-`."""
    found = re.search(rf"([^{{}}/]*)\{{{re.escape(name)}\}}", draft.channels[0].pieces[0].pattern)
    return found[1] if found else ""


def befores(draft: Draft, name: str) -> list[str]:
    """The literal texts just before each place of a field in the first pattern."""
    pattern = draft.channels[0].pieces[0].pattern
    return [text for text in re.findall(rf"([^{{}}/]*)\{{{re.escape(name)}\}}", pattern) if text]


def groups(values: Sequence[str | None]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = defaultdict(list)
    for at, value in enumerate(values):
        if value:
            found[value].append(at)
    return dict(found)


def distinct(values: Sequence[str | None]) -> int:
    return len({value for value in values if value})


def share(values: Sequence[str | None]) -> float:
    return sum(bool(value) for value in values) / max(1, len(values))


def falls_into(fine: Sequence[str | None], coarse: Sequence[str | None]) -> bool:
    """Whether each value of `fine` lies in one value of `coarse`, but for one in fifty."""
    pairs = {(one, other) for one, other in zip(fine, coarse, strict=True) if one and other}
    return bool(pairs) and len(pairs) <= 1.02 * len({one for one, _ in pairs})
