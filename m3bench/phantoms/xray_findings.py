"""Findings on the chest film phantom, told apart by form, place and texture. Each drawing changes the film.

A drawing returns where it painted, so that boxes follow from what can be seen.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from m3bench.phantoms.xray import Film, ribs
from m3bench.scanners.noise import smooth_field

Mask = NDArray[np.bool_]
Box = tuple[int, int, int, int]


@dataclass(frozen=True)
class Finding:
    """One thing that can be seen. `side` -1 is on the image's left, the person's right; zone 0 is upper, 2 lower."""

    name: str
    side: int
    zone: int
    box: Box | None
    """x1, y1, x2, y2 in pixels; None where too little of it is in the picture."""


Drawing = Callable[[Film, int, int, np.random.Generator], Mask]
ZONES = (-0.38, -0.06, 0.24)


def draw(film: Film, name: str, rng: np.random.Generator, side: int | None = None, zone: int | None = None) -> Finding:
    """Paint one finding; side and zone are drawn where not given, within what the finding allows."""
    side = int(rng.choice([-1, 1])) if side is None else side
    zone = int(rng.choice(PLACES.get(name, (0, 1, 2)))) if zone is None else zone
    return Finding(name, side, zone, _box(DRAWINGS[name](film, side, zone, rng)))


def _box(painted: Mask) -> Box | None:
    rows, columns = np.flatnonzero(painted.any(axis=1)), np.flatnonzero(painted.any(axis=0))
    if painted.sum() < 3:
        return None
    height, width = painted.shape
    return (
        max(1, int(columns[0]) - 1), max(1, int(rows[0]) - 1), min(width - 2, int(columns[-1]) + 1),
        min(height - 2, int(rows[-1]) + 1),
    )  # fmt: skip


def _centre(side: int, zone: int, rng: np.random.Generator) -> tuple[float, float]:
    return side * float(rng.uniform(0.34, 0.5)), ZONES[zone] + float(rng.uniform(-0.08, 0.08))


def consolidation(film: Film, side: int, zone: int, rng: np.random.Generator) -> Mask:
    cx, cy = _centre(side, zone, rng)
    ragged = 1 + 0.5 * smooth_field(rng, film.light.shape, (14, 14))
    near = (((film.x - cx) / rng.uniform(0.16, 0.22)) ** 2 + ((film.y - cy) / rng.uniform(0.15, 0.22)) ** 2) * ragged
    area = (near < 1) & film.lung(side)
    film.light[area] += (0.30 * np.clip(1.5 - near, 0, 1))[area]
    return np.asarray(area)


def effusion(film: Film, side: int, zone: int, rng: np.random.Generator) -> Mask:
    # The fluid's upper border climbs towards the chest wall.
    level = film.person.dome + rng.uniform(0.12, 0.34) - 0.9 * np.clip(side * film.x - 0.42, -0.1, 0.3)
    area = (film.y > level) & film.lung(side)
    film.light[area] = 0.72
    return np.asarray(area)


def emphysema(film: Film, side: int, zone: int, rng: np.random.Generator) -> Mask:
    area = film.lung(side) & (film.y < 0.18)
    film.light[area] = 0.55 * film.light[area] - 0.02
    for _ in range(5):
        cx, cy = _centre(side, int(rng.integers(0, 2)), rng)
        ring = np.hypot(film.x - cx, film.y - cy) / rng.uniform(0.05, 0.09)
        film.light[area & (np.abs(ring - 1) < 0.18)] += 0.12
    return np.asarray(area)


def fibrosis(film: Film, side: int, zone: int, rng: np.random.Generator) -> Mask:
    cx, cy = _centre(side, zone, rng)
    area = ((film.x - cx) / 0.19) ** 2 + ((film.y - cy) / 0.19) ** 2 < 1
    area &= film.lung(side)
    wobble = 0.02 * smooth_field(rng, film.light.shape, (20, 20))
    net = np.maximum(np.sin(75 * (film.x + 0.6 * film.y + wobble)), np.sin(75 * (film.y - 0.6 * film.x + wobble)))
    film.light[area] += (0.24 * (net > 0.55) - 0.03)[area]
    return np.asarray(area)


def fracture(film: Film, side: int, zone: int, rng: np.random.Generator) -> Mask:
    # A rib that is cut by a dark gap and goes on a step lower.
    cx, cy = side * float(rng.uniform(0.55, 0.66)), ZONES[zone] + float(rng.uniform(-0.08, 0.08))
    window = (np.abs(film.x - cx) < 0.09) & (np.abs(film.y - cy) < 0.08)
    on = ribs(film.person, film.x, film.y) > 0
    film.light[window & on] -= 0.10
    lower = side * (film.x - cx) > 0
    moved = (film.y - cy + 0.2 * np.abs(film.x - cx) - 0.055 * lower) ** 2 < 0.022**2
    film.light[window & moved & (np.abs(film.x - cx) > 0.012)] += 0.30
    return np.asarray(window)


def atelectasis(film: Film, side: int, zone: int, rng: np.random.Generator) -> Mask:
    cx, cy = _centre(side, zone, rng)
    tilt = rng.uniform(-0.35, 0.35)
    off = film.y - cy - tilt * (film.x - cx)
    area = (np.abs(off) < 0.028) & (np.abs(film.x - cx) < rng.uniform(0.16, 0.22)) & film.lung(side)
    film.light[area] += 0.34
    return np.asarray(area)


def mass(film: Film, side: int, zone: int, rng: np.random.Generator) -> Mask:
    return _round(film, side, zone, rng.uniform(0.11, 0.15), 0.36, rng)


def nodule(film: Film, side: int, zone: int, rng: np.random.Generator) -> Mask:
    return _round(film, side, zone, rng.uniform(0.04, 0.055), 0.34, rng)


def calcification(film: Film, side: int, zone: int, rng: np.random.Generator) -> Mask:
    cx, cy = _centre(side, zone, rng)
    area = np.zeros(film.light.shape, bool)
    for _ in range(3):
        dx, dy = rng.uniform(-0.03, 0.03, 2)
        area |= np.hypot(film.x - cx - dx, film.y - cy - dy) < 0.017
    film.light[area] = 1.05
    return area


def pneumothorax(film: Film, side: int, zone: int, rng: np.random.Generator) -> Mask:
    # The lung has shrunk from the wall and the tip: a dark crescent without vessels, edged by a thin line.
    shrink = rng.uniform(0.62, 0.74)
    wide, high = film.person.lung
    inner = np.hypot((side * film.x - 0.40) / (wide * shrink), (film.y - 0.08) / (high * shrink))
    area = film.lung(side) & (inner > 1) & (film.y < 0.15) & (side * film.x > 0.28)
    film.light[area] = 0.08
    film.light[area & (inner < 1.09)] = 0.62
    return np.asarray(area)


def _round(film: Film, side: int, zone: int, size: float, add: float, rng: np.random.Generator) -> Mask:
    cx, cy = _centre(side, zone, rng)
    distance = np.hypot(film.x - cx, film.y - cy) / size
    area = (distance < 1) & film.lung(side)
    film.light[area] += add
    return np.asarray(area)


DRAWINGS: dict[str, Drawing] = {
    "Atelectasis": atelectasis, "Calcification": calcification, "Consolidation": consolidation, "Effusion": effusion,
    "Emphysema": emphysema, "Fibrosis": fibrosis, "Fracture": fracture, "Mass": mass, "Nodule": nodule,
    "Pneumothorax": pneumothorax,
}  # fmt: skip
PLACES = {"Atelectasis": (1, 2), "Effusion": (2,), "Emphysema": (0,), "Pneumothorax": (0,)}
EXTENDED = ("Emphysema", "Effusion", "Pneumothorax", "Consolidation", "Fibrosis")
"""Painted first, so that they do not hide the small ones."""
