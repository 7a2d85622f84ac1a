"""A brain in T1 MRI, skull-stripped: the 35 structures of neurite-OASIS, left and right apart, grey values 0..1."""

import numpy as np

from m3bench.phantoms.space import Canvas, Point, Shape, Space
from m3bench.scanners.noise import Volume, blurred, smooth_field

_PAIRED = (
    "cerebral white matter", "cerebral cortex", "lateral ventricle", "inferior lateral ventricle",
    "cerebellum white matter", "cerebellum cortex", "thalamus", "caudate", "putamen", "pallidum",
)  # fmt: skip
_MIDDLE = ("third ventricle", "fourth ventricle", "brain stem")
_PAIRED_TOO = ("hippocampus", "amygdala", "accumbens", "ventral DC", "vessel", "choroid plexus")
STRUCTURES = (
    *(f"left {name}" for name in _PAIRED),
    *_MIDDLE,
    *(f"left {name}" for name in _PAIRED_TOO),
    *(f"right {name}" for name in _PAIRED),
    *(f"right {name}" for name in _PAIRED_TOO),
)
"""In the order of their values 1..35."""

_GREY = {
    "cerebral white matter": 0.74, "cerebral cortex": 0.52, "lateral ventricle": 0.14,
    "inferior lateral ventricle": 0.16, "cerebellum white matter": 0.70, "cerebellum cortex": 0.53,
    "thalamus": 0.63, "caudate": 0.55, "putamen": 0.57, "pallidum": 0.67, "third ventricle": 0.14,
    "fourth ventricle": 0.15, "brain stem": 0.69, "hippocampus": 0.52, "amygdala": 0.52, "accumbens": 0.55,
    "ventral DC": 0.67, "vessel": 0.36, "choroid plexus": 0.33,
}  # fmt: skip


class Brain:
    """One made-up person. `canvas` holds grey values without noise and label values, (Z, Y, X)."""

    def __init__(self, space: Space, rng: np.random.Generator, *, without: frozenset[str] = frozenset()) -> None:
        self.space, self.rng, self.without = space, rng, without
        self.canvas = Canvas.empty(space.shape, 0)
        # Ventricles differ most between people.
        self.wide = float(np.exp(rng.uniform(np.log(0.65), np.log(1.8))))
        self._hull()
        for side, name in ((1, "left "), (-1, "right ")):
            self._deep(side, name)
        self._middle()

    def _paint(self, name: str, shape: Shape, lumps: float = 0.1) -> None:
        grey = _GREY[name.removeprefix("left ").removeprefix("right ")] + self.rng.uniform(-0.015, 0.015)
        if name not in self.without:
            self.canvas.paint(self.space.lumpy(shape, self.rng, lumps), float(grey), STRUCTURES.index(name) + 1)

    def _point(self, side: int, point: Point) -> Point:
        x, y, z = (value + float(self.rng.uniform(-0.025, 0.025)) for value in point)
        return side * x, y, z

    def _hull(self) -> None:
        space, rng = self.space, self.rng
        x, y, z = space.bent()
        radius = np.sqrt((x / 0.84) ** 2 + (y / 0.9) ** 2 + ((z - 0.1) / 0.82) ** 2)
        # Furrows on the outside, and a cortex whose inner border folds.
        folds = smooth_field(rng, space.shape, (12, 14, 12))
        cerebrum = (radius < 1 + 0.06 * folds) & ~((z < -0.3) & (y > 0.25)) & ~((z < -0.5) & (np.abs(x) < 0.3))
        cerebrum &= ~((np.abs(x) < 0.03) & (radius > 0.62))
        inner = (radius < rng.uniform(0.76, 0.82) + 0.13 * folds) & (z > -0.42)
        everywhere = (slice(None),) * 3
        for side, name in ((1, "left "), (-1, "right ")):
            half = cerebrum & (side * x > 0)
            self._paint(f"{name}cerebral cortex", Shape(everywhere, np.where(half, 0, 2).astype(np.float32)), 0)
            white = np.where(half & inner, 0, 2).astype(np.float32)
            self._paint(f"{name}cerebral white matter", Shape(everywhere, white), 0)
        self._cerebellum()

    def _cerebellum(self) -> None:
        scale = self.rng.uniform(0.88, 1.12)
        stem = [(0.0, 0.2, -0.98), (0.0, 0.12, -0.55), (0.0, 0.1, -0.25)]
        for side, name in ((1, "left "), (-1, "right ")):
            centre = self._point(side, (0.27, 0.52, -0.56))
            radii = (0.31 * scale, 0.32 * scale, 0.27 * scale)
            hemisphere = self.space.ellipsoid(centre, radii)
            self._paint(f"{name}cerebellum cortex", hemisphere, 0.15)
            self._paint(f"{name}cerebellum white matter", Shape(hemisphere.window, hemisphere.depth / 0.55), 0.3)
        self._paint("brain stem", self.space.tube(stem, [0.12, 0.17, 0.13]))

    def _deep(self, side: int, name: str) -> None:
        space, wide = self.space, self.wide * float(self.rng.uniform(0.9, 1.1))

        def ball(part: str, centre: Point, radii: Point) -> None:
            scale = self.rng.uniform(0.88, 1.12)
            x, y, z = (float(r * scale) for r in radii)
            self._paint(name + part, space.ellipsoid(self._point(side, centre), (x, y, z)))

        def tube(part: str, points: list[Point], radii: list[float]) -> None:
            self._paint(name + part, space.tube([self._point(side, point) for point in points], radii))

        # As the ventricle widens, what lies beside it makes room.
        out = 0.05 * (wide - 1)
        ball("thalamus", (0.14 + out / 2, 0.08, 0.03), (0.11, 0.16, 0.11))
        ball("ventral DC", (0.11, 0.06, -0.17), (0.09, 0.13, 0.08))
        ball("putamen", (0.33 + out, -0.1, 0.0), (0.075, 0.19, 0.13))
        ball("pallidum", (0.235 + out, -0.05, -0.02), (0.05, 0.11, 0.085))
        tube(
            "caudate",
            [(0.17 + out, -0.34, 0.06), (0.2 + out, -0.1, 0.2), (0.23 + out, 0.12, 0.26)],
            [0.075, 0.055, 0.035],
        )
        ball("accumbens", (0.14, -0.31, -0.07), (0.055, 0.07, 0.05))
        horn = [(0.08, -0.4, 0.14), (0.1, 0.05, 0.26), (0.24, 0.4, 0.12)]
        tube("lateral ventricle", horn, [0.075 * wide, 0.065 * wide, 0.09 * wide])
        tube("inferior lateral ventricle", [(0.42, 0.24, -0.2), (0.4, 0.0, -0.3)], [0.04 * wide**0.5] * 2)
        tube("hippocampus", [(0.35, 0.0, -0.31), (0.32, 0.26, -0.14)], [0.07, 0.055])
        ball("amygdala", (0.34, -0.13, -0.29), (0.08, 0.08, 0.075))
        ball("choroid plexus", (0.19, 0.3, 0.16), (0.04, 0.075, 0.045))
        ball("vessel", (0.26, -0.03, -0.16), (0.026, 0.028, 0.028))

    def _middle(self) -> None:
        space = self.space
        self._paint("third ventricle", space.ellipsoid((0, 0.06, 0.0), (0.035 + 0.012 * self.wide, 0.16, 0.12)), 0)
        self._paint("fourth ventricle", space.ellipsoid((0, 0.33, -0.52), (0.08, 0.07, 0.12)))


def scanned(brain: Brain, rng: np.random.Generator) -> Volume:
    """What the scanner and the usual preparation make of it: blur, shading of the coil, noise, scaled to 0..1."""
    inside = brain.canvas.labels > 0
    shading = 1 + 0.07 * smooth_field(rng, inside.shape, (3, 3, 3))
    grey = blurred(brain.canvas.density, float(rng.uniform(0.15, 0.45))) * shading
    noisy = grey + rng.uniform(0.015, 0.035) * rng.standard_normal(grey.shape, dtype=np.float32)
    # Scaling by the brightest voxel: the same tissue is not the same grey in two people.
    scaled = np.where(inside, np.clip(noisy, 0, None), 0) ** float(rng.uniform(0.85, 1.2))
    scan: Volume = (scaled / scaled.max()).astype(np.float32)
    return scan
