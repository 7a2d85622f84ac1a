"""What the training images are like, and the preprocessing that follows from it."""

import math
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import torch
from config import Config, Model, Preprocess
from data import AXES, seen, seen_axes, working_size
from model import multiples, strides

from shared.imaging.case import load_image
from shared.imaging.masks import on_image, read_label_map
from shared.imaging.units import looks_like_hu
from shared.imaging.volume import BadImage, size_dhw, spacing_dhw, to_dhw
from shared.training import checks, masks
from shared.training.checks import DataProblems, Problem, read_all
from shared.training.sides import sided

LOOKED_AT = 16
"""Training samples from which `auto` is settled; up to three times as many, until four hold a structure."""
VOXELS_A_SECOND, LEAST_VOXELS = 500_000, 2**14
"""What a core trains on, evaluations included (two cores do 1.4 times as much), and what an image keeps, however short
the time."""
LEAST_PATCH, PATCHES, VOLUMES = 90_000, 1_200, 5_000
"""Voxels that a patch keeps, however short the time; how many patches a CPU should train on: smaller ones are more
steps; and how many of the least there have to be for volumes: in fewer, slices teach more (`bench/README.md`)."""
WORTH = 1.5
"""How many times coarser voxels have to be: a grid that is a little coarser blurs thin structures and saves nothing."""
THICK, MIXED = 1.5, 0.15
"""Spacing across slices, in that within them, and the share of images whose slices lie across another axis."""
STACKED = 2.0
"""How many times as many of the structures slices across one axis show as those across another where slices cannot tell
them."""
TELLS, SMALL, SURE = 2.0, 0.01, 4.0
"""How many times the variance of (the logarithms of) structures' extents has to be larger in mm than in voxels for
headers to be wrong, a variance of no consequence, and what the logarithm of that ratio has to exceed, divided by the
root of how often a structure was seen again: about twice its standard error."""

Extent = tuple[float, ...] | None
"""Standard deviation of a structure's voxels along each axis, in voxels; None where the image's edge cuts it."""


@dataclass(frozen=True)
class Look:
    """One training image: (D, H, W) voxels and mm, whether it is in Hounsfield units, values where structures are,
    (D, H, W) extents of the structures, by number, and the share of them that the mean slice across each axis shows."""

    size: tuple[int, int, int]
    spacing: tuple[float, float, float]
    channels: int
    hu: bool
    inside: np.ndarray
    structures: Mapping[int, Extent] = field(default_factory=dict)
    shown: tuple[float, float, float] = (1.0, 1.0, 1.0)


def resolve(config: Config) -> Config:
    """Replace every `auto` of `preprocess` by what time, machine and evenly drawn training samples say. A
    second call changes nothing. Raises DataProblems when none of the samples looked at can be read."""
    how = config.preprocess
    asked = (how.dimensions, how.spacing, how.patch_size, how.intensity, *([how.slices] if how.dimensions == 2 else []))
    settled = "auto" not in asked and how.channels
    if settled and (how.intensity != "ct" or how.window):
        return rounded(config)
    rows = [row for row in checks.read_index(config.index) if row["split"] == "train"]
    seconds = config.training.whole_seconds or config.training.train_seconds
    found = settle(how, config.model, rows, config.data_folder, masks.label_values(config), seconds)
    return rounded(config.model_copy(update={"preprocess": found}))


def rounded(config: Config) -> Config:
    """With a patch whose axes the network can halve."""
    how = config.preprocess
    fits = halved(how.patch_size, how, config.model)
    if fits == tuple(how.patch_size):
        return config
    print(f"preprocess.patch_size {list(how.patch_size)} becomes {list(fits)}, whose axes can be halved", flush=True)
    return config.model_copy(update={"preprocess": how.model_copy(update={"patch_size": fits})})


def affordable(how: Preprocess, seconds: float | None, images: int, looks: Sequence[Look]) -> int:
    """Voxels of an image with which a structure is seen `passes` times in each of so many images in that time: where an
    image shows a few of the structures, that takes more passes."""
    there = {number for look in looks for number in look.structures}
    shown = sum(len(look.structures) for look in looks) / (len(looks) * len(there)) if there else 1
    return int(min(how.max_voxels, max(LEAST_VOXELS, shown * affords(seconds, how.passes * images, how))))


def affords(seconds: float | None, many: int, how: Preprocess) -> float:
    """Voxels that a training of that time sees, divided by `many`; without a bound where a GPU trains."""
    if seconds is None or not how.passes or torch.cuda.is_available():
        return math.inf
    return seconds * math.sqrt(torch.get_num_threads()) * VOXELS_A_SECOND / many


def patch_voxels(how: Preprocess, seconds: float | None) -> int:
    """At most, of a patch: fewer in volumes where the time is short."""
    if how.dimensions != 3:
        return how.patch_voxels
    return int(min(how.patch_voxels, max(LEAST_PATCH, affords(seconds, PATCHES, how))))


def settle(
    how: Preprocess,
    model: Model,
    rows: Sequence[masks.Row],
    root: Path,
    values: Mapping[str, int],
    seconds: float | None,
) -> Preprocess:
    looks = look_around(rows, root)
    if not looks:
        found = read_all(rows, lambda row: masks.load_case(row, root, values))
        raise DataProblems(found or [Problem("training images", "none of those looked at can be read")])
    if not how.channels:
        how = how.model_copy(update={"channels": int(np.median([look.channels for look in looks]))})
    if how.dimensions == "auto":
        how = how.model_copy(update={"dimensions": dimensions(how, looks, values, seconds)})
    if how.dimensions == 2 and how.slices == "auto":
        how = how.model_copy(update={"slices": across(looks)})
    if how.spacing == "auto" and not how.nominal_spacing:
        how = how.model_copy(update={"nominal_spacing": nominal(looks)})
    if how.nominal_spacing:
        looks = [replace(look, spacing=how.nominal_spacing) for look in looks]
    if how.spacing == "auto":
        most = affordable(how, seconds, len(rows), looks)
        fine, coarse = (spacing(looks, how, voxels) for voxels in (how.max_voxels, most))
        worth = np.prod(coarse) >= WORTH * np.prod(fine)
        how = how.model_copy(update={"spacing": coarse if worth else fine})
    if how.patch_size == "auto":
        how = how.model_copy(update={"patch_size": patch_size(looks, how, patch_voxels(how, seconds), model)})
    return intensity(looks, how)


def dimensions(how: Preprocess, looks: Sequence[Look], names: Iterable[str], seconds: float | None) -> int:
    """Those of the patch, where one is given; 2 for pictures, and for volumes where a CPU has too little time for them
    and slices can tell the structures: cut across left and right they look alike on both sides, and those that lie
    behind one another, as vertebrae do, look alike whichever way they are cut."""
    if how.patch_size != "auto":
        return len(how.patch_size)
    if all(look.size[0] == 1 for look in looks):
        return 2
    axis = across(looks) if how.slices == "auto" else how.slices
    shown = np.mean([look.shown for look in looks], axis=0)
    stacked = shown.max() > STACKED * shown.min()
    alike = stacked or (axis == "W" and sided(list(names)))
    return 2 if affords(seconds, LEAST_PATCH, how) < VOLUMES and not alike else 3


def across(looks: Sequence[Look]) -> str:
    """The axis along which the median image has thick slices; D where it has none."""
    median = np.median([look.spacing for look in looks], axis=0)
    thick = median.max() > THICK * median.min() and any(look.size[0] > 1 for look in looks)
    return AXES[int(median.argmax())] if thick else "D"


def look_around(rows: Sequence[masks.Row], root: Path) -> list[Look]:
    """At LOOKED_AT samples, and at others as long as too few of them hold a structure."""
    step = max(1, len(rows) // LOOKED_AT)
    order = [row for start in range(step) for row in list(rows)[start::step]]
    looks: list[Look] = []
    with ThreadPoolExecutor(2) as pool:
        for start in range(0, min(len(order), 3 * LOOKED_AT), LOOKED_AT):
            found = pool.map(lambda row: glimpse(row, root), order[start : start + LOOKED_AT])
            looks += [look for look in found if look is not None]
            if sum(look.inside.size > 0 for look in looks) >= 4:
                break
    return looks


def glimpse(row: masks.Row, root: Path) -> Look | None:
    """None where the sample cannot be read: that is reported with all the others before training."""
    try:
        image = load_image([root / str(file) for file in row["files"]])
        labels, grid = read_label_map(root / str(row["target"]))
        mask = on_image(labels, grid, image, str(row["target"]))
    except (BadImage, OSError):
        return None
    volume = image.array[..., 0]
    inside = volume[mask != 0]
    thin = np.random.default_rng(0).choice(inside, min(inside.size, 20_000), replace=False)
    hu = image.hu_known or looks_like_hu(volume)
    labels = to_dhw(mask, image)
    size, channels = size_dhw(image), image.array.shape[-1]
    return Look(size, spacing_dhw(image), channels, hu, thin, extents(labels), shown(labels))


def extents(labels: np.ndarray) -> dict[int, Extent]:
    """Of each structure in class numbers (D, H, W)."""
    from scipy.ndimage import find_objects

    found: dict[int, Extent] = {}
    for number, box in enumerate(find_objects(labels), 1):
        if box is None:
            continue
        sides = zip(box, labels.shape, strict=True)
        cut = any(size > 1 and (side.start == 0 or side.stop == size) for side, size in sides)
        found[number] = None if cut else tuple(spread(labels[box] == number, axis) for axis in range(3))
    return found


def shown(labels: np.ndarray) -> tuple[float, float, float]:
    """Of the structures in class numbers (D, H, W), the share that the mean slice with any has, across each axis."""
    from scipy.ndimage import find_objects

    boxes = [box for box in find_objects(labels) if box is not None]
    found = []
    for axis, size in enumerate(labels.shape):
        many = np.zeros(size)
        for box in boxes:
            many[box[axis]] += 1
        found.append(float(many[many > 0].mean() / len(boxes)) if boxes else 1.0)
    return found[0], found[1], found[2]


def spread(inside: np.ndarray, axis: int) -> float:
    """Standard deviation along an axis; a voxel has an extent, too: that of a uniform distribution."""
    counts = inside.sum(axis=tuple({0, 1, 2} - {axis}))
    places = np.arange(len(counts))
    return math.sqrt(np.average((places - np.average(places, weights=counts)) ** 2, weights=counts) + 1 / 12)


def nominal(looks: Sequence[Look]) -> tuple[float, float, float] | None:
    """The median spacing, for all images, where structures are clearly more alike in voxels than in mm; else None."""
    seen: dict[int, list[tuple[list[float], list[float]]]] = {}
    for look in looks:
        for number, extent in look.structures.items():
            if extent is not None:
                voxels = np.log(extent)
                seen.setdefault(number, []).append((voxels.tolist(), (voxels + np.log(look.spacing)).tolist()))
    pairs = sum(len(each) - 1 for each in seen.values())
    if not pairs:
        return None
    # (voxels or mm, axes), summed over structures and images.
    voxels, mm = np.sum([len(each) * np.var(each, axis=0) for each in seen.values()], axis=0).sum(axis=1) / pairs
    if mm <= max(TELLS, math.exp(SURE / math.sqrt(pairs))) * max(voxels, SMALL):
        return None
    depth, height, width = (float(f"{mm:.4g}") for mm in np.median([look.spacing for look in looks], axis=0))
    print(
        f"structures are more alike in voxels (spread of extents {math.sqrt(voxels):.2f}) than in mm "
        f"({math.sqrt(mm):.2f}): all images are taken to have voxels of {depth:g} x {height:g} x {width:g} mm "
        "(preprocess.nominal_spacing; where preprocess.spacing is given, headers are believed)",
        flush=True,
    )
    return depth, height, width


def spacing(looks: Sequence[Look], how: Preprocess, most: int) -> tuple[float, float, float]:
    """The median of the images, its finest axes made coarser until the median image has at most `most` voxels. Where
    some images are sagittal slices and others axial ones, all axes get the same: the geometric mean of all."""
    every = np.array([look.spacing for look in looks])
    thick = every.argmax(1)[every.max(1) > THICK * every.min(1)]
    median = np.median(every, axis=0)
    if how.dimensions != 2 and (np.bincount(thick, minlength=3) >= MIXED * len(looks)).sum() > 1:
        median = np.full(3, np.exp(np.log(every).mean()))
    extent = np.median([np.multiply(look.size, look.spacing) for look in looks], axis=0)
    free = [AXES.index(axis) for axis in seen_axes(how)]
    floor = median[free].min()
    while np.prod(np.maximum(1, extent[free] / np.maximum(median[free], floor))) > most:
        floor *= 1.02
    found = median.copy()
    found[free] = np.maximum(median[free], floor)
    return tuple(float(f"{mm:.4g}") for mm in found)


def patch_size(looks: Sequence[Look], how: Preprocess, most: int, model: Model) -> tuple[int, ...]:
    """The median image at the working spacing, its longest axes cut until no more than `most` voxels are left."""
    sizes = [working_size(look.size, look.spacing, how) for look in looks]
    edges = np.array(seen(np.median(sizes, axis=0), how))
    while np.prod(edges) > most:
        edges[int(edges.argmax())] *= 0.98
    return halved(edges, how, model)


def halved(edges: Sequence[float], how: Preprocess, model: Model) -> tuple[int, ...]:
    """The nearest edges that the levels of the network divide."""
    needed = multiples(strides(model, edges, seen(how.spacing, how)), len(edges))
    return tuple(max(1, round(float(edge) / least + 0.25)) * least for edge, least in zip(edges, needed, strict=True))


def intensity(looks: Sequence[Look], how: Preprocess) -> Preprocess:
    """CT keeps its scale, clipped to where the structures are; anything else is normalised by image."""
    # Hounsfield units mean the same in all images.
    units = float(np.mean([look.hu for look in looks]))
    if how.intensity == "auto":
        how = how.model_copy(update={"intensity": "ct" if how.window is not None or units > 0.8 else "zscore"})
    if how.intensity == "ct" and 0.2 < units < 0.8:
        print(
            f"only {units:.0%} of the images look like Hounsfield units: if the others are in other units, "
            "preprocess.intensity: zscore is the better choice",
            flush=True,
        )
    if how.intensity == "ct" and how.window is None:
        inside = np.concatenate([look.inside for look in looks])
        low, high = np.percentile(inside, (0.5, 99.5)) if inside.size else (-200.0, 300.0)
        how = how.model_copy(update={"window": (round(float(low)), round(max(float(high), float(low) + 1)))})
    return how
