"""One case as a picture: planes of a volume side by side in one scale, truth as contour, prediction as fill.

Volumes are seen as radiologists see them: from the feet, the patient's right on the left; sagittal planes face left.
"""

import io
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))

from view_image import centres, window  # type: ignore[import-not-found]

WIDTH, HEIGHT = 900, 330
"""Pixels that a picture has at most."""
_GAP = 4
_SMALLER = (1.0, 0.8, 0.6, 0.4, 0.25)
_FILL = 0.4
_LINE = 2
_SAMPLE = 2_000_000
"""Voxels from which the grey range is taken."""
_WINDOWS = ((-300.0, -1350.0, 150.0, "lung"), (200.0, -160.0, 240.0, "soft tissue"), (np.inf, -450.0, 1050.0, "bone"))
"""For CT: up to this median of the truth, from, to, name."""
_PLANES = (("axial", 2, "R", "A"), ("coronal", 1, "R", "S"), ("sagittal", 0, "A", "S"))
"""Name, axis that is cut, and what lies to the left and at the top."""


def grey_range(volume: Any, truth: np.ndarray | None) -> tuple[float, float, str]:
    """From, to and a name for a reader. CT is shown in the window in which its truth is best seen."""
    array = volume.array
    if volume.flat and array.dtype == np.uint8:
        return 0.0, 255.0, ""
    every = max(1, round((array.size / _SAMPLE) ** (1 / array.ndim)))
    thin = tuple(slice(None, None, every) for _ in array.shape)
    low, high, how = window(array[thin], volume.facts["format"] in ("nifti", "dicom", "npy", "folder of slices"))
    if "HU" not in how:
        return low, high, ""
    inside = array[truth > 0] if truth is not None and truth.shape == array.shape else array[:0]
    if not inside.size:
        return -1000.0, 400.0, "-1000 to 400 HU"
    median = float(np.median(inside[:: 1 + inside.size // _SAMPLE]))
    low, high, name = next((low, high, name) for up_to, low, high, name in _WINDOWS if median <= up_to)
    return low, high, f"{name} window, {low:g} to {high:g} HU"


def draw(
    volumes: Sequence[Any],
    truth: np.ndarray | None,
    answer: np.ndarray | None,
    colours: Sequence[str],
    limit: int,
) -> tuple[Any, bytes]:
    """The picture and its PNG of at most `limit` bytes. Masks belong to the first volume; `#rrggbb` each structure."""
    table = np.array([(0, 0, 0), *(tuple(bytes.fromhex(one[1:])) for one in colours)], np.float32)
    shown = grey_range(volumes[0], truth)[:2]
    panels = []
    for place, volume in enumerate(volumes):
        own = (truth, answer) if not place else (None, None)
        low, high = shown if not place else grey_range(volume, None)[:2]
        panels += _flat(volume, *own, low, high) if volume.flat else _planes(volume, *own, low, high)
    for smaller in _SMALLER:
        sheet = _sheet(panels, table, smaller)
        for most in (0, 256):
            buffer = io.BytesIO()
            (sheet.quantize(most) if most else sheet).save(buffer, "PNG", optimize=True)
            if buffer.tell() <= limit:
                return sheet, buffer.getvalue()
    raise ValueError("the picture stays too big")


class _Panel:
    """A plane with its rows from the top: greys or colours (H, W[, 3]), masks (H, W), its size in mm or pixels."""

    def __init__(self, picture: np.ndarray, masks: Sequence[np.ndarray | None], size: Sequence[float], marks: str):
        self.picture, (self.truth, self.answer) = picture, masks
        self.width, self.height = size
        self.marks = marks

    def paint(self, colours: np.ndarray, scale: float) -> Any:
        from PIL import Image as Pil

        size = (max(1, round(self.width * scale)), max(1, round(self.height * scale)))
        picture = Pil.fromarray(self.picture).convert("RGB").resize(size, Pil.Resampling.BILINEAR)
        if self.truth is None and self.answer is None:
            return picture
        rgb = np.asarray(picture).astype(np.float32)
        if self.answer is not None:
            filled = _resized(self.answer, size)
            inside = filled > 0
            rgb[inside] = rgb[inside] * (1 - _FILL) + colours[filled[inside]] * _FILL
        if self.truth is not None:
            lined = _resized(self.truth, size)
            edge = _outline(lined)
            rgb[edge] = colours[lined[edge]]
        return Pil.fromarray(rgb.astype(np.uint8))


def _planes(volume: Any, truth: np.ndarray | None, answer: np.ndarray | None, low: float, high: float) -> list[_Panel]:
    at = centres(volume, next((mask for mask in (truth, answer) if mask is not None and mask.any()), None))
    found = []
    for _, axis, left, top in _PLANES:
        across, up = (volume.spacing[other] for other in range(3) if other != axis)
        picture, *masks = (
            None if array is None else np.ascontiguousarray(np.take(array, at[axis], axis)[::-1, ::-1].T)
            for array in (volume.array, truth, answer)
        )
        assert picture is not None
        size = (picture.shape[1] * across, picture.shape[0] * up)
        marks = left + top if volume.affine is not None else ""
        found.append(_Panel(_grey(picture, low, high), masks, size, marks))
    return found


def _flat(volume: Any, truth: np.ndarray | None, answer: np.ndarray | None, low: float, high: float) -> list[_Panel]:
    array = volume.array
    picture = np.ascontiguousarray(array[..., :3]) if array.ndim == 3 else _grey(array, low, high)
    return [_Panel(picture, (truth, answer), (array.shape[1], array.shape[0]), "")]


def _sheet(panels: Sequence[_Panel], colours: np.ndarray, smaller: float) -> Any:
    from PIL import Image as Pil

    room = WIDTH - _GAP * (len(panels) - 1)
    high = HEIGHT if len(panels) > 1 else HEIGHT * 1.5
    # One scale for all planes of a volume: an organ is as large in each.
    scale = smaller * min(room / sum(one.width for one in panels), high / max(one.height for one in panels))
    drawn = [one.paint(colours, scale) for one in panels]
    tall = max(one.height for one in drawn)
    sheet = Pil.new("RGB", (sum(one.width for one in drawn) + _GAP * (len(drawn) - 1), tall))
    left = 0
    for panel, picture in zip(panels, drawn, strict=True):
        top = (tall - picture.height) // 2
        sheet.paste(picture, (left, top))
        _mark(sheet, panel.marks, left, top, picture.size)
        left += picture.width + _GAP
    return sheet


def _mark(sheet: Any, marks: str, left: int, top: int, size: tuple[int, int]) -> None:
    """Letters for the side of the patient that lies to the left and at the top."""
    from PIL import ImageDraw, ImageFont

    if not marks or min(size) < 60:
        return
    pen, font = ImageDraw.Draw(sheet), ImageFont.load_default(14)
    look: dict[str, Any] = {"fill": (255, 255, 255), "font": font, "stroke_width": 1, "stroke_fill": (0, 0, 0)}
    pen.text((left + 5, top + size[1] // 2), marks[0], anchor="lm", **look)
    pen.text((left + size[0] // 2, top + 4), marks[1], anchor="mt", **look)


def _grey(plane: np.ndarray, low: float, high: float) -> np.ndarray:
    scaled = np.nan_to_num((plane.astype(np.float64) - low) / (high - low), posinf=1, neginf=0)
    return (np.clip(scaled, 0, 1) * 255).astype(np.uint8)


def _resized(mask: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    from PIL import Image as Pil

    return np.asarray(Pil.fromarray(mask.astype(np.int32)).resize(size, Pil.Resampling.NEAREST))


def _outline(numbers: np.ndarray) -> np.ndarray:
    """Pixels of a structure that lie within `_LINE` of something else; the picture's border is no outline."""
    padded = np.pad(numbers, _LINE, mode="edge")
    height, width = numbers.shape
    edge = np.zeros(numbers.shape, bool)
    for step in range(1, _LINE + 1):
        for down, right in ((step, 0), (-step, 0), (0, step), (0, -step)):
            top, left = _LINE + down, _LINE + right
            edge |= padded[top : top + height, left : left + width] != numbers
    return edge & (numbers > 0)
