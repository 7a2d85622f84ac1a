"""Looks of pictures laid upon each other: scale and shift of each axis, by Gauss-Newton for many pairs at once."""

import numpy as np
import numpy.typing as npt

from shared.looks import PICTURE

Floats = npt.NDArray[np.float32]

WINDOW = 0.8
"""Share of an edge that is compared, around the middle: a copy that lost a tenth still has all of it."""
POINTS = 48
_STEPS = 10


def sampled(middle: Floats, size: Floats, points: int) -> Floats:
    """(pairs, points, 64): linear interpolation in windows; middle (from the centre) and size are shares of an edge."""
    places = (0.5 + middle[:, None] + size[:, None] * ((np.arange(points) + 0.5) / points - 0.5)) * PICTURE - 0.5
    weights: Floats = np.clip(1 - np.abs(places[:, :, None] - np.arange(PICTURE)), 0, None).astype(np.float32)
    return weights


def alike(fixed: Floats, moving: Floats, scale: Floats, down: Floats, right: Floats) -> Floats:
    """How alike each pair of (pairs, 64, 64) looks is once `moving` lies on `fixed`: (pairs,), at most 1.

    `scale`, `down` and `right` (pairs,) say where to begin. The figure is the correlation of what is between about 3
    and 12 hundredths of the edge in size: what is larger all images of an organ share, what is finer does not survive
    being saved again.
    """
    count = len(fixed)
    middle, size = np.zeros(count, np.float32), np.full(count, WINDOW, np.float32)
    window = sampled(middle, size, POINTS)
    still: Floats = np.asarray(window @ fixed @ window.transpose(0, 2, 1), dtype=np.float32)
    wanted = unit(still)
    place = np.stack([scale * WINDOW, scale * WINDOW, down, right], axis=1).astype(np.float32)
    best, found = place.copy(), np.full(count, -1, np.float32)
    along = ((np.arange(POINTS) + 0.5) / POINTS - 0.5).astype(np.float32)
    for step in range(_STEPS):
        seen = unit(_warped(moving, place))
        agreement = (wanted * seen).sum(axis=(1, 2))
        better = agreement > found
        best[better], found[better] = place[better], agreement[better]
        if step == _STEPS - 1:
            break
        by_row = np.gradient(seen, axis=1) * (POINTS / place[:, 0])[:, None, None]
        by_column = np.gradient(seen, axis=2) * (POINTS / place[:, 1])[:, None, None]
        slopes = np.stack([by_row * along[:, None], by_column * along, by_row, by_column], axis=1).reshape(count, 4, -1)
        # Brightness and contrast are free: what only changes them is taken out of the slopes.
        slopes -= slopes.mean(axis=2, keepdims=True)
        flat = seen.reshape(count, 1, -1)
        slopes -= (slopes * flat).sum(axis=2, keepdims=True) * flat
        rest = (wanted - agreement[:, None, None] * seen).reshape(count, -1, 1)
        square = slopes @ slopes.transpose(0, 2, 1) + 1e-6 * np.eye(4, dtype=np.float32)
        place = place + np.clip(np.linalg.solve(square, slopes @ rest)[..., 0], -0.04, 0.04)
        place[:, :2] = np.clip(place[:, :2], 0.8 * WINDOW, 1.25 * WINDOW)
        place[:, 2:] = np.clip(place[:, 2:], -0.08, 0.08)
    return np.asarray((unit(_middle_band(still)) * unit(_middle_band(_warped(moving, best)))).sum(axis=(1, 2)))


def unit(grids: Floats) -> Floats:
    """(pairs, rows, columns) with mean 0 and norm 1 each."""
    grids = grids - grids.mean(axis=(1, 2), keepdims=True)
    return np.asarray(grids / np.maximum(np.sqrt((grids * grids).sum(axis=(1, 2), keepdims=True)), 1e-6))


def _warped(moving: Floats, place: Floats) -> Floats:
    rows, columns = sampled(place[:, 2], place[:, 0], POINTS), sampled(place[:, 3], place[:, 1], POINTS)
    return np.asarray(rows @ moving @ columns.transpose(0, 2, 1), dtype=np.float32)


def _middle_band(grids: Floats) -> Floats:
    once = _blurred(grids)
    return np.asarray(once - _blurred(_blurred(once)))


def _blurred(grids: Floats) -> Floats:
    """Binomial over five points along rows and columns."""
    for axis in (1, 2):
        padded = np.pad(grids, [(2, 2) if one == axis else (0, 0) for one in range(3)], mode="edge")
        parts = [np.take(padded, range(first, first + grids.shape[axis]), axis=axis) for first in range(5)]
        grids = np.asarray(sum(w * part for w, part in zip((1, 4, 6, 4, 1), parts, strict=True)) / 16, dtype=np.float32)
    return grids
