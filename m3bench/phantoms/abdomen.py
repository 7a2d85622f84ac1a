"""An abdomen in portal-venous CT: thirteen labelled organs among bowel, muscle, bone and vessels."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from m3bench.phantoms.space import Canvas, Point, Shape, Space
from m3bench.scanners.noise import Volume, blurred, smooth_field

ORGANS = (
    "spleen", "right kidney", "left kidney", "gallbladder", "esophagus", "liver", "stomach", "aorta",
    "inferior vena cava", "portal and splenic veins", "pancreas", "right adrenal gland", "left adrenal gland",
)  # fmt: skip
"""In the order of their values 1..13."""

_HU = {
    "spleen": 122, "right kidney": 176, "left kidney": 176, "gallbladder": 15, "esophagus": 45, "liver": 116,
    "stomach": 48, "aorta": 178, "inferior vena cava": 147, "portal and splenic veins": 165, "pancreas": 98,
    "right adrenal gland": 66, "left adrenal gland": 66,
}  # fmt: skip
_ENHANCING = {
    "spleen", "right kidney", "left kidney", "liver", "aorta", "inferior vena cava", "portal and splenic veins",
    "pancreas", "right adrenal gland", "left adrenal gland",
}  # fmt: skip


@dataclass(frozen=True)
class Abdomen:
    canvas: Canvas
    organs: Mapping[str, Shape]
    space: Space


class _Painter:
    """Paints organs of one patient: each moved, scaled and enhanced a little differently."""

    def __init__(self, space: Space, canvas: Canvas, rng: np.random.Generator) -> None:
        self.space, self.canvas, self.rng = space, canvas, rng
        # How much contrast agent has arrived: all enhancing organs rise and fall together.
        self.phase = float(rng.uniform(0.78, 1.2))
        self.organs: dict[str, Shape] = {}
        self.cavity = np.ones(space.shape, bool)

    def moved(self, point: Point, reach: float = 0.04) -> Point:
        x, y, z = (value + float(self.rng.uniform(-reach, reach)) for value in point)
        return x, y, z

    def size(self, *radii: float, spread: float = 0.2) -> Any:
        """As many radii as were given, of a larger or smaller organ."""
        scale = self.rng.uniform(1 - spread, 1 + spread)
        return tuple(float(r * scale * self.rng.uniform(0.92, 1.08)) for r in radii)

    def organ(self, name: str, shape: Shape, lumps: float = 0.12) -> None:
        shape = self.space.lumpy(shape, self.rng, lumps)
        hu = _HU[name] * (self.phase if name in _ENHANCING else 1) + self.rng.uniform(-9, 9)
        texture = hu + 9 * smooth_field(self.rng, shape.depth.shape, (5, 5, 5))
        if "kidney" in name:
            # Bright cortex around a darker medulla.
            texture = texture - 45 * np.clip(1.25 - 1.7 * shape.depth, 0, 1)
        self.canvas.paint(shape, texture.astype(np.float32), ORGANS.index(name) + 1, within=self.cavity)
        self.organs[name] = shape


def build(space: Space, rng: np.random.Generator, *, gallbladder: bool = True) -> Abdomen:
    """The patient without noise, in HU, and the organs' values; organs cover what lies behind them, as ever in CT."""
    canvas = Canvas.empty(space.shape, -1000)
    painter = _Painter(space, canvas, rng)
    _trunk(painter)
    _bowel(painter)
    _organs(painter, gallbladder)
    return Abdomen(canvas, painter.organs, space)


def scanned(density: Volume, rng: np.random.Generator) -> Volume:
    """What the scanner makes of it: blur, grainy noise of this scan's dose, streaks left and right. HU."""
    sigma = rng.uniform(14, 34)
    grain = blurred(rng.standard_normal(density.shape, dtype=np.float32), 0.6) * 1.5
    streaks = rng.standard_normal((density.shape[0], density.shape[1], 1), dtype=np.float32)
    noisy = blurred(density, float(rng.uniform(0.25, 0.7))) + sigma * grain + 0.2 * sigma * streaks
    scan: Volume = np.clip(noisy, -1024, 3071).astype(np.float32)
    return scan


def _trunk(painter: _Painter) -> None:
    space, canvas, rng = painter.space, painter.canvas, painter.rng
    x, y, z = space.bent()
    width, height, fat = rng.uniform(0.82, 0.92), rng.uniform(0.6, 0.72), rng.uniform(0.05, 0.13)
    everywhere = (slice(None),) * 3

    # The skin is smoother than what it holds.
    skin_x, skin_y = space.x + 0.4 * space.bend[0], space.y + 0.4 * space.bend[1]

    def hull(shrink: float) -> Shape:
        return Shape(everywhere, np.abs(skin_x / (width - shrink)) ** 2.3 + np.abs(skin_y / (height - shrink)) ** 2.3)

    canvas.paint(hull(0), -105)
    canvas.paint(hull(fat), 55)
    cavity = hull(fat + 0.07)
    canvas.paint(cavity, -98 + 12 * smooth_field(rng, space.shape, (6, 6, 6)))
    wall = hull(fat).inside & ~cavity.inside
    painter.cavity = cavity.inside
    ribs = wall & (np.sin(8 * np.arctan2(y, x) + 9 * z + rng.uniform(0, 6)) > 0.5) & (z > -0.15 + 0.5 * np.abs(x))
    canvas.density[ribs] = 320
    # The lungs' bases, above the dome of the diaphragm.
    dome = rng.uniform(0.72, 0.85) - 0.75 * (x**2 + (y - 0.1) ** 2)
    canvas.density[cavity.inside & (z > dome)] = -840
    canvas.paint(space.ellipsoid((0.12, -0.2, 1.2), (0.36, 0.3, 0.36)), 120 * painter.phase)
    # Spine: bodies and discs in turn, canal, arch; muscles beside it.
    discs = np.sin(2 * np.pi * (z * rng.uniform(2.6, 3.2) + rng.uniform(0, 1)))
    canvas.paint(space.tube([(0, 0.42, -1.4), (0, 0.38, 0), (0, 0.44, 1.4)], [0.15, 0.14, 0.12]), 55)
    spine = space.tube([(0, 0.42, -1.4), (0, 0.38, 0), (0, 0.44, 1.4)], [0.14, 0.13, 0.11], flat=0.85)
    canvas.paint(spine, np.where(discs > 0.75, 85, 190).astype(np.float32)[spine.window])
    canvas.paint(space.tube([(0, 0.64, -1.4), (0, 0.62, 1.4)], [0.05, 0.05]), 260)
    canvas.paint(space.tube([(0, 0.57, -1.4), (0, 0.55, 1.4)], [0.045, 0.045]), 30)
    for side in (-1, 1):
        canvas.paint(space.tube([(side * 0.15, 0.6, -1.4), (side * 0.14, 0.58, 1.4)], [0.11, 0.09]), 58)
        canvas.paint(space.tube([(side * 0.26, 0.38, -1.4), (side * 0.17, 0.4, 0.1)], [0.12, 0.04]), 60)
    # The table below the patient.
    table = height + 0.05 + 0.06 * (x / 0.8) ** 2
    canvas.density[(np.abs(y - table) < 0.025) & (np.abs(x) < 0.75)] = rng.uniform(-250, 120)


def _bowel(painter: _Painter) -> None:
    """Loops of soft tissue, gas or contrast agent: of any density that a labelled organ has."""
    space, canvas, rng = painter.space, painter.canvas, painter.rng
    for number in range(int(rng.integers(18, 28))):
        colon = number < 4
        side = (-1, 1)[number % 2]
        middle = (side * 0.62, 0.0, rng.uniform(-0.9, 0.0)) if colon else None
        start = painter.moved(middle or (rng.uniform(-0.5, 0.5), rng.uniform(-0.45, 0.05), rng.uniform(-1.1, -0.15)))
        end = painter.moved(start, 0.3)
        thick = rng.uniform(0.06, 0.1) if colon else rng.uniform(0.05, 0.085)
        loop = space.lumpy(space.tube([start, end], [thick, thick]), rng, 0.2)
        canvas.paint(loop, 42 + rng.uniform(-10, 10), within=painter.cavity)
        filling = rng.choice([-880, -60, 30, 60, 110, 160, 230], p=[0.2, 0.1, 0.2, 0.2, 0.1, 0.1, 0.1])
        canvas.paint(Shape(loop.window, loop.depth * 1.5), float(filling), within=painter.cavity)


def _organs(painter: _Painter, gallbladder: bool) -> None:
    space, canvas, rng = painter.space, painter.canvas, painter.rng
    moved, size, organ = painter.moved, painter.size, painter.organ

    liver = space.ellipsoid(moved((-0.4, -0.02, 0.36)), size(0.36, 0.42, 0.42))
    lobe = space.tube([moved((-0.2, -0.25, 0.45)), moved((0.22, -0.33, 0.5), 0.1)], size(0.24, 0.1))
    organ("liver", _joined(space, liver, lobe), 0.08)
    organ("spleen", space.ellipsoid(moved((0.58, 0.2, 0.36)), size(0.14, 0.22, 0.26, spread=0.3), 0.3))
    x, z = float(rng.uniform(0.36, 0.42)), float(rng.uniform(0.3, 0.38))
    fundus, body = moved((x, 0.08, 0.6)), moved((x, -0.22, z), 0.06)
    antrum = moved((0.02, -0.36, 0.0), 0.06)
    organ("stomach", space.tube([fundus, body, antrum], size(0.13, 0.15, 0.07, spread=0.3)))
    if rng.random() < 0.7:
        gas = space.ellipsoid((body[0], body[1] - 0.09, body[2]), (0.1, 0.06, 0.12))
        inside = canvas.labels == ORGANS.index("stomach") + 1
        canvas.paint(gas, -850, ORGANS.index("stomach") + 1, within=inside)
    kidneys = {side: moved((side * 0.4, 0.3, -0.22 if side < 0 else -0.1), 0.06) for side in (-1, 1)}
    for side, name in ((-1, "right kidney"), (1, "left kidney")):
        organ(name, space.ellipsoid(kidneys[side], size(0.13, 0.13, 0.27), -side * 0.2))
        x, y, z = kidneys[side]
        canvas.paint(space.ellipsoid((x - side * 0.1, y - 0.03, z), (0.06, 0.05, 0.09)), -60)
    if gallbladder:
        organ("gallbladder", space.ellipsoid(moved((-0.3, -0.34, 0.0)), size(0.09, 0.1, 0.15, spread=0.3), 0.2))
    head = moved((-0.14, -0.06, -0.1))
    tail = moved((0.42, 0.1, 0.24), 0.05)
    neck, trunk = moved((0.0, -0.12, 0.04), 0.03), moved((0.2, -0.08, 0.14), 0.04)
    organ("pancreas", space.tube([head, neck, trunk, tail], size(0.1, 0.055, 0.07, 0.055, spread=0.25)), 0.2)
    # Duodenum: around the head, like it in density.
    canvas.paint(space.tube([moved((-0.28, -0.12, 0.08)), moved((-0.29, 0.0, -0.3))], [0.065, 0.065]), 62)
    _vessels(painter, head, kidneys)
    for side, name in ((-1, "right adrenal gland"), (1, "left adrenal gland")):
        x, y, z = moved((side * 0.23, 0.22, 0.14 if side < 0 else 0.2), 0.03)
        limbs = [(x + side * 0.07, y + 0.09, z - 0.1), (x, y, z), (x - side * 0.02, y + 0.1, z - 0.12)]
        organ(name, space.tube(limbs, size(0.03, 0.042, 0.03, spread=0.15)), 0.05)


def _vessels(painter: _Painter, head: Point, kidneys: Mapping[int, Point]) -> None:
    space, canvas, rng = painter.space, painter.canvas, painter.rng
    moved, size, organ = painter.moved, painter.size, painter.organ
    lean = float(rng.uniform(-0.03, 0.05))
    aorta = [(0.05 + lean, 0.26, 1.4), (0.07, 0.22, 0.0), (0.05 - lean, 0.24, -1.4)]
    cava = [(-0.12, 0.05, 1.4), (-0.14, 0.14, 0.3), (-0.13, 0.22, -1.4)]
    phase = painter.phase
    # Branches that no label names: to the kidneys, and the pair that runs down to the bowel.
    for side, trunk, hu in ((-1, aorta, 178), (1, aorta, 178), (-1, cava, 147), (1, cava, 147)):
        level = kidneys[side][2] + (0.04 if trunk is aorta else -0.03)
        start = (trunk[1][0], trunk[1][1], level)
        canvas.paint(space.tube([start, (side * 0.3, 0.28, level)], [0.03, 0.025]), hu * phase)
    canvas.paint(space.tube([(0.06, 0.2, 0.08), (0.04, 0.04, -0.1), (0.02, -0.05, -1.2)], [0.03] * 3), 170 * phase)
    canvas.paint(space.tube([(-0.05, -0.02, 0.05), (-0.05, -0.06, -1.2)], [0.035] * 2), 150 * phase)
    hilum = moved((-0.26, -0.08, 0.34))
    spleen = moved((0.46, 0.16, 0.3))
    meeting = (head[0] + 0.1, head[1] + 0.1, head[2] + 0.16)
    middle = moved((0.22, 0.04, 0.2), 0.03)
    organ("portal and splenic veins", space.tube([hilum, meeting, middle, spleen], size(0.05, 0.052, 0.04, 0.036)))
    organ("inferior vena cava", space.tube(cava, size(0.075, 0.075, 0.07), flat=float(rng.uniform(0.6, 0.95))), 0.05)
    organ("aorta", space.tube(aorta, size(0.068, 0.062, 0.056)), 0.04)
    canvas.paint(space.tube([(0.02, 0.2, 1.4), (0.04, 0.14, 0.7)], [0.075, 0.075]), -60)
    gullet = [(0.02, 0.19, 1.4), (0.05, 0.13, 0.8), moved((0.24, 0.05, 0.62), 0.03)]
    organ("esophagus", space.tube(gullet, size(0.058, 0.055, 0.05, spread=0.15)), 0.08)


def _joined(space: Space, one: Shape, other: Shape) -> Shape:
    """Both shapes as one, over the whole volume."""
    depth = np.full(space.shape, 9, np.float32)
    for shape in (one, other):
        np.minimum(depth[shape.window], shape.depth, out=depth[shape.window])
    return Shape((slice(None),) * 3, depth)
