"""Masks of different grids on one grid: axes turned to the patient's, positions relative to the volume.

A point of the lattice takes the voxel nearest to its relative place. Exact there and back where the lattice has a
multiple of the voxels along each axis.
"""

from collections.abc import Sequence

import numpy as np

from services.scorer.masks.overlap import Numbers
from services.scorer.patients import Floats

EDGES = {2: (512, 256, 128, 64), 3: (96, 64, 48, 32)}
"""Points along an axis, by the number of axes; the finest that `budget` bears is taken."""


def lattice_shape(
    dimensions: int, cases: int, structures: int, voxels: float = 2**28, work: float = 2e11
) -> Sequence[int]:
    """(x, y, z) of the lattice: all cases together keep to `voxels`, comparing all pairs of them to `work`."""
    most = min(voxels / max(cases, 1), work / max(cases * cases * structures, 1))
    edge = next((edge for edge in EDGES[dimensions] if edge**dimensions <= most), EDGES[dimensions][-1])
    return (edge, edge, edge if dimensions == 3 else 1)


def turned(numbers: Numbers, affine: Floats | None) -> Numbers:
    """A view with three axes which run to the patient's right, front and head as nearly as the grid allows."""
    solid = numbers.reshape(numbers.shape + (1,) * (3 - numbers.ndim))
    if affine is None:
        return solid
    from nibabel.orientations import apply_orientation, io_orientation

    turns = io_orientation(affine)
    # A flat or degenerate affine does not say which way an axis runs: it stays as it is.
    return solid if np.isnan(turns).any() else np.asarray(apply_orientation(solid, turns))


def resampled(numbers: Numbers, shape: Sequence[int]) -> Numbers:
    """(x, y, z) to another shape, each point from the nearest relative place."""
    places = [
        ((np.arange(wanted) + 0.5) * size / wanted).astype(np.int64)
        for wanted, size in zip(shape, numbers.shape, strict=True)
    ]
    return numbers[np.ix_(*places)]
