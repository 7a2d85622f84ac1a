"""Two kinds of pneumonia for the chest phantom, and findings that mean nothing."""

import numpy as np

from m3bench.phantoms.chest import Chest, Grid, Mask, Patient
from m3bench.scanners.noise import Volume, smooth_field


def consolidations(chest: Chest, patient: Patient, grid: Grid, rng: np.random.Generator) -> Mask:
    """Common pneumonia: one to three dense, sharply bounded, lobar areas, mostly on one side. Changes `chest`."""
    found = np.zeros(grid.shape, bool)
    main = int(rng.choice([-1, 1]))
    for number in range(int(rng.choice([1, 1, 2, 3]))):
        side = main if number == 0 or rng.random() < 0.7 else -main
        centre = (
            rng.uniform(0.25, 0.85),
            rng.uniform(-0.5, 0.7) * patient.lung_ry,
            side * (patient.lung_x + rng.uniform(-0.3, 0.6) * patient.lung_rx),
        )
        reach = (rng.uniform(0.10, 0.2), rng.uniform(0.16, 0.26), rng.uniform(0.15, 0.24))
        window, near = _near(grid, centre, reach)
        lung = (chest.right if side < 0 else chest.left)[window]
        # The fissure: one straight sharp border.
        tilt = rng.uniform(-0.6, 0.6)
        beyond = (near.y - centre[1]) + tilt * (near.x - centre[2]) > -0.6 * reach[1]
        area = (_ellipsoid(near, centre, reach) < 1) & lung & beyond
        filled = rng.uniform(-60, 30) + 45 * smooth_field(rng, area.shape, (3, 6, 6))
        chest.density[window][area] = np.maximum(chest.density[window], filled)[area]
        found[window] |= area
    return found


def ground_glass(chest: Chest, patient: Patient, grid: Grid, rng: np.random.Generator) -> Mask:
    """COVID-19: several hazy patches on both sides, at the periphery. Changes `chest`."""
    found = np.zeros(grid.shape, bool)
    for number in range(int(rng.integers(6, 13))):
        side = (-1, 1)[number % 2] if number < 4 else int(rng.choice([-1, 1]))
        z = rng.uniform(0.2, 0.9)
        size = float(patient.lung_size(np.array([z], np.float32))[0])
        # From the front over the outer side to the back; never towards the heart.
        angle = rng.uniform(-0.4 * np.pi, 0.55 * np.pi)
        far = rng.uniform(0.72, 0.95)
        centre = (
            z,
            far * size * patient.lung_ry * np.sin(angle),
            side * (patient.lung_x + far * size * patient.lung_rx * np.cos(angle)),
        )
        reach = (rng.uniform(0.06, 0.13), rng.uniform(0.11, 0.19), rng.uniform(0.10, 0.17))
        window, near = _near(grid, centre, reach)
        lung = (chest.right if side < 0 else chest.left)[window]
        distance = _ellipsoid(near, centre, reach)
        haze = np.clip(1.15 - distance, 0, 0.7) / 0.7
        mottled = haze * (1 + 0.3 * smooth_field(rng, haze.shape, (3, 7, 7)))
        added = rng.uniform(260, 420) * np.clip(mottled, 0, 1.3)
        part = chest.density[window]
        part[lung] = np.maximum(part, np.minimum(part + added, -180))[lung]
        found[window] |= lung & (haze > 0.3)
    return found


def incidental(chest: Chest, patient: Patient, grid: Grid, rng: np.random.Generator) -> None:
    """Findings of every class alike: dense dependent bands, small nodules. Changes `chest`."""
    lungs = chest.lungs
    if rng.random() < 0.5:
        depth = rng.uniform(0.75, 0.95) * patient.lung_ry * patient.lung_size(grid.z)
        band = lungs & (grid.y > depth) & (grid.z > rng.uniform(0.3, 0.7))
        chest.density[band] += np.float32(rng.uniform(150, 500))
    for _ in range(int(rng.integers(0, 5))):
        side = int(rng.choice([-1, 1]))
        centre = (
            rng.uniform(0.1, 0.95),
            rng.uniform(-0.6, 0.6) * patient.lung_ry,
            side * (patient.lung_x + rng.uniform(-0.5, 0.7) * patient.lung_rx),
        )
        window, near = _near(grid, centre, (0.03, 0.035, 0.035))
        nodule = (_ellipsoid(near, centre, (0.03, 0.035, 0.035)) < 1) & lungs[window]
        chest.density[window][nodule] = np.float32(rng.uniform(-20, 250))


def _near(
    grid: Grid, centre: tuple[float, float, float], reach: tuple[float, float, float]
) -> tuple[tuple[slice, slice, slice], Grid]:
    pairs = list(zip(centre, reach, strict=True))
    window = grid.within([c - 1.1 * r for c, r in pairs], [c + 1.1 * r for c, r in pairs])
    return window, grid.part(window)


def _ellipsoid(grid: Grid, centre: tuple[float, float, float], reach: tuple[float, float, float]) -> Volume:
    terms = zip((grid.z, grid.y, grid.x), centre, reach, strict=True)
    z, y, x = (((axis - c) / r) ** 2 for axis, c, r in terms)
    return np.asarray(z + y + x)
