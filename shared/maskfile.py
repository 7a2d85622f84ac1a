"""Masks read as data: a bounded reader for NIfTI and pictures that strangers wrote.

The header is judged before any voxel is unpacked, no more is unpacked than it promises, and a volume is turned into
class numbers piece by piece, so that neither a gzip bomb nor a header of 10^12 voxels costs more than its own bytes.
nibabel and PIL are imported on use: a service that never meets a mask does not load them.
"""

import gzip
import io
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO, TypeAlias

import numpy as np
import numpy.typing as npt

Floats: TypeAlias = npt.NDArray[np.float64]

MAX_BYTES = 2 << 30
"""Of unpacked voxels in one mask."""
PICTURES = ("PNG", "BMP", "TIFF", "GIF")
WHOLE = 1e-3
"""How far a stored value may be from a whole number: scaling in a header leaves rounding errors."""

_OFFSET = 16 << 20
_CHUNK = 1 << 20
"""Voxels that are turned into numbers at a time."""


class BadMask(ValueError):
    """The file is no mask that can be read; the message says why, in words of ours only."""


@dataclass(frozen=True)
class MaskHeader:
    shape: tuple[int, ...]
    """NIfTI: (x, y) or (x, y, z) as stored, trailing axes of length 1 dropped; a picture: (height, width)."""
    affine: Floats | None
    """(4, 4), voxel index to millimetres; None for a picture, which has none."""
    size: int
    """Bytes of the unpacked voxels."""
    dtype: Any = None
    offset: int = 0
    scale: tuple[float, float] = (1.0, 0.0)

    @property
    def voxels(self) -> int:
        return math.prod(self.shape)


@dataclass(frozen=True)
class Classes:
    """`numbers` has the header's shape: 0 background, 1..N the structures in the order of the values given."""

    numbers: npt.NDArray[Any]
    unknown: int
    """Voxels with a whole value that is neither 0 nor one of the values given; background in `numbers`."""
    fractions: int
    """Voxels whose value is no whole number (NaN too); background in `numbers`."""


def read_header(stream: BinaryIO, pictures: Sequence[str] = PICTURES) -> MaskHeader:
    """What a seekable stream promises, without unpacking its voxels. Raises BadMask."""
    try:
        stream.seek(0)
        start = stream.read(4)
        stream.seek(0)
        header = _nifti_header(stream) if is_nifti(start) else _picture_header(stream, pictures)
    except (BadMask, ImportError):
        raise
    except Exception as error:
        # Whatever a decoder trips over in a stranger's file is the file's fault.
        raise BadMask(f"it is no readable NIfTI or picture ({type(error).__name__})") from None
    if not 2 <= len(header.shape) <= 3 or min(header.shape) < 1:
        raise BadMask(f"its shape is {header.shape}; a mask has two or three axes")
    if header.size > MAX_BYTES:
        raise BadMask(f"it promises {header.size} bytes of voxels, at most {MAX_BYTES} are read")
    return header


def read_classes(stream: BinaryIO, header: MaskHeader, values: Sequence[int]) -> Classes:
    """The voxels of a stream whose header was accepted, as class numbers. Raises BadMask."""
    numbers = np.zeros(header.voxels, dtype=np.uint8 if len(values) < 255 else np.uint16)
    lookup = _Lookup(values, numbers.dtype)
    done = unknown = fractions = 0
    try:
        for stored in nifti_values(stream, header) if header.affine is not None else _picture_values(stream):
            found, known, broken = lookup(stored)
            numbers[done : done + len(stored)] = found
            done += len(stored)
            unknown += int(len(stored) - np.count_nonzero(known))
            fractions += broken
    except (BadMask, ImportError):
        raise
    except Exception as error:
        raise BadMask(f"its voxels cannot be read ({type(error).__name__})") from None
    if done != header.voxels:
        raise BadMask(f"it holds {done} of {header.voxels} voxels")
    layout: Any = "F" if header.affine is not None else "C"
    return Classes(numbers.reshape(header.shape, order=layout), unknown, fractions)


def is_nifti(start: bytes) -> bool:
    return start[:2] == b"\x1f\x8b" or start in (b"\x5c\x01\0\0", b"\0\0\x01\x5c", b"\x1c\x02\0\0", b"\0\0\x02\x1c")


def _unpacked(stream: BinaryIO) -> BinaryIO:
    """The stream from its start, unpacked while it is read if it is gzip, whatever its name says."""
    stream.seek(0)
    packed = stream.read(2) == b"\x1f\x8b"
    stream.seek(0)
    return gzip.GzipFile(fileobj=stream) if packed else stream  # type: ignore[return-value]


def _nifti_header(stream: BinaryIO) -> MaskHeader:
    from nibabel.nifti1 import Nifti1Header
    from nibabel.nifti2 import Nifti2Header

    raw = _unpacked(stream).read(540)
    kind = Nifti2Header if raw[:4] in (b"\x1c\x02\0\0", b"\0\0\x02\x1c") else Nifti1Header
    length = 540 if kind is Nifti2Header else 348
    found = kind.from_fileobj(io.BytesIO(raw[:length]), check=False)
    if bytes(found["magic"])[:2] != b"n+":
        raise BadMask("it is no NIfTI file with header and voxels in one")
    dtype = found.get_data_dtype()
    if dtype.kind not in "iufb":
        raise BadMask("its voxels are neither integers nor real numbers")
    shape = tuple(int(size) for size in found.get_data_shape())
    size = math.prod(shape) * dtype.itemsize
    while len(shape) > 2 and shape[-1] == 1:
        shape = shape[:-1]
    offset = int(found.get_data_offset())
    if not length <= offset <= _OFFSET:
        raise BadMask(f"its voxels begin at byte {offset}")
    affine = np.asarray(found.get_best_affine(), dtype=np.float64)
    if affine.shape != (4, 4) or not np.isfinite(affine).all():
        raise BadMask("its affine is not finite")
    slope, inter = found.get_slope_inter()
    scale = (1.0 if slope is None else float(slope), 0.0 if inter is None else float(inter))
    return MaskHeader(shape, affine, size, dtype, offset, scale)


def nifti_values(stream: BinaryIO, header: MaskHeader) -> Iterator[npt.NDArray[Any]]:
    """Flat pieces in the order of the file: the first axis runs fastest."""
    unpacked = _unpacked(stream)
    unpacked.read(header.offset)
    left, width = header.size, int(header.dtype.itemsize)
    while left:
        piece = unpacked.read(min(left, _CHUNK * width))
        if not piece or len(piece) % width:
            return
        left -= len(piece)
        stored = np.frombuffer(piece, dtype=header.dtype)
        slope, inter = header.scale
        yield stored if (slope, inter) == (1.0, 0.0) else stored * slope + inter
    unpacked.read(1)  # at the end of a gzip file this compares its checksum


def _picture_header(stream: BinaryIO, formats: Sequence[str]) -> MaskHeader:
    from PIL import Image

    with Image.open(stream, formats=formats) as image:
        bands = {"1": 1, "L": 1, "P": 1, "I": 4, "F": 4, "LA": 2, "RGB": 3, "RGBA": 4}
        width = 2 if image.mode.startswith("I;16") else bands.get(image.mode)
        if width is None:
            raise BadMask("its colours are no labels")
        return MaskHeader((image.height, image.width), None, image.height * image.width * width)


def _picture_values(stream: BinaryIO) -> Iterator[npt.NDArray[Any]]:
    """All pixels, row by row. A grey picture saved in colour is grey; a palette's numbers are the values."""
    from PIL import Image

    stream.seek(0)
    with Image.open(stream, formats=PICTURES) as image:
        stored = np.asarray(image)
    if stored.ndim == 3:
        grey, others = stored[..., 0], stored[..., 1:3] if stored.shape[2] > 2 else stored[..., :0]
        if (others != grey[..., None]).any():
            raise BadMask("its colours are no labels")
        stored = grey
    flat = stored.reshape(-1)
    yield from (flat[first : first + _CHUNK] for first in range(0, len(flat), _CHUNK))


class _Lookup:
    """Stored values to class numbers."""

    def __init__(self, values: Sequence[int], dtype: Any) -> None:
        keys = np.array([0, *values], dtype=np.int64)
        order = np.argsort(keys)
        self._keys, self._numbers = keys[order], order.astype(dtype)
        self._tables: dict[Any, tuple[npt.NDArray[Any], npt.NDArray[np.bool_]]] = {}

    def __call__(self, stored: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_], int]:
        """Class numbers, which of them are known (0 elsewhere), and how many values are no whole numbers."""
        if stored.dtype.kind == "f":
            with np.errstate(invalid="ignore"):
                whole = np.rint(stored)
                good = (np.abs(stored - whole) <= WHOLE) & (np.abs(whole) < 2**53)
            broken = int(good.size - np.count_nonzero(good))
            return (*self._search(np.where(good, whole, 0).astype(np.int64)), broken)
        if stored.dtype.itemsize > 2:
            return (*self._search(stored.astype(np.int64)), 0)
        # Looking up in a table of all that a small number can be is several times as fast.
        native = stored.dtype.newbyteorder("=")
        places = np.dtype(f"u{native.itemsize}")
        if native not in self._tables:
            every = np.arange(256**native.itemsize, dtype=places).view(native if native.kind != "b" else places)
            self._tables[native] = self._search(every.astype(np.int64))
        numbers, known = self._tables[native]
        at = stored.astype(native, copy=False).view(places)
        return numbers[at], known[at], 0

    def _search(self, whole: npt.NDArray[np.int64]) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_]]:
        place = np.minimum(np.searchsorted(self._keys, whole), len(self._keys) - 1)
        known = self._keys[place] == whole
        return np.where(known, self._numbers[place], 0).astype(self._numbers.dtype), known
