"""Label Studio's export (JSON): a list of tasks, each a picture with what people drew on it, in percent of its size.

A task without an annotation was not looked at yet, and one that was cancelled neither; an annotation that marks nothing
says that there is nothing.
"""

import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from shared.dataset.shapes.annotations import Annotated, Kind, Mark, box_numbers, polygon_numbers, size_of
from shared.dataset.tables.cells import TableError
from shared.dataset.tables.documents import load_json
from shared.imaging.formats import BY_SUFFIX, suffix_of

_UPLOADED = re.compile(r"^[0-9a-f]{8}-(?=.)")
"""What the program puts before the name of a file that was uploaded."""
_ROUND = 48
"""Corners of an ellipse."""
_MORE = "two annotations of one picture: keep the one that counts, or mark it as ground truth"


def read_label_studio(path: Path) -> list[Annotated]:
    """All pictures that somebody judged, also those without a mark. Raises TableError."""
    content = load_json(path)
    if not is_label_studio(content):
        raise TableError(f"{path.name} is no export of Label Studio: it has no tasks with `annotations`")
    return [one for task in content if (one := _picture(task)) is not None]


def is_label_studio(content: Any) -> bool:
    """Whether most items are tasks of which some have an annotation with a `result`."""
    if not isinstance(content, list):
        return False
    tasks = [item for item in content if isinstance(item, Mapping) and isinstance(item.get("annotations"), list)]
    marked = any(isinstance(one, Mapping) and "result" in one for task in tasks for one in task["annotations"])
    return marked and len(tasks) * 2 > len(content)


def _picture(task: Any) -> Annotated | None:
    """None where nobody judged it."""
    if not isinstance(task, Mapping):
        return None
    given = [one for one in task.get("annotations") or () if isinstance(one, Mapping) and not one.get("was_cancelled")]
    given = [one for one in given if one.get("ground_truth")] or given
    if not given or not (name := _name(task)):
        return None
    found = Annotated(name, faults=[_MORE] if len(given) > 1 else [])
    regions = [one for one in given[0].get("result") or () if isinstance(one, Mapping)]
    labels = {one.get("id"): own for one in regions if (own := _labels(one))}
    for region in regions:
        found.size = found.size or _size(region)
        try:
            shapes = list(_shapes(region))
            names = _labels(region) or labels.get(region.get("id"), [])
            if shapes and not names:
                raise ValueError("region without label")
            found.marks += [Mark(name, kind, numbers) for kind, numbers in shapes for name in names]
        except (ValueError, TypeError, KeyError) as error:
            found.faults.append(f"region that cannot be drawn ({error}); correct or remove it")
    return found


def _name(task: Mapping[str, Any]) -> str:
    """Of the picture, without what the upload put before it."""
    data = task.get("data")
    texts = [task.get("file_upload"), *(data.values() if isinstance(data, Mapping) else ())]
    for text in texts:
        if isinstance(text, str):
            path = unquote(text).rpartition("?d=")[2]
            if suffix_of(path.lower()) in BY_SUFFIX:
                uploaded = text == task.get("file_upload") or "/upload/" in path
                return _UPLOADED.sub("", path.rpartition("/")[2]) if uploaded else path
    return ""


def _size(region: Mapping[str, Any]) -> tuple[int, int] | None:
    return size_of(region.get("original_width"), region.get("original_height"))


def _labels(region: Mapping[str, Any]) -> list[str]:
    """Of a region, several where it has several."""
    value = region.get("value")
    held = [one for key, one in value.items() if key.endswith("labels")] if isinstance(value, Mapping) else []
    return [str(name).strip() for one in held if isinstance(one, list) for name in one if str(name).strip()]


def _shapes(region: Mapping[str, Any]) -> Iterator[tuple[Kind, tuple[float, ...]]]:
    """What a region marks, in shares of the picture; nothing of answers that are about the whole picture."""
    value, kind = region.get("value"), str(region.get("type", "")).removesuffix("labels")
    if not isinstance(value, Mapping) or kind in ("choices", "textarea", "rating", "number", "taxonomy", ""):
        return
    if kind not in ("rectangle", "polygon", "ellipse"):
        raise ValueError(f"region of kind {kind}: not supported yet: export it as COCO or as masks")
    wide, high = _size(region) or (1, 1)
    turn = math.radians(float(value.get("rotation") or 0))
    if kind == "rectangle":
        x, y, width, height = (float(value[key]) / 100 for key in ("x", "y", "width", "height"))
        box_numbers(x, y, width, height)
        if not turn:
            yield "relative_box", (x + width / 2, y + height / 2, width, height)
            return
        corners = [(0.0, 0.0), (width, 0.0), (width, height), (0.0, height)]
    elif kind == "polygon":
        x, y, turn = 0.0, 0.0, 0.0
        corners = [(float(one[0]) / 100, float(one[1]) / 100) for one in value["points"]]
    else:
        x, y, wide_r, high_r = (float(value[key]) / 100 for key in ("x", "y", "radiusX", "radiusY"))
        angles = [2 * math.pi * step / _ROUND for step in range(_ROUND)]
        corners = [(wide_r * math.cos(angle), high_r * math.sin(angle)) for angle in angles]
    # It is turned about its own x and y, in pixels and not in shares.
    placed = [
        (x + dx * math.cos(turn) - dy * high / wide * math.sin(turn),
         y + dx * wide / high * math.sin(turn) + dy * math.cos(turn)) for dx, dy in corners
    ]  # fmt: skip
    yield "relative_polygon", polygon_numbers(number for point in placed for number in point)
