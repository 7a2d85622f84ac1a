"""CVAT's export (for images 1.1): pictures of a task with boxes, polygons, ellipses and masks, in pixels.

A picture with a shape or a tag was looked at. One without either was looked at where no picture has a tag that says so
and the rules do (`missing`): whether it shows nothing or is still to be done the file does not tell. A tag such as
`unusable` takes a picture out.
"""

import math
from collections.abc import Iterator
from pathlib import Path
from xml.etree.ElementTree import Element

import numpy as np

from shared.dataset.shapes.annotations import Annotated, Kind, Mark, box_numbers, polygon_numbers, size_of
from shared.dataset.tables.cells import TableError
from shared.dataset.tables.column_words import refused
from shared.dataset.tables.cvat import is_cvat
from shared.dataset.tables.documents import load_xml
from shared.dataset.tables.words import unsure

_AREAS = ("box", "polygon", "ellipse", "mask")
_ROUND = 48
"""Corners of an ellipse."""


def read_cvat(path: Path) -> list[Annotated]:
    """All pictures but those that a tag takes out or that were left unread among tagged ones. Raises TableError."""
    root = load_xml(path)
    if not is_cvat(root):
        raise TableError(f"{path.name} is no export of CVAT for images: it has no `image` with a name")
    tags = {picture: [tag.get("label", "") for tag in picture.findall("tag")] for picture in root.iter("image")}
    kept = [picture for picture, said in tags.items() if not (refused("remark", said) or any(map(unsure, said)))]
    tagged = any(tags[picture] for picture in kept)
    return [one for picture in kept if (one := _picture(picture, bool(tags[picture]))).judged or not tagged]


def _picture(picture: Element, tagged: bool) -> Annotated:
    found = Annotated(picture.get("name", ""), size_of(picture.get("width"), picture.get("height")))
    # Points and lines mark no area.
    shapes = sorted((one for one in picture if one.tag in _AREAS), key=lambda one: int(one.get("z_order") or 0))
    for shape in shapes:
        try:
            kind, numbers = _shape(shape, found.size)
            found.marks.append(Mark(shape.get("label", "").strip(), kind, numbers))
        except (ValueError, TypeError) as error:
            found.faults.append(f"{shape.tag} that cannot be drawn ({error}); correct or remove it")
    found.judged = bool(shapes) or tagged
    return found


def _shape(shape: Element, size: tuple[int, int] | None) -> tuple[Kind, tuple[float, ...]]:
    turn = math.radians(float(shape.get("rotation") or 0))
    if shape.tag == "mask":
        return "coco_runs", tuple(_runs(shape, size))
    if shape.tag == "polygon":
        points = [point.split(",") for point in shape.get("points", "").split(";")]
        return "polygon", polygon_numbers(float(number) for point in points for number in point)
    if shape.tag == "box":
        left, top, right, bottom = (float(shape.get(edge, "")) for edge in ("xtl", "ytl", "xbr", "ybr"))
        numbers = box_numbers(left, top, right - left, bottom - top)
        if not turn:
            return "box", numbers
        x, y, wide, high = (left + right) / 2, (top + bottom) / 2, (right - left) / 2, (bottom - top) / 2
        around = [(-wide, -high), (wide, -high), (wide, high), (-wide, high)]
    else:
        x, y, wide, high = (float(shape.get(name, "")) for name in ("cx", "cy", "rx", "ry"))
        angles = [2 * math.pi * step / _ROUND for step in range(_ROUND)]
        around = [(wide * math.cos(angle), high * math.sin(angle)) for angle in angles]
    cos, sin = math.cos(turn), math.sin(turn)
    placed = ((x + dx * cos - dy * sin, y + dx * sin + dy * cos) for dx, dy in around)
    return "polygon", polygon_numbers(number for point in placed for number in point)


def _runs(shape: Element, size: tuple[int, int] | None) -> Iterator[float]:
    """Runs along the rows of a part of the picture, as runs down the columns of all of it."""
    left, top, wide, high = (int(float(shape.get(name, ""))) for name in ("left", "top", "width", "height"))
    counts = [int(count) for count in shape.get("rle", "").split(",")]
    if size is None or min(left, top, *counts) < 0 or left + wide > size[0] or top + high > size[1]:
        raise ValueError("mask that is not inside of its picture")
    if sum(counts) != wide * high:
        raise ValueError(f"run-length code covers {sum(counts)} of {wide * high} pixels")
    whole = np.zeros((size[1], size[0]), bool)
    whole[top : top + high, left : left + wide] = np.repeat(np.arange(len(counts)) % 2, counts).reshape(high, wide)
    down = whole.T.reshape(-1)
    ends = np.flatnonzero(np.diff(down)) + 1
    first = [0] if down[0] else []  # background comes first
    yield from map(float, [*first, *np.diff([0, *ends, down.size])])
