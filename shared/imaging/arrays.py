"""Plain arrays: NumPy, PyTorch, pickles, MATLAB and HDF5. None of them says where its voxels are.

An array of three axes is a volume, slices first (D, H, W); of MATLAB slices are last, as its programs have them. One of
two axes is a picture (H, W), and so is (H, W, 3) of bytes, in colour. Axes of one in front or behind do not count.
An array may also hold one image after the other, along its first axis, of MATLAB its last: see `entries`.
"""

import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from .errors import LARGEST, BadImage, bounded, shown
from .formats import format_of
from .header import Header
from .image import Image
from .nifti import Axis4


@dataclass(frozen=True)
class Stored:
    """One array of a file: known by shape and type, read when asked for."""

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    load: Callable[[], Any]
    matlab: bool = False
    hdf5: bool = False

    @property
    def axis(self) -> int:
        """Along which entries lie. MATLAB's last: of three axes it has come to the front, of four it has not."""
        return 3 if self.matlab and len(self.shape) == 4 else 0


def arrays_of(path: Path) -> list[Stored]:
    """All arrays of numbers with two axes or more; of formats with a header nothing else is read. Raises BadImage."""
    return [one for one in stored_in(path) if one.dtype.kind in "biuf" and sum(size > 1 for size in one.shape) >= 2]


def stored_in(path: Path) -> list[Stored]:
    """Whatever a file holds: arrays, single numbers and texts. Raises BadImage."""
    found = format_of(path)
    suffix = found.suffix if found else ""
    if suffix == ".npy":
        every = [_npy(path)]
    elif suffix == ".npz":
        every = list(_npz(path))
    elif suffix in (".h5", ".hdf5"):
        every = list(_hdf5(path, turn=False))
    elif suffix == ".mat":
        every = list(_mat(path))
    else:
        from .pickles import tensors, unpickled

        every = list(_nested("", tensors(path) if suffix in (".pt", ".pth") else unpickled(path)))
    return every


def chosen(path: Path, array: str | None) -> Stored:
    """The array of that name, or the only one. Raises BadImage."""
    every = arrays_of(path)
    names = ", ".join(one.name or "(unnamed)" for one in every[:12])
    if array is not None:
        for one in every:
            if one.name == array:
                return one
        raise BadImage(f"holds no array of numbers named {array!r}" + (f"; it holds {names}" if names else ""))
    if not every:
        raise BadImage("holds no array of numbers with two axes or more")
    if len(every) > 1:
        raise BadImage(f"holds {len(every)} arrays; say with `array` which one is meant: {names}")
    return every[0]


def _npy(path: Path) -> Stored:
    with path.open("rb") as file:
        shape, dtype = _npy_header(file)
    return Stored("", shape, dtype, lambda: np.load(path, mmap_mode="r", allow_pickle=False))


def _npy_header(file: Any) -> tuple[tuple[int, ...], np.dtype[Any]]:
    from numpy.lib import format as npy

    version = npy.read_magic(file)
    if version not in ((1, 0), (2, 0), (3, 0)):
        raise BadImage(f"is of version {version} of the NumPy format, which is not known")
    read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    shape, _, dtype = read(file)
    return tuple(shape), dtype


def _npz(path: Path) -> Iterator[Stored]:
    with zipfile.ZipFile(path) as archive:
        for member in archive.namelist():
            if member.endswith(".npy"):
                with archive.open(member) as file:
                    shape, dtype = _npy_header(file)
                yield Stored(member[:-4], shape, dtype, partial(_npz_member, path, member[:-4]))


def _npz_member(path: Path, name: str) -> np.ndarray:
    with np.load(path, allow_pickle=False) as archive:
        found: np.ndarray = archive[name]
    return found


def _hdf5(path: Path, turn: bool) -> Iterator[Stored]:
    """`turn` for MATLAB files, whose axes HDF5 tells in reverse. Links to other files are not followed."""
    import h5py

    found: list[Stored] = []

    def visit(name: str, item: Any) -> None:
        # What HDF5 keeps for MATLAB's own use has names with #.
        if (
            isinstance(item, h5py.Dataset)
            and item.shape is not None
            and not item.external
            and not item.is_virtual
            and "#" not in name
        ):
            shape = _first(item.shape[::-1], item.dtype) if turn else item.shape
            found.append(Stored(name, tuple(shape), item.dtype, lambda: _hdf5_dataset(path, name, turn), turn, True))

    with h5py.File(path, "r") as file:
        file.visititems(visit)
    yield from found


def _hdf5_dataset(path: Path, name: str, turn: bool) -> np.ndarray:
    import h5py

    with h5py.File(path, "r") as file:
        texts = h5py.check_string_dtype(file[name].dtype) is not None
        found = np.asarray(file[name].asstr(errors="replace")[()] if texts else file[name][()])
        if turn and _of_letters(found, file[name].attrs.get("MATLAB_class")):
            return np.asarray("".join(map(chr, found.ravel().tolist())))
    return _slices_first(found.T) if turn else found


def _of_letters(found: np.ndarray, said: Any) -> bool:
    """Whether numbers are MATLAB's letters: its class says so, or none is said and they read as text."""
    if said is not None:
        return bytes(said) == b"char"
    return found.dtype == np.uint16 and found.size > 1 and bool(((found >= 32) & (found < 127)).all())


def _mat(path: Path) -> Iterator[Stored]:
    import scipy.io

    with path.open("rb") as file:
        if b"HDF" in file.read(520)[508:] or b"MATLAB 7.3" in _start(path):
            yield from _hdf5(path, turn=True)
            return
    for name, shape, kind in scipy.io.whosmat(path):
        if kind in ("struct", "cell"):
            yield from _nested(
                name, scipy.io.loadmat(path, variable_names=[name], simplify_cells=True)[name], matlab=True
            )
        elif kind not in ("object", "opaque", "function", "sparse", "unknown"):
            types = {"single": "float32", "double": "float64", "logical": "bool", "char": "U"}
            dtype = np.dtype(types.get(kind, kind))

            def load(name: str = name) -> np.ndarray:
                return _slices_first(np.asarray(scipy.io.loadmat(path, variable_names=[name])[name]))

            yield Stored(name, _first(shape, dtype), dtype, load, True)


def _start(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(128)


def _flat(shape: Sequence[int], dtype: np.dtype[Any]) -> bool:
    """Whether there are no slices: (rows, columns), or colour (rows, columns, 3)."""
    return len(shape) < 3 or (len(shape) == 3 and shape[2] in (3, 4) and dtype == np.uint8)


def _first(shape: Sequence[int], dtype: np.dtype[Any]) -> tuple[int, ...]:
    """MATLAB's (rows, columns, slices, ...) with the slices in front."""
    return tuple(shape) if _flat(shape, dtype) else (shape[2], *shape[:2], *shape[3:])


def _slices_first(array: np.ndarray) -> np.ndarray:
    return array if _flat(array.shape, array.dtype) else np.moveaxis(array, 2, 0)


def _nested(name: str, value: Any, matlab: bool = False) -> Iterator[Stored]:
    """Arrays in dictionaries and lists, named by their path."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _nested(f"{name}/{key}" if name else str(key), item, matlab)
    elif isinstance(value, list | tuple):
        for number, item in enumerate(value):
            yield from _nested(f"{name}/{number}" if name else str(number), item, matlab)
    elif isinstance(value, np.ndarray):
        array = _slices_first(value) if matlab else value
        yield Stored(name, array.shape, array.dtype, lambda: array, matlab)
    elif isinstance(value, str | int | float | np.generic):
        single = np.asarray(value)
        yield Stored(name, (), single.dtype, lambda: single, matlab)


def plain_shape(shape: tuple[int, ...], dtype: np.dtype[Any]) -> tuple[tuple[int, ...], bool]:
    """Shape without axes of one around what matters, and whether the last axis is colour. Raises BadImage."""
    edges = list(shape)
    while len(edges) > 2 and edges[0] == 1:
        edges.pop(0)
    while len(edges) > 2 and edges[-1] == 1:
        edges.pop()
    if not 2 <= len(edges) <= 4 or 0 in edges:
        raise BadImage(f"has shape {shown(shape)}; expected two to four axes, none empty")
    colour = len(edges) >= 3 and edges[-1] in (3, 4) and dtype == np.uint8
    return tuple(edges), colour


def header(path: Path) -> Header:
    """See `headers.peek`; of several arrays the largest."""
    every = arrays_of(path)
    if not every:
        raise BadImage("holds no array of numbers with two axes or more")
    found = max(every, key=lambda one: int(np.prod([float(size) for size in one.shape])))
    shape, colour = plain_shape(found.shape, found.dtype)
    space = shape[:-1] if colour else shape
    frames = 1
    if len(space) == 4:
        frames, space = split_axis4(space)
    return Header(
        "array",
        2 if len(space) == 2 else 3,
        tuple(space[::-1]),
        channels=3 if colour else 1,
        dtype=found.dtype.name,
        colour=colour,
        frames=frames,
    )


def split_axis4(shape: tuple[int, ...]) -> tuple[int, tuple[int, ...]]:
    """Length of the axis of channels or times, and the other three: nothing says which it is, the shorter one of first
    and last is taken."""
    return (shape[0], shape[1:]) if shape[0] <= shape[-1] else (shape[-1], shape[:-1])


def read(path: Path, array: str | None = None, axis4: Axis4 = "refuse", most: int = LARGEST) -> Image:
    """A picture, or a volume whose affine is the identity. Raises BadImage."""
    stored = chosen(path, array)
    bounded(stored.shape, max(4, stored.dtype.itemsize), most)
    return image_of(np.asarray(stored.load()), axis4)


def image_of(found: np.ndarray, axis4: Axis4) -> Image:
    """The image that an array of a file is, see `read`. Raises BadImage."""
    if found.dtype.kind not in "biuf":
        raise BadImage(f"holds values of type {found.dtype}, not numbers")
    shape, colour = plain_shape(found.shape, found.dtype)
    found = found.reshape(shape)
    if colour:
        from .pictures import is_grey

        found = found[..., :3]
        if len(shape) == 3:
            grey = is_grey(found)
            return Image(np.array(found[..., :1] if grey else found), None, colour=not grey)
    elif len(shape) == 4:
        count, _ = split_axis4(shape)
        if axis4 == "refuse":
            raise BadImage(
                f"has shape {shown(shape)}: say with `axis4` whether the {count} are channels, or times of which the "
                "first is taken"
            )
        found = found if shape[0] > shape[-1] else np.moveaxis(found, 0, -1)
        found = found[..., :1] if axis4 == "first" else found
    else:
        found = found[..., None]
    if found.ndim == 3:
        return Image(np.array(found), None)
    return Image(np.array(found.transpose(2, 1, 0, 3)), np.eye(4), colour=colour)
