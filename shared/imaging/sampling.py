"""A volume on the grid of another one, by where both are in space."""

import numpy as np

from .errors import BadImage
from .grid import Grid

COVERED = 0.5
"""Part of the voxels of a grid that a volume has to cover before it is sampled there."""


def sampled(volume: np.ndarray, source: Grid, target: Grid) -> np.ndarray:
    """(X, Y, Z) on `source` -> float32 on `target`, linear; the least value of `volume` outside of it. Raises BadImage
    where it covers less than half of `target`, or a grid has no affine."""
    from scipy.ndimage import affine_transform

    if source.affine is None or target.affine is None:
        raise BadImage("lies on another grid, and no header says where in space")
    # Voxel indices of the target -> those of the source.
    between = np.linalg.inv(source.affine) @ target.affine
    found = np.empty(target.shape, np.float32)
    affine_transform(
        volume.astype(np.float32), between[:3, :3], between[:3, 3], target.shape, found, order=1, mode="nearest"
    )
    inside = 0
    plane = np.stack(np.meshgrid(*map(np.arange, target.shape[1:]), indexing="ij"), -1) @ between[:3, 1:3].T
    for number, values in enumerate(found):
        places = plane + between[:3, 0] * number + between[:3, 3]
        there = ((places > -0.5) & (places < np.array(source.shape) - 0.5)).all(-1)
        values[~there] = volume.min()
        inside += int(there.sum())
    if inside < COVERED * found.size:
        raise BadImage(f"covers {inside / found.size:.0%} of the image only; is it of the same part of the body?")
    return found
