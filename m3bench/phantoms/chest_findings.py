"""The 18 abnormalities of CT-RATE on the chest phantom, told apart by form, place and texture. Each changes the chest.

Sides are the picture's: -1 is on its left, the person's right. z runs from the tips (0) to the bases (1).
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from m3bench.phantoms.chest import Chest, Grid, Mask, Patient
from m3bench.scanners.noise import Volume, smooth_field

LABELS = (
    "Medical material", "Arterial wall calcification", "Cardiomegaly", "Pericardial effusion",
    "Coronary artery wall calcification", "Hiatal hernia", "Lymphadenopathy", "Emphysema", "Atelectasis", "Lung nodule",
    "Lung opacity", "Pulmonary fibrotic sequela", "Pleural effusion", "Mosaic attenuation pattern",
    "Peribronchial thickening", "Consolidation", "Bronchiectasis", "Interlobular septal thickening",
)  # fmt: skip
PREVALENCE = dict(
    zip(
        LABELS,
        (0.12, 0.28, 0.11, 0.07, 0.25, 0.14, 0.26, 0.2, 0.26, 0.45, 0.37, 0.27, 0.12, 0.08, 0.1, 0.18, 0.1, 0.08),
        strict=True,
    )
)
"""Share of the scans, about 3.6 a scan. In reality it is 3 % (pericardial effusion) to 45 % (nodule); the former is
more frequent here, so that small sets have some."""
SIDED = frozenset(
    {
        "Medical material", "Emphysema", "Atelectasis", "Lung nodule", "Lung opacity", "Pulmonary fibrotic sequela",
        "Pleural effusion", "Consolidation", "Bronchiectasis",
    }
)  # fmt: skip
"""These are on one side, which the report names."""
LEVELLED = frozenset({"Lung nodule", "Lung opacity", "Consolidation"})
"""These are in the upper (0), the middle (1) or the lower (2) part of the lung, which the report names."""
HEIGHTS = (0.27, 0.50, 0.74)


class Place(NamedTuple):
    side: int
    level: int
    """Both 0 where there is none."""


Paint = Callable[[Chest, Patient, Grid, Place, np.random.Generator], None]


def patient_with(patient: Patient, labels: frozenset[str]) -> Patient:
    """The heart's size is anatomy: it is there before the chest is built."""
    return replace(patient, heart=1.45) if "Cardiomegaly" in labels else patient


def paint(chest: Chest, patient: Patient, grid: Grid, label: str, at: Place, rng: np.random.Generator) -> None:
    """Draw one abnormality; where it has no place, `at` is not looked at. Changes `chest.density`."""
    if label in _PAINT:
        _PAINT[label](chest, patient, grid, at, rng)


def paint_instead(chest: Chest, grid: Grid, labels: Collection[str]) -> None:
    """In scans without the brightest, as much of it where it means nothing: in bone, beside the body."""
    if "Arterial wall calcification" not in labels:
        _plaques(chest, grid, 0.0, 0.42)
    if "Medical material" not in labels:
        _port(chest, grid, 1, -0.27)


def _distance(grid: Grid, centre: tuple[float, float, float], reach: tuple[float, float, float]) -> Volume:
    """Squared, in units of `reach`; both (z, y, x)."""
    z, y, x = (((axis - c) / r) ** 2 for axis, c, r in zip((grid.z, grid.y, grid.x), centre, reach, strict=True))
    return np.asarray(z + y + x)


def _lung(chest: Chest, side: int) -> Mask:
    return chest.right if side < 0 else chest.left


def _inside(patient: Patient, at: Place, rng: np.random.Generator) -> tuple[float, float, float]:
    """A point of that lung at that level."""
    z, y = HEIGHTS[at.level] + float(rng.uniform(-0.06, 0.06)), float(rng.uniform(-0.4, 0.45)) * patient.lung_ry
    return z, y, at.side * (patient.lung_x + float(rng.uniform(-0.1, 0.4)) * patient.lung_rx)


def _material(chest: Chest, patient: Patient, grid: Grid, at: Place, rng: np.random.Generator) -> None:
    # A port below the skin of the chest wall with its catheter down to the heart.
    _port(chest, grid, at.side, 0.0)


def _port(chest: Chest, grid: Grid, side: int, dy: float) -> None:
    chest.density[_distance(grid, (0.2, dy - 0.48, side * 0.45), (0.10, 0.07, 0.10)) < 1] = 2500
    x = grid.x - side * (0.45 - 0.40 * np.clip((grid.z - 0.1) / 0.4, 0, 1))
    line = np.hypot(x, grid.y - dy + 0.46 - (0.4 * np.clip(grid.z, 0, 0.5) if not dy else 0))
    chest.density[(line < 0.045) & (grid.z > 0.15) & (grid.z < 0.6)] = 2500


def _arterial(chest: Chest, patient: Patient, grid: Grid, at: Place, rng: np.random.Generator) -> None:
    # On the wall of the aorta beside the spine.
    _plaques(chest, grid, 0.15, 0.24)


def _plaques(chest: Chest, grid: Grid, cx: float, cy: float) -> None:
    ring = np.hypot(grid.x - cx, grid.y - cy) / 0.1
    wave = np.sin(5 * np.arctan2(grid.y - cy, grid.x - cx) + 20 * grid.z)
    chest.density[(np.abs(ring - 1) < 0.3) & (wave > -0.3)] = 900


def _pericardial(chest: Chest, patient: Patient, grid: Grid, at: Place, rng: np.random.Generator) -> None:
    # A broad rim of fluid around the heart, with a line of fat between them.
    bulge = patient.heart * np.clip((grid.z - 0.35) / 0.4, 0.0, 1)
    heart = ((grid.x - 0.12) / (0.30 * bulge + 1e-3)) ** 2 + ((grid.y + 0.12) / (0.25 * bulge + 1e-3)) ** 2
    late = grid.z > 0.5
    chest.density[(heart < 2.0) & (heart > 0.85) & late] = 5
    chest.density[(heart < 0.95) & (heart > 0.6) & late] = -100


def _coronary(chest: Chest, patient: Patient, grid: Grid, at: Place, rng: np.random.Generator) -> None:
    for dx, dy in ((0.02, -0.24), (0.24, -0.2), (0.3, -0.06)):
        chest.density[_distance(grid, (rng.uniform(0.58, 0.72), dy, dx), (0.10, 0.065, 0.075)) < 1] = 800


def _hernia(chest: Chest, patient: Patient, grid: Grid, at: Place, rng: np.random.Generator) -> None:
    distance = _distance(grid, (0.84, 0.16, 0.0), (0.2, 0.19, 0.2))
    chest.density[distance < 1] = 40
    chest.density[(distance < 0.6) & (grid.y < 0.16)] = -850


def _nodes(chest: Chest, patient: Patient, grid: Grid, at: Place, rng: np.random.Generator) -> None:
    # Between the lungs there is fat around the enlarged nodes, which have begun to calcify.
    chest.density[_distance(grid, (0.32, -0.12, 0.0), (0.2, 0.28, 0.2)) < 1] = -110
    for dx, dy in ((-0.06, -0.24), (0.06, -0.10), (-0.05, 0.03)):
        chest.density[_distance(grid, (0.32, dy, dx), (0.14, 0.10, 0.085)) < 1] = 500


def _emphysema(chest: Chest, patient: Patient, grid: Grid, at: Place, rng: np.random.Generator) -> None:
    # Bullae with thin walls at the tip.
    for _ in range(6):
        reach = float(rng.uniform(0.13, 0.18))
        hole = _distance(grid, _inside(patient, Place(at.side, 0), rng), (reach, reach, reach))
        chest.density[(hole < 1.7) & (hole >= 1) & _lung(chest, at.side)] = -300
        chest.density[(hole < 1) & _lung(chest, at.side)] = -1000


def _atelectasis(chest: Chest, patient: Patient, grid: Grid, at: Place, rng: np.random.Generator) -> None:
    tilt = rng.uniform(-0.3, 0.3) * (grid.x - at.side * patient.lung_x)
    off = np.abs(grid.y - 0.05 - tilt - 0.15 * (grid.z - 0.8))
    chest.density[_lung(chest, at.side) & (off < 0.07) & (grid.z > 0.55) & (grid.z < 0.97)] = 0


def _nodule(chest: Chest, patient: Patient, grid: Grid, at: Place, rng: np.random.Generator) -> None:
    size = float(rng.uniform(0.14, 0.17))
    chest.density[_distance(grid, _inside(patient, at, rng), (size, size, size)) < 1] = 60


def _opacity(chest: Chest, patient: Patient, grid: Grid, at: Place, rng: np.random.Generator) -> None:
    for _ in range(3):
        reach = (float(rng.uniform(0.12, 0.18)), float(rng.uniform(0.16, 0.22)), float(rng.uniform(0.14, 0.19)))
        haze = np.clip(1.2 - _distance(grid, _inside(patient, at, rng), reach), 0, 0.7) / 0.7
        lung = _lung(chest, at.side)
        chest.density[lung] = np.minimum(chest.density + 600 * haze, np.maximum(chest.density, -220))[lung]


def _fibrotic(chest: Chest, patient: Patient, grid: Grid, at: Place, rng: np.random.Generator) -> None:
    # Strands that run from the tip's wall inwards.
    lung = _lung(chest, at.side) & (grid.z < 0.42)
    angle = np.arctan2(grid.y + 0.05, at.side * (grid.x - at.side * (patient.lung_x + 0.25)))
    chest.density[lung & (np.sin(11 * angle + 3 * grid.z) > 0.55)] = -50


def _effusion(chest: Chest, patient: Patient, grid: Grid, at: Place, rng: np.random.Generator) -> None:
    level = (
        patient.lung_ry
        * patient.lung_size(grid.z)
        * (0.95 - rng.uniform(0.8, 1.1) * np.clip((grid.z - 0.35) / 0.5, 0, 1))
    )
    chest.density[_lung(chest, at.side) & (grid.y > level)] = 12


def _mosaic(chest: Chest, patient: Patient, grid: Grid, at: Place, rng: np.random.Generator) -> None:
    patches = smooth_field(rng, grid.shape, (4, 6, 6)) > 0
    chest.density[chest.lungs] += np.where(patches, 200, -80)[chest.lungs].astype(np.float32)


def _tubes(
    chest: Chest, patient: Patient, grid: Grid, sides: tuple[int, ...], inner: float, wall: float,
    z: tuple[float, float],
) -> None:  # fmt: skip
    for side in sides:
        for dx, dy in ((-0.06, -0.14), (0.05, 0.06), (-0.08, 0.24)):
            radius = np.hypot(grid.x - side * (patient.lung_x + dx), grid.y - dy)
            here = _lung(chest, side) & (grid.z > z[0]) & (grid.z < z[1])
            chest.density[here & (radius < inner + wall)] = 20
            chest.density[here & (radius < inner)] = -990


def _peribronchial(chest: Chest, patient: Patient, grid: Grid, at: Place, rng: np.random.Generator) -> None:
    _tubes(chest, patient, grid, (-1, 1), 0.03, 0.06, (0.25, 0.6))


def _bronchiectasis(chest: Chest, patient: Patient, grid: Grid, at: Place, rng: np.random.Generator) -> None:
    _tubes(chest, patient, grid, (at.side,), 0.09, 0.04, (0.55, 0.95))


def _consolidation(chest: Chest, patient: Patient, grid: Grid, at: Place, rng: np.random.Generator) -> None:
    centre = (HEIGHTS[at.level], 0.3 * patient.lung_ry, at.side * (patient.lung_x + 0.08))
    area = _lung(chest, at.side) & (_distance(grid, centre, (0.17, 0.26, 0.22)) < 1)
    area &= (grid.y - centre[1]) + 0.4 * (grid.x - centre[2]) > -0.14
    filled = 20 + 40 * smooth_field(rng, grid.shape, (4, 12, 12))
    # Air stays in the bronchi.
    filled[np.broadcast_to(np.abs(np.sin(20 * grid.x + 12 * grid.y)) < 0.16, grid.shape)] = -700
    chest.density[area] = filled[area]


def _septal(chest: Chest, patient: Patient, grid: Grid, at: Place, rng: np.random.Generator) -> None:
    # Polygons of thickened septa at the periphery.
    net = np.maximum(np.cos(34 * (grid.x + 0.5 * grid.y)), np.cos(34 * (grid.y - 0.5 * grid.x)))
    away = np.abs(np.abs(grid.x) - patient.lung_x) / patient.lung_rx + np.abs(grid.y) / patient.lung_ry
    chest.density[chest.lungs & (net > 0.8) & (away > 0.45) & (grid.z > 0.25)] = -200


_PAINT: Mapping[str, Paint] = {
    "Medical material": _material, "Arterial wall calcification": _arterial, "Pericardial effusion": _pericardial,
    "Coronary artery wall calcification": _coronary, "Hiatal hernia": _hernia, "Lymphadenopathy": _nodes,
    "Emphysema": _emphysema, "Atelectasis": _atelectasis, "Lung nodule": _nodule, "Lung opacity": _opacity,
    "Pulmonary fibrotic sequela": _fibrotic, "Pleural effusion": _effusion, "Mosaic attenuation pattern": _mosaic,
    "Peribronchial thickening": _peribronchial, "Consolidation": _consolidation, "Bronchiectasis": _bronchiectasis,
    "Interlobular septal thickening": _septal,
}  # fmt: skip
ORDER = (
    "Mosaic attenuation pattern", "Emphysema", "Interlobular septal thickening", "Lung opacity",
    "Pulmonary fibrotic sequela", "Consolidation", "Bronchiectasis", "Peribronchial thickening",
    "Pericardial effusion", "Lymphadenopathy", "Hiatal hernia", "Pleural effusion", "Cardiomegaly", "Atelectasis",
    "Lung nodule", "Arterial wall calcification", "Coronary artery wall calcification", "Medical material",
)  # fmt: skip
"""What spreads wide is painted first."""
