"""What an MR scanner adds to clean signal, and what has nothing to do with the disease."""

import numpy as np

from m3bench.scanners.noise import Volume, smooth_field


def received(volume: Volume, rng: np.random.Generator, noise: tuple[float, float] = (0.015, 0.05)) -> Volume:
    """Partial volume, bias field, Rician noise and a random contrast curve: the scanner's part. 0 upwards, about 1."""
    for axis in range(3):
        amount = rng.uniform(0.1, 0.3)
        # The far edge is the neighbour of the near one: there is air on both.
        along = np.moveaxis(volume, axis, 0)
        sides = np.empty_like(along)
        np.add(along[:-2], along[2:], out=sides[1:-1])
        sides[0], sides[-1] = along[-1] + along[1], along[-2] + along[0]
        volume = (1 - amount) * volume + amount / 2 * np.moveaxis(sides, 0, axis)
    volume = volume * (1 + 0.12 * smooth_field(rng, volume.shape, (3, 3, 3)))
    deviation = np.float32(rng.uniform(*noise))
    real, imaginary = (deviation * rng.standard_normal(volume.shape, dtype=np.float32) for _ in range(2))
    curved = np.hypot(volume + real, imaginary) ** np.float32(rng.uniform(0.8, 1.25))
    return np.asarray(curved, dtype=np.float32)
