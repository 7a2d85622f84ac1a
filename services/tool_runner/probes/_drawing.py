"""An image as a picture: planes of a volume side by side in one scale, one mask as contour, one as fill.

Volumes are seen as radiologists see them: from the feet, the patient's right on the left; sagittal planes face left.
Of a volume whose files do not say where it lies, rows run down and columns to the right, as in the slices themselves.
"""

import io
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from shared.imaging.image import Image, canonical
from shared.imaging.units import looks_like_hu

WIDTH, HEIGHT = 900, 330
"""Pixels that a picture has at most."""
_GAP = 4
_GRID, _CELL, _WORDS = 1000, 420, 17
"""Pixels: side of a montage, most of a cell, height of the words under it."""
_SMALLER = (1.0, 0.8, 0.6, 0.4, 0.25)
_QUALITIES = (90, 78, 60)
"""Of JPEG."""
_FILL = 0.4
_LINE = 2
_SAMPLE = 2_000_000
"""Voxels from which the grey range is taken."""
_FLATTEST = 3
"""How many times wider than high a volume of unknown slice distance may look before its height is guessed."""
_WINDOWS = ((-300.0, -1350.0, 150.0, "lung"), (200.0, -160.0, 240.0, "soft tissue"), (np.inf, -450.0, 1050.0, "bone"))
"""For CT: up to this median of the marked voxels, from, to, name."""
_PLANES = (("axial", 2, "R", "A"), ("coronal", 1, "R", "S"), ("sagittal", 0, "A", "S"))
"""Name, axis that is cut, and what lies to the left and at the top."""


class Scene:
    """An image with one channel (or colours) on canonical axes: `array` (X, Y, Z), (H, W) or (H, W, 3) of bytes."""

    def __init__(self, image: Image, between: float = 1.0, channel: int = 0) -> None:
        """`between`: mm from slice to slice where the files do not say."""
        self.image = image
        turned = canonical(image)
        colours = image.affine is None and image.array.shape[-1] >= 3 and image.array.dtype == np.uint8
        self.channels = 1 if colours else turned.array.shape[-1]
        self.array = turned.array[..., :3] if colours else turned.array[..., channel]
        self.flat = image.affine is None
        self.placed = turned.affine is not None and not np.array_equal(turned.affine, np.eye(4))
        self.spacing = turned.grid.spacing if self.placed else (1.0, 1.0, between)
        self.notes = [] if self.flat or self.placed else ["the files do not say how the slices lie in the patient"]
        height = 0 if self.flat else self.array.shape[2] * self.spacing[2]
        if not self.flat and not self.placed and height < max(self.array.shape[:2]) / _FLATTEST:
            self.spacing = (1.0, 1.0, max(self.array.shape[:2]) / 2 / self.array.shape[2])
            self.notes.append("nor how far apart they are: the height is a guess")

    def mask(self, labels: np.ndarray) -> np.ndarray:
        """A mask on the image's own axes, turned as the image is."""
        return labels if self.flat else canonical(Image(labels[..., None], self.image.affine)).array[..., 0]

    def centres(self, mask: np.ndarray | None) -> tuple[int, ...]:
        """Indices of the planes along x, y, z: through the largest areas of the mask, else the middle."""
        if self.flat:
            return ()
        if mask is None or not mask.any():
            return tuple(size // 2 for size in self.array.shape)
        filled = mask != 0
        sums = (filled.sum(axis=tuple(other for other in range(3) if other != axis)) for axis in range(3))
        return tuple(int(np.argmax(found)) for found in sums)

    def plane(self, array: np.ndarray, axis: int, at: int) -> np.ndarray:
        """Rows from the top."""
        cut = np.take(array, at, axis)
        if not self.placed:
            return np.ascontiguousarray(cut.T if axis == 2 else cut[:, ::-1].T)
        return np.ascontiguousarray(cut[::-1, ::-1].T)


def grey_range(scene: Scene, mask: np.ndarray | None) -> tuple[float, float, str]:
    """From, to and what to say of it. CT is shown in the window in which the marked voxels are best seen, anything else
    from its 1st to its 99th percentile."""
    array = scene.array
    if (array.ndim == 3 and scene.flat) or (scene.flat and array.dtype == np.uint8):
        return 0.0, 255.0, ""
    every = max(1, round((array.size / _SAMPLE) ** (1 / array.ndim)))
    thin = array[tuple(slice(None, None, every) for _ in array.shape)]
    if not scene.flat and looks_like_hu(thin):
        inside = array[mask > 0] if mask is not None else array[:0]
        if not inside.size:
            return -1000.0, 400.0, "-1000 to 400 HU"
        middle = float(np.median(inside[:: 1 + inside.size // _SAMPLE]))
        low, high, name = next((low, high, name) for up_to, low, high, name in _WINDOWS if middle <= up_to)
        return low, high, f"{name} window, {low:g} to {high:g} HU"
    low, high = (float(one) for one in np.percentile(thin, (1, 99)))
    if high <= low:
        low, high = float(thin.min()), float(thin.max())
    return low, high if high > low else low + 1, ""


def draw(
    scenes: Sequence[Scene],
    line: np.ndarray | None,
    fill: np.ndarray | None,
    colours: Sequence[str],
    limit: int,
    lossy: bool = False,
) -> tuple[Any, bytes]:
    """The picture and its PNG, or JPEG where it is `lossy`, of at most `limit` bytes.

    Masks of numbers 1..N are on the axes of the first scene's array; `#rrggbb` each number. Raises ValueError where the
    limit cannot be kept.
    """
    table = _table(colours)
    panels = []
    for place, scene in enumerate(scenes):
        masks = (line, fill) if not place else (None, None)
        panels += _panels(scene, masks, *grey_range(scene, masks[0])[:2])
    return _fitting(lambda smaller: _sheet(panels, table, smaller), limit, lossy)


def montage(
    cells: Sequence[tuple[Scene, np.ndarray | None, str] | str], colours: Sequence[str], limit: int
) -> tuple[Any, bytes]:
    """Scenes side by side, each with its mask of numbers 1..N, its number and words under it, as PNG or JPEG of at most
    `limit` bytes. Volumes are cut once, through the mask; a cell that is a text has no picture."""
    table = _table(colours)
    drawn: list[tuple[_Panel | None, str]] = []
    for cell in cells:
        if isinstance(cell, str):
            drawn.append((None, cell))
        else:
            scene, mask, caption = cell
            drawn.append((_panels(scene, (mask, mask), *grey_range(scene, mask)[:2])[0], caption))
    return _fitting(lambda smaller: _grid(drawn, table, smaller), limit, True)


def _fitting(sheet_of: Callable[[float], Any], limit: int, lossy: bool) -> tuple[Any, bytes]:
    """The largest and truest form of a sheet that has at most `limit` bytes."""
    for smaller in _SMALLER:
        sheet = sheet_of(smaller)
        forms: list[tuple[Any, dict[str, Any]]] = [(sheet, {"format": "PNG", "optimize": True})]
        if lossy:
            # Colours of masks are thin lines, which thinned out colour would lose.
            forms += [(sheet, {"format": "JPEG", "quality": quality, "subsampling": 0}) for quality in _QUALITIES]
        else:
            forms += [(sheet.quantize(most), {"format": "PNG", "optimize": True}) for most in (256, 64)]
        for picture, form in forms:
            buffer = io.BytesIO()
            picture.save(buffer, **form)
            if buffer.tell() <= limit:
                return sheet, buffer.getvalue()
    raise ValueError("the picture stays too big")


class _Panel:
    """A plane with its rows from the top: greys or colours (H, W[, 3]), masks (H, W), its size in mm or pixels."""

    def __init__(self, picture: np.ndarray, masks: Sequence[np.ndarray | None], size: Sequence[float], marks: str):
        self.picture, (self.line, self.fill) = picture, masks
        self.width, self.height = size
        self.marks = marks

    def paint(self, colours: np.ndarray, scale: float) -> Any:
        from PIL import Image as Pil

        size = (max(1, round(self.width * scale)), max(1, round(self.height * scale)))
        picture = Pil.fromarray(self.picture).convert("RGB").resize(size, Pil.Resampling.BILINEAR)
        if self.line is None and self.fill is None:
            return picture
        rgb = np.asarray(picture).astype(np.float32)
        if self.fill is not None:
            filled = _resized(self.fill, size)
            inside = filled > 0
            rgb[inside] = rgb[inside] * (1 - _FILL) + colours[filled[inside]] * _FILL
        if self.line is not None:
            lined = _resized(self.line, size)
            edge = _outline(lined)
            rgb[edge] = colours[lined[edge]]
        return Pil.fromarray(rgb.astype(np.uint8))


def _panels(scene: Scene, masks: Sequence[np.ndarray | None], low: float, high: float) -> list[_Panel]:
    array = scene.array
    if scene.flat:
        picture = np.ascontiguousarray(array) if array.ndim == 3 else _grey(array, low, high)
        return [_Panel(picture, masks, (array.shape[1], array.shape[0]), "")]
    at = scene.centres(next((mask for mask in masks if mask is not None and mask.any()), None))
    found = []
    for _, axis, left, top in _PLANES:
        across, up = (scene.spacing[other] for other in range(3) if other != axis)
        picture = scene.plane(array, axis, at[axis])
        cut = [None if mask is None else scene.plane(mask, axis, at[axis]) for mask in masks]
        size = (picture.shape[1] * across, picture.shape[0] * up)
        found.append(_Panel(_grey(picture, low, high), cut, size, left + top if scene.placed else ""))
    return found


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


def _grid(cells: Sequence[tuple[_Panel | None, str]], colours: np.ndarray, smaller: float) -> Any:
    from PIL import Image as Pil
    from PIL import ImageDraw, ImageFont

    across = math.ceil(math.sqrt(len(cells)))
    side = round(smaller * min(_CELL, (_GRID - _GAP * (across - 1)) / across))
    drawn = [panel and panel.paint(colours, min(side / panel.width, side / panel.height)) for panel, _ in cells]
    tall = max(one.height for one in drawn if one)
    pitch = (side + _GAP, tall + _WORDS + _GAP)
    sheet = Pil.new("RGB", (across * pitch[0] - _GAP, -(-len(cells) // across) * pitch[1] - _GAP))
    pen, font = ImageDraw.Draw(sheet), ImageFont.load_default(_WORDS - 4)
    for number, (picture, (_, caption)) in enumerate(zip(drawn, cells, strict=True)):
        left, top = number % across * pitch[0], number // across * pitch[1]
        if picture:
            sheet.paste(picture, (left + (side - picture.width) // 2, top + (tall - picture.height) // 2))
        words, cut = f"{number + 1} {caption}".strip(), caption
        while pen.textlength(words, font=font) > side and cut:
            half = len(cut) // 2  # classes differ in their beginnings, names of files in their ends
            cut = cut[:half] + cut[half + 1 :]
            words = f"{number + 1} {cut[:half]}\u2026{cut[half:]}"
        pen.text((left + side // 2, top + tall + 1), words, anchor="mt", fill=(255, 255, 255), font=font)
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


def _table(colours: Sequence[str]) -> np.ndarray:
    return np.array([(0, 0, 0), *(tuple(bytes.fromhex(one[1:])) for one in colours)], np.float32)


def _grey(plane: np.ndarray, low: float, high: float) -> np.ndarray:
    scaled = (plane.astype(np.float64) - low) / (high - low)
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
