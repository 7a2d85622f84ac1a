"""Grids of voxels in space: when two are the same, and how an array comes from the axes of one to another's."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from .errors import BadImage, shown

TOLERANCE = 0.1
"""Parts of a voxel's shortest edge by which the corners of two grids may lie apart and still be one: headers round."""


@dataclass(frozen=True)
class Grid:
    """Voxels along each axis, and where they are; of a picture (H, W).

    `affine` (4, 4) takes voxel indices to mm in RAS+; None where the file says nothing of its place.
    """

    shape: tuple[int, ...]
    affine: np.ndarray | None = field(default=None, compare=False)

    @property
    def spacing(self) -> tuple[float, ...]:
        """mm along each axis; 1 where the file does not say."""
        if self.affine is None:
            return (1.0,) * len(self.shape)
        return tuple(float(size) for size in np.linalg.norm(self.affine[:3, :3], axis=0))


@dataclass(frozen=True)
class Turn:
    """Order of axes and direction: axis `i` of the result is axis `order[i]` of the source, backwards if `flips[i]`."""

    order: tuple[int, int, int]
    flips: tuple[bool, bool, bool]

    def __call__(self, array: np.ndarray) -> np.ndarray:
        """The first three axes turned; a view."""
        rest = range(3, array.ndim)
        return array.transpose(*self.order, *rest)[tuple(slice(None, None, -1 if flip else 1) for flip in self.flips)]

    def back(self, array: np.ndarray) -> np.ndarray:
        """The opposite; a view."""
        straight = array[tuple(slice(None, None, -1 if flip else 1) for flip in self.flips)]
        return straight.transpose(*np.argsort(self.order), *range(3, array.ndim))

    def moved(self, affine: np.ndarray, shape: Sequence[int]) -> np.ndarray:
        """Affine of the turned array, from that of the source and its shape."""
        found = affine.copy()
        for axis, (place, flip) in enumerate(zip(self.order, self.flips, strict=True)):
            found[:3, axis] = affine[:3, place] * (-1 if flip else 1)
            if flip:
                found[:3, 3] += affine[:3, place] * (shape[place] - 1)
        return found


def directions(affine: np.ndarray) -> np.ndarray:
    """(3, 3) unit vectors of the axes as columns. Raises BadImage where they span no space."""
    matrix = np.asarray(affine, dtype=np.float64)[:3, :3]
    sizes = np.linalg.norm(matrix, axis=0)
    if not np.isfinite(affine).all() or not (sizes > 0).all():
        raise BadImage("has an affine that gives its axes no direction; write its header anew with a true one")
    unit: np.ndarray = matrix / sizes
    if abs(np.linalg.det(unit)) < 1e-3:
        raise BadImage("has an affine whose axes lie in one plane; write its header anew with a true one")
    return unit


def nearest(source: np.ndarray, target: np.ndarray) -> Turn:
    """How axes of one grid (columns of `source`) become those of another, each by its nearest, closest pairs first.

    Of axes that are equally near the one in the same place is taken, so that turning twice changes nothing.
    """
    cosines = target.T @ source
    near = np.abs(cosines) + 1e-4 * np.eye(3)
    order, flips = [0, 0, 0], [False, False, False]
    for _ in range(3):
        to, place = (int(axis) for axis in np.unravel_index(int(near.argmax()), (3, 3)))
        order[to], flips[to] = place, bool(cosines[to, place] < 0)
        near[to, :] = near[:, place] = -1
    return Turn((order[0], order[1], order[2]), (flips[0], flips[1], flips[2]))


def closest_ras(affine: np.ndarray) -> Turn:
    """The turn to the axis order nearest to right, anterior, superior, as nibabel's `as_closest_canonical`."""
    return nearest(directions(affine), np.eye(3))


def turn_between(source: Grid, target: Grid) -> Turn | str:
    """How an array on `source` comes onto `target`, or why it does not. A grid without affine is taken as it lies."""
    straight = Turn((0, 1, 2), (False, False, False))
    if source.affine is None or target.affine is None or len(source.shape) != 3 or len(target.shape) != 3:
        return straight if source.shape == target.shape else _sizes(source, target)
    turn = nearest(directions(source.affine), directions(target.affine))
    if tuple(source.shape[place] for place in turn.order) != target.shape:
        return _sizes(source, target)
    corners = np.array(list(np.ndindex(2, 2, 2))) * (np.array(target.shape) - 1)
    moved = turn.moved(np.asarray(source.affine, float), source.shape)
    away = (moved - target.affine)[:3]
    apart = float(np.linalg.norm(corners @ away[:, :3].T + away[:, 3], axis=1).max())
    if apart > TOLERANCE * min(target.spacing):
        return f"lies elsewhere in space than the image (a corner is {apart:.3g} mm away)"
    return turn


def difference(source: Grid, target: Grid) -> str | None:
    """Why voxels of `source` are not those of `target`, to be put after a file's name; None if they are.

    They are the same where every corner lies within a tenth of a voxel's shortest edge, whatever the order and
    direction of the axes. Where one has no affine, equal shapes are enough.
    """
    found = turn_between(source, target)
    return found if isinstance(found, str) else None


def within(source: Grid, target: Grid) -> tuple[Turn, tuple[int, int, int]] | None:
    """How an array on `source` is turned, and at which voxel of `target` it begins, where its voxels are a part of
    those and begin elsewhere: a mask that was cut to what it marks, as 3D Slicer saves it. None for other grids."""
    if source.affine is None or target.affine is None or len(source.shape) != 3 or len(target.shape) != 3:
        return None
    turn = nearest(directions(source.affine), directions(target.affine))
    size = [source.shape[place] for place in turn.order]
    moved = turn.moved(np.asarray(source.affine, float), source.shape)
    start = np.rint(np.linalg.solve(target.affine[:3, :3], moved[:3, 3] - target.affine[:3, 3])).astype(int)
    if not start.any() or (start < 0).any() or (start + size > target.shape).any():
        return None
    placed = moved.copy()
    placed[:3, 3] -= target.affine[:3, :3] @ start
    there = Grid(tuple(size), np.asarray(target.affine))
    apart = isinstance(turn_between(Grid(tuple(size), placed), there), str)
    return None if apart else (turn, (int(start[0]), int(start[1]), int(start[2])))


def onto(array: np.ndarray, source: Grid, target: Grid) -> np.ndarray:
    """An array on the grid `source` (further axes may follow), on the axes of `target`; a view. Raises BadImage."""
    found = turn_between(source, target)
    if isinstance(found, str):
        raise BadImage(found)
    return found(array) if len(target.shape) == 3 else array


def _sizes(source: Grid, target: Grid) -> str:
    return f"has {shown(source.shape)} voxels where the image has {shown(target.shape)}"
