"""Boxes and polygons as tables hold them: numbers in cells, as marked regions."""

import json
import re
from collections.abc import Sequence

from shared.contracts.rules import Box
from shared.dataset.shapes.annotations import Mark, box_numbers, polygon_numbers
from shared.dataset.shapes.outlines import polygons_in
from shared.dataset.tables.documents import flat

_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")
_BETWEEN = re.compile(r"[\s,;|\[\](){}]+")
_NONE = ("", "[]", "{}", "()", "[[]]", "-1")
_NOWHERE = ((0.0,) * 4, (-1.0,) * 4)
_APART = ("\n", ";", "|", ",")

Four = tuple[float, float, float, float]


def numbers_of(cell: str) -> list[float]:
    """All numbers of a cell that holds nothing else. Raises ValueError."""
    if cell.strip() in _NONE:
        return []
    texts = [text for text in _BETWEEN.split(cell) if text]
    if not all(map(_NUMBER.fullmatch, texts)):
        raise ValueError(f"{_short(cell)} is no list of numbers")
    return [float(text) for text in texts]


def boxes_of(cells: Sequence[str]) -> list[Four]:
    """Boxes of a row, four numbers each: of one cell, or of four whose places belong together. Raises ValueError."""
    columns = [numbers_of(cell) for cell in cells]
    if any(columns):  # beside numbers, -1 is one
        columns = [[-1.0] if cell.strip() == "-1" else column for cell, column in zip(cells, columns, strict=True)]
    if len(columns) == 1:
        flat_numbers = columns[0]
        if len(flat_numbers) % 4:
            raise ValueError(f"{_short(cells[0])} holds {len(flat_numbers)} numbers; a box has four")
        columns = [flat_numbers[place::4] for place in range(4)]
    if len({len(column) for column in columns}) > 1:
        raise ValueError("box of which some numbers are missing")
    found = [(a, b, c, d) for a, b, c, d in zip(*columns, strict=True)]
    return [box for box in found if box not in _NOWHERE]


def polygons_of(cells: Sequence[str]) -> list[tuple[float, ...]]:
    """Polygons of a row as x, y, x, y, ...: of one cell, or of one with the x and one with the y. Raises ValueError."""
    if len(cells) == 2:
        xs, ys = map(numbers_of, cells)
        if len(xs) != len(ys):
            raise ValueError("polygon with another number of x than of y")
        return [polygon_numbers([value for point in zip(xs, ys, strict=True) for value in point])] if xs else []
    if '"' in cells[0]:
        lines = [json.loads(line) for line in cells[0].split("\n") if line.strip()]
        return [polygon_numbers(polygon) for line in lines for polygon in polygons_in(line)]
    text = cells[0].strip().replace("(", "[").replace(")", "]")
    parts = [numbers_of(part) for part in re.split(r"[\n;]", _in_lines(text)) if part.strip()]
    parts = [part for part in parts if part]
    if all(len(part) <= 2 for part in parts):  # a point each
        parts = [[value for part in parts for value in part]] if parts else []
    return [polygon_numbers(part) for part in parts]


def _in_lines(text: str) -> str:
    """Items of a JSON list in lines, as cells of a JSON file have them; the text itself where it is none."""
    if not text.startswith("[") or "\n" in text:
        return text
    try:
        return flat({"": json.loads(text)}).get("", "")
    except (ValueError, RecursionError):
        return text


def mark_of_box(structure: str, box: Four, meaning: Box, shares: bool, number: int | None = None) -> Mark:
    """Raises ValueError for a box without extent."""
    a, b, c, d = box
    x, y, width, height = {
        "corners": (a, b, c - a, d - b), "inclusive": (a, b, c - a + 1, d - b + 1), "size": (a, b, c, d),
        "middle": (a - c / 2, b - d / 2, c, d),
    }[meaning]  # fmt: skip
    numbers = box_numbers(x, y, width, height)
    if shares:
        return Mark(structure, "relative_box", (x + width / 2, y + height / 2, width, height), number)
    return Mark(structure, "box", numbers, number)


def area(mark: Mark) -> float:
    """Of a box or polygon, in pixels or shares."""
    if mark.kind in ("box", "relative_box"):
        return mark.numbers[2] * mark.numbers[3]
    points = [*zip(mark.numbers[::2], mark.numbers[1::2], strict=True)]
    around = zip(points, [*points[1:], points[0]], strict=True)
    return abs(sum(x * v - u * y for (x, y), (u, v) in around)) / 2


def names_of(cell: str, count: int) -> list[str]:
    """Names of as many regions as a row has. Raises ValueError where a cell lists another number of them."""
    text = _in_lines(cell.strip() if '"' in cell else cell.strip().replace("'", '"'))
    if text.startswith("{"):  # attributes such as {"type": "lesion"}
        text = ", ".join(value for value in flat(json.loads(text)).values() if value)
    if count == 1 and "\n" not in text:
        return [text]
    for mark in _APART:
        parts = [part.strip() for part in text.split(mark)]
        if len(parts) == count:
            return parts
    if any(mark in text for mark in _APART[:3]):
        raise ValueError(f"{count} regions and another number of names in {_short(cell)}")
    return [text] * count


def _short(cell: str) -> str:
    text = " ".join(cell.split())
    return repr(text if len(text) <= 40 else text[:37] + "...")
