"""What stands in files of arrays (npz, mat, h5): images of several cases, and values beside them."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from shared.dataset.files.held import held
from shared.dataset.files.patterns import compile
from shared.dataset.tables.cells import cell
from shared.imaging.arrays import Stored, arrays_of, stored_in
from shared.imaging.errors import BadImage, guarded

Array: TypeAlias = npt.NDArray[Any]

ENTRY = "entry"
"""Field with the number of an entry."""
MOST_VALUES = 1 << 28
"""Bytes of an array of values: more are no labels."""
_FIELD = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True)
class Taken:
    """One image: a file, or an array or an entry of one."""

    file: str
    fields: dict[str, str]
    array: str | None = None
    index: int | None = None
    place: int = 0
    """Which of the patterns of its channel takes it."""

    @property
    def number(self) -> tuple[str, ...]:
        """What of a key tells entries apart."""
        return () if self.index is None else (str(self.index),)


def inner_fields(array: str | None) -> tuple[str, ...]:
    """Raises PatternError."""
    return compile(array).fields if array and _FIELD.search(array) else ()


def images_in(root: Path, file: str, fields: dict[str, str], array: str | None, entries: bool) -> list[Taken]:
    """The file itself, or where it may hold several images the arrays that fit `array`, or their entries; each with
    `fields` and its own. Raises BadImage."""
    pattern = compile(array) if array and _FIELD.search(array) else None
    if not entries and pattern is None:
        return [Taken(file, fields, array)]
    path = root / file
    found: list[Taken] = []
    for name, shape, axis in shapes(path):
        inner = pattern.match(name) if pattern else {} if array in (None, name) else None
        if inner is None:
            continue
        named = name if array is not None else None
        own = {**fields, **inner}
        if entries:
            count = shape[axis] if len(shape) > 2 else 0
            found += [Taken(file, {**own, ENTRY: str(index)}, named, index) for index in range(count)]
        else:
            found.append(Taken(file, own, named))
    if array is None and len({name for name, *_ in shapes(path)}) > 1:
        names = ", ".join(name for name, *_ in shapes(path)[:8])
        raise BadImage(f"{path.name} holds several arrays; say with `array` which one holds images: {names}")
    return found


def shapes(path: Path) -> tuple[tuple[str, tuple[int, ...], int], ...]:
    """Name, shape and axis of entries of each array that may be an image. Raises BadImage."""
    try:
        known = path.stat()
    except OSError:
        raise BadImage(f"{path.name} does not exist") from None
    return _shapes(path, known.st_mtime_ns, known.st_size)


@lru_cache(maxsize=4096)
def _shapes(path: Path, _time: int, _size: int) -> tuple[tuple[str, tuple[int, ...], int], ...]:
    return tuple((one.name, one.shape, one.axis) for one in guarded(path, lambda: arrays_of(path)))


def count_of(path: Path, array: str | None) -> int:
    """Entries of an array of images. Raises BadImage."""
    return next((shape[axis] for name, shape, axis in shapes(path) if array in (None, name)), 0)


def filled(template: str, fields: Mapping[str, str]) -> str | None:
    """Fields in a name replaced by their text; None where one is missing."""
    if any(name not in fields for name in _FIELD.findall(template)):
        return None
    return _FIELD.sub(lambda found: fields[found[1]], template)


def values_of(path: Path, name: str) -> Array | None:
    """An array of numbers or texts that stands for values of cases; None where there is none. Raises BadImage."""

    if (known := held(path).values.get(name)) is not None:
        return known

    def load() -> Array | None:
        stored = next((one for one in stored_in(path) if one.name == name), None)
        if stored is None:
            return None
        if too_large(stored):
            raise BadImage(f"holds {stored.name!r} with {stored.shape} values, too many for values of cases")
        return np.asarray(stored.load())

    return guarded(path, load)


def too_large(stored: Stored) -> bool:
    return float(np.prod(stored.shape, dtype=float)) * max(1, stored.dtype.itemsize) > MOST_VALUES


def texts_of(values: Array, count: int | None) -> list[str] | None:
    """Values as text: one for each of `count` entries, or the one of a case (`count` None). None where they do not fit.

    Of several zeros and ones the places of the ones, joined by `|`; several texts are joined so, too.
    """
    if count is None:
        one = _text(values)
        return None if one is None else [one]
    if values.size == 1:
        one = _text(values)
        return None if one is None else [one] * count
    if values.ndim and values.shape[0] != count and values.shape[-1] == count:
        values = values.reshape(-1, count).T  # MATLAB lays values of one axis in a row
    if not values.ndim or values.shape[0] != count:
        return None
    if values.size == count and values.dtype.kind in "biuf":
        different, places = np.unique(values.reshape(-1), return_inverse=True)
        said = [_single(one) for one in different]
        return [said[place] for place in places]
    made = [_text(row) for row in values]
    return None if any(one is None for one in made) else [one or "" for one in made]


def _text(value: Array) -> str | None:
    value = np.asarray(value)
    if value.size == 1:
        return _single(value.reshape(-1)[0])
    flat = value.reshape(-1)
    if value.dtype.kind in "biuf" and value.size and value.ndim <= 2 and bool(((flat == 0) | (flat == 1)).all()):
        return "|".join(str(place) for place in np.flatnonzero(flat))
    if value.dtype.kind in "USO" and max(value.shape, default=0) == value.size:
        return "|".join(text for one in flat if (text := _single(one)))
    return None


def _single(value: Any) -> str:
    if isinstance(value, bytes):
        return cell(value.decode("utf-8", "replace"))
    if isinstance(value, str | np.str_):
        return cell(str(value))
    number = np.asarray(value)
    if number.dtype.kind not in "biuf" or (number.dtype.kind == "f" and not np.isfinite(number)):
        return ""
    return str(int(number)) if float(number).is_integer() else f"{float(number):.10g}"
