"""VGG Image Annotator's annotations (CSV or JSON): regions of pictures that are told by name and size in bytes.

A project lists all its pictures, so one without a region may not have been looked at.
"""

import csv
import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from shared.dataset.shapes.annotations import Annotated, Kind, Mark, box_numbers, polygon_numbers
from shared.dataset.tables.cells import TableError
from shared.dataset.tables.documents import load_json
from shared.dataset.tables.separated import encoding_of

COLUMNS = ("filename", "file_size", "region_shape_attributes", "region_attributes")
_ROUND = 48
"""Corners of an ellipse."""
_OPEN = ("point", "polyline")


def read_via(path: Path) -> list[Annotated]:
    """All pictures of a project, also those without a region. Raises TableError."""
    found: dict[tuple[str, int], Annotated] = {}
    for name, size, shape, said in _csv(path) if path.suffix.lower() == ".csv" else _json(path):
        picture = found.setdefault((name, size), Annotated(name, bytes=size if size > 0 else None, judged=False))
        if not shape:
            continue
        picture.judged = True
        try:
            if shape.get("name") not in _OPEN:
                picture.marks.append(Mark(_called(said), *_drawn(shape)))
        except (ValueError, TypeError, KeyError) as error:
            picture.faults.append(f"region that cannot be drawn ({error}); correct or remove it")
    return list(found.values())


def is_via(path: Path) -> bool:
    """Whether a file is one, by its first line or its keys."""
    try:
        if path.suffix.lower() == ".csv":
            with path.open(encoding=encoding_of(path), errors="replace") as text:
                return set(COLUMNS) <= {cell.strip().strip('"') for cell in text.readline(2000).lstrip("#").split(",")}
        return any(True for _ in _entries(load_json(path)))
    except (TableError, OSError):
        return False


def _csv(path: Path) -> Iterator[tuple[str, int, Mapping[str, Any], Any]]:
    with path.open(encoding=encoding_of(path), errors="replace", newline="") as text:
        rows = csv.DictReader((line.removeprefix("#") for line in text), skipinitialspace=True)
        for row in rows:
            if not all(isinstance(row.get(name), str) for name in COLUMNS):
                raise TableError(f"{path.name} is no export of VGG Image Annotator: it needs {', '.join(COLUMNS)}")
            try:
                shape, said = (json.loads(row[name] or "{}") for name in COLUMNS[2:])
                size = int(row["file_size"] or -1)
            except ValueError as error:
                raise TableError(f"{path.name}: a row of {row['filename']} is broken ({error})") from None
            yield row["filename"], size, shape if isinstance(shape, Mapping) else {}, said


def _json(path: Path) -> Iterator[tuple[str, int, Mapping[str, Any], Any]]:
    for entry in _entries(load_json(path)):
        name, size = str(entry["filename"]), entry.get("size")
        regions = entry["regions"]
        some = list(regions.values()) if isinstance(regions, Mapping) else regions
        shapes = [one for one in some if isinstance(one, Mapping) and isinstance(one.get("shape_attributes"), Mapping)]
        for one in shapes or [{}]:
            yield (
                name,
                size if isinstance(size, int) else -1,
                one.get("shape_attributes", {}),
                one.get("region_attributes"),
            )


def _entries(content: Any) -> Iterator[Mapping[str, Any]]:
    """Pictures of a project, of annotations alone, or of its second version's first form."""
    held = content.get("_via_img_metadata", content) if isinstance(content, Mapping) else {}
    for entry in held.values() if isinstance(held, Mapping) else ():
        if isinstance(entry, Mapping) and "filename" in entry and isinstance(entry.get("regions"), list | dict):
            yield entry


def _called(said: Any) -> str:
    """The first attribute that says something; of several that are ticked the first."""
    for value in said.values() if isinstance(said, Mapping) else ():
        if isinstance(value, Mapping):
            value = next((name for name, ticked in value.items() if ticked), "")
        if isinstance(value, str) and value.strip():
            return value.strip()
    return ""


def _drawn(shape: Mapping[str, Any]) -> tuple[Kind, tuple[float, ...]]:
    """Raises ValueError, TypeError or KeyError for what has no area."""
    kind = shape["name"]
    if kind == "rect":
        return "box", box_numbers(*(float(shape[key]) for key in ("x", "y", "width", "height")))
    if kind == "polygon":
        across, down = shape["all_points_x"], shape["all_points_y"]
        return "polygon", polygon_numbers(number for point in zip(across, down, strict=True) for number in point)
    if kind not in ("circle", "ellipse"):
        raise ValueError(f"region of kind {kind}: not supported yet: draw it as a polygon")
    x, y = float(shape["cx"]), float(shape["cy"])
    wide, high = (float(shape[key]) for key in (("r", "r") if kind == "circle" else ("rx", "ry")))
    turn = float(shape.get("theta") or 0)
    angles = [2 * math.pi * step / _ROUND for step in range(_ROUND)]
    corners = [(wide * math.cos(angle), high * math.sin(angle)) for angle in angles]
    turned = [
        (x + dx * math.cos(turn) - dy * math.sin(turn), y + dx * math.sin(turn) + dy * math.cos(turn))
        for dx, dy in corners
    ]
    return "polygon", polygon_numbers(number for point in turned for number in point)
