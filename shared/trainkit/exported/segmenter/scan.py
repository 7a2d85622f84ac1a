"""One input on its grid: voxels with their place in space.

The arrays keep the axes of the file; `Scan.grid` says how they lie: (D, H, W) runs inferior to superior, posterior to
anterior, left to right, by the nearest axis of an oblique image.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np


class BadImage(ValueError):
    """The input cannot be used as it is; the text says why and is safe to show."""


TOLERANCE = 0.1
"""Parts of a voxel by which two grids may differ and still be one: headers round."""


@dataclass(frozen=True)
class Grid:
    """How the axes of a file lie. `affine` (4, 4) takes voxel indices to mm in RAS+; None where the file has none."""

    shape: tuple[int, int, int]
    """Of the file's axes; a picture is (1, H, W)."""
    affine: np.ndarray | None = None
    order: tuple[int, int, int] = (0, 1, 2)
    """File axis of each of D, H, W."""
    flips: tuple[bool, bool, bool] = (False, False, False)
    """Whether D, H, W run against the file axis."""

    @classmethod
    def of(cls, shape: Sequence[int], affine: np.ndarray | None) -> "Grid":
        size = (int(shape[0]), int(shape[1]), int(shape[2]))
        if affine is None:
            return cls(size)
        from nibabel.orientations import io_orientation

        affine = np.asarray(affine, dtype=np.float64)
        axes = io_orientation(affine) if np.isfinite(affine).all() else np.full((3, 2), np.nan)
        if np.isnan(axes).any():
            raise BadImage("has an affine that gives its axes no direction")
        places = [int(np.flatnonzero(axes[:, 0] == world)[0]) for world in (2, 1, 0)]
        return cls(size, affine, tuple(places), tuple(bool(axes[axis, 1] < 0) for axis in places))  # type: ignore[arg-type]

    @property
    def spacing(self) -> tuple[float, float, float]:
        """mm along D, H, W; 1 where the file does not say."""
        if self.affine is None:
            return (1.0, 1.0, 1.0)
        sizes = np.sqrt((self.affine[:3, :3] ** 2).sum(0))
        return tuple(float(sizes[axis]) for axis in self.order)  # type: ignore[return-value]

    @property
    def size(self) -> tuple[int, int, int]:
        """Voxels along D, H, W."""
        return tuple(self.shape[axis] for axis in self.order)  # type: ignore[return-value]

    def turn(self, array: np.ndarray) -> np.ndarray:
        """The last three axes from the file's to D, H, W; a view."""
        lead = array.ndim - 3
        turned = array.transpose(*range(lead), *(lead + axis for axis in self.order))
        steps = tuple(slice(None, None, -1 if flip else 1) for flip in self.flips)
        return turned[(*[slice(None)] * lead, *steps)]

    def turn_back(self, array: np.ndarray) -> np.ndarray:
        """(D, H, W) to the file's axes; a view."""
        straight = array[tuple(slice(None, None, -1 if flip else 1) for flip in self.flips)]
        return straight.transpose(*np.argsort(self.order))

    def corners(self) -> np.ndarray | None:
        """(8, 3) centres of the corner voxels in mm, in order of (D, H, W)."""
        if self.affine is None:
            return None
        found = []
        for corner in np.ndindex(2, 2, 2):
            index = np.zeros(3)
            for end, axis, flip in zip(corner, self.order, self.flips, strict=True):
                index[axis] = (end != flip) * (self.shape[axis] - 1)
            found.append(self.affine[:3, :3] @ index + self.affine[:3, 3])
        return np.array(found)

    def difference(self, other: "Grid") -> str | None:
        """Why `other` is not the same grid, however each file orders its axes; None if it is."""
        if self.size != other.size:
            return f"has {shown(other.shape)} voxels where the image has {shown(self.shape)}"
        here, there = self.corners(), other.corners()
        if here is None or there is None:
            return None
        apart = float(np.sqrt(((here - there) ** 2).sum(1)).max())
        if apart > TOLERANCE * min(self.spacing):
            return f"lies elsewhere in space than the image (its affine puts a corner {apart:.3g} mm away)"
        return None


@dataclass(frozen=True)
class Scan:
    """Channels of one input on one grid."""

    data: np.ndarray
    """(C, i, j, k) finite float32, in the file's axes."""
    grid: Grid
    kind: str
    """nifti, dicom, numpy or picture."""
    shape: tuple[int, ...]
    """As in the file: what a mask of it has."""
    header: Any = None
    """Of a NIfTI."""


def shown(shape: Sequence[int]) -> str:
    return " x ".join(map(str, shape))
