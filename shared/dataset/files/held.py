"""What files of arrays hold, in brief: names and shapes, and the small values beside images."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from shared.imaging.arrays import Stored, stored_in
from shared.imaging.errors import BadImage, guarded

Array: TypeAlias = npt.NDArray[Any]

SUFFIXES = frozenset((".npz", ".npy", ".mat", ".h5", ".hdf5", ".pkl", ".pickle", ".pt", ".pth"))
MOST_BYTES = 4 << 20
"""Of values beside images; larger ones are not looked at."""
MOST_CLASSES = 200
"""Second axis of values of entries: more are pixels."""


@dataclass(frozen=True)
class Shaped:
    """An array that may be an image, or several."""

    shape: tuple[int, ...]
    dtype: str
    axis: int

    @property
    def entries(self) -> int:
        return self.shape[self.axis] if self.shape else 0

    @property
    def one(self) -> tuple[int, ...]:
        """Shape of an entry."""
        return tuple(edge for axis, edge in enumerate(self.shape) if axis != self.axis)


@dataclass(frozen=True)
class Held:
    images: Mapping[str, Shaped] = field(default_factory=dict)
    """Arrays of numbers with two axes or more."""
    values: Mapping[str, Array] = field(default_factory=dict)
    """Single numbers and texts, and arrays that have one for each entry of an image."""


def held(path: Path) -> Held:
    """Empty for what cannot be read."""
    try:
        known = path.stat()
        return _held(path, known.st_mtime_ns, known.st_size)
    except (OSError, BadImage):
        return Held()


@lru_cache(maxsize=8192)
def _held(path: Path, _time: int, _size: int) -> Held:
    def look() -> Held:
        every = stored_in(path)
        solid = {edge for one in every if len(one.shape) > 2 for edge in (one.shape[one.axis],)}
        images: dict[str, Shaped] = {}
        values: dict[str, Array] = {}
        for one in every:
            if _is_values(one, solid):
                if (loaded := _small(one)) is not None:
                    values[one.name] = loaded
            elif one.dtype.kind in "biuf" and sum(edge > 1 for edge in one.shape) >= 2:
                images[one.name] = Shaped(one.shape, one.dtype.name, one.axis)
        return Held(images, values)

    return guarded(path, look)


def _is_values(one: Stored, entries: set[int]) -> bool:
    """Texts, single numbers, lists, and rows of a few numbers for each entry of another array."""
    if one.dtype.kind not in "biuf" or sum(edge > 1 for edge in one.shape) < 2:
        return True
    rows, *rest = one.shape
    return len(rest) == 1 and rest[0] <= MOST_CLASSES and rows in entries and rows > rest[0] and _few(one)


def _few(one: Stored) -> bool:
    """Whether there are zeros and ones only, as one-hot rows have them."""
    loaded = _small(one)
    return loaded is not None and not np.setdiff1d(loaded, (0, 1)).size


def _small(one: Stored) -> Array | None:
    if (
        float(np.prod(one.shape, dtype=float)) * max(1, one.dtype.itemsize) > MOST_BYTES
        or one.dtype.kind not in "biufUSO"
    ):
        return None
    try:
        return np.asarray(one.load())
    except (ValueError, OSError, KeyError, TypeError):  # objects, which are not unpickled
        return None


def in_brief(path: Path, most: int = 24) -> dict[str, str]:
    """Name -> shape and type, of small values what they are; empty where there is but one array."""
    found = held(path)
    if len(found.images) + len(found.values) < 2:
        return {}
    said = {name: f"{' x '.join(map(str, one.shape))} {one.dtype}" for name, one in found.images.items()}
    for name, value in found.values.items():
        said[name] = _said(value)
    return dict(list(said.items())[:most])


def _said(value: Array) -> str:
    kind = "text" if value.dtype.kind in "USO" else value.dtype.name
    if value.size == 1:
        return f"{kind}: {str(value.reshape(-1)[0])[:60]}"
    shape = " x ".join(map(str, value.shape))
    distinct = np.unique(value.astype(str))
    return f"{shape} {kind}" + (f", values {', '.join(one[:30] for one in distinct[:6])}" if distinct.size <= 6 else "")
