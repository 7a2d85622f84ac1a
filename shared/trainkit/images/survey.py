"""What `auto` in `preprocess` becomes: settled from up to 24 evenly drawn training samples."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from shared.trainkit.checks import DataProblems, Problem
from shared.trainkit.exported.imaging.inference import Preprocess

Row = Mapping[str, Any]
LOOKED_AT = 24
"""Training samples from which `auto` is settled."""
HU = -500
"""Values of CT reach below it; no other modality's do."""


def unsettled(how: Preprocess) -> bool:
    return "auto" in (how.input_shape, how.intensity)


def settle(how: Preprocess, rows: Sequence[Row], look: Callable[[Row], np.ndarray]) -> Preprocess:
    """`look(row)` is an image of a training row in its own units, (D, H, W) or (H, W). Raises DataProblems."""
    if not unsettled(how):
        return how
    drawn = [rows[round(at)] for at in np.linspace(0, len(rows) - 1, min(LOOKED_AT, len(rows)))]
    images = list(glimpses(drawn, look))
    if not images:
        raise DataProblems(
            [Problem("training images", "none of those looked at can be read; give input_shape to see why")]
        )
    if how.input_shape == "auto":
        how = replace(how, input_shape=shape_of(images))
    if how.intensity == "auto":
        # Hounsfield units reach far below zero, and their zero means something: keep the scale.
        lows = [float(np.percentile(image, 1)) for image in images]
        if how.window is not None:
            how = replace(how, intensity="window")
        elif np.median(lows) < HU:
            body = np.concatenate([image[image > -1000].ravel()[::97] for image in images])
            low, high = np.percentile(body, (0.5, 99.5)) if body.size else (-1000, 400)
            how = replace(how, intensity="window", window=(round(float(low)), round(max(float(high), low + 1))))
        else:
            how = replace(how, intensity="zscore")
    return how


def glimpses(rows: Sequence[Row], look: Callable[[Row], np.ndarray]) -> Iterable[np.ndarray]:
    """Those that can be read; the others are reported, all of them, before training."""
    for row in rows:
        try:
            yield look(row)
        except (ValueError, OSError):
            continue


def shape_of(images: Sequence[np.ndarray]) -> tuple[int, int] | tuple[int, int, int]:
    volumes = [image.shape for image in images if image.ndim == 3 and image.shape[0] > 1]
    if not volumes:
        return plane([image.shape for image in images], 128)
    depth = float(np.median([shape[0] for shape in volumes]))
    return (fitting(depth, 8, 32), *plane(volumes, 64))


def plane(shapes: Sequence[tuple[int, ...]], largest: int) -> tuple[int, int]:
    height, width = (float(np.median([shape[axis] for shape in shapes])) for axis in (-2, -1))
    shrink = min(1.0, largest / max(height, width))
    return fitting(height * shrink, 16, largest), fitting(width * shrink, 16, largest)


def fitting(size: float, least: int, most: int) -> int:
    """Nearest multiple of eight within bounds."""
    return int(min(most, max(least, 8 * math.floor(size / 8 + 0.5))))
