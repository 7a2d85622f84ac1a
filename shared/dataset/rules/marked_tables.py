"""Mask rules whose tables hold boxes or polygons as numbers."""

from collections.abc import Mapping, Sequence

from shared.contracts.rules import MaskRule
from shared.dataset.rules.found import RulesError
from shared.dataset.rules.marked import drafts_of
from shared.dataset.rules.marks import Data, Drafts
from shared.dataset.shapes.annotations import Annotated, Kind, Mark
from shared.dataset.shapes.regions import area, boxes_of, mark_of_box, names_of, polygons_of
from shared.dataset.tables.forms import same

NO_REGION = "case that a row calls {} without marking where: mark it, or leave the image out"
_COUNTS = {"boxes": (1, 4), "polygons": (1, 2)}


def region_drafts(rule: MaskRule, data: Data) -> list[Drafts]:
    """Of kinds boxes and polygons: one row or several a case; a row without numbers marks nothing."""
    if rule.table is None or len(rule.columns) not in _COUNTS[rule.kind]:
        raise RulesError(f"a mask of kind {rule.kind} needs `table` and {' or '.join(map(str, _COUNTS[rule.kind]))} "
                         "names in `columns`")  # fmt: skip
    columns = [data.sources.column(rule.table, name) for name in rule.columns]
    classes = data.sources.column(rule.table, rule.class_column) if rule.class_column else None
    rows_of_cases = data.sources.rows(rule.table)
    annotated = [_annotated(rule, rows, columns, classes) for rows in rows_of_cases]
    marked = {same(mark.structure) for one in annotated for mark in one.marks}
    made: list[Drafts] = []
    for case, rows, one in zip(data.found, rows_of_cases, annotated, strict=True):
        # `pneumonia` without a box is no healthy case.
        lacking = [row[classes] for row in rows if classes and same(row.get(classes, "")) in marked
                   and not any(row.get(name) for name in columns)]  # fmt: skip
        if lacking and not one.marks:
            data.account.leave(NO_REGION.format(repr(lacking[0])), case.key)
            made.append(None)
        else:
            made.append(drafts_of(rule, data, case.key, [one] if rows else []))
    return made


def _annotated(
    rule: MaskRule, rows: Sequence[Mapping[str, str]], columns: Sequence[str], classes: str | None
) -> Annotated:
    found = Annotated()
    for row in rows:
        try:
            found.marks += _marks(
                rule, [row.get(name, "") for name in columns], row.get(classes, "") if classes else ""
            )
        except ValueError as error:
            found.faults.append(str(error))
    found.marks.sort(key=area, reverse=True)
    return found


def _marks(rule: MaskRule, cells: Sequence[str], named: str) -> list[Mark]:
    if rule.kind == "boxes":
        boxes = boxes_of(cells)
        names = _names(rule, named, len(boxes))
        return [
            mark_of_box(name, box, rule.box, rule.shares, _number(name)) for name, box in zip(names, boxes, strict=True)
        ]
    polygons = polygons_of(cells)
    names = _names(rule, named, len(polygons))
    kind: Kind = "relative_polygon" if rule.shares else "polygon"
    return [Mark(name, kind, polygon, _number(name)) for name, polygon in zip(names, polygons, strict=True)]


def _names(rule: MaskRule, named: str, count: int) -> list[str]:
    if not count:
        return []
    usual = rule.structure or "structure 1"
    return [name or usual for name in names_of(named, count)] if named else [usual] * count


def _number(name: str) -> int | None:
    text = name.removesuffix(".0")
    return int(text) if text.isdecimal() and len(text) < 10 else None
