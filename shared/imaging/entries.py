"""Entries of arrays that hold one image after the other, read one at a time from files that stay open.

Cases of one file are asked for in ascending order. So the compressed stream of an npz is read forward once for all of
them, an HDF5 file keeps its chunks, a `.npy` file is mapped; nothing but an entry is in memory. What can only be read
whole (MATLAB 5, pickles, an npz in Fortran order) is kept while its entries are asked for.
"""

import os
import threading
import zipfile
from collections import OrderedDict
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from .arrays import Stored, chosen, image_of
from .errors import BadImage, bounded
from .formats import suffix_of
from .image import Image
from .nifti import Axis4

_OPEN = 6
"""Arrays that stay open: image and mask of a few files."""


@dataclass
class _Opened:
    stored: Stored
    take: Callable[[int], np.ndarray]
    files: ExitStack = field(default_factory=ExitStack)
    whole: bool = False
    """Whether all of it is in memory: then only one such array is kept."""


_opened: OrderedDict[tuple[Any, ...], _Opened] = OrderedDict()
_lock = threading.Lock()


def read(path: Path, index: int, array: str | None, axis4: Axis4, most: int) -> Image:
    """Entry `index` of an array, as `arrays.read` gives a file that holds it alone. Raises BadImage."""
    return image_of(entry(path, array, index, most), axis4)


def entry(path: Path, array: str | None, index: int, most: int) -> np.ndarray:
    """Entry `index` of an array, in the axes of a file that holds it alone. Raises BadImage."""
    known = path.stat()
    # Of this process only: a fork would share the place in a stream.
    key = (os.getpid(), str(path), array, known.st_size, known.st_mtime_ns)
    with _lock:
        opened = _opened.pop(key, None) or _open(path, array, most)
        _opened[key] = opened
        _close_old()
        stored = opened.stored
        if not stored.shape or index >= stored.shape[stored.axis]:
            many = stored.shape[stored.axis] if stored.shape else 0
            raise BadImage(f"holds {many} entries in {stored.name or 'its array'}; there is no number {index}")
        shape = [edge for axis, edge in enumerate(stored.shape) if axis != stored.axis]
        bounded(shape, max(4, stored.dtype.itemsize), most)
        found = np.array(opened.take(index))
    # MATLAB's (rows, columns, colours, entries): the colours have come to the front.
    colour = stored.axis == 3 and found.shape[0] in (3, 4) and found.dtype == np.uint8
    return np.moveaxis(found, 0, -1) if colour else found


def _close_old() -> None:
    """Closes what was used least recently, and all but the latest of what is in memory."""
    last = next(reversed(_opened))
    for key in [key for key, one in _opened.items() if key != last]:
        if len(_opened) > _OPEN or (_opened[key].whole and _opened[last].whole):
            _opened.pop(key).files.close()


def _open(path: Path, array: str | None, most: int) -> _Opened:
    stored = chosen(path, array)
    suffix = suffix_of(path.name)
    if suffix == ".npy":
        mapped = stored.load()
        return _Opened(stored, lambda index: mapped[index])
    if suffix == ".npz" and (streamed := _npz(path, stored)) is not None:
        return streamed
    if stored.hdf5:
        return _hdf5(path, stored)
    bounded(stored.shape, stored.dtype.itemsize, most)
    loaded = np.asarray(stored.load())
    return _Opened(stored, lambda index: np.take(loaded, index, stored.axis), whole=True)


def _npz(path: Path, stored: Stored) -> _Opened | None:
    """None where entries do not lie one after the other."""
    from numpy.lib import format as npy

    files = ExitStack()
    archive = files.enter_context(zipfile.ZipFile(path))
    stream = files.enter_context(archive.open(f"{stored.name}.npy"))
    version = npy.read_magic(stream)
    read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    shape, fortran, dtype = read(stream)
    if fortran or dtype.hasobject:
        files.close()
        return None
    start = stream.tell()
    size = int(np.prod(shape[1:], dtype=np.int64)) * dtype.itemsize

    def take(index: int) -> np.ndarray:
        # Forward it reads on, backward it begins anew.
        stream.seek(start + index * size)
        held = stream.read(size)
        if len(held) != size:
            raise BadImage(f"ends before entry {index} of {stored.name}; copy it again from where it came from")
        return np.frombuffer(held, dtype).reshape(shape[1:])

    return _Opened(stored, take, files)


def _hdf5(path: Path, stored: Stored) -> _Opened:
    import h5py

    files = ExitStack()
    file = files.enter_context(h5py.File(path, "r"))
    dataset = file[stored.name]

    def take(index: int) -> np.ndarray:
        if not stored.matlab:
            return np.asarray(dataset[index])
        # MATLAB's axes stand in reverse: its last, along which entries lie, comes first.
        found = np.asarray(dataset[index]).T
        return np.moveaxis(found, 2, 0) if stored.axis == 3 else found

    return _Opened(stored, take, files)
