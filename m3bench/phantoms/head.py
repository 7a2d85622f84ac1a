"""A head in plain CT: skull, brain, ventricles and what is bright without being blood, slice by slice, in HU."""

from dataclasses import dataclass

import numpy as np

from m3bench.phantoms.space import Canvas, Mask, Shape, Space
from m3bench.scanners.noise import Volume, blurred, smooth_field

BLOOD = 1


@dataclass(frozen=True)
class Head:
    canvas: Canvas
    space: Space
    brain: Mask
    """Where tissue is: neither fluid nor bone."""
    depth: Volume
    """0 in the middle of the skull's cavity, 1 at its wall; (Z, Y, X)."""
    ventricles: Mask


def build(space: Space, rng: np.random.Generator) -> Head:
    """A made-up head without blood."""
    canvas = Canvas.empty(space.shape, -1000)
    x, y, z = space.bent()
    radii = (rng.uniform(0.66, 0.74), rng.uniform(0.8, 0.9), rng.uniform(1.05, 1.15))
    radius = np.sqrt((x / radii[0]) ** 2 + (y / radii[1]) ** 2 + ((z + 0.1) / radii[2]) ** 2)
    thick = rng.uniform(0.07, 0.12)
    canvas.density[radius < 1 + thick + 0.06] = -80
    canvas.density[radius < 1 + thick + 0.04] = 45
    canvas.density[radius < 1 + thick] = rng.uniform(800, 1200)
    cavity = radius < 1
    folds = smooth_field(rng, space.shape, (8, 16, 16))
    # Grey rind, white inside, fluid in the furrows.
    tissue = np.where(radius < 0.8 + 0.06 * folds, 28.0, 37.0) + 2.5 * smooth_field(rng, space.shape, (5, 9, 9))
    canvas.density[cavity] = tissue[cavity]
    furrows = cavity & (radius > 0.85) & (folds > rng.uniform(0.7, 1.1))
    canvas.density[furrows] = 8
    for side in (-1, 1):
        canvas.paint(space.ellipsoid((side * 0.22, -0.02, -0.02), (0.07, 0.16, 0.14)), 39)
        canvas.paint(space.ellipsoid((side * 0.12, 0.08, 0.0), (0.09, 0.13, 0.11)), 39)
    large = rng.uniform(0.75, 1.5)
    ventricles = np.zeros(space.shape, bool)
    for side in (-1, 1):
        path = [
            (side * 0.08, -0.3, 0.1),
            (side * 0.09, 0.05, 0.22),
            (side * 0.2, 0.36, 0.1),
            (side * 0.26, 0.16, -0.15),
        ]
        _fluid(canvas, space.tube(path, [0.07 * large, 0.06 * large, 0.09 * large, 0.03]), ventricles)
    _fluid(canvas, space.ellipsoid((0, 0.04, 0.0), (0.025 * large, 0.13, 0.1)), ventricles)
    _bright(space, canvas, rng, x, y, z, cavity, radius)
    _base(space, canvas, rng, cavity, z)
    brain = cavity & (canvas.density > 20) & (canvas.density < 60)
    return Head(canvas, space, brain, radius.astype(np.float32), ventricles & cavity)


def scanned(density: Volume, rng: np.random.Generator) -> Volume:
    """What the scanner makes of it: blur, noise, a cup-shaped error from the bone. HU, (Z, Y, X)."""
    rows, columns = (np.linspace(-1, 1, size, dtype=np.float32) for size in density.shape[1:])
    cup = rng.uniform(-3, 6) * (rows[:, None] ** 2 + columns[None, :] ** 2)
    grain = blurred(rng.standard_normal(density.shape, dtype=np.float32), 0.6) * 1.5
    noisy = blurred(density, float(rng.uniform(0.3, 0.7))) + cup[None] + rng.uniform(3, 7) * grain
    scan: Volume = np.clip(noisy, -1024, 3071).astype(np.float32)
    return scan


def _fluid(canvas: Canvas, shape: Shape, found: Mask) -> None:
    canvas.paint(shape, 7)
    found[shape.window] |= shape.inside


def _bright(
    space: Space,
    canvas: Canvas,
    rng: np.random.Generator,
    x: Volume,
    y: Volume,
    z: Volume,
    cavity: Mask,
    radius: Volume,
) -> None:
    """As dense as blood and no blood: falx, sinuses, tentorium, thick basal vessels; and lime, which is denser."""
    falx = cavity & (np.abs(x) < 0.018) & (z > 0.05) & (radius > 0.55)
    canvas.density[falx] = rng.uniform(46, 60)
    sinus = cavity & (np.abs(x) < 0.07) & (y > 0) & (radius > 0.9)
    canvas.density[sinus] = rng.uniform(48, 66)
    for side in (-1, 1):
        canvas.paint(
            space.tube([(side * 0.06, 0.7, -0.3), (side * 0.5, 0.45, -0.35)], [0.045, 0.045]), rng.uniform(48, 64)
        )
        canvas.paint(
            space.tube([(side * 0.02, -0.15, -0.42), (side * 0.3, -0.2, -0.36)], [0.025, 0.02]), rng.uniform(44, 56)
        )
        if rng.random() < 0.6:
            canvas.paint(space.ellipsoid((side * 0.2, 0.34, 0.1), (0.035, 0.045, 0.06)), rng.uniform(60, 180))
    if rng.random() < 0.6:
        canvas.paint(space.ellipsoid((0, 0.24, 0.03), (0.03, 0.03, 0.05)), rng.uniform(70, 200))


def _base(space: Space, canvas: Canvas, rng: np.random.Generator, cavity: Mask, z: Volume) -> None:
    for side in (-1, 1):
        canvas.paint(space.tube([(side * 0.15, 0.1, -0.85), (side * 0.6, 0.25, -0.75)], [0.1, 0.16]), 900)
        canvas.paint(space.tube([(side * 0.1, -0.3, -0.7), (side * 0.5, -0.35, -0.6)], [0.05, 0.05]), 700)
        canvas.paint(space.ellipsoid((side * 0.3, -0.66, -0.8), (0.16, 0.18, 0.16)), 12)
    canvas.paint(space.ellipsoid((0, -0.5, -0.85), (0.13, 0.3, 0.2)), -900)
    # Cerebellum: as bright as the rest of the brain, below the tentorium.
    floor = cavity & (z < -0.95 + 0.1 * smooth_field(rng, space.shape, (3, 5, 5)))
    canvas.density[floor] = 500
