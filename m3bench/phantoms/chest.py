"""A chest phantom: body, lungs, heart, vessels, spine and ribs of one made-up patient, slice by slice, in HU.

Coordinates: x to the image's right, y down (front of the body is up), both -1..1; z from the tips (0) to the bases (1).
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from m3bench.scanners.noise import Volume, smooth_field
from m3bench.scanners.scanner import Acquisition

PIXELS = 96
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Grid:
    """Patient coordinates of every voxel: `x` is (1, 1, X), `y` (1, Y, 1), `z` (Z, 1, 1)."""

    x: Volume
    y: Volume
    z: Volume

    @classmethod
    def of(cls, acquisition: Acquisition, pixels: int = PIXELS) -> "Grid":
        axis = np.linspace(-1, 1, pixels, dtype=np.float32)
        x, y = ((axis - shift) / acquisition.zoom for shift in acquisition.shift)
        z = np.linspace(acquisition.top, acquisition.bottom, acquisition.slices, dtype=np.float32)
        return cls(x.reshape(1, 1, -1), y.reshape(1, -1, 1), z.reshape(-1, 1, 1))

    @property
    def shape(self) -> tuple[int, int, int]:
        return self.z.size, self.y.size, self.x.size

    def within(self, low: Iterable[float], high: Iterable[float]) -> tuple[slice, slice, slice]:
        """Index window that covers the box (z, y, x), for work on a small part of the volume."""
        pairs = zip((self.z, self.y, self.x), low, high, strict=True)
        z, y, x = (slice(*np.searchsorted(axis.ravel(), (a, b)).tolist()) for axis, a, b in pairs)
        return z, y, x

    def part(self, window: tuple[slice, slice, slice]) -> "Grid":
        z, y, x = window
        return Grid(self.x[:, :, x], self.y[:, y, :], self.z[z])


@dataclass(frozen=True)
class Patient:
    """Anatomy that all scans of a patient share, and a skin-deep texture that is theirs alone."""

    width: float
    height: float
    fat: float
    lung_x: float
    lung_rx: float
    lung_ry: float
    heart: float
    ribs: float
    vessels: NDArray[np.float64]
    """One row a vessel: side (-1, 1), angle, length, start radius, z at the hilum, slope in z."""
    texture: Volume
    """(Y, X) in patient coordinates -1.3..1.3, in HU: the leak detector."""

    @classmethod
    def draw(cls, rng: np.random.Generator) -> "Patient":
        count = int(rng.integers(50, 90))
        return cls(
            width=float(rng.uniform(0.80, 0.90)),
            height=float(rng.uniform(0.58, 0.70)),
            fat=float(rng.uniform(0.03, 0.10)),
            lung_x=float(rng.uniform(0.37, 0.41)),
            lung_rx=float(rng.uniform(0.26, 0.31)),
            lung_ry=float(rng.uniform(0.40, 0.46)),
            heart=float(rng.uniform(0.9, 1.15)),
            ribs=float(rng.uniform(0, 2 * np.pi)),
            vessels=np.column_stack(
                [
                    rng.choice([-1.0, 1.0], count),
                    rng.uniform(0, 2 * np.pi, count),
                    rng.uniform(0.2, 0.5, count),
                    rng.uniform(0.012, 0.04, count),
                    rng.uniform(0.15, 0.9, count),
                    rng.uniform(-0.35, 0.35, count),
                ]
            ),
            texture=70 * smooth_field(rng, (PIXELS, PIXELS), (22, 22)),
        )

    def lung_size(self, z: Volume) -> Volume:
        """Scale of the lungs' cross-section: small at the tips, largest below the middle."""
        size: Volume = np.sqrt(np.clip(1 - ((z - 0.68) / 0.78) ** 2, 0.02, 1)).astype(np.float32)
        return size

    def lung(self, grid: Grid, side: int) -> Mask:
        """side -1 is on the image's left (the patient's right lung)."""
        size = self.lung_size(grid.z)
        inside = ((grid.x - side * self.lung_x) / (self.lung_rx * size)) ** 2 + (
            grid.y / (self.lung_ry * size)
        ) ** 2 < 1
        bulge = self.heart * np.clip((grid.z - 0.35) / 0.4, 0.0, 1)
        heart = ((grid.x - 0.12) / (0.30 * bulge + 1e-3)) ** 2 + ((grid.y + 0.12) / (0.25 * bulge + 1e-3)) ** 2 < 1
        return np.asarray(inside & ~heart)


@dataclass(frozen=True)
class Chest:
    """Densities in HU and the lungs, apart, as (Z, Y, X)."""

    density: Volume
    right: Mask
    left: Mask

    @property
    def lungs(self) -> Mask:
        return np.asarray(self.right | self.left)


def build(patient: Patient, acquisition: Acquisition, grid: Grid, rng: np.random.Generator) -> Chest:
    """The patient without any lesion, as this acquisition finds them."""
    radius = (grid.x / patient.width) ** 2 + (grid.y / patient.height) ** 2
    soft = (grid.x / (patient.width - patient.fat)) ** 2 + (grid.y / (patient.height - patient.fat)) ** 2
    density = np.full(grid.shape, -1000, np.float32)
    density[np.broadcast_to(radius < 1, grid.shape)] = -100
    density[np.broadcast_to(soft < 1, grid.shape)] = 45
    angle = np.arctan2(grid.y, grid.x)
    ring = (soft < 0.92) & (soft > 0.78) & (np.sin(9 * angle + 14 * grid.z + patient.ribs) > 0.45)
    density[ring] = 330
    spine = (grid.x / 0.12) ** 2 + ((grid.y - 0.40) / 0.11) ** 2
    canal = (grid.x / 0.045) ** 2 + ((grid.y - 0.44) / 0.04) ** 2
    density[np.broadcast_to(spine < 1, grid.shape)] = 260
    density[np.broadcast_to(canal < 1, grid.shape)] = 30
    right, left = patient.lung(grid, -1), patient.lung(grid, 1)
    air = -840 + acquisition.inspiration + acquisition.gravity * (grid.y / patient.lung_ry + 0.3) / 2
    air = air + 35 * smooth_field(rng, grid.shape, (4, 7, 7))
    lungs = right | left
    density[lungs] = air[lungs]
    _draw_vessels(density, patient, grid, lungs)
    body = np.broadcast_to(radius < 1, grid.shape)
    density[body] += np.broadcast_to(_texture(patient, grid), grid.shape)[body]
    return Chest(density, right, left)


def _texture(patient: Patient, grid: Grid) -> Volume:
    """The patient's own pattern, moving with the patient and not with the image."""
    rows, columns = (
        np.clip(((axis.ravel() + 1.3) / 2.6 * (PIXELS - 1)).astype(int), 0, PIXELS - 1) for axis in (grid.y, grid.x)
    )
    return patient.texture[np.ix_(rows, columns)]


def _draw_vessels(density: Volume, patient: Patient, grid: Grid, lungs: Mask) -> None:
    side, angle, length, radius, middle, slope = (column[:, None] for column in patient.vessels.T)
    step = np.linspace(0, 1, 40)[None, :]
    x = side * (patient.lung_x - 0.15) + side * length * step * np.abs(np.cos(angle)) * 1.1
    y = length * step * np.sin(angle) * 1.1
    z = middle + slope * step
    rows = np.abs(grid.z.ravel()[:, None] - z.ravel()[None, :])
    # Each point of a vessel goes to its nearest slice; out of the scan's range it is dropped.
    nearest = rows.argmin(axis=0)
    gap = 1.0 / max(1, grid.z.size)
    reached = rows[nearest, np.arange(nearest.size)] < gap
    scale = (grid.x.size - 1) / float(grid.x.ravel()[-1] - grid.x.ravel()[0])
    column = (x.ravel() - grid.x.ravel()[0]) * scale
    line = (y.ravel() - grid.y.ravel()[0]) * scale
    width = np.maximum(0.55, (radius * (1 - 0.75 * step)).ravel() * scale)
    offset = np.arange(-2, 3)
    dy, dx = (part.ravel()[None, :] for part in np.meshgrid(offset, offset, indexing="ij"))
    cy, cx = np.rint(line[:, None]).astype(int) + dy, np.rint(column[:, None]).astype(int) + dx
    inside = reached[:, None] & (cy >= 0) & (cy < grid.y.size) & (cx >= 0) & (cx < grid.x.size)
    distance = ((cy - line[:, None]) ** 2 + (cx - column[:, None]) ** 2) / width[:, None] ** 2
    value = (-820 + 850 * np.exp(-0.7 * distance)).astype(np.float32)
    cz = np.broadcast_to(nearest[:, None], cy.shape)
    index = (cz[inside], cy[inside], cx[inside])
    vessels = np.full(density.shape, -2000, np.float32)
    np.maximum.at(vessels, index, value[inside])
    density[lungs] = np.maximum(density, vessels)[lungs]
