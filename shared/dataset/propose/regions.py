"""Masks that tables draw by numbers: boxes and polygons."""

from collections import Counter
from collections.abc import Mapping, Sequence

from shared.contracts.rules import Box, MaskRule
from shared.dataset.propose.draft import Draft
from shared.dataset.propose.legend import Legend, names_for
from shared.dataset.propose.tables import with_table
from shared.dataset.survey.box_looks import RegionLook, regions_in
from shared.dataset.survey.joins import TableLook
from shared.dataset.survey.survey import Survey

_COARSER = 0.15
"""Masks and outlines of the same say more than boxes."""
_MOST_LACKING = 0.5
"""Share of a folder's images without a row from which on they are not taken for healthy."""
_SAID: dict[Box, str] = {"corners": "two corners", "inclusive": "first and last pixel",
                         "size": "corner, width and height", "middle": "middle, width and height"}  # fmt: skip


def region_drafts(
    draft: Draft, survey: Survey, usual: str, hints: Mapping[str, str], legends: Sequence[Legend]
) -> list[tuple[Draft, Sequence[str]]]:
    """The draft with the boxes or polygons of each table, and the names of structures; where numbers can mean two
    things, with each. `usual` is the name of what nothing names."""
    found: list[tuple[Draft, Sequence[str]]] = []
    for table in survey.tables:
        looks = regions_in(table, survey.units, survey.looker)
        made = with_table(draft, survey, table) if looks else None
        if made is None:
            continue
        drafted, name = made
        missing = _missing(table, survey, looks)
        if len(looks) > 1 and all(one.name for one in looks):
            sets = [looks]  # columns called by structures add up
        else:
            sets = [[one] for one in looks]
        for some in sets:
            for meaning in some[0].meanings or (None,):
                rules = []
                for one in some:
                    values, structure = _names(one, usual, hints, legends)
                    rules.append(
                        MaskRule(
                            kind=one.kind, table=name, columns=one.columns, box=meaning or "corners", shares=one.shares,
                            class_column=one.class_column, values=values, structure=structure, missing=missing,
                        )
                    )  # fmt: skip
                what = " and ".join(", ".join(one.columns) for one in some[:3])
                said = f"the {some[0].kind} in {what} of {table.said}" + (f" ({_SAID[meaning]})" if meaning else "")
                whole = "; images without a row count as healthy" if missing == "empty" else ""
                one_draft = drafted.change(masks=tuple(rules), prior=drafted.prior - _COARSER)
                names = [name for one in some for name in (one.classes if not one.name else (one.name,))]
                called = [*rules[0].values] if rules[0].values else names
                found.append((one_draft.said("target", f"its masks are {said}{whole}").decided("mask", said), called))
    return found


def _names(
    look: RegionLook, usual: str, hints: Mapping[str, str], legends: Sequence[Legend]
) -> tuple[dict[str, int], str | None]:
    """Names for numbers of classes, and the one structure where no column names it."""
    if look.class_column is None:
        return {}, look.name or usual
    numbers = [int(name.removesuffix(".0")) for name in look.classes if name.removesuffix(".0").isdecimal()]
    if len(numbers) < len(look.classes):
        return {}, None
    return {name: number for number, name in names_for(numbers, hints, legends).items()}, None


def _missing(table: TableLook, survey: Survey, looks: Sequence[RegionLook]) -> str:
    """Images without a row are healthy where each folder has rows for most of its images, and no row says itself that
    an image is healthy; else nobody looked at them."""
    if table.key is None or any(one.empty for one in looks):
        return "leave_out"
    folders: Counter[str] = Counter()
    lacking: Counter[str] = Counter()
    for unit in survey.units.files:
        folder = unit[1].rpartition("/")[0]
        folders[folder] += 1
        lacking[folder] += not table.rows_of(survey.units, unit)
    return "empty" if all(lacking[one] <= _MOST_LACKING * folders[one] for one in folders) else "leave_out"
