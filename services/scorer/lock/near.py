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
AMONG, SHARE = 8, 0.2
"""Copies are nearer to each other than this share of how far the 8th nearest stranger of either is, if there are so
many."""
CERTAIN = 0.0001
"""Nearer than that they are copies even so: the strangers may be copies, too."""
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


def near(records: Records, patients: Ints, named: bool = True) -> list[tuple[int, int]]:
    """Pairs (earlier, later) of records of different patients that show the same; `patients` are numbers.

    Not `named`: nothing says whose pictures are whose, so alike ones may be slices of one study and need not stand out.
    """
    flat, solid = (np.flatnonzero(records["kind"] == kind) for kind in (FLAT, SOLID))
    found = _pictures(records, patients, flat, named) if len(flat) > 1 else []
    found += _volumes(records, patients, solid) if len(solid) > 1 else []
    return sorted({(min(pair), max(pair)) for pair in found})


def comparable(records: Records) -> npt.NDArray[np.bool_]:
    return np.asarray(records["kind"] != NOTHING)


def _pictures(records: Records, patients: Ints, numbers: Ints, named: bool) -> list[tuple[int, int]]:
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
    distance = 1 - _laid(records, one, other, table[crop])
    copies = distance <= 1 - SAME_PICTURE
    pairs, distance = np.stack([one, other], axis=1)[copies], distance[copies]
    if len(pairs) and named and len(numbers) > AMONG:
        alone, places = np.unique(pairs, return_inverse=True)
        scores = described(records, alone) @ whole.T
        scores[patients[alone][:, None] == patients[numbers][None, :]] = -1
        nearest = numbers[np.argpartition(-scores, AMONG - 1, axis=1)[:, :AMONG]]
        each = _laid(records, np.repeat(alone, AMONG), nearest.reshape(-1), np.array([[1, 0, 0]], np.float32))
        strangers = 1 - each.reshape(-1, AMONG).min(axis=1)
        pairs = pairs[_stand_out(distance, strangers[places.reshape(-1, 2)])]
    return [(int(one), int(other)) for one, other in pairs]


def _laid(records: Records, one: Ints, other: Ints, crops: Floats) -> Floats:
    """(n,) how alike these pictures are once laid upon each other, begun at (n or 1, 3) crops."""
    crops = np.broadcast_to(crops, (len(one), 3))
    parts = _parts(np.arange(len(one)), _PAIRS)
    found = [alike(_looks(records, one[n]), _looks(records, other[n]), *crops[n].T) for n in parts]
    return np.concatenate(found or [np.empty(0, np.float32)])


def described(records: Records, numbers: Ints) -> Floats:
    """(n, features) of norm 1 of these pictures; the product of two is how alike they are, at most 1."""
    return np.concatenate([_described(_looks(records, part), Crop()) for part in _parts(numbers, 512)])


def _volumes(records: Records, patients: Ints, numbers: Ints) -> list[tuple[int, int]]:
    described = np.concatenate([_described_volumes(records, part) for part in _parts(numbers, 512)])
    # How far the AMONG-th nearest of other patients is: how alike strangers are here.
    strangers = np.full(len(numbers), np.inf, np.float32)
    pairs, off = [], []
    for part in _parts(np.arange(len(numbers)), 256):
        distance = 1 - described[part] @ described.T
        distance[patients[numbers[part]][:, None] == patients[numbers][None, :]] = np.inf
        if len(numbers) > AMONG:
            strangers[part] = np.partition(distance, AMONG - 1, axis=1)[:, AMONG - 1]
        rows, places = np.nonzero(distance <= 1 - SAME_VOLUME)
        pairs.append(np.stack([part[rows], places], axis=1))
        off.append(distance[rows, places])
    both = np.concatenate(pairs)
    copied = _stand_out(np.concatenate(off), strangers[both])
    return [(int(one), int(other)) for one, other in numbers[both[copied]]]


def _stand_out(distance: Floats, strangers: Floats) -> npt.NDArray[np.bool_]:
    """(pairs,) whether they are nearer than strangers are; (pairs, 2) is how far the AMONG-th of each of them lies."""
    return np.asarray(distance <= np.maximum(SHARE * strangers.min(axis=1), CERTAIN))


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
