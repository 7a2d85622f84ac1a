"""Masks and bins of scores as data: the two forms that our own programs write (`shared.imaging.write`), and no other.

No decoder of images is at work here. A header has a fixed length and fixed places; shape and type are judged before
anything is unpacked, and no more is unpacked than they promise.
"""

import math
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from services.scorer.masks.overlap import Numbers
from services.scorer.patients import Floats
from shared.contracts.base import Ref
from shared.store import Store

MAX_BYTES = 2 << 30
"""Of a file, and of the unpacked voxels in it."""

_NIFTI = np.dtype(
    {
        "names": ["size", "dim", "type", "offset", "scale", "sform", "affine", "magic"],
        "formats": ["<i4", ("<i2", 8), "<i2", "<f4", ("<f4", 2), "<i2", ("<f4", (3, 4)), "S4"],
        "offsets": [0, 40, 70, 108, 112, 254, 280, 344],
        "itemsize": 352,
    }
)
_PNG = np.dtype(
    [("magic", "S16"), ("width", ">u4"), ("height", ">u4"), ("depth", "u1"), ("rest", "V4"), ("crc", ">u4"),
     ("packed", ">u4"), ("data", "S4")]
)  # fmt: skip
_TYPES: dict[int, np.dtype[Any]] = {2: np.dtype("<u1"), 512: np.dtype("<u2")}
_DEPTHS: dict[int, np.dtype[Any]] = {8: np.dtype(">u1"), 16: np.dtype(">u2")}
_CHUNK = 1 << 20


class BadMask(ValueError):
    """The file is none that is read; the message says why, in words of ours only."""


@dataclass(frozen=True)
class Grid:
    shape: tuple[int, ...]
    """Of a volume (x, y) or (x, y, z), trailing axes of length 1 dropped; of a picture (height, width)."""
    affine: Floats | None
    """(4, 4), voxel index to millimetres; None for a picture, which has none."""


class File:
    """An open file: its `grid`, and on demand its numbers. Raises BadMask."""

    def __init__(self, stream: BinaryIO) -> None:
        self._packed = stream
        picture = stream.read(1) == b"\x89"
        stream.seek(0)
        if picture:
            self.grid, self._dtype = self._png()
        else:
            self.grid, self._dtype = self._nifti()
        shape = self.grid.shape
        if not 2 <= len(shape) <= 3 or min(shape) < 1:
            raise BadMask(f"its shape is {shape}; a mask has two or three axes")
        if (size := math.prod(shape) * self._dtype.itemsize) > MAX_BYTES:
            raise BadMask(f"it promises {size} bytes of voxels, at most {MAX_BYTES} are read")

    def numbers(self) -> Numbers:
        """uint8 or uint16, of the grid's shape. Call it once."""
        if self.grid.affine is not None:
            found = self._unpacked(math.prod(self.grid.shape) * self._dtype.itemsize).view(self._dtype)
            numbers = found.reshape(self.grid.shape, order="F")
        else:
            height, width = self.grid.shape
            # A row begins with the number of its filter; ours are written with none.
            rows = self._unpacked(height * (1 + width * self._dtype.itemsize)).reshape(height, -1)
            if rows[:, 0].any():
                raise BadMask("its rows are filtered, which no program of ours does")
            numbers = np.ascontiguousarray(rows[:, 1:]).view(self._dtype)
        # Also at the end, where the checksum is compared.
        if self._piece(1) or not self._unpacker.eof:
            raise BadMask("it holds more than its voxels, or its end is missing")
        return numbers

    def _nifti(self) -> tuple[Grid, np.dtype[Any]]:
        self._unpacker, self._rest = zlib.decompressobj(31), b""
        head = self._unpacked(_NIFTI.itemsize).view(_NIFTI)[0]
        axes = int(head["dim"][0])
        shape = tuple(int(size) for size in head["dim"][1 : axes + 1])
        while len(shape) > 2 and shape[-1] == 1:
            shape = shape[:-1]
        affine = np.vstack([head["affine"].astype(np.float64), (0, 0, 0, 1)])
        ours = (head["size"], head["magic"], head["offset"], *head["scale"]) == (348, b"n+1", 352, 1, 0)
        if not (ours and head["sform"] > 0 and 1 <= axes <= 7 and np.isfinite(affine).all()):
            raise BadMask("it is no NIfTI as our programs write it")
        return Grid(shape, affine), self._known(_TYPES, head["type"])

    def _png(self) -> tuple[Grid, np.dtype[Any]]:
        self._unpacker, self._rest = zlib.decompressobj(15), b""
        raw = self._packed.read(_PNG.itemsize)
        if len(raw) < _PNG.itemsize:
            raise BadMask("it ends in its header")
        head = np.frombuffer(raw, _PNG)[0]
        ours = head["magic"] == b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" and head["data"] == b"IDAT"
        if not ours or bytes(head["rest"]).strip(b"\0"):
            raise BadMask("it is no PNG as our programs write it")
        return Grid((int(head["height"]), int(head["width"])), None), self._known(_DEPTHS, head["depth"])

    def _known(self, types: dict[int, np.dtype[Any]], code: int) -> np.dtype[Any]:
        if int(code) not in types:
            raise BadMask("its numbers are of another type than our programs write")
        return types[int(code)]

    def _unpacked(self, size: int) -> npt.NDArray[np.uint8]:
        """The next `size` bytes."""
        found, done = np.empty(size, np.uint8), 0
        while done < size and (piece := self._piece(min(size - done, _CHUNK))):
            found[done : done + len(piece)] = np.frombuffer(piece, np.uint8)
            done += len(piece)
        if done < size:
            raise BadMask(f"it holds {done} of {size} bytes")
        return found

    def _piece(self, most: int) -> bytes:
        """At least one byte, but at the end none."""
        try:
            while not self._unpacker.eof and (packed := self._rest or self._packed.read(_CHUNK)):
                piece = self._unpacker.decompress(packed, most)
                self._rest = self._unpacker.unconsumed_tail
                if piece:
                    return piece
        except zlib.error:
            raise BadMask("its voxels cannot be unpacked") from None
        return b""


@contextmanager
def fetched(store: Store, ref: Ref) -> Iterator[File]:
    """The stored file. Raises BadMask."""
    if ref.size > MAX_BYTES:
        raise BadMask(f"it has {ref.size} bytes, at most {MAX_BYTES} are read")
    with tempfile.TemporaryDirectory(prefix="m3-mask-") as folder:
        path = Path(folder) / "mask"
        store.get_file(ref, path)
        with path.open("rb") as stream:
            yield File(stream)
