"""Marked regions (boxes, polygons, runs of pixels) drawn as a label map on the grid of a picture."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from shared.contracts.cases import MaskSpec, Shape
from shared.imaging.volume import BadImage

Labels = npt.NDArray[np.int32]

TOLERANCE = 1.0
"""Pixels that a box or polygon may stand out, since programs round; what stands out is cut off."""


def draw(mask: MaskSpec, width: int, height: int) -> Labels:
    """(height, width) of a mask's shapes, the later on top. Raises BadImage for a shape that is not of this picture."""
    if mask.size is not None and mask.size != (width, height):
        raise BadImage(
            f"the annotation is for a picture of {mask.size[0]} x {mask.size[1]} pixels and the picture has "
            f"{width} x {height}; give the picture that was annotated, or scale the annotation"
        )
    found = np.zeros((height, width), np.int32)
    for shape in mask.shapes:
        if not np.isfinite(shape.numbers).all():
            raise BadImage("an annotation holds a coordinate that is no number; write it again")
        _KINDS[shape.kind](shape, found, mask)
    return found


def _box(shape: Shape, out: Labels, mask: MaskSpec) -> None:
    x, y, width, height = _numbers(shape, 4)
    _fill_box(out, (x, y, x + width, y + height), shape.value)


def _relative_box(shape: Shape, out: Labels, mask: MaskSpec) -> None:
    middle_x, middle_y, width, height = _numbers(shape, 4) * np.tile(_size(out), 2)
    edges = (middle_x - width / 2, middle_y - height / 2, middle_x + width / 2, middle_y + height / 2)
    _fill_box(out, edges, shape.value)


def _fill_box(out: Labels, edges: tuple[float, float, float, float], value: int) -> None:
    """Marks pixels whose middle lies in the box, and one at least."""
    left, top, right, bottom = edges
    if right <= left or bottom <= top:
        raise BadImage("a box has no width or no height; correct or remove it")
    _inside(np.array([[left, top], [right, bottom]]), out)
    first_x, first_y = (max(int(np.ceil(edge - 0.5)), 0) for edge in (left, top))
    last_x, last_y = int(np.ceil(right - 0.5)), int(np.ceil(bottom - 0.5))
    first_x, first_y = min(first_x, out.shape[1] - 1), min(first_y, out.shape[0] - 1)
    out[first_y : max(last_y, first_y + 1), first_x : max(last_x, first_x + 1)] = value


def _polygon(shape: Shape, out: Labels, mask: MaskSpec) -> None:
    _fill_polygon(out, _points(shape), shape.value)


def _relative_polygon(shape: Shape, out: Labels, mask: MaskSpec) -> None:
    _fill_polygon(out, _points(shape) * _size(out), shape.value)


def _fill_polygon(out: Labels, points: npt.NDArray[np.float64], value: int) -> None:
    from skimage.draw import polygon

    _inside(points, out)
    # Coordinates of the first pixel's middle are 0.5 here and 0 there.
    rows, columns = polygon(points[:, 1] - 0.5, points[:, 0] - 0.5, out.shape)
    out[rows, columns] = value


def _runs(shape: Shape, out: Labels, mask: MaskSpec) -> None:
    numbers = _whole(shape)
    if len(numbers) % 2:
        raise BadImage("a run-length code has a start without a length; the cell of the table is cut off")
    starts, lengths = numbers[0::2] - mask.start, numbers[1::2]
    if (starts < 0).any() or (lengths < 0).any() or (starts + lengths > out.size).any():
        raise BadImage(
            "a run-length code ends outside of the picture; it belongs to a picture of another size, or `start` or "
            "`order` of the mask's rule is wrong"
        )
    _mark(out, starts, lengths, mask.order == "columns", shape.value)


def _coco_runs(shape: Shape, out: Labels, mask: MaskSpec) -> None:
    counts = _whole(shape)
    if (counts < 0).any() or counts.sum() != out.size:
        raise BadImage(
            f"a run-length code covers {int(counts.sum())} pixels and the picture has {out.size}; it belongs to a "
            "picture of another size"
        )
    ends = np.cumsum(counts)
    starts = ends - counts
    _mark(out, starts[1::2], counts[1::2], True, shape.value)


def _mark(out: Labels, starts: npt.NDArray[Any], lengths: npt.NDArray[Any], columns: bool, value: int) -> None:
    # Runs may overlap: a pixel belongs to the structure while more have begun than ended.
    change = np.zeros(out.size + 1, np.int32)
    np.add.at(change, starts, 1)
    np.add.at(change, starts + lengths, -1)
    marked = np.cumsum(change[:-1]) > 0
    out[marked.reshape(out.shape, order="F" if columns else "C")] = value


_KINDS: dict[str, Callable[[Shape, Labels, MaskSpec], None]] = {
    "box": _box,
    "relative_box": _relative_box,
    "polygon": _polygon,
    "relative_polygon": _relative_polygon,
    "runs": _runs,
    "coco_runs": _coco_runs,
}


def _size(out: Labels) -> npt.NDArray[np.float64]:
    return np.array([out.shape[1], out.shape[0]], np.float64)


def _numbers(shape: Shape, count: int) -> npt.NDArray[np.float64]:
    if len(shape.numbers) != count:
        raise BadImage(f"a {shape.kind} has {len(shape.numbers)} numbers instead of {count}; correct the annotation")
    return np.array(shape.numbers, np.float64)


def _points(shape: Shape) -> npt.NDArray[np.float64]:
    if len(shape.numbers) < 6 or len(shape.numbers) % 2:
        raise BadImage("a polygon has fewer than three points, or half a point; correct or remove it")
    return np.array(shape.numbers, np.float64).reshape(-1, 2)


def _whole(shape: Shape) -> npt.NDArray[np.int64]:
    numbers = np.array(shape.numbers, np.float64)
    if (np.abs(numbers) > 2**40).any() or (numbers != np.rint(numbers)).any():
        raise BadImage("a run-length code holds what is no plausible whole number; correct it")
    return numbers.astype(np.int64)


def _inside(points: npt.NDArray[np.float64], out: Labels) -> None:
    """Raises BadImage for points (x, y) that lie further out than programs round."""
    beyond = max(float(-points.min()), float((points - _size(out)).max()))
    if beyond > TOLERANCE:
        raise BadImage(
            f"an annotation lies {beyond:.0f} pixels outside of the picture; it belongs to another picture, or "
            "its numbers mean something else (corners for width and height, shares for pixels)"
        )
