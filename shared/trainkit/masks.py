"""Masks and the grids they stand on: what a segmentation's files hold. Runs in the sandbox; memory stays bounded.

Voxels are streamed piece by piece, so that a mask of 8 GB costs no more memory than a small one. Axis order is as
stored: (x, y, z) for NIfTI, (height, width) for pictures.
"""

import gzip
import math
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np
import numpy.typing as npt

from shared.trainkit.imagefile import PICTURE_SUFFIXES, suffix_of

MASK_SUFFIXES = PICTURE_SUFFIXES | {".nii", ".nii.gz"}
"""What is read for a segmentation, images and masks alike."""
MANY_VALUES = 200
"""No label mask has more structures than this; more distinct values are intensities."""
WHOLE = 1e-3
"""How far a value may be from a whole number: scaling in a header leaves rounding errors."""
_CHUNK = 1 << 21
"""Voxels that are looked at a time."""

Array = npt.NDArray[Any]


class MaskInvalid(ValueError):
    """The file is no mask; the message says why, and what to do."""


@dataclass(frozen=True)
class Grid:
    shape: tuple[int, ...]
    affine: Array | None = None
    """(4, 4), voxel index to millimetres; None for a picture."""
    spacing: tuple[float, ...] = ()
    """Millimetres an axis."""
    orientation: str = ""
    """Axis codes such as RAS; empty for a picture."""


def grid_of(path: Path) -> Grid:
    """From the header alone. Raises OSError or ValueError when it cannot be read."""
    if suffix_of(path.name) in PICTURE_SUFFIXES:
        from PIL import Image

        with Image.open(path) as picture:
            return Grid((picture.height, picture.width))
    import nibabel

    found = _nifti(path)
    zooms = tuple(round(float(zoom), 4) for zoom in found.header.get_zooms()[:3])
    axes = "".join(code or "?" for code in nibabel.orientations.aff2axcodes(found.affine))
    return Grid(tuple(int(n) for n in found.shape), np.asarray(found.affine, float), zooms, axes)


def grid_problem(image: Grid, mask: Grid) -> str | None:
    """Why a mask does not stand on its image's grid; None when it does."""
    if image.shape != mask.shape:
        return f"the mask's shape is {_by(mask.shape)}, the image's {_by(image.shape)}"
    if image.affine is None or mask.affine is None:
        return None
    if not np.allclose(image.affine, mask.affine, atol=1e-2):
        if image.orientation != mask.orientation:
            return f"the mask's orientation is {mask.orientation}, the image's {image.orientation}"
        apart = float(np.abs(image.affine - mask.affine).max())
        return f"the mask's affine differs from the image's by up to {apart:.3g} mm"
    return None


def axes_problem(grid: Grid, dimensions: int) -> str | None:
    """Why an image is not one 2D picture or one 3D volume, as asked for; None when it is."""
    if len(grid.shape) == dimensions:
        return None
    return f"the image has {len(grid.shape)} axes ({_by(grid.shape)}), not {dimensions}"


def mask_values(path: Path) -> dict[int, int]:
    """Value -> number of voxels, over the whole mask. Raises MaskInvalid, or OSError and the like for damaged files."""
    counts: Counter[int] = Counter()
    for piece in pieces(path):
        for value, count in _count(piece).items():
            counts[value] += count
        if len(counts) > MANY_VALUES:
            raise MaskInvalid(f"the mask holds more than {MANY_VALUES} different values: it is an image")
    if min(counts, default=0) < 0:
        raise MaskInvalid(f"the mask holds the negative value {min(counts)}")
    return dict(counts)


def looks_like_mask(path: Path, most: int = 64) -> bool:
    """Whether the content of a middle slice is whole numbers, few and not negative. Raises as `mask_values`."""
    try:
        found = _count(np.ravel(middle(path)))
    except MaskInvalid:
        return False
    return len(found) <= most and min(found, default=0) >= 0


def middle(path: Path) -> Array:
    """The middle slice along the last axis, in the file's own units; a picture whole. Raises as `mask_values`."""
    if suffix_of(path.name) in PICTURE_SUFFIXES:
        return next(pieces(path))
    found = _nifti(path)
    where = tuple(slice(None) if axis < 2 else size // 2 for axis, size in enumerate(found.shape))
    return np.asanyarray(found.dataobj[where])


def _nifti(path: Path) -> Any:
    import nibabel

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return nibabel.load(path)
        except Exception as error:  # nibabel raises errors of its own for a foreign header
            raise ValueError(f"no readable NIfTI: {type(error).__name__}") from None


def pieces(path: Path) -> Iterator[Array]:
    """The stored numbers, piece by piece, to the end of the file. Raises as `mask_values`."""
    if suffix_of(path.name) in PICTURE_SUFFIXES:
        yield _picture(path).ravel()
        return
    found = _nifti(path)
    source = found.dataobj
    dtype, left = np.dtype(source.dtype), math.prod(found.shape)
    slope, intercept = float(source.slope), float(source.inter)
    if dtype.kind not in "biuf":
        raise MaskInvalid(f"the mask's voxels are of type {dtype}, not numbers")
    with cast(BinaryIO, gzip.open(path) if suffix_of(path.name) == ".nii.gz" else path.open("rb")) as stream:
        _skip(stream, int(source.offset))
        while left:
            data = stream.read(min(_CHUNK, left) * dtype.itemsize)
            piece = np.frombuffer(data[: len(data) // dtype.itemsize * dtype.itemsize], dtype)
            if not len(piece):
                raise EOFError(f"truncated: {left} voxels are missing at the end")
            left -= len(piece)
            yield piece if (slope, intercept) == (1.0, 0.0) else piece * slope + intercept
        while stream.read(1 << 20):  # to the end, where the checksum stands
            pass


def _skip(stream: BinaryIO, size: int) -> None:
    while size:
        read = len(stream.read(min(size, 1 << 20)))
        if not read:
            raise EOFError("truncated: the file ends within its header")
        size -= read


def _picture(path: Path) -> Array:
    from PIL import Image

    with Image.open(path) as opened:
        opened.load()
        data = np.asarray(opened)  # of a palette picture the numbers, not the colours
    if data.ndim == 3 and data.shape[2] in (2, 4):
        data = data[..., :-1]  # without the alpha channel
    if data.ndim == 3:
        if (data != data[..., :1]).any():
            raise MaskInvalid("the mask is a colour picture; save it with one channel that holds the labels' numbers")
        data = data[..., 0]
    return data.astype(np.uint8) if data.dtype == bool else data


def _count(piece: Array) -> dict[int, int]:
    """Whole value -> how often. Raises MaskInvalid for anything else."""
    if piece.dtype.kind == "f":
        if not np.isfinite(piece).all():
            raise MaskInvalid("the mask holds NaN or infinite values")
        whole = np.rint(piece)
        if (np.abs(piece - whole) > WHOLE).any():
            odd = float(piece[np.abs(piece - whole) > WHOLE][0])
            raise MaskInvalid(f"the mask holds the value {odd:.4g}, which is no whole number")
        if np.abs(whole).max(initial=0) > 2**31:
            raise MaskInvalid(f"the mask holds the value {float(np.abs(whole).max()):.4g}, which is no label")
        piece = whole.astype(np.int64)
    if not piece.size:
        return {}
    low, high = int(piece.min()), int(piece.max())
    if high - low < 1 << 17:
        counts = np.bincount(piece.astype(np.int64) - low)
        return {int(value) + low: int(counts[value]) for value in np.flatnonzero(counts)}
    values, numbers = np.unique(piece, return_counts=True)
    return {int(value): int(number) for value, number in zip(values, numbers, strict=True)}


def _by(shape: Sequence[int]) -> str:
    return "x".join(str(size) for size in shape)
