"""A knee phantom in sagittal fat-suppressed slices: bones, menisci, both cruciate ligaments, the patella's tendon.

Arrays are (slices, rows, columns). Coordinates: x from one side of the knee to the other (-1..1; the notch with the
cruciate ligaments is about 0), y down and z to the back, both 0..1 of the image.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from m3bench.scanners.noise import Volume, smooth_field

HEALTHY, PARTIAL, RUPTURED = range(3)
Mask = NDArray[np.bool_]
Point = tuple[float, float]
_AXES = (("Z", "Depth"), ("Y", "Height"), ("X", "Width"))


@dataclass(frozen=True)
class Knee:
    """What all series of an exam share."""

    joint: Point
    """Where the joint line meets the middle of the notch, (y, z)."""
    size: float
    slope: float
    """Tilt of the anterior cruciate ligament, z per y."""
    notch: float
    """x of the notch's middle."""
    half: float
    """Half of the notch's width in x."""
    texture: Volume
    left: bool

    @classmethod
    def draw(cls, rng: np.random.Generator) -> "Knee":
        return cls(
            joint=(float(rng.uniform(0.48, 0.56)), float(rng.uniform(0.46, 0.54))),
            size=float(rng.uniform(0.92, 1.08)),
            slope=float(rng.uniform(0.65, 0.9)),
            notch=float(rng.uniform(-0.12, 0.12)),
            half=float(rng.uniform(0.20, 0.28)),
            texture=smooth_field(rng, (64, 64), (20, 20)),
            left=bool(rng.integers(2)),
        )

    def ligament(self) -> tuple[Point, Point]:
        """Ends of the anterior cruciate ligament, (y, z): at the femur (above, behind) and at the tibia."""
        y, z = self.joint
        reach = 0.105 * self.size
        return (y - reach, z + reach * self.slope), (y + 0.75 * reach, z - reach * self.slope)

    def region(self, shape: tuple[int, int, int]) -> dict[str, int]:
        """Box around the cruciate ligaments in voxels, as the table has it."""
        slices, rows, columns = shape
        (top, back), (bottom, front) = self.ligament()
        side = -self.notch if self.left else self.notch
        first, last = ((side + part * self.half + 1) / 2 * (slices - 1) for part in (-0.75, 0.75))
        y, x, z = round((top - 0.05) * rows), round((front - 0.05) * columns), int(np.ceil(first))
        return {
            "roiX": x, "roiY": y, "roiZ": z, "roiHeight": round((bottom + 0.05) * rows) - y,
            "roiWidth": round((back + 0.13) * columns) - x, "roiDepth": max(2, int(last) - z + 1),
        }  # fmt: skip


def render(knee: Knee, injury: int, shape: tuple[int, int, int], rng: np.random.Generator) -> Volume:
    """Signal 0..1. The ligament's state moves dark and bright voxels about, but keeps their number:
    what a tear takes from the ligament goes to the posterior one, what fills it is taken from the notch's fluid."""
    slices, rows, columns = shape
    x = np.linspace(-1, 1, slices, dtype=np.float32).reshape(-1, 1, 1)
    x = (-x if knee.left else x) - np.float32(knee.notch)
    y = np.linspace(0, 1, rows, dtype=np.float32).reshape(1, -1, 1) + np.zeros(shape, np.float32)
    z = np.linspace(0, 1, columns, dtype=np.float32).reshape(1, 1, -1) + np.zeros(shape, np.float32)
    volume, notch = _bones(knee, x, y, z)
    box = knee.region(shape)
    within = np.zeros(shape, bool)
    within[tuple(slice(box[f"roi{a}"], box[f"roi{a}"] + box[f"roi{size}"]) for a, size in _AXES)] = True
    dark, bright = _cruciates(knee, injury, (x, y, z), notch, within, rng)
    volume[bright] = rng.uniform(0.8, 0.95)
    volume[dark] = rng.uniform(0.05, 0.1)
    pick = np.ix_(*(np.linspace(0, 63, count).astype(int) for count in (rows, columns)))
    return np.asarray(volume * (1 + 0.08 * knee.texture[pick]), dtype=np.float32)


def _bones(knee: Knee, x: Volume, y: Volume, z: Volume) -> tuple[Volume, Mask]:
    jy, jz = knee.joint
    s = knee.size
    aside = np.abs(x) > knee.half
    leg = np.abs(z - jz) < 0.36 + 0.05 * np.cos(6 * (y - jy))
    volume = np.where(leg, 0.42, 0.0).astype(np.float32)
    volume[leg & (np.abs(z - jz) > 0.31 + 0.05 * np.cos(6 * (y - jy)))] = 0.2
    bulge = np.sqrt(np.clip(1 - (x / 1.05) ** 2, 0, 1))
    # Beside the notch the condyles reach to the joint line; in it the femur ends higher.
    bottom = np.where(aside, jy - 0.015, jy - 0.12 * s)
    shaft = (y < jy - 0.14 * s) & (np.abs(z - jz + 0.03) < 0.13 * s * bulge)
    radius = ((y - jy + 0.14 * s) / (0.13 * s)) ** 2 + ((z - jz - 0.03) / (0.19 * s * (0.35 + 0.65 * bulge))) ** 2
    femur = shaft | ((radius < 1) & (y < bottom))
    tibia = (y > jy + 0.09 * s - 0.05 * s * aside) & (
        np.abs(z - jz) < (0.19 - 0.06 * np.clip((y - jy) * 3, 0, 1)) * s * (0.4 + 0.6 * bulge)
    )
    patella = ((y - jy + 0.17) / 0.085) ** 2 + ((z - jz + 0.255) / 0.045) ** 2 + (x / 0.55) ** 2 < 1
    for bone in (femur, tibia, patella):
        volume[bone] = 0.27
        volume[_rim(bone)] = 0.12
    tendon = (np.abs(z - jz + 0.245 - 0.12 * np.clip(y - jy + 0.1, 0, 1)) < 0.013) & (np.abs(y - jy - 0.04) < 0.14)
    volume[tendon & (np.abs(x) < 0.4)] = 0.08
    menisci = np.zeros(volume.shape, bool)
    for side in (-1, 1):
        # Wedges between femur and tibia, thick at the rim.
        away = side * (z - jz)
        menisci |= aside & (away > 0.09 * s) & (away < 0.17 * s) & (np.abs(y - jy - 0.012) < 0.28 * (away - 0.085 * s))
    volume[menisci] = 0.07
    notch = ~aside & leg & ~femur & ~tibia & (np.abs(y - jy) < 0.16 * s) & (np.abs(z - jz - 0.03) < 0.17 * s)
    return volume, np.asarray(notch)


def _cruciates(
    knee: Knee, injury: int, at: tuple[Volume, Volume, Volume], notch: Mask, within: Mask, rng: np.random.Generator
) -> tuple[Mask, Mask]:
    """Dark voxels (both ligaments) and bright ones (fluid), all in the region `within`."""
    x, y, z = at
    (y0, z0), (y1, z1) = knee.ligament()
    length = float(np.hypot(y1 - y0, z1 - z0))
    along = ((y - y0) * (y1 - y0) + (z - z0) * (z1 - z0)) / length**2
    across = ((y - y0) * (z1 - z0) - (z - z0) * (y1 - y0)) / length
    width = 0.026 * knee.size
    slab = np.abs(x) < 0.75 * knee.half
    whole = slab & within & (along > -0.02) & (along < 1.02) & (np.abs(across) < width)
    middle = rng.uniform(0.42, 0.58)
    wet = np.zeros(whole.shape, bool)
    fibres = whole
    if injury == PARTIAL:
        # One of the two bundles is torn: half of the width over more than half of the length is fluid.
        side = 1 if rng.random() < 0.5 else -1
        wet = whole & (np.abs(along - middle) < 0.36) & (side * across > -0.1 * width)
        fibres = whole & ~wet
    elif injury == RUPTURED:
        # No continuity: a gap full of fluid, and the lower stump lies down forwards.
        gap = rng.uniform(0.26, 0.34)
        wet = whole & (np.abs(along - middle) < gap)
        lying = slab & (np.abs(y - y1 + 0.3 * (z - z1)) < 0.7 * width) & (np.abs(z - z1 - 0.03) < 0.06)
        fibres = (whole & ~wet & (along < middle)) | (lying & notch & within)
    total = int(whole.sum())
    behind = _arch(knee, x, y, z)
    dark = fibres | _nearest(
        behind, round(total * rng.uniform(1.9, 2.3)) - int(fibres.sum()), within & ~whole & ~fibres
    )
    pool = np.hypot(y - y1 - 0.01, z - z0 - 0.02) + 0.2 * np.abs(x) + 9 * ~notch
    bright = wet | _nearest(pool, round(total * rng.uniform(0.75, 1.05)) - int(wet.sum()), within & ~dark & ~whole)
    return np.asarray(dark), np.asarray(bright)


def _arch(knee: Knee, x: Volume, y: Volume, z: Volume) -> Volume:
    """Distance from the posterior cruciate ligament: an arch behind the anterior one, in the notch."""
    jy, jz = knee.joint
    radius = np.hypot((y - jy - 0.10) / 1.15, z - jz + 0.02)
    off = np.abs(radius - 0.165 * knee.size)
    return np.asarray(off + 0.3 * np.clip(np.abs(x) - 0.6 * knee.half, 0, 9) + (z < jz + 0.05) + (y > jy + 0.13))


def _nearest(distance: Volume, count: int, allowed: Mask) -> Mask:
    """The `count` allowed voxels of the smallest distance."""
    found = np.zeros(distance.shape, bool)
    if count > 0:
        flat = np.where(allowed, distance, np.inf).ravel()
        found.ravel()[np.argsort(flat, kind="stable")[:count]] = True
    return found


def _rim(mask: Mask) -> Mask:
    inner = mask.copy()
    for axis in (1, 2):
        for step in (-1, 1):
            inner &= np.roll(mask, step, axis)
    return np.asarray(mask & ~inner)
