"""Images as the network sees them.

predict.py imports this file, too, so that training and use cannot differ: of `shared` it may import `shared.imaging`
alone. Arrays are (C, D, H, W): volumes are turned to the nearest RAS+ axes, (D, H, W) = (inferior to superior,
posterior to anterior, left to right); a picture has D = 1. Spacing is in mm in that order. `how` is the section
`preprocess` of the configuration, settled.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from shared.imaging.resample import resized
from shared.imaging.volume import Image, fitted, size_dhw, spacing_dhw, to_dhw

AXES = "DHW"
ABOUT_ZERO = 0.02
"""Values up to this share of an image's 99.5th percentile are taken for background when it is normalised."""


def prepare(image: Image, how: Any) -> np.ndarray:
    """Channels of an image, turned, resampled and normalised: float32 (C, D, H, W). Raises BadImage."""
    image = fitted(image, how.channels or image.array.shape[-1])
    size = working_size(size_dhw(image), spacing_of(image, how), how)
    channels = np.moveaxis(image.array, -1, 0)
    return np.stack([normalise(resized(to_dhw(channel, image), size), how) for channel in channels])


def spacing_of(image: Image, how: Any) -> tuple[float, float, float]:
    """(D, H, W) in mm that the image is taken to have."""
    return tuple(how.nominal_spacing) if how.nominal_spacing else spacing_dhw(image)


def working_size(size: Sequence[int], spacing: Sequence[float], how: Any) -> tuple[int, int, int]:
    """Voxels (D, H, W) that an image has for the network."""
    wanted = [max(1, round(n * mm / to)) for n, mm, to in zip(size, spacing, how.spacing, strict=True)]
    if how.dimensions == 2:
        wanted[AXES.index(how.slices)] = size[AXES.index(how.slices)]
    return wanted[0], wanted[1], wanted[2]


def seen_axes(how: Any) -> str:
    """DHW, or in 2D what a slice has of it."""
    return AXES if how.dimensions == 3 else AXES.replace(how.slices, "")


def seen(values: Sequence[Any], how: Any) -> list[Any]:
    """Of three values [D, H, W] those of the axes that the network sees."""
    return [value for axis, value in zip(AXES, values, strict=True) if axis in seen_axes(how)]


def normalise(volume: np.ndarray, how: Any) -> np.ndarray:
    """`ct` is -1..1 within the window, anything else has mean 0 and spread 1 over the voxels that are not about 0."""
    if how.intensity == "ct":
        low, high = how.window
        scaled = (np.clip(volume, low, high) - low) / max(high - low, 1e-6) * 2 - 1
        return np.asarray(scaled, dtype=np.float32)
    # Grain of less than a grey level around 0 is background, too: it would halve the mean of a head in air.
    body = volume[np.abs(volume) > ABOUT_ZERO * np.percentile(np.abs(volume), 99.5)]
    body = body if body.size else volume.ravel()
    mean, spread = float(body.mean(dtype=np.float64)), float(body.std(dtype=np.float64))
    # A constant image becomes zeros, never a division by zero.
    scaled = (volume - mean) / spread if spread > 1e-6 * max(1.0, abs(mean)) else volume * 0
    return np.clip(scaled, -5, 5).astype(np.float32)


def patch_edges(how: Any) -> tuple[int, int, int]:
    """[D, H, W] of a patch also in 2D, where the axis of `slices` has 1."""
    edges = dict(zip(seen_axes(how), how.patch_size, strict=True))
    return edges.get("D", 1), edges.get("H", 1), edges.get("W", 1)


def margins(shape: Sequence[int], edges: Sequence[int]) -> list[tuple[int, int]]:
    """What an image (D, H, W) lacks of a patch, before and after it."""
    lacking = [max(0, edge - size) for size, edge in zip(shape, edges, strict=True)]
    return [(less // 2, less - less // 2) for less in lacking]


def pad(image: np.ndarray, widths: Sequence[tuple[int, int]]) -> np.ndarray:
    """(C, D, H, W) made larger with each channel's least value: air in a CT, background elsewhere."""
    if not any(before or after for before, after in widths):
        return np.ascontiguousarray(image)
    least = image.reshape(len(image), -1).min(1)
    return np.stack(
        [np.pad(channel, widths, constant_values=value) for channel, value in zip(image, least, strict=True)]
    )


def without_depth(image: np.ndarray, how: Any) -> np.ndarray:
    """In 2D without the axis of `slices`: (..., 1, H, W) -> (..., H, W)."""
    return image if how.dimensions == 3 else image.squeeze(AXES.index(how.slices) - 3)
