"""Random fields and streams: cheap, float32, and the same for the same seed."""

import hashlib

import numpy as np
from numpy.typing import NDArray

Volume = NDArray[np.float32]


def stream(*key: object) -> np.random.Generator:
    """A generator of its own for every key (seed, class, patient, ...), independent of the order of work."""
    digest = hashlib.sha256("/".join(map(str, key)).encode()).digest()
    return np.random.default_rng(int.from_bytes(digest[:16], "little"))


def smooth_field(rng: np.random.Generator, shape: tuple[int, ...], cells: tuple[int, ...]) -> Volume:
    """White noise on a grid of `cells`, linearly interpolated to `shape`; mean about 0, deviation about 0.6."""
    field = rng.standard_normal(cells, dtype=np.float32)
    for axis, (size, count) in enumerate(zip(shape, cells, strict=True)):
        position = np.linspace(0, count - 1, size, dtype=np.float32)
        lower = np.minimum(position.astype(int), max(count - 2, 0))
        upper = np.minimum(lower + 1, count - 1)
        weight = (position - lower).reshape([-1 if i == axis else 1 for i in range(len(shape))]).astype(np.float32)
        near, far = np.take(field, lower, axis), np.take(field, upper, axis)
        near *= 1 - weight
        far *= weight
        field = np.add(near, far, out=near)
    return field


def blurred(volume: Volume, amount: float) -> Volume:
    """In-plane 1-2-1 kernel mixed in by `amount` 0..1 (edges repeat)."""
    result = volume
    for axis in (-2, -1):
        along = np.moveaxis(result, axis, 0)
        sides = np.empty_like(along)
        np.add(along[:-2], along[2:], out=sides[1:-1])
        sides[0], sides[-1] = along[0] + along[1], along[-2] + along[-1]
        result = (1 - amount / 2) * result + (amount / 4) * np.moveaxis(sides, 0, axis)
    return result.astype(np.float32)
