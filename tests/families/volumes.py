"""Drawn volumes (X, Y, Z): x runs to the patient's left, y to the back, z to the head."""

import numpy as np
from scipy.ndimage import gaussian_filter

from .pictures import disc, patchy

Shape = tuple[int, int, int]
Masks = dict[str, np.ndarray]


def abdomen(
    rng: np.random.Generator, shape: Shape = (36, 30, 16), tumour: bool | None = None
) -> tuple[np.ndarray, Masks]:
    """A CT in HU with liver, spleen, left and right kidney; with `tumour` also a mask "tumour" (empty when False)."""
    dx, dy, dz = rng.uniform(-0.03, 0.03, 3)
    volume = np.where(disc(shape, (0.5, 0.5, 0.5), (0.46, 0.42, 9)) < 1, 0.0, -1000.0)
    volume[disc(shape, (0.5, 0.78, 0.5), (0.07, 0.1, 9)) < 1] = 400
    plan = {
        "liver": ((0.3, 0.42, 0.6), (0.17, 0.22, 0.32), 110),
        "spleen": ((0.76, 0.52, 0.68), (0.1, 0.12, 0.2), 70),
        "right kidney": ((0.36, 0.73, 0.3), (0.07, 0.08, 0.22), 180),
        "left kidney": ((0.64, 0.73, 0.32), (0.07, 0.08, 0.22), 180),
    }
    masks: Masks = {}
    taken = np.zeros(shape, bool)
    for name, (centre, radii, value) in plan.items():
        much = rng.uniform(0.9, 1.12)
        one = disc(shape, np.add(centre, (dx, dy, dz)), np.multiply(radii, much)) < 1
        one &= ~taken
        taken |= one
        volume[one] = value
        masks[name] = one
    if tumour is not None:
        masks["tumour"] = np.zeros(shape, bool)
        if tumour:
            at = np.add((0.3 + dx, 0.42 + dy, 0.6 + dz), rng.uniform(-0.05, 0.05, 3))
            masks["tumour"] = (disc(shape, at, (0.08, 0.09, 0.14)) < 1) & masks["liver"]
            volume[masks["tumour"]] = 0
    return finish(rng, volume, 15, -1024, 1500), masks


def chest_ct(rng: np.random.Generator, kind: str, shape: Shape = (36, 30, 16)) -> tuple[np.ndarray, Masks]:
    """A CT in HU and masks; kinds: normal, nodule, covid (cloudy ground glass), emphysema (black holes)."""
    dx, dy = rng.uniform(-0.03, 0.03, 2)
    volume = np.where(disc(shape, (0.5, 0.5, 0.5), (0.47, 0.42, 9)) < 1, 30.0, -1000.0)
    sides = [disc(shape, (x + dx, 0.48 + dy, 0.5), (0.17, 0.27, 0.55)) < 1 for x in (0.29, 0.71)]
    lungs = sides[0] | sides[1]
    volume[lungs] = -800
    volume[disc(shape, (0.55 + dx, 0.4 + dy, 0.4), (0.1, 0.13, 0.25)) < 1] = 50
    lungs &= volume < -700
    finding = np.zeros(shape, bool)
    if kind == "nodule":
        where = np.argwhere(disc(shape, (0.29 if rng.random() < 0.5 else 0.71, 0.48, 0.5), (0.09, 0.16, 0.25)) < 1)
        at = where[int(rng.integers(len(where)))] / shape
        finding = disc(shape, at, (0.07, 0.08, 0.12)) < 1
        volume[finding] = 60
    elif kind in ("covid", "emphysema"):
        finding = lungs & (patchy(rng, shape, 1.6) > 0.2)
        volume[finding] = -450 if kind == "covid" else -1000
    return finish(rng, volume, 20, -1024, 1500), {
        "left lung": sides[1] & lungs,
        "right lung": sides[0] & lungs,
        kind: finding,
    }


SEQUENCES = ("FLAIR", "T1", "T1ce", "T2")


def brain(rng: np.random.Generator, kind: str = "control", shape: Shape = (32, 36, 16)) -> tuple[Masks, Masks]:
    """MR sequences by name, and masks; kinds: control, AD (wide ventricles), HGG (ring with oedema), LGG (even)."""
    centre = np.add((0.5, 0.5, 0.48), rng.uniform(-0.02, 0.02, 3))
    head = disc(shape, centre, (0.44, 0.46, 0.5)) < 1
    brain_ = disc(shape, centre, (0.38, 0.41, 0.43)) < 1
    wide = rng.uniform(1.7, 2.1) if kind == "AD" else rng.uniform(0.85, 1.1)
    ventricles = np.zeros(shape, bool)
    for side in (-0.09, 0.09):
        ventricles |= disc(shape, np.add(centre, (side, 0, 0.04)), np.multiply((0.05, 0.15, 0.14), wide)) < 1
    levels = {"FLAIR": (40, 120, 20), "T1": (180, 130, 25), "T1ce": (180, 130, 25), "T2": (120, 90, 220)}
    images = {s: np.where(brain_, b, np.where(head, f, 0.0)) for s, (f, b, _) in levels.items()}
    for s, (_, _, fluid) in levels.items():
        images[s][ventricles] = fluid
    masks: Masks = {}
    if kind in ("HGG", "LGG"):
        at = np.add(centre, (rng.choice([-0.2, 0.2]), rng.uniform(-0.18, 0.18), rng.uniform(-0.08, 0.1)))
        ring = disc(shape, at, np.multiply((0.12, 0.11, 0.15), rng.uniform(0.9, 1.15)))
        core, oedema = (ring < 1) & brain_, (ring >= 1) & (ring < 1.55) & brain_
        images["T2"][core] = images["FLAIR"][core] = 200
        images["T1"][core] = images["T1ce"][core] = 85
        if kind == "HGG":
            images["T1ce"][core & (ring > 0.55)] = 250
            images["T2"][oedema] = images["FLAIR"][oedema] = 180
        else:
            oedema = np.zeros(shape, bool)
        masks = {"core": core, "oedema": oedema}
    return {s: finish(rng, v, 6, 0, 400) for s, v in images.items()}, {
        **masks,
        "ventricles": ventricles,
        "brain": brain_,
    }


def finish(rng: np.random.Generator, volume: np.ndarray, noise: float, low: float, high: float) -> np.ndarray:
    """Blurred a little, noisy, whole numbers."""
    soft = gaussian_filter(volume, 0.4) + noise * rng.standard_normal(volume.shape)
    return np.clip(soft, low, high).round().astype(np.int16)


def label_map(masks: Masks, *names: str) -> np.ndarray:
    """One array with 1, 2, ... for the named structures in that order (uint8)."""
    out = np.zeros(next(iter(masks.values())).shape, np.uint8)
    for value, name in enumerate(names, 1):
        out[masks[name]] = value
    return out
