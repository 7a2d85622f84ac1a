"""Lesions for the head phantom, one kind a source of RadGenome-Brain MRI.

A lesion is a map of parts; each sequence shows each part with a signal of its own.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from m3bench.phantoms.tissue import WHITE, Axes, Labels, ellipsoid
from m3bench.scanners.noise import Volume, smooth_field

CORE, RIM, EDEMA, SPOT, SCAR = range(1, 6)
Parts = NDArray[np.int8]
SIDES = {-1: "left", 1: "right"}
LOBES = {
    "frontal": (0.42, 0.45, 0.3), "parietal": (0.45, -0.25, 0.5), "temporal": (0.62, 0.1, -0.28),
    "occipital": (0.3, -0.68, 0.12),
}  # fmt: skip

SIGNAL: Mapping[str, Mapping[int, float]] = {
    "t1n": {CORE: 0.25, RIM: 0.5, EDEMA: 0.55, SPOT: 0.5}, "t1c": {CORE: 0.25, RIM: 1.15, EDEMA: 0.55, SPOT: 1.15},
    "t2w": {CORE: 1.1, RIM: 0.75, EDEMA: 0.95, SPOT: 0.75}, "t2f": {CORE: 0.3, RIM: 0.8, EDEMA: 1.05, SPOT: 0.8},
    "dwi": {CORE: 1.25, RIM: 1.25, EDEMA: 1.25, SPOT: 1.25}, "adc": {CORE: 0.12, RIM: 0.12, EDEMA: 0.12, SPOT: 0.12},
    "T1": {CORE: 0.15, RIM: 0.5, EDEMA: 0.5, SPOT: 0.5}, "FLAIR": {CORE: 0.1, RIM: 1.1, EDEMA: 1.1, SPOT: 1.1},
}  # fmt: skip


@dataclass(frozen=True)
class Lesion:
    """What decides both picture and words."""

    kind: str
    side: int
    lobe: str
    grade: int
    """Extent, 0 to 2."""
    edema: bool
    hollow: bool
    """Tumours have a centre of fluid, strokes a second area in the other half, white matter disease a lacune."""
    shift: bool
    """The midline gives way to the other side."""
    wide: bool
    """The ventricles are widened."""

    @classmethod
    def draw(cls, kind: str, rng: np.random.Generator) -> "Lesion":
        grade = int(rng.integers(3))
        side, lobe = int(rng.choice([-1, 1])), str(rng.choice(sorted(LOBES)))
        edema, hollow, wide = (bool(rng.random() < share) for share in (0.6, 0.5, 0.4))
        shift = bool(rng.random() < (0.2, 0.4, 0.6)[grade])
        return cls(kind, side, lobe, grade, edema, hollow, shift and kind != "wmh", wide)


def displaced(lesion: Lesion, axes: Axes) -> Axes:
    """Where the tissue of every voxel would be without the lesion: the middle is pushed, the surface stays."""
    if not lesion.shift:
        return axes
    x, y, z = axes
    return np.asarray(x + lesion.side * 0.28 * np.exp(-((x / 0.5) ** 2)), dtype=np.float32), y, z


def parts(lesion: Lesion, axes: Axes, labels: Labels, rng: np.random.Generator) -> Parts:
    """The lesion's parts per voxel, 0 outside."""
    found = np.zeros(labels.shape, np.int8)
    brain = labels >= 3
    x, y, z = LOBES[lesion.lobe]
    at = (lesion.side * x, y, z)
    size = (0.22, 0.31, 0.44)[lesion.grade]
    centre = 0.6 if lesion.hollow else 0.0
    ragged = 1 + 0.5 * smooth_field(rng, labels.shape, (9, 9, 9))
    if lesion.kind == "gli":
        distance = ellipsoid(axes, at, (size, size, size)) * ragged
        _around(found, lesion, axes, brain, distance, 2.8)
        found[(distance < 1) & brain] = RIM
        found[(distance < centre) & brain] = CORE
    elif lesion.kind == "men":
        # On the surface: from the lobe's middle out to the skull.
        out = 0.95 / float(np.sqrt(x * x + y * y + z * z))
        distance = ellipsoid(axes, (at[0] * out, y * out, z * out), (size, size, size))
        _around(found, lesion, axes, brain, distance, 2.4)
        found[(distance < 1) & (ellipsoid(axes, (0, 0, 0), (1, 1, 1)) < 1.1)] = RIM
        found[(distance < centre) & brain] = CORE
    elif lesion.kind == "met":
        # Together as large as one of the other tumours.
        many = 2 + 2 * lesion.grade
        small = size * float(many ** (-1 / 3))
        for number in range(many):
            shift = rng.uniform(-0.3, 0.3, 3) if number else np.zeros(3)
            middle = (float(at[0] + shift[0]), float(at[1] + shift[1]), float(at[2] + shift[2]))
            distance = ellipsoid(axes, middle, (small, small, small))
            _around(found, lesion, axes, brain, distance, 2.4)
            found[(distance < 1) & brain] = SPOT
            found[(distance < centre) & brain] = CORE
    elif lesion.kind == "isles":
        # A wedge with its tip in the depth.
        depth = ellipsoid(axes, (0, 0, 0.1), (1, 1, 1))
        for middle, reach in ((at, 1.3 * size), *([((-at[0], y, z), 0.22)] if lesion.hollow else [])):
            distance = ellipsoid(axes, middle, (reach, reach, reach)) / np.clip(0.55 + depth, 0.6, 1.5)
            found[(distance * (0.8 + 0.2 * ragged) < 1) & brain] = CORE
    else:
        _periventricular(found, lesion, axes, labels, rng)
        if lesion.hollow:
            found[ellipsoid(axes, (lesion.side * 0.3, 0.1, -0.02), (0.13, 0.16, 0.13)) < 1] = CORE
    return found


def _around(found: Parts, lesion: Lesion, axes: Axes, brain: NDArray[np.bool_], distance: Volume, reach: float) -> None:
    """Edema around the lesion; without it, as much of an old scar in the cerebellum: brightness is no clue."""
    around = (distance < reach) & brain & (found == 0)
    if lesion.edema:
        found[around] = EDEMA
    else:
        scar = np.where(brain & (found == 0), ellipsoid(axes, (0.0, -0.55, -0.7), (1, 1, 1)), np.inf).ravel()
        many = int((around & (distance >= 1)).sum())
        found.ravel()[np.argsort(scar, kind="stable")[:many]] = SCAR


def _periventricular(found: Parts, lesion: Lesion, axes: Axes, labels: Labels, rng: np.random.Generator) -> None:
    """Spots in the white matter of both sides, more on the lesion's, growing together with the grade."""
    for number in range(6 + 9 * lesion.grade):
        side = lesion.side if number % 3 else -lesion.side
        centre = (side * float(rng.uniform(0.22, 0.36)), float(rng.uniform(-0.5, 0.45)), float(rng.uniform(0.1, 0.45)))
        reach = float(rng.uniform(0.06, 0.09)) * (1 + 0.35 * lesion.grade)
        found[(ellipsoid(axes, centre, (reach, 1.5 * reach, reach)) < 1) & (labels == WHITE)] = SPOT


def paint(volume: Volume, found: Parts, sequence: str) -> None:
    """Give each part its signal in this sequence; an old scar looks like edema. Changes `volume`."""
    for part, value in SIGNAL[sequence].items():
        where = (found == part) | ((found == SCAR) if part == EDEMA else False)
        volume[where] = 0.15 * volume[where] + 0.85 * value
