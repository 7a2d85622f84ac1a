"""PNG, JPEG, BMP, WebP, GIF, Netpbm and JPEG 2000, by Pillow."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from .errors import LARGEST, BadImage, bounded
from .header import Header
from .image import Image

_DEEP = {"I;16": "uint16", "I;16L": "uint16", "I;16B": "uint16", "I": "int32", "F": "float32"}
"""Pillow's modes of more than eight bits."""
_COLOUR = {"RGB", "RGBA", "RGBX", "RGBa", "CMYK", "YCbCr", "LAB", "HSV", "P", "PA"}
ORIENTATION = 274
TURNED = (5, 6, 7, 8)
"""EXIF orientations that exchange rows and columns."""
_PNG16 = {2: 3, 4: 2, 6: 4}
"""Colour types of PNG that Pillow reads with eight bits only -> channels."""


@contextmanager
def opened(path: Path) -> Iterator[Any]:
    """A Pillow picture whose pixels are not read yet. Raises BadImage for animations and for what is too large."""
    from PIL import Image as Pillow

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            with Pillow.open(path) as found:
                frames = 1 if found.format == "MPO" else int(getattr(found, "n_frames", 1))
                if frames > 1:
                    raise BadImage(
                        f"is an animation of {frames} pictures, not supported yet; convert to one PNG a picture"
                    )
                yield found
        except Pillow.DecompressionBombError as error:
            raise BadImage("has more pixels than are read at once; cut it into tiles") from error


def orientation(picture: Any) -> int:
    """EXIF orientation, 1 to 8."""
    value = picture.getexif().get(ORIENTATION, 1)
    return value if isinstance(value, int) and 1 <= value <= 8 else 1


def upright(array: np.ndarray, way: int) -> np.ndarray:
    """(H, W, ...) turned as the EXIF orientation says."""
    if way in TURNED:
        array = array.swapaxes(0, 1)
    up, left = {2: (1, -1), 3: (-1, -1), 4: (-1, 1), 6: (1, -1), 7: (-1, -1), 8: (-1, 1)}.get(way, (1, 1))
    return array[::up, ::left]


def png_header(path: Path) -> tuple[int, int] | None:
    """Bits and colour type of a PNG."""
    with path.open("rb") as file:
        head = file.read(26)
    return (head[24], head[25]) if head[:8] == b"\x89PNG\r\n\x1a\n" and len(head) == 26 else None


def header(path: Path, turned: bool = True) -> Header:
    """See `headers.peek`."""
    with opened(path) as found:
        size = found.size[::-1] if turned and orientation(found) in TURNED else found.size
        mode = found.mode
    png = png_header(path)
    deep = bool(png and png[0] == 16)
    colour = mode in _COLOUR
    dtype = "uint16" if deep else _DEEP.get(mode, "bool" if mode == "1" else "uint8")
    return Header("picture", 2, tuple(size), (), 3 if colour else 1, dtype, colour=colour)


def read(path: Path, most: int = LARGEST) -> Image:
    """(H, W, 1) or, of colour, (H, W, 3). Raises BadImage.

    Transparent parts are shown on black. Colour of which all three channels are the same is grey.
    """
    png = png_header(path)
    with opened(path) as found:
        mode, size, way = found.mode, found.size, orientation(found)
        bounded((*size, 4), 2, most)
        if png and png[0] == 16 and png[1] in _PNG16:
            array, mode = deep_png(path, _PNG16[png[1]]), "RGBA" if png[1] == 6 else "LA" if png[1] == 4 else "RGB"
        elif mode in _DEEP:
            array = np.asarray(found)
        else:
            array, mode = plain(found)
    if array.ndim == 2:
        array = array[..., None]
    if mode in ("LA", "RGBA"):
        array = on_black(array)
    return settled(upright(array, way))


def numbers(path: Path) -> Image | None:
    """(H, W, 1) of a grey or palette picture as stored: of a palette the numbers, not the colours. None of others."""
    with opened(path) as found:
        if found.mode not in ("1", "L", "P", *_DEEP):
            return None
        return Image(upright(np.asarray(found), orientation(found))[..., None], None)


def plain(picture: Any) -> tuple[np.ndarray, str]:
    """Eight bit values of a picture, and their mode: L, LA, RGB or RGBA."""
    mode = picture.mode
    transparent = mode in ("LA", "La", "PA", "RGBA", "RGBa") or "transparency" in picture.info
    if mode in _COLOUR:
        target = "RGBA" if transparent else "RGB"
    else:
        target = "LA" if transparent else "L"
    return np.asarray(picture if mode == target else picture.convert(target)), target


def deep_png(path: Path, channels: int) -> np.ndarray:
    """A colour PNG of 16 bits, of which Pillow would drop eight."""
    import SimpleITK

    found: np.ndarray = SimpleITK.GetArrayFromImage(SimpleITK.ReadImage(str(path)))
    if found.ndim == 2:
        found = found[..., None]
    if found.shape[-1] != channels:
        raise BadImage(f"has {found.shape[-1]} channels where its header says {channels}")
    return found


def on_black(array: np.ndarray) -> np.ndarray:
    """Without the last channel, which says how much of each pixel is seen; the rest is black."""
    values, alpha = array[..., :-1], array[..., -1:]
    full = np.iinfo(array.dtype).max if array.dtype.kind in "iu" else 1.0
    if (alpha == full).all():
        return values
    seen = values * (alpha.astype(np.float64) / full)
    return (np.rint(seen) if array.dtype.kind in "iu" else seen).astype(array.dtype)


def settled(array: np.ndarray) -> Image:
    """A picture of (H, W, 1) or of red, green and blue; what is saved as colour but has none is grey."""
    if array.shape[-1] == 3 and is_grey(array):
        array = array[..., :1]
    return Image(np.ascontiguousarray(array), None, colour=array.shape[-1] == 3)


def is_grey(array: np.ndarray) -> bool:
    """Whether all channels of the last axis are the same."""
    few = array[::16, ::16]  # tell most colour pictures
    return not (few != few[..., :1]).any() and not (array != array[..., :1]).any()
