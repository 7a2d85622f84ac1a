"""Blood in the head phantom: within the brain, along the skull, in the ventricles, or a speck."""

import numpy as np

from m3bench.phantoms.head import BLOOD, Head
from m3bench.phantoms.space import Mask, Shape
from m3bench.scanners.noise import smooth_field

KINDS = ("within", "along the skull", "ventricles", "speck")


def bleed(head: Head, kind: str, rng: np.random.Generator) -> None:
    """Paint one bleeding of the kind; changes density and labels. At least two voxels become blood."""
    area = {"within": _within, "along the skull": _along, "ventricles": _ventricles, "speck": _speck}[kind](head, rng)
    blood = rng.uniform(50, 64) + 5 * smooth_field(rng, area.shape, (4, 8, 8))
    head.canvas.density[area] = blood[area]
    head.canvas.labels[area] = BLOOD


def _within(head: Head, rng: np.random.Generator) -> Mask:
    radius = float(np.exp(rng.uniform(np.log(0.08), np.log(0.3))))
    shape = _ball(head, radius, rng, deepest=0.75)
    area = np.zeros(head.space.shape, bool)
    area[shape.window] = shape.inside
    # Water around it, dark.
    swollen = np.zeros(head.space.shape, bool)
    swollen[shape.window] = shape.depth < 1.25
    inner = head.depth < 0.97
    head.canvas.density[swollen & ~area & head.brain] = 22
    return np.asarray(area & inner)


def _along(head: Head, rng: np.random.Generator) -> Mask:
    """A crescent below the skull on one side."""
    x, y, z = head.space.bent()
    side, level = rng.choice([-1, 1]), rng.uniform(-0.1, 0.45)
    angle = np.abs(np.arctan2(y, side * x) - rng.uniform(-0.5, 0.5)) / rng.uniform(0.5, 1.0)
    reach = np.clip(1 - angle**2 - ((z - level) / rng.uniform(0.3, 0.5)) ** 2, 0, 1)
    area = (head.depth < 0.99) & (head.depth > 1 - rng.uniform(0.12, 0.22) * np.sqrt(reach)) & (reach > 0.05)
    return np.asarray(area if area.sum() >= 2 else _speck(head, rng))


def _ventricles(head: Head, rng: np.random.Generator) -> Mask:
    """It settles at the back of the horns."""
    _, y, _ = head.space.bent()
    area = head.ventricles & (y > rng.uniform(0.0, 0.28))
    return np.asarray(area if area.sum() >= 2 else _speck(head, rng))


def _speck(head: Head, rng: np.random.Generator) -> Mask:
    shape = _ball(head, float(rng.uniform(0.025, 0.06)), rng, deepest=0.85)
    area = np.zeros(head.space.shape, bool)
    area[shape.window] = shape.inside & head.brain[shape.window]
    if area.sum() < 2:
        z, y, x = _place(head, rng, 0.85)
        area[z, y, x : x + 2] = True
    return area


def _ball(head: Head, radius: float, rng: np.random.Generator, deepest: float) -> Shape:
    z, y, x = _place(head, rng, deepest)
    space = head.space
    bend = space.bend[:, z, y, x]
    centre = (space.x[0, 0, x] + bend[0], space.y[0, y, 0] + bend[1], space.z[z, 0, 0] + bend[2])
    radii = tuple(float(radius * rng.uniform(0.75, 1.3)) for _ in range(3))
    return space.lumpy(space.ellipsoid(centre, (radii[0], radii[1], radii[2])), rng, 0.2)


def _place(head: Head, rng: np.random.Generator, deepest: float) -> tuple[int, int, int]:
    at = np.argwhere(head.brain & (head.depth < deepest))
    z, y, x = (int(index) for index in at[int(rng.integers(len(at)))])
    return z, y, x
