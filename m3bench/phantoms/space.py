"""Shapes in a patient: ellipsoids and tubes in bent coordinates, painted into densities and labels.

Coordinates are fractions of half the field of view: x to the patient's left, y to the back, z to the head. Arrays are
(Z, Y, X). Points and radii are given as (x, y, z).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from m3bench.scanners.noise import Volume, smooth_field

Window = tuple[slice, slice, slice]
Point = tuple[float, float, float]
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Shape:
    """`depth` over a part of the volume: below 1 is inside, 0 the middle."""

    window: Window
    depth: Volume

    @property
    def inside(self) -> Mask:
        return np.asarray(self.depth < 1)


@dataclass(frozen=True)
class Space:
    """Coordinates of every voxel. `bend`, (3, Z, Y, X) in the order x, y, z, is added: no two people are alike."""

    x: Volume
    y: Volume
    z: Volume
    bend: Volume

    @classmethod
    def draw(
        cls,
        shape: tuple[int, int, int],
        rng: np.random.Generator,
        *,
        low: Point = (-1, -1, -1),
        high: Point = (1, 1, 1),
        amount: float = 0.05,
        cells: int = 5,
    ) -> "Space":
        """`shape` (Z, Y, X) over the box from `low` to `high`, bent by about `amount` with `cells` waves across."""
        x, y, z = (
            ((np.arange(size) + 0.5) / size * (b - a) + a).astype(np.float32)
            for size, a, b in zip(shape[::-1], low, high, strict=True)
        )
        bend = np.stack([amount * smooth_field(rng, shape, (cells, cells, cells)) for _ in range(3)])
        return cls(x.reshape(1, 1, -1), y.reshape(1, -1, 1), z.reshape(-1, 1, 1), bend)

    @property
    def shape(self) -> tuple[int, int, int]:
        return self.z.size, self.y.size, self.x.size

    def bent(self, window: Window = (slice(None), slice(None), slice(None))) -> tuple[Volume, Volume, Volume]:
        """x, y and z with the bend, each (Z, Y, X)."""
        at_z, at_y, at_x = window
        dx, dy, dz = (part[window] for part in self.bend)
        return self.x[:, :, at_x] + dx, self.y[:, at_y] + dy, self.z[at_z] + dz

    def ellipsoid(self, centre: Point, radii: Point, turn: float = 0.0) -> Shape:
        """`turn` radians in the coronal plane: a positive one leans the top to the patient's left."""
        reach = max(radii[0], radii[2]) if turn else None
        reaches = (reach or radii[0], radii[1], reach or radii[2])
        window = self._window(np.subtract(centre, reaches), np.add(centre, reaches))
        x, y, z = (axis - c for axis, c in zip(self.bent(window), centre, strict=True))
        sine, cosine = np.float32(np.sin(turn)), np.float32(np.cos(turn))
        across, along = cosine * x - sine * z, sine * x + cosine * z
        return Shape(window, np.sqrt((across / radii[0]) ** 2 + (y / radii[1]) ** 2 + (along / radii[2]) ** 2))

    def tube(self, points: Sequence[Point], radii: Sequence[float], flat: float = 1.0) -> Shape:
        """A bent tube through `points`, thick as `radii` say at each; `flat` squeezes it from front to back."""
        path = np.array(points, np.float32)
        thick = max(radii)
        window = self._window(path.min(axis=0) - thick, path.max(axis=0) + thick)
        x, y, z = self.bent(window)
        depth = np.full(x.shape, np.inf, np.float32)
        for a, b, start, end in zip(path[:-1], path[1:], radii[:-1], radii[1:], strict=True):
            step = b - a
            offset = (x - a[0], y - a[1], z - a[2])
            along = sum(part * s for part, s in zip(offset, step, strict=True)) / float(step @ step)
            t = np.clip(along, 0, 1)
            gaps = [part - t * s for part, s in zip(offset, step, strict=True)]
            distance = np.sqrt(gaps[0] ** 2 + (gaps[1] / flat) ** 2 + gaps[2] ** 2)
            np.minimum(depth, distance / (start + (end - start) * t), out=depth)
        return Shape(window, depth)

    def lumpy(self, shape: Shape, rng: np.random.Generator, amount: float = 0.12, cells: int = 4) -> Shape:
        """The shape with bumps and dents of about `amount` of its radius."""
        return Shape(shape.window, shape.depth * (1 + amount * smooth_field(rng, shape.depth.shape, (cells,) * 3)))

    @cached_property
    def _margin(self) -> tuple[float, ...]:
        """How far the bend may carry a voxel along x, y and z."""
        return tuple((np.abs(self.bend).max(axis=(1, 2, 3)) * 1.01).tolist())

    def _window(self, low: NDArray[np.floating], high: NDArray[np.floating]) -> Window:
        at = [
            slice(*np.searchsorted(axis.ravel(), (a - m, b + m)).tolist())
            for axis, a, b, m in zip((self.x, self.y, self.z), low, high, self._margin, strict=True)
        ]
        if any(part.start >= part.stop for part in at):
            at = [slice(0, 0)] * 3
        return at[2], at[1], at[0]


@dataclass(frozen=True)
class Canvas:
    """Densities in HU (or grey) and label values, both (Z, Y, X); later paint covers earlier paint."""

    density: Volume
    labels: NDArray[np.uint8]

    @classmethod
    def empty(cls, shape: tuple[int, int, int], density: float) -> "Canvas":
        return cls(np.full(shape, density, np.float32), np.zeros(shape, np.uint8))

    def paint(
        self,
        shape: Shape,
        density: float | Volume,
        label: int = 0,
        *,
        within: Mask | None = None,
        behind: bool = False,
    ) -> Mask:
        """Fill the inside; `density` is a number or fits the shape's window. Returns what was painted there.

        `within` is over the whole volume; `behind` leaves every labelled voxel as it is.
        """
        inside = shape.inside if within is None else shape.inside & within[shape.window]
        if behind:
            inside &= self.labels[shape.window] == 0
        part = self.density[shape.window]
        part[inside] = density[inside] if isinstance(density, np.ndarray) else density
        self.labels[shape.window][inside] = label
        return inside
