"""Near-duplicates: images of different patients that are one image, saved again, resized, cropped a little, brightened.

Images of one organ look alike when they are small, so it takes two stages. First, of each sample the three most alike
of those after it, by correlation of what is left of them at 16 points an edge, with coarse structures weighed down,
over 69 small crops. Then these few are laid upon each other exactly (`register.py`) and compared in the band that tells
patients apart and survives JPEG. Volumes are compared whole, in one stage. Mirrored or turned images do not count as
copies.

What that finds and mistakes stands in the README; `bench/near_duplicates.py` measures it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from services.scorer.lock.register import WINDOW, alike
from shared.looks import FLAT, NOTHING, PICTURE, SOLID, VOLUME, grid_of

Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int64]
Records = npt.NDArray[np.void]

SAME_PICTURE = 0.98
SAME_VOLUME = 0.993
CANDIDATES = 3
"""Of each sample, that are looked at closely."""
WORTH_A_LOOK = 0.88
"""In the first stage: no planted copy lay lower."""
_POINTS = 16
_BLOCK = 16
"""Samples whose crops are compared with all others at once."""
_PAIRS = 256


@dataclass(frozen=True)
class Crop:
    """A window of a picture: its size over that of the other's window, and how far its middle is off, in edges."""

    scale: float = 1.0
    down: float = 0.0
    right: float = 0.0


def _grid(scales: Iterable[float], shifts: Sequence[float]) -> list[Crop]:
    return [Crop(scale, down, right) for scale in scales for down in shifts for right in shifts]


CROPS = (
    Crop(),
    *_grid((0.95, 1 / 0.95), (-1 / 60, 0, 1 / 60)),
    *_grid((0.9, 1 / 0.9), (-0.04, -0.02, 0, 0.02, 0.04)),
)


def near(records: Records, patients: Ints) -> list[tuple[int, int]]:
    """Pairs (earlier, later) of records of different patients that show the same; `patients` are numbers."""
    found: set[tuple[int, int]] = set()
    for kind, search in ((FLAT, _pictures), (SOLID, _volumes)):
        numbers = np.flatnonzero(records["kind"] == kind)
        if len(numbers) > 1:
            found |= {(min(pair), max(pair)) for pair in search(records, patients, numbers)}
    return sorted(found)


def comparable(records: Records) -> npt.NDArray[np.bool_]:
    return np.asarray(records["kind"] != NOTHING)


def _pictures(records: Records, patients: Ints, numbers: Ints) -> list[tuple[int, int]]:
    whole = described(records, numbers)
    first, second, crops = [], [], []
    for start in range(0, len(numbers), _BLOCK):
        # Each block is held against itself and all after it: the crops cover both directions.
        part, rest = numbers[start : start + _BLOCK], numbers[start:]
        looks = _looks(records, part)
        # (crops, part, rest)
        cut = np.stack([_described(looks, crop) for crop in CROPS]).reshape(len(CROPS) * len(part), -1)
        each = (cut @ whole[start:].T).reshape(len(CROPS), len(part), len(rest))
        scores = each.max(axis=0)
        scores[patients[part][:, None] == patients[rest][None, :]] = -1
        count = min(CANDIDATES, len(rest))
        best = np.argpartition(-scores, count - 1, axis=1)[:, :count]
        rows, places = np.repeat(np.arange(len(part)), count), best.reshape(-1)
        kept = scores[rows, places] >= WORTH_A_LOOK
        rows, places = rows[kept], places[kept]
        first.append(rest[places])
        second.append(part[rows])
        crops.append(each[:, rows, places].argmax(axis=0))
    one, other, crop = np.concatenate(first), np.concatenate(second), np.concatenate(crops)
    table = np.array([(c.scale, c.down, c.right) for c in CROPS], dtype=np.float32)
    found = []
    for chunk in _parts(np.arange(len(one)), _PAIRS):
        figures = alike(_looks(records, one[chunk]), _looks(records, other[chunk]), *table[crop[chunk]].T)
        found += [(int(one[n]), int(other[n])) for n in chunk[figures >= SAME_PICTURE]]
    return found


def described(records: Records, numbers: Ints) -> Floats:
    """(n, features) of norm 1 of these pictures; the product of two is how alike they are, at most 1."""
    return np.concatenate([_described(_looks(records, part), Crop()) for part in _parts(numbers, 512)])


def _volumes(records: Records, patients: Ints, numbers: Ints) -> list[tuple[int, int]]:
    described = np.concatenate([_described_volumes(records, part) for part in _parts(numbers, 512)])
    found = []
    for start in range(0, len(numbers), 256):
        part, rest = numbers[start : start + 256], numbers[start:]
        scores = described[start : start + 256] @ described[start:].T
        scores[patients[part][:, None] == patients[rest][None, :]] = -1
        rows, places = np.nonzero(scores >= SAME_VOLUME)
        found += [(int(part[row]), int(rest[place])) for row, place in zip(rows, places, strict=True)]
    return found


def _looks(records: Records, numbers: Ints, kind: int = FLAT) -> Floats:
    return grid_of(kind, records["look"][numbers]).astype(np.float32)


def _described(looks: Floats, crop: Crop) -> Floats:
    """(n, 64, 64) to (n, features) of norm 1: cosine transform of a window's means, coarse waves weighed down."""
    from scipy.fft import dctn

    small = _means(crop.down, WINDOW * crop.scale) @ looks @ _means(crop.right, WINDOW * crop.scale).T
    axes = np.arange(_POINTS)
    radius = np.hypot(axes[:, None], axes[None, :])
    return _unit(dctn(small, axes=(1, 2), norm="ortho"), radius, _POINTS - 2)


def _described_volumes(records: Records, numbers: Ints) -> Floats:
    from scipy.fft import dctn

    axes = np.arange(VOLUME)
    radius = np.sqrt(axes[:, None, None] ** 2 + axes[None, :, None] ** 2 + axes[None, None, :] ** 2)
    return _unit(dctn(_looks(records, numbers, SOLID), axes=(1, 2, 3), norm="ortho"), radius, VOLUME // 2)


def _unit(waves: Floats, radius: npt.NDArray[np.float64], limit: int) -> Floats:
    wanted = (radius >= 1) & (radius < limit)
    features = (waves * np.sqrt(radius))[:, wanted].astype(np.float32)
    return np.asarray(features / np.maximum(np.linalg.norm(features, axis=1, keepdims=True), 1e-6))


def _means(middle: float, size: float) -> Floats:
    """(16, 64): means of the parts of a window."""
    edges = (0.5 + middle + size * (np.arange(_POINTS + 1) / _POINTS - 0.5)) * PICTURE
    pixels = np.arange(PICTURE)
    low, high = edges[:-1, None], edges[1:, None]
    shares: Floats = np.clip(np.minimum(high, pixels + 1) - np.maximum(low, pixels), 0, None).astype(np.float32)
    return np.asarray(shares / (high - low), dtype=np.float32)


def _parts(numbers: Ints, size: int) -> list[Ints]:
    return [numbers[first : first + size] for first in range(0, len(numbers), size)]
