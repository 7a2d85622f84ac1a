"""What the training images are like, and the preprocessing that follows from it."""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from shared.trainkit.checks import DataProblems, Problem, read_all
from shared.trainkit.exported.segmenter.inference import Preprocess, working_size
from shared.trainkit.exported.segmenter.masks import load_mask
from shared.trainkit.exported.segmenter.network import ModelConfig
from shared.trainkit.exported.segmenter.readers import load_scan
from shared.trainkit.exported.segmenter.scan import BadImage
from shared.trainkit.segmentation.cases import data_root, label_values, load_case
from shared.trainkit.segmentation.rows import split_rows

LOOKED_AT = 16
"""Training samples from which `auto` is settled; up to three times as many, until four hold a structure."""
SEGRESNET_SECONDS = 1200
"""Of training on a GPU from which the slower SegResNet ends ahead of the UNet."""


@dataclass(frozen=True)
class Look:
    """One training image: (D, H, W) voxels and mm, its first percentile and values where structures are."""

    size: tuple[int, int, int]
    spacing: tuple[float, float, float]
    channels: int
    low: float
    inside: np.ndarray


def resolve(config: Any) -> Any:
    """Replace every `auto` of `model` and `preprocess` by what time, machine and evenly drawn training samples say. A
    second call changes nothing. Raises DataProblems when none of the samples looked at can be read."""
    if config.model.network == "auto":
        network = choose_network(config.training.train_seconds, torch.cuda.is_available())
        config = config.model_copy(update={"model": replace(config.model, network=network)})
    how = config.preprocess
    settled = "auto" not in (how.dimensions, how.spacing, how.patch_size, how.intensity) and how.channels
    if settled and (how.intensity != "ct" or how.window):
        return config
    found = settle(how, config.model, split_rows(config, "train"), data_root(config), label_values(config))
    return config.model_copy(update={"preprocess": found})


def choose_network(seconds: float | None, gpu: bool) -> str:
    return "segresnet" if gpu and (seconds is None or seconds >= SEGRESNET_SECONDS) else "unet"


def settle(
    how: Preprocess, model: ModelConfig, rows: Sequence[Mapping[str, Any]], root: Path, values: Mapping[str, int]
) -> Preprocess:
    looks = look_around(rows, root)
    if not looks:
        found = read_all(rows, lambda row: load_case(row, root, values))
        raise DataProblems(found or [Problem("training images", "none of those looked at can be read")])
    if not how.channels:
        how = replace(how, channels=int(np.median([look.channels for look in looks])))
    if how.dimensions == "auto":
        how = replace(how, dimensions=2 if all(look.size[0] == 1 for look in looks) else 3)
    if how.spacing == "auto":
        how = replace(how, spacing=spacing(looks, how))
    if how.patch_size == "auto":
        how = replace(how, patch_size=patch_size(looks, how, model))  # type: ignore[arg-type]
    return intensity(looks, how)


def look_around(rows: Sequence[Mapping[str, Any]], root: Path) -> list[Look]:
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


def glimpse(row: Mapping[str, Any], root: Path) -> Look | None:
    """None where the sample cannot be read: that is reported with all the others before training."""
    try:
        scan = load_scan([root / str(file) for file in row["files"]])
        mask, _ = load_mask(root / str(row["target"]))
    except (BadImage, OSError):
        return None
    volume = scan.data[0]
    inside = volume[mask != 0] if mask.shape == volume.shape else np.empty(0, np.float32)
    thin = np.random.default_rng(0).choice(inside, min(inside.size, 20_000), replace=False)
    low = float(np.percentile(volume.ravel()[:: max(1, volume.size // 200_000)], 1))
    return Look(scan.grid.size, scan.grid.spacing, len(scan.data), low, thin)


def spacing(looks: Sequence[Look], how: Preprocess) -> tuple[float, float, float]:
    """The median of the images, its finest axes made coarser until the median image has no more than max_voxels."""
    median = np.median([look.spacing for look in looks], axis=0)
    extent = np.median([np.multiply(look.size, look.spacing) for look in looks], axis=0)
    free = slice(1 if how.dimensions == 2 else 0, None)
    floor = median[free].min()
    while np.prod(np.maximum(1, extent[free] / np.maximum(median[free], floor))) > how.max_voxels:
        floor *= 1.02
    found = median.copy()
    found[free] = np.maximum(median[free], floor)
    return tuple(float(f"{mm:.4g}") for mm in found)  # type: ignore[return-value]


def patch_size(looks: Sequence[Look], how: Preprocess, model: ModelConfig) -> tuple[int, ...]:
    """The median image at the working spacing, its longest axes cut until no more than patch_voxels are left."""
    sizes = [working_size(look.size, look.spacing, how) for look in looks]
    edges = np.median(sizes, axis=0)[-int(how.dimensions) :]
    while np.prod(edges) > how.patch_voxels:
        edges[int(edges.argmax())] *= 0.98
    found = []
    for edge in edges:
        multiple = 2 ** model.halvings(round(float(edge)))
        found.append(max(1, round(float(edge) / multiple + 0.25)) * multiple)
    return tuple(found)


def intensity(looks: Sequence[Look], how: Preprocess) -> Preprocess:
    """CT keeps its scale, clipped to where the structures are; anything else is normalised by image."""
    # Hounsfield units reach far below zero, and their zero means something.
    units = float(np.mean([look.low < -500 for look in looks]))
    if how.intensity == "auto":
        how = replace(how, intensity="ct" if how.window is not None or units > 0.8 else "zscore")
    if how.intensity == "ct" and 0.2 < units < 0.8:
        print(
            f"only {units:.0%} of the images reach below -500 as CT does: if the others are not in Hounsfield units, "
            "preprocess.intensity: zscore is the better choice",
            flush=True,
        )
    if how.intensity == "ct" and how.window is None:
        inside = np.concatenate([look.inside for look in looks])
        low, high = np.percentile(inside, (0.5, 99.5)) if inside.size else (-200.0, 300.0)
        how = replace(how, window=(round(float(low)), round(max(float(high), float(low) + 1))))
    return how
