"""Bounded looks into files: headers and a sample of pixels, and what these say (mask or image, Hounsfield units)."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from shared.imaging.arrays import arrays_of
from shared.imaging.errors import BadImage
from shared.imaging.header import Header
from shared.imaging.headers import peek
from shared.imaging.units import looks_like_hu
from shared.imaging.volume import read

Array: TypeAlias = npt.NDArray[Any]
_LARGEST = 600 << 20
"""Bytes of decoded voxels above which pixels are not looked at."""
_MOST_VALUES = 300
_FEW_VALUES = 4
_THUMB = 24
_MOST_ARRAYS = 4


@dataclass(frozen=True)
class Pixels:
    """What the values of one file say."""

    low: float
    high: float
    """1st and 99th percentile of a sample."""
    minimum: float
    maximum: float
    finite: bool
    whole: bool
    values: tuple[int, ...]
    """That occur, where there are 300 whole ones at most; of a colour picture 0xRRGGBB."""
    mask: bool
    """Few whole values in areas: a label map, not an image. An image of one value is none."""
    hu: bool
    nearly_mask: bool
    """Two tones as a lossy or smoothed mask has them, or a small range from 0: a mask where its name says so, too."""
    thumb: Array
    """24 x 24, of a picture or the middle slice, for comparing neighbours."""

    @property
    def constant(self) -> bool:
        return self.minimum == self.maximum


@dataclass(frozen=True)
class Look:
    """One file: its header or why it cannot be read, and its pixels where they were looked at."""

    file: str
    header: Header | None = None
    fault: str = ""
    pixels: Pixels | None = None
    """Of several arrays in one file: of the largest that is no mask."""
    arrays: tuple[tuple[str, Pixels], ...] = ()
    """Name and pixels of each, where a file holds several."""


class Looker:
    """Looks at files of `root` within `seconds`; what was looked at is kept."""

    def __init__(self, root: Path, seconds: float) -> None:
        self.root = root
        self.seconds = seconds
        self.end = time.monotonic() + seconds
        self.known: dict[str, Look] = {}
        self.late = 0
        """Looks that were not taken because time was up."""
        self.spent = 0.0
        """Seconds in looks so far."""

    @property
    def left(self) -> float:
        """Seconds."""
        return self.end - time.monotonic()

    def extend(self, seconds: float) -> None:
        """At least so much time is left."""
        self.end = max(self.end, time.monotonic() + seconds)

    @contextmanager
    def timed(self) -> Iterator[None]:
        """Counts as looking what is done inside."""
        began = time.monotonic()
        try:
            yield
        finally:
            self.spent += time.monotonic() - began

    def header(self, file: str) -> Look | None:
        """None when time is up."""
        if file not in self.known:
            if self.left <= 0:
                self.late += 1
                return None
            with self.timed():
                try:
                    self.known[file] = Look(file, peek(self.root / file))
                except BadImage as error:
                    self.known[file] = Look(file, fault=str(error))
        return self.known[file]

    def pixels(self, file: str) -> Look | None:
        """As `header`, with pixels unless the file is too large. A file that cannot be decoded is at fault."""
        look = self.header(file)
        if look is None or look.header is None or look.pixels is not None or look.fault:
            return look
        if look.header.kind == "annotation":
            return look
        if np.prod([float(edge) for edge in look.header.shape]) * look.header.frames * 4 > _LARGEST:
            return look
        if self.left <= 0:
            self.late += 1
            return look
        with self.timed():
            try:
                self.known[file] = self._read(file, look.header)
            except BadImage as error:
                self.known[file] = Look(file, look.header, fault=str(error))
        return self.known[file]

    def _read(self, file: str, header: Header) -> Look:
        path = self.root / file
        names = [one.name for one in arrays_of(path)] if header.kind == "array" else []
        found = []
        for name in names[:_MOST_ARRAYS] if len(names) > 1 else [None]:
            image = read([path], array=name, axis4="first")
            found.append((name or "", pixels_of(image.array, image.affine is not None), image.array.size))
        main = max(found, key=lambda one: (not one[1].mask, one[2]))
        return Look(
            file, header, pixels=main[1], arrays=tuple((name, one) for name, one, _ in found) if names[1:] else ()
        )


def pixels_of(array: Array, solid: bool) -> Pixels:
    """Of (X, Y, Z, C) where `solid`, else (H, W, C)."""
    middle = array[:, :, array.shape[2] // 2, 0].T if solid else array[..., 0]
    if not solid and array.shape[-1] in (3, 4) and array.dtype == np.uint8:
        channel = array[..., :3].astype(np.int32) @ np.array([1 << 16, 1 << 8, 1])
    else:
        channel = array[..., 0]
    if solid and channel.size > 8_000_000:  # whole slices, so that neighbours stay neighbours
        channel = channel[:, :, :: int(channel.size // 8_000_000) + 1]
    finite = bool(np.isfinite(channel).all()) if channel.dtype.kind == "f" else True
    usable = channel if finite else np.nan_to_num(channel, nan=0.0, posinf=0.0, neginf=0.0)
    whole = usable.dtype.kind in "iub" or bool((usable == np.round(usable)).all())
    values = _values(usable) if whole else ()
    sample = array.reshape(-1)[:: max(1, array.size // 200_000)].astype(np.float64)
    sample = sample[np.isfinite(sample)]
    low, high = np.percentile(sample, (1, 99)) if sample.size else (0.0, 0.0)
    return Pixels(
        low=float(low),
        high=float(high),
        minimum=float(usable.min()),
        maximum=float(usable.max()),
        finite=finite,
        whole=whole,
        values=values,
        mask=_is_mask(usable, values),
        hu=looks_like_hu(sample),
        nearly_mask=_nearly_mask(usable),
        thumb=_thumb(middle),
    )


def _values(channel: Array) -> tuple[int, ...]:
    low, high = int(channel.min()), int(channel.max())
    if high - low < 70_000 and channel.size > 10_000:
        counts = np.bincount(channel.reshape(-1).astype(np.int64) - low)
        found = np.flatnonzero(counts) + low
    else:
        found = np.unique(channel)
    return tuple(int(value) for value in found) if len(found) <= _MOST_VALUES else ()


def _is_mask(channel: Array, values: tuple[int, ...]) -> bool:
    """Few values; where more than four, most pixels beside one of a structure belong to it, too."""
    if len(values) < 2:
        return False
    if len(values) <= _FEW_VALUES:
        return True
    counts = [(int((channel == value).sum()), value) for value in (values[0], 0) if value in values]
    ground = max(counts)[1] if counts else values[0]
    inside = channel[1:] != ground
    same = float((channel[1:] == channel[:-1])[inside].mean()) if inside.any() else 0.0
    return same >= (0.5 if len(values) <= 12 else 0.7)


def _nearly_mask(channel: Array) -> bool:
    low, high = float(channel.min()), float(channel.max())
    edge = (high - low) / 16
    two_tones = float(((channel <= low + edge) | (channel >= high - edge)).mean())
    return low == 0 and (two_tones > 0.95 or high <= 64)


def _thumb(plane: Array) -> Array:
    """Means of a grid of blocks, at the same places whatever the plane's size."""
    plane = np.nan_to_num(plane.astype(np.float32))
    rows, columns = (np.linspace(0, edge, min(_THUMB, edge) + 1).round().astype(int) for edge in plane.shape)
    narrow = np.add.reduceat(plane, rows[:-1], axis=0) / np.diff(rows)[:, None]
    return np.add.reduceat(narrow, columns[:-1], axis=1) / np.diff(columns)


def alike(one: Pixels, other: Pixels) -> float:
    """Correlation of two files' thumbnails, 0 where their sizes differ or one shows nothing."""
    if one.thumb.shape != other.thumb.shape or one.thumb.std() == 0 or other.thumb.std() == 0:
        return 0.0
    return float(np.corrcoef(one.thumb.ravel(), other.thumb.ravel())[0, 1])
