"""Small drawings, simple but learnable. Everything takes the generator."""

from typing import Any

import numpy as np
from scipy.ndimage import gaussian_filter


def ball(shape: tuple[int, ...], centre: Any, radii: Any) -> np.ndarray:
    """A filled ellipse or ellipsoid, True inside."""
    grids = np.ogrid[tuple(slice(0, n) for n in shape)]
    radii = np.broadcast_to(radii, (len(shape),))
    return sum(((g - c) / r) ** 2 for g, c, r in zip(grids, centre, radii, strict=True)) <= 1


def far(at: list[np.ndarray], mid: Any, radii: Any) -> np.ndarray:
    """How far points are from the middle of an ellipsoid, below 1 inside."""
    radii = np.broadcast_to(radii, (3,))
    return np.sqrt(sum(((a - m) / r) ** 2 for a, m, r in zip(at, mid, radii, strict=True)))


def near(rng: Any, *values: float, by: float = 1.5) -> list[float]:
    return [float(v + rng.uniform(-by, by)) for v in values]


def u8(array: np.ndarray) -> np.ndarray:
    return np.clip(array, 0, 255).astype(np.uint8)


def chest(rng: Any, signs: tuple[str, ...] = (), size: tuple[int, int] = (72, 64), side: bool = False) -> np.ndarray:
    """A film from 0 to 255 as float: heart, effusion, nodule, opacity, pneumothorax."""
    h, w = size
    out = np.full(size, 165.0)
    if side:
        out[ball(size, near(rng, h * 0.48, w * 0.55), (h * 0.36, w * 0.3))] = 80
        out[ball(size, near(rng, h * 0.62, w * 0.38), (h * 0.16, w * 0.16))] = 170
    else:
        for x in (0.29, 0.71):
            out[ball(size, near(rng, h * 0.47, w * x), (h * 0.34, w * 0.17))] = 70
        out[ball(size, near(rng, h * 0.62, w * 0.55), (h * 0.17, w * (0.33 if "heart" in signs else 0.15)))] = 185
    x = w * rng.choice([0.28, 0.72])
    if "effusion" in signs:
        out[int(h * 0.66) :, :] = np.maximum(out[int(h * 0.66) :, :], 205)
    if "nodule" in signs:
        out[ball(size, near(rng, h * 0.32, x), 5)] = 230
    if "opacity" in signs:
        out[ball(size, near(rng, h * 0.5, x), (h * 0.2, w * 0.14))] += 75
    if "pneumothorax" in signs:
        out[ball(size, near(rng, h * 0.25, x), (h * 0.12, w * 0.13))] = 15
    return gaussian_filter(out, 0.8) + rng.normal(0, 5, size)


def eye(rng: Any, signs: str, size: int = 64) -> np.ndarray:
    """A fundus in colour: D red dots, G wide pale disc, C blurred, M pale streaks."""
    s = (size, size)
    out = np.zeros((size, size, 3))
    out[ball(s, (size / 2, size / 2), size * 0.47)] = (180, 85, 40)
    for _ in range(5):
        y0, a = rng.uniform(0.2, 0.8) * size, rng.uniform(-0.4, 0.4)
        xs = np.arange(8, size - 8)
        out[np.clip(y0 + a * (xs - size / 2), 8, size - 9).astype(int), xs] = (130, 35, 25)
    out[ball(s, near(rng, size * 0.5, size * 0.3), size * (0.17 if "G" in signs else 0.08))] = (240, 215, 140)
    if "D" in signs:
        for _ in range(9):
            out[ball(s, rng.uniform(size * 0.25, size * 0.75, 2), 1.8)] = (70, 5, 5)
    if "M" in signs:
        out[ball(s, near(rng, size * 0.6, size * 0.65), (size * 0.1, size * 0.2))] = (225, 190, 150)
    if "C" in signs:
        out = gaussian_filter(out, (4, 4, 0)) * 0.6 + 60
    return u8(out + rng.normal(0, 4, out.shape))


def spot(rng: Any, kind: int, size: tuple[int, int] = (60, 60)) -> tuple[np.ndarray, np.ndarray]:
    """A skin lesion: kind 0 round and light brown, 1 ragged and dark with blue. Image and mask."""
    out = np.empty((*size, 3))
    out[:] = (222, 175, 150)
    mid = near(rng, size[0] / 2, size[1] / 2, by=4)
    mask = ball(size, mid, rng.uniform(9, 13))
    if kind:
        for _ in range(6):
            mask |= ball(size, near(rng, *mid, by=11), rng.uniform(3, 7))
    out[mask] = (60, 35, 38) if kind else (150, 95, 65)
    if kind:
        out[mask & ball(size, near(rng, *mid, by=5), 5)] = (70, 75, 120)
    return u8(gaussian_filter(out, (0.7, 0.7, 0)) + rng.normal(0, 5, out.shape)), mask


def breast(rng: Any, kind: int, left: bool, size: tuple[int, int] = (72, 48)) -> np.ndarray:
    """A mammogram as float 0-255: 0 plain, 1 a few bright grains, 2 a star-like mass."""
    h, w = size
    out = np.full(size, 4.0)
    inside = ball(size, (h / 2, 0), (h * 0.45, w * 0.8))
    out[inside] = 90
    out += gaussian_filter(rng.normal(0, 1, size), 3) * 90 * inside
    if kind == 1:
        for _ in range(7):
            out[ball(size, near(rng, h / 2, w * 0.4, by=9), 1.1)] = 245
    if kind == 2:
        mid = near(rng, h / 2, w * 0.38, by=6)
        out[ball(size, mid, 8)] = 215
        for turn in rng.uniform(0, 6.28, 7):
            for r in range(7, 13):
                y, x = int(mid[0] + r * np.sin(turn)), int(mid[1] + r * np.cos(turn))
                if 0 <= y < h and 0 <= x < w:
                    out[y, x] = 215
    out = np.clip(out + rng.normal(0, 3, size), 0, 255)
    return out if left else out[:, ::-1]


def tissue(rng: Any, bad: bool, size: tuple[int, int] = (56, 80)) -> np.ndarray:
    """Stained tissue: bad has many large dark nuclei."""
    out = np.empty((*size, 3))
    out[:] = (228, 170, 200)
    for _ in range(45 if bad else 14):
        out[ball(size, rng.uniform(0, 1, 2) * size, rng.uniform(2.2, 4) if bad else rng.uniform(1.3, 2.2))] = (95, 50, 130)
    return u8(out + rng.normal(0, 8, out.shape))


def lung_ct(rng: Any, sick: bool, shape: tuple[int, int, int] = (40, 36, 10)) -> np.ndarray:
    """HU, axes (left, back, up)."""
    x, y, z = shape
    out = np.full(shape, -1000.0)
    out[ball(shape, (x / 2, y / 2, z / 2), (x * 0.45, y * 0.42, z * 2))] = 40
    for side in (0.3, 0.7):
        lung = ball(shape, near(rng, x * side, y * 0.5, z * 0.5, by=1), (x * 0.15, y * 0.28, z * 0.6))
        out[lung] = -850
        if sick:
            for _ in range(4):
                spot = ball(shape, (x * side + rng.uniform(-4, 4), y * 0.5 + rng.uniform(-7, 7), rng.uniform(1, z)), (4, 4, 2))
                out[lung & spot] = -350
    out[ball(shape, (x / 2, y * 0.8, z / 2), (3, 3, z))] = 500
    return out + rng.normal(0, 25, shape)


def brain(rng: Any, loss: float = 0.0, shape: tuple[int, int, int] = (30, 36, 26)) -> np.ndarray:
    """T1-like: `loss` from 0 to 1 widens the ventricles."""
    mid = np.array(shape) / 2
    radii = mid * 0.85
    out = np.zeros(shape)
    out[ball(shape, mid, radii)] = 400
    out[ball(shape, mid, radii * 0.82)] = 700
    for side in (-1, 1):
        v = ball(shape, (mid[0] + side * 3.2, mid[1], mid[2]), (1.4 + 2.2 * loss, 4 + 4 * loss, 2.5 + 2.5 * loss))
        out[v] = 120
    return np.clip(gaussian_filter(out, 0.6) + rng.normal(0, 18, shape), 0, None)


def curve(rng: Any, size: tuple[int, int], wide: float) -> np.ndarray:
    """One vessel from left to right."""
    h, w = size
    xs = np.linspace(0, 1, 3 * w)
    ys = rng.uniform(0.25, 0.75) + rng.uniform(-0.25, 0.25) * (xs - 0.5) + rng.uniform(0.02, 0.1) * np.sin(xs * rng.uniform(4, 9))
    ridge = np.zeros(size, bool)
    ridge[np.clip(ys * h, 0, h - 1).astype(int), np.clip(xs * w, 0, w - 1).astype(int)] = True
    return gaussian_filter(ridge.astype(float), wide) > 0.12
