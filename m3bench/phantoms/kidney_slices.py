"""An abdomen phantom cut in axial or coronal planes: kidneys, liver, spleen, bowel, vessels, spine, in HU.

Every picture has the same three things in it: a cyst, a stone and a solid mass. The class says which of them is in a
kidney; the others are where they mean nothing (liver, bowel, the wall of the aorta), so that no histogram tells.
Coordinates of the body: x to the image's right, y to the back, z to the feet, -1..1 each.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from m3bench.scanners.noise import Volume, blurred, smooth_field

NORMAL, CYST, STONE, TUMOR = "Normal", "Cyst", "Stone", "Tumor"
Point = tuple[float, float]


@dataclass(frozen=True)
class Study:
    """One person's abdomen and one acquisition of it; all its slices share this."""

    label: str
    coronal: bool
    kidney: float
    """Density of the kidneys in HU; low without contrast medium."""
    width: float
    depth: float
    centre: tuple[float, float, float]
    """Middle of the kidney on the image's right side: x, y, z."""
    reach: tuple[float, float, float]
    side: int
    """Which kidney has the lesion: -1 on the image's left."""
    angle: float
    sizes: tuple[float, float, float]
    """Radii of cyst, stone and mass in the picture."""
    lobes: NDArray[np.float64]
    loops: NDArray[np.float64]
    """Bowel: x, y, z, radius, HU of each loop."""
    liver: float
    window: tuple[float, float]
    gamma: float
    noise: float
    blur: float
    zoom: float
    shift: Point

    @classmethod
    def draw(cls, label: str, rng: np.random.Generator) -> "Study":
        contrast = rng.random() < 0.6
        return cls(
            label=label,
            coronal=bool(rng.random() < 0.4),
            kidney=float(rng.uniform(140, 200) if contrast else rng.uniform(75, 100)),
            width=float(rng.uniform(0.82, 0.92)),
            depth=float(rng.uniform(0.62, 0.74)),
            centre=(float(rng.uniform(0.40, 0.46)), float(rng.uniform(0.16, 0.24)), float(rng.uniform(-0.1, 0.1))),
            reach=(float(rng.uniform(0.17, 0.2)), float(rng.uniform(0.18, 0.22)), float(rng.uniform(0.42, 0.5))),
            side=int(rng.choice([-1, 1])),
            angle=float(rng.uniform(-0.45 * np.pi, 0.45 * np.pi)),
            sizes=(float(rng.uniform(0.12, 0.17)), float(rng.uniform(0.045, 0.06)), float(rng.uniform(0.14, 0.19))),
            lobes=rng.uniform(0.08, 0.2, 3) * rng.choice([-1, 1], 3),
            loops=np.column_stack(
                [
                    rng.uniform(-0.55, 0.65, 9), rng.uniform(-0.5, -0.12, 9), rng.uniform(-0.2, 1, 9),
                    rng.uniform(0.07, 0.14, 9), rng.uniform(20, 70, 9),
                ]
            ),
            liver=float(rng.uniform(85, 120) if contrast else rng.uniform(50, 65)),
            window=(float(rng.uniform(-190, -130)), float(rng.uniform(380, 480))),
            gamma=float(rng.uniform(0.8, 1.25)),
            noise=float(rng.uniform(5, 14)),
            blur=float(rng.uniform(0.1, 0.7)),
            zoom=float(rng.uniform(0.95, 1.1)),
            shift=(float(rng.uniform(-0.06, 0.06)), float(rng.uniform(-0.06, 0.06))),
        )  # fmt: skip


def render(study: Study, offset: float, shape: tuple[int, int], rng: np.random.Generator) -> NDArray[np.uint8]:
    """One slice (rows, columns) at `offset` -1..1 along the lesion; neighbours look nearly alike."""
    column = ((np.linspace(-1, 1, shape[1]) - study.shift[0]) / study.zoom).astype(np.float32).reshape(1, -1)
    row = ((np.linspace(-1, 1, shape[0]) - study.shift[1]) / study.zoom).astype(np.float32).reshape(-1, 1)
    flat = np.zeros(shape, np.float32)
    if study.coronal:
        x, y, z = column + flat, flat + study.centre[1] + 0.05 * offset, row + flat
    else:
        x, y, z = column + flat, row + flat, flat + study.centre[2] + 0.12 * offset
    density = _abdomen(study, x, y, z)
    down = z if study.coronal else y
    middle = (study.centre[0], study.centre[2 if study.coronal else 1])
    reach = (study.reach[0], study.reach[2 if study.coronal else 1])
    spread = float(np.sqrt(1 - 0.4 * offset**2))
    inside = {
        # Cysts and masses are on the outer border, stones in the middle towards the hilum.
        CYST: (middle[0] + 0.75 * reach[0] * np.cos(study.angle), middle[1] + 0.7 * reach[1] * np.sin(study.angle)),
        TUMOR: (middle[0] + 0.7 * reach[0] * np.cos(study.angle), middle[1] + 0.65 * reach[1] * np.sin(study.angle)),
        STONE: (middle[0] - 0.1 * reach[0], middle[1] + 0.3 * reach[1] * np.sin(study.angle)),
    }
    elsewhere = _elsewhere(study)
    for kind, size in zip((TUMOR, CYST, STONE), (study.sizes[2], study.sizes[0], study.sizes[1]), strict=True):
        at = (study.side * inside[kind][0], inside[kind][1]) if study.label == kind else elsewhere[kind]
        _paint(density, kind, x - at[0], down - at[1], size * spread, study)
    density += 10 * smooth_field(rng, shape, (14, 14)) + study.noise * rng.standard_normal(shape, dtype=np.float32)
    grey = (blurred(density, study.blur) - study.window[0]) / study.window[1]
    return np.asarray(255 * np.clip(grey, 0, 1) ** study.gamma + 0.5).astype(np.uint8)


def _elsewhere(study: Study) -> dict[str, Point]:
    """Places without meaning, in the picture: liver, bowel in front or below, the wall of the aorta."""
    swing = float(np.sin(3 * study.angle))
    if study.coronal:
        return {
            CYST: (-0.48, -0.66 + 0.06 * swing), TUMOR: (0.25 * swing, 0.78), STONE: (0.06 + 0.05 * swing, 0.5 * swing),
        }  # fmt: skip
    return {
        CYST: (-0.55 + 0.06 * swing, -0.2), TUMOR: (0.25 + 0.2 * swing, -0.34), STONE: (0.07, 0.02 + 0.03 * swing),
    }  # fmt: skip


def _abdomen(study: Study, x: Volume, y: Volume, z: Volume) -> Volume:
    radius = (x / study.width) ** 2 + (y / study.depth) ** 2
    density = np.where(radius < 1, -100, -1000).astype(np.float32)
    muscle = (radius < 0.86) & (radius > 0.70)
    density[muscle] = 50
    for side in (-1, 1):
        density[((x - side * 0.2) / 0.1) ** 2 + ((y - 0.3) / 0.12) ** 2 + (np.clip(-z - 0.2, 0, 2) * 3) ** 2 < 1] = 55
        density[((x - side * 0.3) / 0.26) ** 2 + ((y - 0.52 * study.depth / 0.66) / 0.09) ** 2 < 1] = 50
    for lx, ly, lz, size, value in study.loops:
        distance = ((x - lx) / 1.5) ** 2 + (y - ly) ** 2 + (z - lz) ** 2
        density[(distance < size**2) & (radius < 0.7)] = value
    inner = radius < 0.72
    liver = ((x + 0.42) / 0.46) ** 2 + ((y + 0.12) / 0.46) ** 2 + ((z + 0.55) / 0.72) ** 2
    density[(liver < 1) & inner] = study.liver
    spleen = ((x - 0.58) / 0.2) ** 2 + ((y - 0.1) / 0.26) ** 2 + ((z + 0.6) / 0.36) ** 2
    density[(spleen < 1) & inner] = study.liver + 10
    density[((x + 0.13) / 0.08) ** 2 + ((y - 0.08) / 0.06) ** 2 < 1] = 0.8 * study.kidney
    density[((x - 0.07) / 0.07) ** 2 + ((y - 0.09) / 0.07) ** 2 < 1] = 0.95 * study.kidney
    density[(x / 0.13) ** 2 + ((y - 0.3) / 0.12) ** 2 < 1] = 230
    density[(np.abs(x) < 0.12) & (np.abs(y - 0.3) < 0.1) & (np.cos(16 * z) > 0.85)] = 90
    density[((x) / 0.05) ** 2 + ((y - 0.46) / 0.045) ** 2 < 1] = 30
    for side in (-1, 1):
        # Upper poles lean inwards; the hilum with its fat opens towards the middle.
        dx = side * x - study.centre[0] - 0.12 * (z - study.centre[2])
        dy, dz = y - study.centre[1], z - study.centre[2] + 0.05 * side
        bean = (dx / study.reach[0]) ** 2 + (dy / study.reach[1]) ** 2 + (dz / study.reach[2]) ** 2
        around = (bean < 1.5) & inner
        density[around] = -100
        hilum = ((dx + 0.13) / 0.12) ** 2 + ((dy + 0.05) / 0.07) ** 2 + (dz / 0.2) ** 2 < 1
        density[(bean < 1) & inner] = study.kidney
        density[(bean < 0.35) & inner] = 0.85 * study.kidney
        density[hilum & (bean < 1.1) & inner] = -70
    return density


def _paint(density: Volume, kind: str, x: Volume, y: Volume, size: float, study: Study) -> None:
    """Around the point where `x` and `y` are 0; their columns and rows are alike."""
    reach = size * (1 + float(np.abs(study.lobes).sum()))
    rows, columns = (np.flatnonzero(np.abs(line) <= reach) for line in (y[:, 0], x[0]))
    if not (rows.size and columns.size):
        return
    box = slice(rows[0], rows[-1] + 1), slice(columns[0], columns[-1] + 1)
    density, x, y = density[box], x[box], y[box]
    angle, distance = np.arctan2(y, x), np.hypot(x, y)
    if kind == CYST:
        density[distance < size] = 8
    elif kind == STONE:
        density[distance < size * (1 + study.lobes[0] * np.cos(3 * angle))] = 700
    else:
        waves = sum(lobe * np.cos((n + 2) * angle + 5 * lobe) for n, lobe in enumerate(study.lobes))
        border = size * (1 + waves)
        solid = distance < border
        patchy = 62 + 40 * np.sin(55 * x + 9 * study.angle) * np.sin(47 * y + 4 * study.angle)
        density[solid] = patchy[solid]
