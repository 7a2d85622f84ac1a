"""A spine in CT: vertebrae from the skull to the sacrum with ribs and what lies around them, in HU and millimetres.

Coordinates: x to the patient's left, y to the back, z to the head, 0 at the top of C1. Which vertebra is which can be
read from the picture: skull, ribs, lungs, windpipe, heart, kidneys and sacrum are where they belong.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from m3bench.phantoms.space import Canvas, Point, Shape, Space
from m3bench.scanners.noise import Volume, blurred, smooth_field

VALUES = {
    **{f"C{number}": number for number in range(1, 8)},
    **{f"T{number}": 7 + number for number in range(1, 13)},
    **{f"L{number}": 19 + number for number in range(1, 7)},
    "T13": 28,
}
"""Vertebra -> value in the masks; 26 and 27 are reserved and never used."""
USUAL = tuple(name for name in VALUES if name not in ("L6", "T13"))


def with_extra(extra: str | None) -> tuple[str, ...]:
    """The vertebrae from above; `extra` is L6, T13 or None."""
    at = {"T13": USUAL.index("L1"), "L6": len(USUAL)}.get(extra or "", 0)
    return (*USUAL[:at], extra, *USUAL[at:]) if extra else USUAL


@dataclass(frozen=True)
class Vertebra:
    name: str
    top: float
    """Where it begins, in mm of z; it ends `height` below, with the disc."""
    height: float

    @property
    def middle(self) -> float:
        return self.top - 0.45 * self.height

    @property
    def radii(self) -> tuple[float, float]:
        """Half width and half depth of the body, in mm."""
        number = int(self.name[1:])
        if self.name[0] == "C":
            return 10 + 0.3 * number, 7.5
        if self.name[0] == "T":
            return 12.5 + 0.5 * number, 10 + 0.45 * number
        return 20.5 + 0.7 * number, 15.5 + 0.3 * number


@dataclass(frozen=True)
class Spine:
    """One made-up person's."""

    vertebrae: tuple[Vertebra, ...]
    lean: tuple[float, float]
    """Amplitude in mm of the sideways bend, and its phase."""
    curve: float
    """How strong the S of the spine is."""
    bone: float
    """HU of the spongy bone: young or old."""

    @classmethod
    def draw(cls, rng: np.random.Generator, extra: str | None = None) -> "Spine":
        scale, top = rng.uniform(0.88, 1.1), 0.0
        vertebrae = []
        for name in with_extra(extra):
            height = float(scale * _height(name) * rng.uniform(0.93, 1.05))
            vertebrae.append(Vertebra(name, top, height))
            top -= height
        lean = (float(rng.uniform(0, 9)), float(rng.uniform(0, 2 * np.pi)))
        return cls(tuple(vertebrae), lean, float(rng.uniform(0.7, 1.3)), float(rng.uniform(110, 230)))

    @property
    def bottom(self) -> float:
        return self.vertebrae[-1].top - self.vertebrae[-1].height

    def at(self, z: float) -> Point:
        """The middle of the spine at a height: neck and loin bend forward, the chest back."""
        share = z / self.bottom
        knots = [-14, -8, 10, 24, 16, -4, -8, 6]
        y = self.curve * float(np.interp(share, [-0.1, 0.1, 0.3, 0.45, 0.62, 0.82, 0.92, 1.1], knots))
        return self.lean[0] * float(np.sin(4 * share + self.lean[1])), y, z

    def level(self, name: str) -> float:
        return next(vertebra.middle for vertebra in self.vertebrae if vertebra.name == name)


def build(spine: Spine, space: Space, rng: np.random.Generator) -> Canvas:
    """Everything within `space`; vertebrae that the field of view cuts are drawn and unlabelled, as in the original."""
    canvas = Canvas.empty(space.shape, -1000)
    _surroundings(spine, space, canvas, rng)
    low, high = float(space.z.min()), float(space.z.max())
    for vertebra in spine.vertebrae:
        if vertebra.top > low - 60 and vertebra.top - vertebra.height < high + 60:
            whole = vertebra.top + 0.2 * vertebra.height < high and vertebra.top - vertebra.height > low
            _vertebra(spine, vertebra, space, canvas, VALUES[vertebra.name] if whole else 0, rng)
    return canvas


def scanned(density: Volume, rng: np.random.Generator) -> Volume:
    """What the scanner makes of it. HU, (Z, Y, X)."""
    grain = blurred(rng.standard_normal(density.shape, dtype=np.float32), 0.5) * 1.4
    noisy = blurred(density, float(rng.uniform(0.25, 0.65))) + rng.uniform(20, 60) * grain
    scan: Volume = np.clip(noisy, -1024, 3071).astype(np.float32)
    return scan


def _height(name: str) -> float:
    number = int(name[1:])
    return {"C": 16 + 0.3 * number, "T": 19.5 + 0.75 * min(number, 12), "L": 32 + 0.8 * number}[name[0]]


def _vertebra(
    spine: Spine, vertebra: Vertebra, space: Space, canvas: Canvas, value: int, rng: np.random.Generator
) -> None:
    x, y, z = spine.at(vertebra.middle)
    wide, deep = vertebra.radii
    half = 0.42 * vertebra.height
    kind = vertebra.name[0]
    canal = 9.0 if kind == "C" else 8.0
    back = y + deep + canal

    def bone(shape: Shape, marrow: bool = False) -> None:
        density = np.full(shape.depth.shape, 330.0, np.float32)
        if marrow:
            inner = spine.bone + 25 * smooth_field(rng, shape.depth.shape, (5, 5, 5))
            density = np.where(shape.depth < 0.82, inner, 430).astype(np.float32)
        canvas.paint(shape, density, value)

    # The arch first: pedicles, lamina, processes; then the body with its marrow.
    for side in (-1, 1):
        joint = (x + side * 0.85 * wide, back, z)
        bone(space.tube([(x + side * 0.7 * wide, y + 0.7 * deep, z + 2), joint], [4.0, 4.0]))
        bone(space.tube([joint, (x, back + canal, z - 3)], [4.2, 4.2]))
        reach = wide + {"C": 7, "T": 14, "L": 17}[kind]
        bone(space.tube([joint, (x + side * reach, back + {"C": -6, "T": 6, "L": 0}[kind], z)], [4.0, 3.2]))
    drop = {"C": 4, "T": 0.9 * vertebra.height, "L": 8}[kind]
    if vertebra.name != "C1":
        bone(space.tube([(x, back + canal, z - 3), (x, back + canal + 22, z - 3 - drop)], [4.0, 3.6]))
        bone(_block(space, (x, y, z), (wide, deep, half)), marrow=True)
    else:
        bone(space.tube([(x - wide, y, z), (x, y - deep, z), (x + wide, y, z)], [4.0, 4.5, 4.0]))
    if vertebra.name == "C2":
        bone(space.tube([(x, y, z), (x, y, z + 1.6 * vertebra.height)], [5.0, 4.0]))
    cord = y + deep + 0.75 * canal
    canvas.paint(space.tube([(x, cord, z - half), (x, cord, z + half)], [6.0, 6.0]), 30)
    if kind == "T":
        _ribs(spine, vertebra, space, canvas, back)


def _block(space: Space, centre: Point, radii: Point) -> Shape:
    """A body with flat ends and rounded sides, over the window of its ellipsoid."""
    around = space.ellipsoid(centre, radii)
    x, y, z = (np.abs(axis - c) / r for axis, c, r in zip(space.bent(around.window), centre, radii, strict=True))
    return Shape(around.window, ((x**2.5 + y**2.5) ** 2 + z**6) ** np.float32(0.25))


def _ribs(spine: Spine, vertebra: Vertebra, space: Space, canvas: Canvas, back: float) -> None:
    number = int(vertebra.name[1:])
    # First and floating ribs are short: they tell where the chest begins and ends.
    length = {1: 0.5, 11: 0.5, 12: 0.32, 13: 0.2}.get(number, 1.0)
    x, _, z = spine.at(vertebra.middle)
    radius = 55 + 6 * min(number, 9)
    for side in (-1, 1):
        angles = np.linspace(0.2, 0.2 + 1.9 * length, 7)
        path = [
            (x + side * (12 + radius * np.sin(a)), back - 30 + 40 * np.cos(a) - 14 * a, z + 4 - 17 * a) for a in angles
        ]
        canvas.paint(space.tube(path, [4.2] * len(path)), 330, behind=True)


def _surroundings(spine: Spine, space: Space, canvas: Canvas, rng: np.random.Generator) -> None:
    top, bottom = 60.0, spine.bottom - 140
    steps = np.linspace(top, bottom, 40)
    centres = [spine.at(float(step)) for step in steps]
    share = steps / spine.bottom
    trunk = np.interp(share, [-0.1, 0.18, 0.26, 1.0], [62, 62, 150, 165])
    everywhere = (slice(None),) * 3
    x, y, z = space.bent()
    # steps fall, interpolation wants them to rise
    middle_x, middle_y, wide = (
        np.interp(z, steps[::-1], values[::-1]).astype(np.float32)
        for values in (np.array([c[0] for c in centres]), np.array([c[1] for c in centres]), trunk)
    )
    forward = middle_y - 0.3 * wide
    body = Shape(everywhere, ((x - middle_x) / wide) ** 2 + ((y - forward) / (0.72 * wide)) ** 2)
    canvas.paint(body, -95)
    canvas.paint(Shape(everywhere, body.depth * 1.12), 42 + 18 * smooth_field(rng, space.shape, (6, 6, 6)))

    def around(offset: Point, radii: Point, level: float, density: float) -> None:
        cx, cy, cz = spine.at(level)
        canvas.paint(space.ellipsoid((cx + offset[0], cy + offset[1], cz + offset[2]), radii), density)

    def along(names: Sequence[str], offset: tuple[float, float], radius: float, density: float) -> None:
        points = [spine.at(spine.level(name)) for name in names]
        path = [(cx + offset[0], cy + offset[1], cz) for cx, cy, cz in points]
        canvas.paint(space.tube(path, [radius] * len(path)), density)

    length = spine.level("T1") - spine.level("T11")
    for side in (-1, 1):
        around((side * 72, -40, 0), (52, 62, 0.56 * length), spine.level("T6"), -830)
        around((side * 62, 8, 0), (30, 22, 58), spine.level("L2") + (10 if side > 0 else 0), 90)
    around((22, -82, 0), (52, 40, 58), spine.level("T8"), 60)
    around((-75, -50, 0), (62, 60, 75), spine.level("T12"), 70)
    along(["C3", "C7", "T2", "T4"], (0, -30), 8.5, -950)
    along(["T4", "T8", "T12", "L4"], (14, -30), 11, 85)
    for side in (-1, 1):
        along(["L1", "L3", "L5"], (side * 38, 4), 17, 55)
        along(["C2", "C7", "T6", "L5"], (side * 24, 44), 15, 58)
    _skull(spine, space, canvas)
    _sacrum(spine, space, canvas)


def _skull(spine: Spine, space: Space, canvas: Canvas) -> None:
    x, y, _ = spine.at(0)
    outer = space.ellipsoid((x, y - 25, 88), (72, 88, 82))
    canvas.paint(outer, 700)
    canvas.paint(Shape(outer.window, outer.depth / 0.91), 36)
    canvas.paint(space.ellipsoid((x, y - 95, -18), (42, 16, 10)), 600)


def _sacrum(spine: Spine, space: Space, canvas: Canvas) -> None:
    x, y, z = spine.at(spine.bottom)
    path = [(x, y + 4, z - 10), (x, y + 26, z - 45), (x, y + 34, z - 85)]
    canvas.paint(space.tube(path, [27, 22, 12], flat=0.6), spine.bone + 60)
    for side in (-1, 1):
        wing = [(x + side * 38, y + 22, z - 30), (x + side * 72, y + 2, z + 12), (x + side * 100, y - 40, z + 18)]
        canvas.paint(space.tube(wing, [13, 8, 7]), 360)
