"""Drawn pictures of medical kinds: each class and structure has a form or texture of its own."""

from collections.abc import Sequence

import numpy as np
from scipy.ndimage import gaussian_filter

Size = tuple[int, int]


def disc(shape: Sequence[int], centre: Sequence[float], radii: Sequence[float]) -> np.ndarray:
    """Distance from the centre in units of the radii, all as shares of the shape: below 1 is inside."""
    axes = [(np.arange(n) + 0.5) / n for n in shape]
    mesh = np.meshgrid(*axes, indexing="ij", sparse=True)
    return np.sqrt(sum(((m - c) / r) ** 2 for m, c, r in zip(mesh, centre, radii, strict=True)))


def wobbly(rng: np.random.Generator, size: Size, centre: Sequence[float], radii: Sequence[float], much: float):
    """As `disc`, with a ragged border."""
    y, x = np.mgrid[0 : size[0], 0 : size[1]]
    angle = np.arctan2((y + 0.5) / size[0] - centre[0], (x + 0.5) / size[1] - centre[1])
    border = 1 + sum(much / k * np.sin(k * angle + rng.uniform(0, 6.28)) for k in (3, 5, 8))
    return disc(size, centre, radii) / border


def grey(image: np.ndarray) -> np.ndarray:
    return (np.clip(image, 0, 1) * 255).astype(np.uint8)


def patchy(rng: np.random.Generator, shape: Sequence[int], sigma: float) -> np.ndarray:
    """Cloudy noise, mean 0 and deviation 1."""
    noise = gaussian_filter(rng.standard_normal(shape), sigma, mode="wrap")
    return noise / noise.std()


def chest_film(
    rng: np.random.Generator, *findings: str, size: Size = (64, 64), lateral: bool = False
) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """A film (uint8) and masks: lungs, and pneumonia, effusion, mass, cardiomegaly or pneumothorax as asked."""
    dy, dx = rng.uniform(-0.03, 0.03, 2)
    image = 0.72 - 0.5 * (disc(size, (0.55 + dy, 0.5 + dx), (0.62, 0.5)) > 1)
    if lateral:
        halves = [disc(size, (0.5 + dy, 0.52 + dx), (0.32, 0.26)) < 1] * 2
    else:
        halves = [disc(size, (0.48 + dy, x + dx), (0.33, 0.17)) < 1 for x in (0.29, 0.71)]
    lungs = halves[0] | halves[1]
    image = np.where(lungs, 0.25 + 0.05 * np.sin(np.arange(size[0]) / size[0] * 60)[:, None], image)
    big = "cardiomegaly" in findings
    heart = disc(size, (0.62 + dy, 0.55 + dx), (0.17, 0.24 if big else 0.11)) < 1
    image = np.where(heart, 0.78, image)
    masks = {"left lung": halves[1] & ~heart, "right lung": halves[0] & ~heart}
    side = halves[int(rng.integers(2))] & ~heart
    rows, cols = np.nonzero(side)
    if big:
        masks["cardiomegaly"] = heart
    if "pneumonia" in findings:
        spot = side & (disc(size, (rows.mean() / size[0], cols.mean() / size[1]), (0.24, 0.2)) < 1)
        image = np.where(spot, 0.5 + 0.12 * patchy(rng, size, 1.3), image)
        masks["pneumonia"] = spot
    if "effusion" in findings:
        level = np.quantile(rows, rng.uniform(0.6, 0.75))
        spot = side & (np.arange(size[0])[:, None] > level)
        image = np.where(spot, 0.8, image)
        masks["effusion"] = spot
    if "mass" in findings:
        at = int(rng.integers(len(rows)))
        spot = disc(size, (rows[at] / size[0], cols[at] / size[1]), (0.09, 0.09)) < 1
        image = np.where(spot, 0.92, image)
        masks["mass"] = spot
    if "pneumothorax" in findings:
        edge = disc(size, (rows.mean() / size[0], cols.mean() / size[1]), (0.26, 0.13)) > 0.95
        spot = side & edge & (np.arange(size[0])[:, None] < np.quantile(rows, 0.7))
        image = np.where(spot, 0.03, image)
        masks["pneumothorax"] = spot
    return grey(gaussian_filter(image, 0.5) + 0.025 * rng.standard_normal(size)), masks


def colour(*planes: np.ndarray) -> np.ndarray:
    return np.stack([grey(p) for p in planes], axis=-1)


def skin(rng: np.random.Generator, kind: str, size: Size = (64, 64)) -> tuple[np.ndarray, np.ndarray]:
    """A skin picture and the lesion's mask; kinds: nevus (round), melanoma (ragged, dark), keratosis (scaly)."""
    centre = rng.uniform(0.4, 0.6, 2)
    radius = rng.uniform(0.16, 0.26)
    ragged = 0.55 if kind == "melanoma" else 0.05
    lesion = wobbly(rng, size, centre, (radius, radius * rng.uniform(0.8, 1.2)), ragged) < 1
    noise = 0.02 * rng.standard_normal(size)
    inner = {"nevus": (0.58, 0.38, 0.28), "melanoma": (0.25, 0.16, 0.16), "keratosis": (0.75, 0.6, 0.33)}[kind]
    texture = {"nevus": 0.02, "melanoma": 0.1, "keratosis": 0.09}[kind] * patchy(
        rng, size, 1 if kind != "melanoma" else 3
    )
    return colour(
        *(np.where(lesion, i + texture, o) + noise for i, o in zip(inner, (0.87, 0.67, 0.57), strict=True))
    ), lesion


def fundus(rng: np.random.Generator, grade: int, size: Size = (72, 72)) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """An eye fundus and masks; the grade 0 to 3 is the number of bleedings, by sixes."""
    round_ = disc(size, (0.5, 0.5), (0.47, 0.47))
    field = round_ < 1
    side = 0.3 if rng.random() < 0.5 else 0.7
    cup = disc(size, (0.5 + rng.uniform(-0.05, 0.05), side), (0.09, 0.09)) < 1
    y, x = np.mgrid[0 : size[0], 0 : size[1]] / np.reshape(size, (2, 1, 1))
    vessels = np.zeros(size, bool)
    for bend in (-1, 1):
        vessels |= np.abs(y - 0.5 - bend * 0.55 * np.abs(x - side) ** 0.6) < 0.012
    spots = np.zeros(size, bool)
    for _ in range(6 * grade):
        turn, far = rng.uniform(0, 6.28), rng.uniform(0.08, 0.38)
        spots |= disc(size, (0.5 + far * np.sin(turn), 0.5 + far * np.cos(turn)), (0.03, 0.035)) < 1
    spots &= field & ~cup
    shade = 0.9 - 0.35 * round_
    red = np.where(spots | vessels, 0.5, shade) + 0.2 * cup
    green = np.where(spots, 0.05, np.where(vessels, 0.2, 0.5 * shade)) + 0.4 * cup
    noise = 0.02 * rng.standard_normal(size)
    picture = colour(*(np.where(field, p + noise, 0.0) for p in (red, green, 0.15 * shade + 0.25 * cup)))
    return picture, {"optic disc": cup, "haemorrhage": spots}


def histology(rng: np.random.Generator, tumour: bool, size: Size = (64, 64)) -> tuple[np.ndarray, list[np.ndarray]]:
    """A stained section and its nuclei, a mask each: many large dark ones in a tumour, few small ones elsewhere."""
    nuclei: list[np.ndarray] = []
    free = np.ones(size, bool)
    for _ in range(26 if tumour else 9):
        radius = rng.uniform(0.055, 0.08) if tumour else rng.uniform(0.04, 0.05)
        one = wobbly(rng, size, rng.uniform(0.05, 0.95, 2), (radius, radius), 0.15) < 1
        if one.any() and (free & one).sum() == one.sum():
            nuclei.append(one)
            free &= gaussian_filter(one.astype(float), 0.7) < 0.05
    dark = np.any(nuclei, axis=0)
    noise = 0.03 * patchy(rng, size, 1.5)
    inner, outer = (0.35, 0.22, 0.55), (0.9, 0.68, 0.8)
    return colour(*(np.where(dark, i, o) + noise for i, o in zip(inner, outer, strict=True))), nuclei


def ultrasound(rng: np.random.Generator, kind: str, size: Size = (64, 80)) -> tuple[np.ndarray, np.ndarray]:
    """A speckled picture and the lesion: benign (smooth, wide), malignant (ragged, tall, a shadow), normal (none)."""
    image = 0.45 * np.linspace(1.2, 0.7, size[0])[:, None] * np.ones(size)
    lesion = np.zeros(size, bool)
    centre = rng.uniform((0.35, 0.35), (0.5, 0.65))
    if kind == "benign":
        lesion = wobbly(rng, size, centre, (0.13, 0.24), 0.04) < 1
    elif kind == "malignant":
        lesion = wobbly(rng, size, centre, (0.25, 0.14), 0.35) < 1
        column = np.abs((np.arange(size[1]) + 0.5) / size[1] - centre[1]) < 0.1
        image *= np.where(column[None] & (np.arange(size[0])[:, None] > centre[0] * size[0]), 0.45, 1)
    image = np.where(lesion, 0.1, image)
    return grey(image * gaussian_filter(rng.rayleigh(0.8, size), 0.6)), lesion


def endoscopy(rng: np.random.Generator, polyp: bool = True, size: Size = (64, 80)) -> tuple[np.ndarray, np.ndarray]:
    """A gut wall and the polyp's mask (empty without one)."""
    wall = 0.75 + 0.08 * patchy(rng, size, 6) - 0.25 * disc(size, (0.5, 0.5), (1, 1))
    mask = np.zeros(size, bool)
    if polyp:
        centre, radius = rng.uniform(0.3, 0.7, 2), rng.uniform(0.14, 0.22)
        near = wobbly(rng, size, centre, (radius, radius), 0.08)
        mask = near < 1
        wall = np.where(mask, 1.0 - 0.25 * near, wall)
    noise = 0.02 * rng.standard_normal(size)
    return colour(wall + noise, np.where(mask, 0.5, 0.42) * wall + noise, np.where(mask, 0.5, 0.3) * wall + noise), mask
