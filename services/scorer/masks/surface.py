"""Distances between the surfaces of masks: HD95 and normalised surface Dice (NSD), in millimetres.

A surface is what erosion takes from a structure: its voxels with a face to the outside; the volume's border is outside.
`RULES` say what is done where something is empty.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from services.scorer.masks.overlap import Numbers, mean
from services.scorer.patients import Floats

TOLERANCE = 2.0
"""Millimetres that two surfaces may lie apart and still count as one, for NSD."""

RULES = (
    f"NSD is the share of both surfaces that lies within {TOLERANCE:g} mm of the other, HD95 the larger of the two "
    "95th percentiles of the distances from one surface to the other, in mm. A picture has no spacing: its unit is the "
    "pixel.",
    "Where only one of truth and answer has a structure, or a case has no usable answer, NSD is 0 and HD95 the "
    "diagonal of the volume; a structure in neither has no part, as with Dice.",
)


@dataclass(frozen=True)
class Surfaces:
    """(cases, structures) each; NaN where a structure has no part in a case."""

    nsd: Floats
    hd95: Floats

    def per_structure(self, number: int) -> dict[str, float]:
        columns = {"nsd": self.nsd[:, number], "hd95": self.hd95[:, number]}
        return {name: float(mean(column)) for name, column in columns.items() if np.isfinite(column).any()}


def compare(truth: Numbers, answer: Numbers | None, structures: int, spacing: Floats) -> tuple[Floats, Floats]:
    """NSD and HD95 of one case, (structures,) each. `spacing` is millimetres by axis of the arrays."""
    nsd, hd95 = np.full(structures, np.nan), np.full(structures, np.nan)
    diagonal = float(np.linalg.norm(np.array(truth.shape) * spacing))
    for number in range(structures):
        wanted = truth == number + 1
        given = np.zeros_like(wanted) if answer is None else answer == number + 1
        here, there = bool(wanted.any()), bool(given.any())
        if here and there:
            nsd[number], hd95[number] = distances(wanted, given, spacing)
        elif here or there:
            nsd[number], hd95[number] = 0.0, diagonal
    return nsd, hd95


def distances(one: npt.NDArray[np.bool_], other: npt.NDArray[np.bool_], spacing: Floats) -> tuple[float, float]:
    """NSD and HD95 of two structures, neither of which is empty."""
    from scipy.ndimage import distance_transform_edt

    box = _box(one | other)
    surfaces = [_surface(np.pad(mask[box], 1)) for mask in (one, other)]
    apart = [distance_transform_edt(~far, sampling=spacing)[near] for near, far in (surfaces, surfaces[::-1])]
    within = sum(int((found <= TOLERANCE).sum()) for found in apart)
    return within / sum(len(found) for found in apart), max(float(np.percentile(found, 95)) for found in apart)


def spacing_of(affine: Floats | None, axes: int) -> Floats:
    """Millimetres along each stored axis; 1 for a picture, which has none."""
    return np.ones(axes) if affine is None else np.asarray(np.linalg.norm(affine[:3, :3], axis=0)[:axes])


def _surface(mask: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    from scipy.ndimage import binary_erosion

    return np.asarray(mask & ~binary_erosion(mask))


def _box(mask: npt.NDArray[np.bool_]) -> tuple[slice, ...]:
    others = [tuple(axis for axis in range(mask.ndim) if axis != kept) for kept in range(mask.ndim)]
    found = [np.flatnonzero(mask.any(axis=axes)) for axes in others]
    return tuple(slice(int(places[0]), int(places[-1]) + 1) for places in found)
