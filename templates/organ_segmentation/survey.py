"""What the training images are like, and the preprocessing that follows from it."""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from config import Config
from inference import Preprocess, working_size
from model import halvings
from readers import BadImage, load_mask, load_scan

from shared.trainkit.checks import DataProblems, Problem, read_all

LOOKED_AT = 16
"""Training samples from which `auto` is settled."""


@dataclass(frozen=True)
class Look:
    """One training image: (D, H, W) voxels and mm, its first percentile and values where structures are."""

    size: tuple[int, int, int]
    spacing: tuple[float, float, float]
    channels: int
    low: float
    inside: np.ndarray


def settle(config: Config, rows: Sequence[Mapping[str, Any]], root: Path, values: Mapping[str, int]) -> Preprocess:
    """No `auto` left. Raises DataProblems when none of the samples looked at can be read."""
    from dataset import load_case

    step = max(1, len(rows) // LOOKED_AT)
    drawn = list(rows)[::step][:LOOKED_AT]
    with ThreadPoolExecutor(2) as pool:
        looks = [look for look in pool.map(lambda row: glimpse(row, root), drawn) if look is not None]
    if not looks:
        found = read_all(rows, lambda row: load_case(row, root, values))
        raise DataProblems(found or [Problem("training images", "none of those looked at can be read")])
    how = config.preprocess
    if not how.channels:
        how = replace(how, channels=int(np.median([look.channels for look in looks])))
    if how.dimensions == "auto":
        how = replace(how, dimensions=2 if all(look.size[0] == 1 for look in looks) else 3)
    if how.spacing == "auto":
        how = replace(how, spacing=spacing(looks, how))
    if how.patch_size == "auto":
        how = replace(how, patch_size=patch_size(looks, how, config))
    return intensity(looks, how)


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


def patch_size(looks: Sequence[Look], how: Preprocess, config: Config) -> tuple[int, ...]:
    """The median image at the working spacing, its longest axes cut until no more than patch_voxels are left."""
    sizes = [working_size(look.size, look.spacing, how) for look in looks]
    edges = np.median(sizes, axis=0)[-int(how.dimensions) :]
    while np.prod(edges) > how.patch_voxels:
        edges[int(edges.argmax())] *= 0.98
    found = []
    for edge in edges:
        multiple = 2 ** halvings(config.model, round(float(edge)))
        found.append(max(1, round(float(edge) / multiple + 0.25)) * multiple)
    return tuple(found)


def intensity(looks: Sequence[Look], how: Preprocess) -> Preprocess:
    """CT keeps its scale, clipped to where the structures are; anything else is normalised by image."""
    if how.intensity == "auto":
        # Hounsfield units reach far below zero, and their zero means something.
        units = how.window is not None or np.median([look.low for look in looks]) < -500
        how = replace(how, intensity="ct" if units else "zscore")
    if how.intensity == "ct" and how.window is None:
        inside = np.concatenate([look.inside for look in looks])
        low, high = np.percentile(inside, (0.5, 99.5)) if inside.size else (-200.0, 300.0)
        how = replace(how, window=(round(float(low)), round(max(float(high), float(low) + 1))))
    return how
