"""Annotations of pictures: COCO, YOLO, Pascal VOC, labelme and run-length codes, as marked regions with names.

Coordinates are pixels: x to the right, y down, (0, 0) is the outer corner of the first pixel.
"""

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from shared.dataset.shapes.outlines import named_outlines
from shared.dataset.tables.cells import TableError
from shared.dataset.tables.documents import load_json, load_xml
from shared.dataset.tables.separated import read_text

Kind = Literal["box", "polygon", "relative_box", "relative_polygon", "runs", "coco_runs"]
_SLACK = 0.02
"""Share of an edge that relative coordinates may stand out, since programs round."""
_ROUND = 48
"""Corners of a circle."""


@dataclass(frozen=True)
class Mark:
    """A marked region; `numbers` as in `shared.contracts.cases.Shape`."""

    structure: str
    """Name, or '' where the file gives a number only."""
    kind: Kind
    numbers: tuple[float, ...]
    number: int | None = None
    """Of the category, where the file has one."""


@dataclass
class Annotated:
    """One picture as an annotation tells of it."""

    name: str = ""
    """What the annotation calls the picture; '' where only the file's own name tells."""
    size: tuple[int, int] | None = None
    """Width and height."""
    bytes: int | None = None
    """Of the picture's file, where the annotation tells it."""
    marks: list[Mark] = field(default_factory=list)
    """In the order of the file; empty where nothing is marked."""
    faults: list[str] = field(default_factory=list)
    """What is wrong with it, with what to do."""
    judged: bool = True
    """Whether the file tells that somebody looked at it, so that what is not marked is not there."""


def read_coco(path: Path) -> list[Annotated]:
    """All pictures of a COCO file, also those without a mark. Raises TableError."""
    content = load_json(path)
    if not isinstance(content, Mapping) or not isinstance(content.get("images"), list):
        raise TableError(f"{path.name} is no COCO file: it has no list `images`")
    names = {
        item.get("id"): str(item.get("name", "")).strip()
        for item in _objects(content.get("categories"))
        if "id" in item
    }
    pictures: dict[Any, Annotated] = {}
    for item in _objects(content["images"]):
        name = str(item.get("file_name") or item.get("coco_url") or "")
        pictures[_hashable(item.get("id"))] = Annotated(name, size_of(item.get("width"), item.get("height")))
    for item in _objects(content.get("annotations")):
        picture = pictures.get(_hashable(item.get("image_id")))
        if picture is None:
            continue
        category = item.get("category_id")
        if _hashable(category) not in names:
            picture.faults.append(f"annotation of the unknown category {category!r}; add it to `categories`")
            continue
        try:
            shapes = list(_coco_shapes(item, picture.size))
        except (ValueError, TypeError, OverflowError) as error:
            picture.faults.append(f"annotation that cannot be drawn ({error}); correct or remove it")
            continue
        number = category if isinstance(category, int) else None
        picture.marks += [Mark(names[category], kind, numbers, number) for kind, numbers in shapes]
    return list(pictures.values())


def _coco_shapes(item: Mapping[str, Any], size: tuple[int, int] | None) -> Iterable[tuple[Kind, tuple[float, ...]]]:
    drawn = item.get("segmentation")
    if isinstance(drawn, Mapping):
        counts = drawn.get("counts")
        runs = decode_counts(counts) if isinstance(counts, str) else [int(count) for count in counts or ()]
        height, width = (int(edge) for edge in drawn.get("size") or (size or (0, 0))[::-1])
        if size and (width, height) != size:
            raise ValueError(f"run-length code for {width} x {height} pixels of a picture of {size[0]} x {size[1]}")
        if min(runs, default=0) < 0 or sum(runs) != width * height:
            raise ValueError(f"run-length code covers {sum(runs)} of {width * height} pixels")
        yield "coco_runs", tuple(map(float, runs))
    elif isinstance(drawn, list) and drawn:
        polygons = drawn if isinstance(drawn[0], list) else [drawn]
        for polygon in polygons:
            yield "polygon", polygon_numbers(polygon)
    elif item.get("bbox"):
        yield "box", box_numbers(*map(float, item["bbox"]))
    else:
        raise ValueError("neither segmentation nor bbox")


def decode_counts(text: str) -> list[int]:
    """Counts of COCO's compressed run-length code: numbers of 5 bits a character, from the third on as differences to
    the last but one."""
    counts: list[int] = []
    at = 0
    while at < len(text):
        value, shift, more = 0, 0, True
        while more:
            if at >= len(text):
                raise ValueError("run-length code is cut off")
            bits = ord(text[at]) - 48
            if not 0 <= bits < 64:
                raise ValueError("run-length code has a character that stands for nothing")
            value |= (bits & 0x1F) << shift
            more, at, shift = bool(bits & 0x20), at + 1, shift + 5
            if not more and bits & 0x10:
                value -= 1 << shift
            if shift > 60:
                raise ValueError("run-length code has a number that is too large")
        counts.append(value + (counts[-2] if len(counts) > 2 else 0))
    return counts


def read_runs(text: str) -> tuple[float, ...]:
    """Start, length, ... of a run-length code as Kaggle writes it; nothing for '' and -1. Raises ValueError."""
    words = text.replace(",", " ").strip(" []").split()
    if not words or words in (["-1"], ["-1.0"]):
        return ()
    try:
        numbers = [int(word) for word in words]
    except ValueError:
        raise ValueError("run-length code with what is no whole number; correct the cell") from None
    if len(numbers) % 2:
        raise ValueError("run-length code with a start without a length; its cell may be cut off")
    if min(numbers) < 0:
        raise ValueError("run-length code with a negative number; correct the cell")
    return tuple(map(float, numbers))


def read_yolo(path: Path) -> Annotated:
    """Boxes and polygons as shares of the picture, one a line: class, then numbers. Raises TableError."""
    found = Annotated()
    for number, line in enumerate(read_text(path).splitlines(), 1):
        words = line.split()
        if not words:
            continue
        try:
            category, numbers = int(float(words[0])), [float(word) for word in words[1:]]
            found.marks.append(_yolo(category, numbers))
        except (ValueError, OverflowError) as error:
            found.faults.append(f"line {number} is no YOLO annotation ({error}); correct or remove it")
    return found


def _yolo(category: int, numbers: list[float]) -> Mark:
    if not all(-_SLACK <= one <= 1 + _SLACK for one in numbers):
        raise ValueError("coordinates are no shares from 0 to 1")
    if len(numbers) in (4, 5):  # a fifth number says how sure a detector was
        if min(numbers[2:4]) <= 0:
            raise ValueError("box without width or height")
        return Mark("", "relative_box", tuple(numbers[:4]), category)
    return Mark("", "relative_polygon", polygon_numbers(numbers), category)


def read_voc(path: Path) -> Annotated:
    """Boxes of a Pascal VOC file. Raises TableError."""
    root = load_xml(path)
    found = Annotated(
        (root.findtext("filename") or "").strip(), size_of(root.findtext("size/width"), root.findtext("size/height"))
    )
    for item in root.iter("object"):
        name = (item.findtext("name") or "").strip()
        box = item.find("bndbox")
        try:
            if not name or box is None:
                raise ValueError("object without name or box")
            left, top, right, bottom = (float(box.findtext(edge) or "") for edge in ("xmin", "ymin", "xmax", "ymax"))
            # First and last pixel, counted from 1; some programs count from 0.
            left, top = max(left - 1, 0.0), max(top - 1, 0.0)
            found.marks.append(Mark(name, "box", box_numbers(left, top, right - left, bottom - top)))
        except ValueError as error:
            found.faults.append(f"object that cannot be drawn ({error}); correct or remove it")
    return found


def read_labelme(path: Path) -> Annotated:
    """Shapes of a labelme file, or named outlines in any other JSON of one picture. Raises TableError."""
    content = load_json(path)
    if not isinstance(content, Mapping) or not isinstance(content.get("shapes"), list):
        marks = [Mark(name, "polygon", polygon_numbers(numbers)) for name, numbers in named_outlines(content)]
        if not marks and not (isinstance(content, Mapping) and [] in content.values()):
            raise TableError(f"{path.name} draws nothing: it has no list `shapes`, and no names with points")
        return Annotated(marks=marks)
    name = str(content.get("imagePath") or "")
    found = Annotated(name, size_of(content.get("imageWidth"), content.get("imageHeight")))
    for item in _objects(content["shapes"]):
        try:
            points = [(float(x), float(y)) for x, y in item.get("points") or ()]
            kind, numbers = _labelme(str(item.get("shape_type") or "polygon"), points)
            label = str(item.get("label") or "").strip()
            if not label:
                raise ValueError("shape without label")
            found.marks.append(Mark(label, kind, numbers))
        except (ValueError, TypeError) as error:
            found.faults.append(f"shape that cannot be drawn ({error}); correct or remove it")
    return found


def _labelme(kind: str, points: list[tuple[float, float]]) -> tuple[Kind, tuple[float, ...]]:
    if kind == "rectangle" and len(points) >= 2:
        xs, ys = zip(*points, strict=True)
        return "box", box_numbers(min(xs), min(ys), max(xs) - min(xs), max(ys) - min(ys))
    if kind == "circle" and len(points) == 2:
        (x, y), edge = points
        radius = math.dist((x, y), edge)
        turns = [2 * math.pi * step / _ROUND for step in range(_ROUND)]
        return "polygon", polygon_numbers(
            [value for a in turns for value in (x + radius * math.cos(a), y + radius * math.sin(a))]
        )
    if kind == "polygon":
        return "polygon", polygon_numbers([value for point in points for value in point])
    raise ValueError(f"shape of kind {kind}, which marks no area")


def box_numbers(x: float, y: float, width: float, height: float) -> tuple[float, ...]:
    if not all(map(math.isfinite, (x, y, width, height))):
        raise ValueError("box with what is no number")
    if width <= 0 or height <= 0:
        raise ValueError(f"box of {width:g} x {height:g} pixels")
    return (x, y, width, height)


def polygon_numbers(numbers: Iterable[Any]) -> tuple[float, ...]:
    found = tuple(map(float, numbers))
    if len(found) < 6 or len(found) % 2 or not all(map(math.isfinite, found)):
        raise ValueError(f"polygon of {len(found)} numbers; three points are six")
    return found


def size_of(width: Any, height: Any) -> tuple[int, int] | None:
    try:
        found = (int(float(width)), int(float(height)))
    except (TypeError, ValueError, OverflowError):
        return None
    return found if min(found) > 0 else None


def _objects(value: Any) -> list[Mapping[str, Any]]:
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []


def _hashable(value: Any) -> Any:
    return value if isinstance(value, int | str | float | None) else json.dumps(value, sort_keys=True, default=str)
