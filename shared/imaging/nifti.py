"""NIfTI 1 and 2, Analyze and MGH, by nibabel."""

import math
import warnings
from pathlib import Path
from typing import Any, Literal

import numpy as np

from .errors import LARGEST, BadImage, bounded, shown
from .header import Header
from .image import Image

Axis4 = Literal["refuse", "channels", "first"]


def opened(path: Path) -> Any:
    """A nibabel image of which nothing but the header is read."""
    import nibabel

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return nibabel.load(path)


def layout(found: Any) -> tuple[tuple[int, int, int], int, int]:
    """Voxels along three axes, length of the fourth, and channels of colour voxels. Raises BadImage."""
    shape = tuple(int(size) for size in found.shape)
    names = np.dtype(found.get_data_dtype()).names
    if len(shape) < 2 or 0 in shape:
        raise BadImage(f"has shape {shown(shape) or '()'}; expected a volume")
    longer = [size for size in shape[3:] if size > 1]
    if len(longer) > 1:
        raise BadImage(f"has shape {shown(shape)}; volumes of up to four axes are read: write one volume a file")
    # Without the third there is one slice.
    x, y, z = (*shape[:3], 1)[:3]
    return (x, y, z), math.prod(longer), len(names) if names else 1


def header(path: Path) -> Header:
    """See `headers.peek`."""
    found = opened(path)
    shape, frames, colours = layout(found)
    thin = sum(size > 1 for size in shape) < 3
    zooms = tuple(float(size) for size in found.header.get_zooms()[:3])
    dtype = np.dtype(found.get_data_dtype())
    return Header(
        "volume",
        2 if thin else 3,
        shape,
        (*zooms, 1.0, 1.0)[:3],
        min(3, colours),
        "rgb" if dtype.names else dtype.name,
        colour=colours > 1,
        frames=frames,
        affine=np.asarray(found.affine, np.float64),
    )


def read(path: Path, axis4: Axis4 = "refuse", most: int = LARGEST) -> Image:
    """A volume, its values rescaled as the header says. Raises BadImage."""
    found = opened(path)
    shape, frames, _ = layout(found)
    dtype = np.dtype(found.get_data_dtype())
    slope, intercept = (
        float(value) for value in (getattr(found.dataobj, "slope", 1), getattr(found.dataobj, "inter", 0))
    )
    taken = 1 if axis4 == "first" else frames
    plain = (slope, intercept) == (1.0, 0.0)
    bounded((*shape, taken), dtype.itemsize if plain else max(4, dtype.itemsize), most)
    if frames > 1 and axis4 == "refuse":
        raise BadImage(
            f"has a fourth axis of {frames}; say with `axis4` whether these are channels, or times of which the first "
            "is taken"
        )
    source = found.dataobj
    if frames > 1 and axis4 == "first":
        data = np.asanyarray(source[tuple(slice(None) if axis < 3 else 0 for axis in range(len(found.shape)))])
    elif plain or dtype.names:
        data = np.asanyarray(source)
    else:
        data = rescaled_exactly(np.asanyarray(source.get_unscaled()), slope, intercept)
    colour = bool(dtype.names)
    if dtype.names:
        data = np.stack([data[name] for name in dtype.names[:3]], -1)
        data = data.reshape(*shape, -1)
        if taken > 1:
            raise BadImage("has colour voxels and a fourth axis; write one volume a file")
    else:
        data = data.reshape(*shape, taken)
    return Image(data, found.affine, colour=colour)


def rescaled_exactly(stored: np.ndarray, slope: float, intercept: float) -> np.ndarray:
    """stored * slope + intercept, whole where all three are, else float32 rounded once."""
    if stored.dtype.kind in "iub" and slope == int(slope) and intercept == int(intercept):
        low, high = (int(value) * int(slope) + int(intercept) for value in (stored.min(), stored.max()))
        if max(abs(low), abs(high)) < 2**31:
            return stored.astype(np.int32) * np.int32(slope) + np.int32(intercept)
    found = stored.astype(np.float64)
    found *= slope
    found += intercept
    return found.astype(np.float32)
