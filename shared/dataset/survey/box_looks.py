"""Tables that mark boxes and polygons by numbers: which columns, and what the numbers mean, measured on them."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeVar

from shared.contracts.rules import Box
from shared.dataset.files.looking import Looker
from shared.dataset.shapes.regions import Four, boxes_of, names_of, polygons_of
from shared.dataset.survey.box_columns import called
from shared.dataset.survey.candidates import MOST_CLASSES
from shared.dataset.survey.evidence import Units
from shared.dataset.survey.mark_files import says_boxes
from shared.dataset.survey.naming import evenly
from shared.dataset.survey.splits import split_of
from shared.dataset.survey.table_looks import TableLook
from shared.dataset.tables.column_words import label_likeness

_BOX = re.compile(
    r"box|rect|roi|region|coord|locat|annot|mark|lesion|finding|label|target|detect|xyxy|xywh|(?<![a-z])bb",
    re.IGNORECASE,
)
_POLYGON = re.compile(r"polygon|contour|points|vertices|outline|segment|poly(?![a-z])", re.IGNORECASE)
_CODE = re.compile(r"\d+ \d+(?: \d+ \d+)*")
"""A run-length code; boxes may look so, too."""
_LIST = re.compile(r"[\n;|\[]")
_MOST_ROWS, _MOST_SIZES = 5000, 60
_ENOUGH = 0.97
"""Share of boxes that fit a meaning: a few may be wrong."""
_SLACK = 1.0
"""Pixels that a box may stand out."""
_T = TypeVar("_T")


@dataclass(frozen=True)
class RegionLook:
    """Columns of one table that mark regions."""

    kind: Literal["boxes", "polygons"]
    columns: tuple[str, ...]
    meanings: tuple[Box, ...] = ()
    """Of boxes: what fits the numbers; several where neither they nor the names of columns tell."""
    shares: bool = False
    name: str = ""
    """Of the structure, where columns are called by it."""
    class_column: str | None = None
    classes: tuple[str, ...] = ()
    """Names in it, most frequent first."""
    empty: bool = False
    """Whether some rows mark nothing: so images without a row are not known to be healthy."""


def regions_in(table: TableLook, units: Units, looker: Looker) -> list[RegionLook]:
    """Of several, those with names are structures each. Empty for a table that names no images."""
    if table.pattern is not None or not table.rows:
        return []
    fours = called([one.name for one in table.columns])
    found = [look for one in fours if (look := _boxes(table, one.columns, one.box, one.name, units, looker))]
    taken = {column for one in fours for column in one.columns}
    for column in table.columns:
        if column.name in taken:
            continue
        if _single(table, column.name):
            look = _boxes(table, (column.name,), None, "", units, looker)
        else:
            look = _polygons(table, column.name, units, looker)
        found += [look] if look else []
    return _named(found)


def _named(found: Sequence[RegionLook]) -> list[RegionLook]:
    """Cells `boxes/nodule` and `boxes/mass` are called by structures; a lone one is not."""
    heads = Counter(one.columns[0].rpartition("/")[0] for one in found if len(one.columns) == 1)
    made = []
    for one in found:
        head, _, tail = one.columns[0].rpartition("/")
        inner = len(one.columns) == 1 and head and heads[head] > 1
        name = tail if inner else one.name if len(found) > 1 else ""
        made.append(replace(one, name=name))
    return made


def _single(table: TableLook, column: str) -> bool:
    """Whether cells hold one box or several each."""
    cells = [row[column] for row in table.rows[:_MOST_ROWS] if row.get(column)]
    read = [boxes for cell in cells if (boxes := _tried(boxes_of, [cell])) is not None]
    if len(cells) < 2 or len(read) < 0.9 * len(cells) or not any(read):
        return False
    if _POLYGON.search(column) and any(len(boxes) > 1 for boxes in read):
        return False
    if all(map(_CODE.fullmatch, cells)) and not says_boxes(column):
        return False
    return bool(_BOX.search(column)) or len({len(boxes) for boxes in read}) > 1


def _boxes(
    table: TableLook, columns: tuple[str, ...], said: Box | None, name: str, units: Units, looker: Looker
) -> RegionLook | None:
    read = _read(table.rows, columns, boxes_of)
    every = [box for _, boxes in read for box in boxes]
    if not every or len(read) < 0.9 * min(len(table.rows), _MOST_ROWS):
        return None
    shares = all(-0.02 <= value <= 1.02 for box in every for value in box) and any(v % 1 for box in every for v in box)
    if shares:
        sized = [(box, (1.0, 1.0)) for box in every]
    else:
        sized = [(box, size) for rows, size in _with_sizes(table, units, looker)
                 for _, some in _read(rows, columns, boxes_of) for box in some]  # fmt: skip
    slack = 0.02 if shares else _SLACK
    if said is None:
        word = re.sub(r"[^a-z]", "", columns[0].lower())
        said = "corners" if "xyxy" in word else "middle" if "cxcywh" in word else "size" if "xywh" in word else None
    possible: tuple[Box, ...] = ("corners", "size", "middle") if said == "middle" else ("corners", "size")
    fitting = tuple(one for one in possible if _fits(one, every, sized, slack))
    if not fitting:
        return None
    meanings = (said,) if said in fitting and said is not None else fitting
    if "corners" in meanings and not shares and _inclusive(every, sized):
        meanings = tuple("inclusive" if one == "corners" else one for one in meanings)
    classes = _class_column(table, [(row, len(boxes)) for row, boxes in read], columns)
    return RegionLook("boxes", columns, meanings, shares, name, *classes, empty=any(not boxes for _, boxes in read))


def _fits(meaning: Box, every: Sequence[Four], sized: Sequence[tuple[Four, tuple[float, float]]], slack: float) -> bool:
    """Whether boxes have an extent, and stay inside of the images whose sizes are known."""

    def inside(box: Four, size: tuple[float, float]) -> bool:
        left, top, right, bottom = _edges(meaning, box)
        return left >= -slack and top >= -slack and right <= size[0] + slack and bottom <= size[1] + slack

    wide = sum(right > left and bottom > top for left, top, right, bottom in (_edges(meaning, box) for box in every))
    held = sum(inside(box, size) for box, size in sized)
    return wide >= _ENOUGH * len(every) and held >= _ENOUGH * len(sized)


def _inclusive(every: Sequence[Four], sized: Sequence[tuple[Four, tuple[float, float]]]) -> bool:
    """Whether far corners are the last pixels, as whole numbers are by the usual convention (VOC), unless one is the
    edge of its image, behind which there is no pixel."""
    sizes = {size for _, size in sized}
    known = [(box, *sizes) for box in every] if len(sizes) == 1 else sized
    whole = all(value % 1 == 0 for box in every for value in box)
    return whole and not any(box[2] == size[0] or box[3] == size[1] for box, size in known)


def _edges(meaning: Box, box: Four) -> Four:
    a, b, c, d = box
    if meaning == "corners":
        return box
    return (a, b, a + c, b + d) if meaning == "size" else (a - c / 2, b - d / 2, a + c / 2, b + d / 2)


def _polygons(table: TableLook, column: str, units: Units, looker: Looker) -> RegionLook | None:
    cells = [row[column] for row in table.rows[:_MOST_ROWS] if row.get(column)]
    said = _POLYGON.search(column) or any('"' in cell for cell in cells[:1])
    if len(cells) < 2 or not said or all(map(_CODE.fullmatch, cells)):
        return None
    read = _read(table.rows, (column,), polygons_of)
    every = [polygon for _, polygons in read for polygon in polygons]
    if not every or len(read) < 0.9 * min(len(table.rows), _MOST_ROWS):
        return None
    shares = all(-0.02 <= value <= 1.02 for polygon in every for value in polygon)
    sized = [(polygon, size) for rows, size in _with_sizes(table, units, looker)
             for _, some in _read(rows, (column,), polygons_of) for polygon in some]  # fmt: skip
    held = sum(min(one) >= -_SLACK and max(one[::2]) <= size[0] + _SLACK and max(one[1::2]) <= size[1] + _SLACK
               for one, size in sized)  # fmt: skip
    if not shares and held < _ENOUGH * len(sized):
        return None
    classes = _class_column(table, [(row, len(polygons)) for row, polygons in read], (column,))
    empty = any(not polygons for _, polygons in read)
    return RegionLook("polygons", (column,), (), shares, "", *classes, empty=empty)


def _read(
    rows: Sequence[dict[str, str]], columns: Sequence[str], read: Callable[[Sequence[str]], list[_T]]
) -> list[tuple[dict[str, str], list[_T]]]:
    """Rows with their regions; those that cannot be read are missing."""
    some = ((row, _tried(read, [row.get(name, "") for name in columns])) for row in rows[:_MOST_ROWS])
    return [(row, regions) for row, regions in some if regions is not None]


def _tried(read: Callable[[Sequence[str]], list[_T]], cells: Sequence[str]) -> list[_T] | None:
    try:
        return read(cells)
    except ValueError:
        return None


def _with_sizes(
    table: TableLook, units: Units, looker: Looker
) -> Iterator[tuple[list[dict[str, str]], tuple[float, float]]]:
    """Rows of some images with width and height of the image."""
    known = [unit for unit in units.files if table.rows_of(units, unit)] if table.key else []
    for unit in evenly(known, _MOST_SIZES):
        look = looker.header(unit[1])
        if look is not None and look.header is not None and len(look.header.shape) >= 2:
            yield table.rows_of(units, unit), (float(look.header.shape[0]), float(look.header.shape[1]))


def _class_column(
    table: TableLook, marked: Sequence[tuple[dict[str, str], int]], columns: Sequence[str]
) -> tuple[str | None, tuple[str, ...]]:
    """The column that names the structures of rows with regions, and its names; the clearest header, words first."""
    rows = [(row, count) for row, count in marked if count]
    best: tuple[float, str, tuple[str, ...]] | None = None
    for column in table.columns:
        if column.name in (table.key, *columns) or column.names_people or column.names_files > 0.5:
            continue
        if any(map(split_of, column.values)):
            continue
        cells = [row.get(column.name, "") for row, _ in rows]
        read = [_tried_names(cell, count) for cell, (_, count) in zip(cells, rows, strict=True)]
        names = Counter(name for some in read for name in some)
        if sum(map(bool, read)) < _ENOUGH * len(rows) or not 1 <= len(names) <= MOST_CLASSES:
            continue
        lists = any(count > 1 for _, count in rows) and any(map(_LIST.search, cells))
        likely = label_likeness(column.name) + 0.4 * lists
        worded = sum(bool(re.search(r"[^\W\d_]{2,}", name)) for name in names) * 2 > len(names)
        coded = sum(bool(re.search(r"\d", name)) for name in names) * 2 > len(names)
        # A lone name is one of the regions, not of the dataset, where other rows have none.
        others = [row[column.name] for row, count in marked if not count]
        own = len(names) > 1 or (bool(others) and not any(others))
        enough = 0.5 if worded and not coded and own else 0.6
        if likely < enough or (not worded and len(names) < 2) or len(names) * 2 > sum(names.values()) + 2:
            continue
        likely += 0.3 * worded - 0.1 * coded
        if best is None or likely > best[0]:
            best = (likely, column.name, tuple(name for name, _ in names.most_common()))
    return (best[1], best[2]) if best else (None, ())


def _tried_names(cell: str, count: int) -> Iterable[str]:
    try:
        return [name for name in names_of(cell, count) if name] if cell else []
    except ValueError:
        return []
