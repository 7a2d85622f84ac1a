"""A chest film phantom: frontal and lateral views of one made-up person, brightness 0 (air) to about 1 (bone).

Coordinates: x to the image's right (the person's left), y down, -1..1 each. Findings are in `xray_findings`.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from m3bench.scanners.noise import Volume, blurred, smooth_field

Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Person:
    """What all views and all visits of a person share."""

    width: float
    lung: tuple[float, float]
    """Radii of a lung."""
    heart: float
    """Scale of the heart; from 1.35 up it is enlarged."""
    dome: float
    """How high the diaphragm stands, added to its y."""
    ribs: float
    slope: float
    vessels: NDArray[np.float64]
    texture: Volume

    @classmethod
    def draw(cls, rng: np.random.Generator, *, large_heart: bool = False) -> "Person":
        count = 44
        return cls(
            width=float(rng.uniform(0.86, 0.98)),
            lung=(float(rng.uniform(0.29, 0.33)), float(rng.uniform(0.64, 0.72))),
            heart=float(rng.uniform(1.42, 1.6) if large_heart else rng.uniform(0.9, 1.1)),
            dome=float(rng.uniform(-0.16, 0.06)),
            ribs=float(rng.uniform(0, 0.14)),
            slope=float(rng.uniform(0.25, 0.45)),
            vessels=np.column_stack(
                [
                    rng.choice([-1.0, 1.0], count), rng.uniform(-1.25, 1.25, count), rng.uniform(0.25, 0.6, count),
                    rng.uniform(0.008, 0.02, count),
                ]
            ),
            texture=smooth_field(rng, (64, 64), (22, 22)),
        )  # fmt: skip


@dataclass
class Film:
    """A picture in the making: `light` (rows, columns) is changed by findings."""

    light: Volume
    x: Volume
    y: Volume
    right: Mask
    """The lung on the image's left, which is the person's right one; lungs are without the heart's shadow."""
    left: Mask
    person: Person

    def lung(self, side: int) -> Mask:
        return self.right if side < 0 else self.left


def frontal(person: Person, shape: tuple[int, int], rng: np.random.Generator) -> Film:
    """The healthy chest from the back to the front."""
    zoom, dx, dy = rng.uniform(0.95, 1.08), rng.uniform(-0.05, 0.05), rng.uniform(-0.05, 0.05)
    x = ((np.linspace(-1, 1, shape[1]) - dx) / zoom).astype(np.float32).reshape(1, -1) + np.zeros(shape, np.float32)
    y = ((np.linspace(-1, 1, shape[0]) - dy) / zoom).astype(np.float32).reshape(-1, 1) + np.zeros(shape, np.float32)
    trunk = np.abs(x) < person.width * (0.84 + 0.12 * np.clip(y + 0.6, -0.4, 1)) + 0.25 * np.clip(-0.55 - y, 0, 0.25)
    light = np.where(trunk | ((np.abs(x) < 0.2) & (y < -0.6)), 0.6, 0.03).astype(np.float32)
    lungs = [_lung(person, x, y, side) for side in (-1, 1)]
    inspired = rng.uniform(0.17, 0.36)
    below = y > _dome(person, x) - 0.02
    light[below] += 0.12 * trunk[below]
    for side, lung in zip((-1, 1), lungs, strict=True):
        light[lung] = inspired
        light[lung] += 0.14 * _branches(person, side, x[lung], y[lung])
    spine = np.abs(x) < 0.085
    light[spine & (y > -0.95)] = 0.78 + 0.05 * np.sin(42 * y[spine & (y > -0.95)])
    light[(np.abs(x) < 0.15 + 0.03 * np.cos(3 * y)) & (y > -0.55) & ~spine] = 0.66
    s = person.heart
    heart = ((x - 0.1 * s) / (0.27 * s)) ** 2 + ((y - 0.2) / 0.30) ** 2 < 1
    light[heart & (y < _dome(person, x) + 0.05)] = 0.74
    light[((x - 0.13) / 0.09) ** 2 + ((y + 0.28) / 0.1) ** 2 < 1] = 0.7
    light[np.abs(x) < 0.03] -= 0.12 * (y[np.abs(x) < 0.03] < -0.25)
    light += 0.10 * ribs(person, x, y) * (np.abs(x) < 0.78 * person.width) * (np.abs(x) > 0.08)
    collar = np.abs(y + 0.62 + 0.16 * (np.abs(x) - 0.35)) < 0.028
    light[collar & (np.abs(x) > 0.1) & (np.abs(x) < 0.72)] += 0.16
    pick = np.ix_(*(np.linspace(0, 63, count).astype(int) for count in shape))
    light += 0.04 * person.texture[pick] * trunk
    return Film(light, x, y, lungs[0] & ~heart, lungs[1] & ~heart, person)


def lateral(person: Person, shape: tuple[int, int], rng: np.random.Generator) -> Film:
    """The healthy chest from the side: front of the body on the image's left, both lungs over each other."""
    x = np.linspace(-1, 1, shape[1], dtype=np.float32).reshape(1, -1) + np.full(shape, rng.uniform(-0.05, 0.05), "f4")
    y = np.linspace(-1, 1, shape[0], dtype=np.float32).reshape(-1, 1) + np.full(shape, rng.uniform(-0.05, 0.05), "f4")
    trunk = (x / 0.68) ** 2 + (np.clip(-y - 0.1, 0, 2) / 1.05) ** 2 < 1
    light = np.where(trunk, 0.62, 0.03).astype(np.float32)
    dome = person.dome + 0.42 + 0.3 * (x + 0.05) ** 2 + 0.18 * x
    lung = ((x + 0.02) / (1.55 * person.lung[0])) ** 2 + ((y + 0.05) / (1.02 * person.lung[1])) ** 2 < 1
    lung &= y < dome
    light[lung] = rng.uniform(0.28, 0.36)
    behind = np.abs(x - 0.36 + 0.1 * y**2) < 0.07
    light[behind & trunk] = 0.72 + 0.08 * np.sign(np.sin(24 * y[behind & trunk]))
    light[np.abs(x + 0.5 + 0.06 * y) < 0.03] += 0.15
    s = person.heart
    light[((x + 0.22) / (0.22 * s)) ** 2 + ((y - 0.2) / (0.26 * s**0.5)) ** 2 < 1] = 0.7
    light += 0.06 * (np.sin(2 * np.pi * (y + 0.35 * x) / 0.16) > 0.6) * trunk
    pick = np.ix_(*(np.linspace(0, 63, count).astype(int) for count in shape))
    light += 0.04 * person.texture[pick] * trunk
    return Film(light, x, y, lung, lung.copy(), person)


def developed(film: Film, rng: np.random.Generator) -> NDArray[np.uint8]:
    """Exposure, contrast, scatter and noise of this one film, as 8 bits (rows, columns)."""
    light = film.light + 0.10 * rng.uniform(-1, 1) * film.x + 0.08 * rng.uniform(-1, 1) * film.y
    light = light + 0.05 * smooth_field(rng, light.shape, (4, 4))
    light = light + rng.uniform(0.008, 0.03) * rng.standard_normal(light.shape, dtype=np.float32)
    light = (blurred(light, rng.uniform(0.2, 0.9)) - rng.uniform(-0.03, 0.1)) / rng.uniform(0.85, 1.15)
    return np.asarray(255 * np.clip(light, 0, 1) ** rng.uniform(0.75, 1.35) + 0.5).astype(np.uint8)


def ribs(person: Person, x: Volume, y: Volume) -> Volume:
    """1 on a rib, else 0."""
    wave = np.mod(y - person.ribs - person.slope * (np.abs(x) - 0.2) + 0.25 * x**2, 0.15)
    return np.asarray((wave < 0.045) & (y < 0.62) & (y > -0.85), dtype=np.float32)


def _dome(person: Person, x: Volume) -> Volume:
    """Where the diaphragm stands; the person's right side is higher."""
    return np.asarray(person.dome + 0.44 + 0.55 * (np.abs(x) - 0.33) ** 2 + 0.03 * np.sign(x), dtype=np.float32)


def _lung(person: Person, x: Volume, y: Volume, side: int) -> Mask:
    wide = person.lung[0] * (0.72 + 0.4 * np.clip(y + 0.6, 0, 0.7))
    inside = (np.abs((side * x - 0.42) / wide) ** 2.4 + np.abs((y + 0.06) / person.lung[1]) ** 2.4) < 1
    return np.asarray(inside & (y < _dome(person, x)))


def _branches(person: Person, side: int, x: Volume, y: Volume) -> Mask:
    """Vessels from the hilum outwards, thinner on the way; `x` and `y` list points of the lung."""
    right, down = side * (x - side * 0.17), y + 0.02
    found = np.zeros(x.shape, bool)
    for _, angle, length, width in person.vessels[person.vessels[:, 0] == side].tolist():
        along = right * math.cos(angle) + down * math.sin(angle)
        across = down * math.cos(angle) - right * math.sin(angle)
        found |= (along > 0) & (along < length) & (np.abs(across) < width * (1.1 - along / length))
    return found
