"""A head phantom: one made-up person's brain as a map of tissues, with a size of the ventricles and hippocampi.

Arrays are (X, Y, Z): x to the person's right, y to the front, z up (RAS), each axis -1..1 over the field of view.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from m3bench.scanners.noise import Volume, smooth_field

AIR, SCALP, SKULL, CSF, GREY, WHITE = range(6)
Labels = NDArray[np.int8]
Mask = NDArray[np.bool_]
Axes = tuple[Volume, Volume, Volume]

T1 = (0.0, 0.75, 0.08, 0.17, 0.5, 0.8)
T2 = (0.0, 0.6, 0.05, 1.0, 0.6, 0.42)
FLAIR = (0.0, 0.6, 0.05, 0.1, 0.55, 0.45)
DWI = (0.0, 0.15, 0.03, 0.2, 0.5, 0.42)
ADC = (0.0, 0.25, 0.03, 1.0, 0.4, 0.36)
"""Signal of each tissue, air first."""


@dataclass(frozen=True)
class Head:
    """What all scans of a person share. Lengths are in half fields of view."""

    size: tuple[float, float, float]
    """Radii of the brain."""
    tilt: float
    """Side shift per height, as of a head that leans."""
    folds: Volume
    texture: Volume
    """Faint pattern in the signal that is this person's alone: what a memory of people would learn."""

    @classmethod
    def draw(cls, rng: np.random.Generator) -> "Head":
        return cls(
            size=(float(rng.uniform(0.70, 0.78)), float(rng.uniform(0.74, 0.80)), float(rng.uniform(0.66, 0.74))),
            tilt=float(rng.uniform(-0.05, 0.05)),
            folds=smooth_field(rng, (48, 48, 48), (17, 17, 17)),
            texture=smooth_field(rng, (48, 48, 48), (12, 12, 12)),
        )

    def place(self, shape: tuple[int, int, int], shift: tuple[float, float, float] = (0, 0, 0)) -> Axes:
        """The brain's own coordinates of every voxel, open: its surface is at radius 1."""
        lines = [np.linspace(-1, 1, count, dtype=np.float32) - by for count, by in zip(shape, shift, strict=True)]
        x, y, z = lines[0].reshape(-1, 1, 1), lines[1].reshape(1, -1, 1), lines[2].reshape(1, 1, -1) - np.float32(0.06)
        width, depth, height = self.size
        return np.asarray((x - self.tilt * z) / width), np.asarray(y / depth), np.asarray(z / height)

    def sample(self, field: Volume, axes: Axes) -> Volume:
        """A field of the person's at every voxel (nearest)."""
        others = [tuple(i for i in range(3) if i != axis) for axis in range(3)]
        middle = [np.mean(axis, axis=rest) for axis, rest in zip(axes, others, strict=True)]
        return field[np.ix_(*(np.clip((line + 1.5) / 3 * 47, 0, 47).astype(int) for line in middle))]


def ellipsoid(axes: Axes, centre: tuple[float, float, float], reach: tuple[float, float, float]) -> Volume:
    """Squared distance in units of `reach`; below 1 is inside."""
    x, y, z = (((axis - np.float32(c)) / np.float32(r)) ** 2 for axis, c, r in zip(axes, centre, reach, strict=True))
    # x leans with z: the sum of these two is small.
    return np.asarray((x + z) + y)


def ventricles(axes: Axes, scale: float) -> Mask:
    """Both lateral ventricles with frontal, occipital and temporal horns, and the third."""
    found = ellipsoid(axes, (0, -0.02, -0.08), (0.04 * scale, 0.16, 0.16)) < 1
    for side in (-1, 1):
        bent = (axes[0] - side * 0.10 * axes[1] ** 2, axes[1], axes[2] + 0.25 * axes[1] ** 2)
        found |= ellipsoid(bent, (side * 0.13, 0.0, 0.2), (0.10 * scale, 0.44 * scale**0.5, 0.13 * scale)) < 1
        found |= ellipsoid(axes, (side * 0.43, -0.1, -0.3), (0.045 * scale, 0.17 * scale, 0.05 * scale)) < 1
    return np.asarray(found)


def hippocampi(axes: Axes, scale: float) -> Mask:
    left, right = (
        ellipsoid(axes, (side * 0.34, -0.08, -0.38), (0.11 * scale, 0.24 * scale, 0.10 * scale)) < 1 for side in (-1, 1)
    )
    return np.asarray(left | right)


def tissues(
    head: Head, axes: Axes, *, ventricle: float = 1.0, hippocampus: float = 1.0, csf: float = 0.17, grey: float = 0.44,
    skull: bool = True,
) -> Labels:  # fmt: skip
    """The map of tissues. `csf` and `grey` are shares of the brain's voxels, and are kept whatever is drawn inside:
    wider ventricles leave less fluid for the rim, so that no count of dark or bright voxels tells their size."""
    radius = ellipsoid(axes, (0, 0, 0), (1, 1, 1))
    cerebellum = ellipsoid(axes, (0, -0.52, -0.74), (0.62, 0.42, 0.34)) < 1
    stem = ellipsoid(axes, (0, -0.2, -0.85), (0.17, 0.18, 0.55)) < 1
    brain = (radius < 1) & ((axes[2] > -0.55) | (np.abs(axes[0]) < 0.75)) | cerebellum | stem
    result = np.zeros(radius.shape, np.int8)
    if skull:
        result[radius < 1.48] = SCALP
        result[radius < 1.28] = SKULL
        result[radius < 1.1] = CSF
    fluid = ventricles(axes, ventricle) & brain
    memory = hippocampi(axes, hippocampus) & brain & ~fluid
    deep = np.zeros(radius.shape, bool)
    for side in (-1, 1):
        deep |= ellipsoid(axes, (side * 0.17, -0.12, 0.0), (0.11, 0.19, 0.13)) < 1
        deep |= ellipsoid(axes, (side * 0.36, 0.12, 0.02), (0.10, 0.24, 0.16)) < 1
    deep &= brain & ~fluid & ~memory
    # How far outside a voxel lies: fluid fills the outermost, then comes the cortex.
    cleft = 1 - np.clip(np.abs(axes[0]) / 0.05, 0, 1) * np.ones_like(radius)
    depth = radius + 0.30 * head.sample(head.folds, axes) + 0.9 * cleft * (axes[2] > 0.25)
    # White matter runs around the hippocampi and the deep nuclei; the cerebellum is folded finer.
    depth = depth - 0.5 * (ellipsoid(axes, (0, -0.05, -0.25), (0.62, 0.5, 0.5)) < 1)
    depth = depth + 0.25 * cerebellum * np.sin(26 * axes[2] + 9 * axes[1])
    rest = brain & ~fluid & ~memory & ~deep & ~(stem & (axes[2] < -0.6))
    result[brain] = WHITE
    result[fluid] = CSF
    result[memory | deep] = GREY
    total = int(brain.sum())
    order = np.flatnonzero(rest)[np.argsort(-depth[rest], kind="stable")]
    rim = max(0, round(csf * total) - int(fluid.sum()))
    cortex = max(0, round(grey * total) - int((memory | deep).sum()))
    flat = result.ravel()
    flat[order[:rim]] = CSF
    flat[order[rim : rim + cortex]] = GREY
    return flat.reshape(radius.shape)


def signal(labels: Labels, tissue: tuple[float, ...], head: Head, axes: Axes, rng: np.random.Generator) -> Volume:
    """Clean signal 0..1 with the person's texture; lesions are painted on this."""
    jitter = 1 + rng.uniform(-0.06, 0.06, len(tissue))
    volume = (np.asarray(tissue) * jitter).astype(np.float32)[labels]
    volume *= 1 + 0.10 * head.sample(head.texture, axes) * (labels >= CSF)
    return volume
