"""Masks and score images as strangers write them, as whole numbers: NIfTI, PNG and, of scores, `.npy`.

For the sandbox alone. The header is judged before any voxel is unpacked, no more is unpacked than it promises, and
voxels become numbers piece by piece, so that neither a gzip bomb nor a header of 10^12 voxels costs more than its own
bytes. `shared.imaging` reads a file whole and by its path: here a float64 volume would take eight times the memory of
its mask, and a stranger may exchange what lies at a path, so files come opened.
"""

import gzip
import io
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO, TypeVar

import numpy as np
import numpy.typing as npt

from shared.imaging.masks import WHOLE
from shared.scorebins import bins_of

MAX_BYTES = 2 << 30
"""Of a file, and of the unpacked voxels in it."""
PICTURES = ("PNG",)
"""The one format of pictures that packages may write; others have decoders that strangers' files break."""
LARGEST = (1 << 16) - 1
"""No structure has a larger value."""

_OFFSET = 16 << 20
_CHUNK = 1 << 20
"""Voxels that are turned into numbers at a time."""
_NIFTI = (b"\x5c\x01\0\0", b"\0\0\x01\x5c", b"\x1c\x02\0\0", b"\0\0\x02\x1c")
_FULL = {"L": 255.0, "I;16": 65535.0, "I;16B": 65535.0, "I": 65535.0}
"""The value that is a probability of 1, by Pillow's mode of a picture."""
T = TypeVar("T")


class BadFile(ValueError):
    """The file is none that can be read; the message says why, in words of ours only."""


@dataclass(frozen=True)
class Header:
    shape: tuple[int, ...]
    """NIfTI: (x, y) or (x, y, z) as stored, trailing axes of length 1 dropped; a picture: (height, width)."""
    affine: npt.NDArray[np.float64] | None
    """(4, 4), voxel index to millimetres; None for a picture, which has none."""
    size: int
    """Bytes of the unpacked voxels."""
    fortran: bool
    """Whether the first axis runs fastest in the file."""
    pieces: Callable[[], Iterator[npt.NDArray[Any]]]
    """The values, flat and in the order of the file."""
    full: float | None = 1.0
    """The value that stands for a probability of 1, if any does."""


@dataclass(frozen=True)
class Numbers:
    array: npt.NDArray[Any]
    """uint8 or uint16, of the header's shape."""
    affine: npt.NDArray[np.float64] | None
    fractions: int = 0
    """Voxels whose value is no whole number (NaN too); 0 in the array."""
    outside: int = 0
    """Voxels with a whole value that no structure can have; 0 in the array."""


def read_mask(stream: BinaryIO) -> Numbers:
    """The numbers of a mask, from a seekable stream. Raises BadFile."""
    header = _guarded("it is no readable NIfTI or picture", lambda: _header(stream))
    fractions = outside = 0

    def numbers() -> Iterator[npt.NDArray[Any]]:
        nonlocal fractions, outside
        for stored in header.pieces():
            found, broken, beyond = _whole(stored)
            fractions, outside = fractions + broken, outside + beyond
            yield found

    array = _guarded("its voxels cannot be read", lambda: _joined(numbers(), header))
    return Numbers(array, header.affine, fractions, outside)


def read_scores(stream: BinaryIO, mask: Numbers) -> Numbers:
    """Bins (`shared.scorebins`) of an image of probabilities on the grid of `mask`. Raises BadFile.

    What has no affine takes the mask's. Pictures of 8 and 16 bits are scaled to 0..1.
    """
    header = _guarded("it is no readable NIfTI, .npy or picture", lambda: _scores_header(stream, mask))
    full = header.full
    if full is None:
        raise BadFile("it is not grey")
    if header.shape != mask.array.shape:
        raise BadFile(f"it has the shape {header.shape} instead of {mask.array.shape}")

    def bins() -> Iterator[npt.NDArray[Any]]:
        for scores in header.pieces():
            try:
                yield bins_of(scores / full if full > 1 else scores)
            except ValueError as error:
                raise BadFile(str(error)) from None

    return Numbers(_guarded("its voxels cannot be read", lambda: _joined(bins(), header)), header.affine)


def _guarded(said: str, read: Callable[[], T]) -> T:
    try:
        return read()
    except (BadFile, ImportError, MemoryError):
        raise
    except Exception as error:
        # Whatever a decoder trips over in a stranger's file is the file's fault.
        raise BadFile(f"{said} ({type(error).__name__})") from None


def _joined(pieces: Iterator[npt.NDArray[Any]], header: Header) -> npt.NDArray[Any]:
    voxels, done = math.prod(header.shape), 0
    found = np.zeros(voxels, np.uint8)
    for piece in pieces:
        if piece.itemsize > found.itemsize:
            found = found.astype(piece.dtype)
        found[done : done + len(piece)] = piece
        done += len(piece)
    if done != voxels:
        raise BadFile(f"it holds {done} of {voxels} voxels")
    return found.reshape(header.shape, order="F" if header.fortran else "C")


def _whole(stored: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], int, int]:
    """uint8 or uint16, the smaller that holds them; how many were no whole numbers, and how many beyond LARGEST."""
    fractions = outside = 0
    if stored.dtype.kind == "f":
        with np.errstate(invalid="ignore"):
            whole = np.rint(stored)
            good = np.abs(stored - whole) <= WHOLE
        fractions = int(good.size - np.count_nonzero(good))
        stored = whole if not fractions else np.where(good, whole, 0)
    if stored.dtype.itemsize > 1 or stored.dtype.kind == "i":
        if stored.min() < 0 or stored.max() > LARGEST:
            known = (stored >= 0) & (stored <= LARGEST)
            outside = int(known.size - np.count_nonzero(known))
            stored = np.where(known, stored, 0)
        return stored.astype(np.uint8 if stored.max() < 256 else np.uint16), fractions, outside
    return stored.view(np.uint8), fractions, outside


def _header(stream: BinaryIO) -> Header:
    start = _start(stream)
    header = _nifti(stream) if start[:2] == b"\x1f\x8b" or start[:4] in _NIFTI else _picture(stream)
    return _bounded(header)


def _scores_header(stream: BinaryIO, mask: Numbers) -> Header:
    if _start(stream) == b"\x93NUMPY":
        return _bounded(_npy(stream, mask))
    header = _header(stream)
    if (header.affine is None) != (mask.affine is None):
        raise BadFile("it is a picture where a volume was wanted, or a volume for a picture")
    return header


def _start(stream: BinaryIO) -> bytes:
    stream.seek(0)
    start = stream.read(6)
    stream.seek(0)
    return start


def _bounded(header: Header) -> Header:
    if not 2 <= len(header.shape) <= 3 or min(header.shape) < 1:
        raise BadFile(f"its shape is {header.shape}; a mask has two or three axes")
    if header.size > MAX_BYTES:
        raise BadFile(f"it promises {header.size} bytes of voxels, at most {MAX_BYTES} are read")
    return header


def _nifti(stream: BinaryIO) -> Header:
    from nibabel.nifti1 import Nifti1Header
    from nibabel.nifti2 import Nifti2Header

    # Unpacked while it is read if it is gzip, whatever its name says.
    packed = stream.read(2) == b"\x1f\x8b"
    stream.seek(0)
    unpacked: Any = gzip.GzipFile(fileobj=stream) if packed else stream
    raw = unpacked.read(540)
    kind = Nifti2Header if raw[:4] in _NIFTI[2:] else Nifti1Header
    length = 540 if kind is Nifti2Header else 348
    found = kind.from_fileobj(io.BytesIO(raw[:length]), check=False)
    if bytes(found["magic"])[:2] != b"n+":
        raise BadFile("it is no NIfTI file with header and voxels in one")
    dtype = found.get_data_dtype()
    if dtype.kind not in "iufb":
        raise BadFile("its voxels are neither integers nor real numbers")
    shape = tuple(int(size) for size in found.get_data_shape())
    left = math.prod(shape)
    while len(shape) > 2 and shape[-1] == 1:
        shape = shape[:-1]
    offset = int(found.get_data_offset())
    if not length <= offset <= _OFFSET:
        raise BadFile(f"its voxels begin at byte {offset}")
    affine = np.asarray(found.get_best_affine(), dtype=np.float64)
    if affine.shape != (4, 4) or not np.isfinite(affine).all():
        raise BadFile("its affine is not finite")
    slope, inter = found.get_slope_inter()
    scale = (1.0 if slope is None else float(slope), 0.0 if inter is None else float(inter))

    def pieces() -> Iterator[npt.NDArray[Any]]:
        unpacked.seek(0)
        unpacked.read(offset)
        for stored in _read(unpacked, left, dtype):
            yield stored if scale == (1.0, 0.0) else stored * scale[0] + scale[1]
        unpacked.read(1)  # at the end of a gzip file this compares its checksum

    return Header(shape, affine, left * dtype.itemsize, True, pieces)


def _read(stream: BinaryIO, left: int, dtype: Any) -> Iterator[npt.NDArray[Any]]:
    """At most `left` values, until the stream ends."""
    while left and (piece := stream.read(min(left, _CHUNK) * dtype.itemsize)):
        stored = np.frombuffer(piece[: len(piece) // dtype.itemsize * dtype.itemsize], dtype)
        if not len(stored):
            return
        left -= len(stored)
        yield stored


def _picture(stream: BinaryIO) -> Header:
    from PIL import Image

    with Image.open(stream, formats=PICTURES) as image:
        mode, shape = image.mode, (image.height, image.width)
    bands = {"1": 1, "L": 1, "P": 1, "I": 4, "F": 4, "LA": 2, "RGB": 3, "RGBA": 4}
    width = 2 if mode.startswith("I;16") else bands.get(mode)
    if width is None:
        raise BadFile("its colours are no labels")

    def pieces() -> Iterator[npt.NDArray[Any]]:
        stream.seek(0)
        with Image.open(stream, formats=PICTURES) as image:
            stored = np.asarray(image)
        if stored.ndim == 3:
            # Grey that was saved in colour; a palette's numbers are the values.
            grey, others = stored[..., 0], stored[..., 1:3] if stored.shape[2] > 2 else stored[..., :0]
            if (others != grey[..., None]).any():
                raise BadFile("its colours are no labels")
            stored = grey
        flat = stored.reshape(-1)
        yield from (flat[first : first + _CHUNK] for first in range(0, len(flat), _CHUNK))

    return Header(shape, None, math.prod(shape) * width, False, pieces, _FULL.get(mode))


def _npy(stream: BinaryIO, mask: Numbers) -> Header:
    version = np.lib.format.read_magic(stream)
    read = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}.get(version)
    if read is None:
        raise BadFile("it is an .npy file of another version than 1 or 2")
    shape, fortran, dtype = read(stream)
    if dtype.kind != "f":
        raise BadFile("it holds no real numbers")
    voxels = math.prod(shape)
    return Header(shape, mask.affine, voxels * dtype.itemsize, fortran, lambda: _read(stream, voxels, dtype))
