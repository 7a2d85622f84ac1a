"""Changes to a training patch that leave the anatomy true: mirroring where allowed, small turns, brightness, noise."""

import math
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

SIDES = {"left", "right", "l", "r", "lt", "rt", "links", "rechts"}


def sided(names: Sequence[str]) -> bool:
    """Whether a name speaks of a side."""
    return any(SIDES & set(re.split(r"[^a-z]+", name.lower())) for name in names)


def flip_axes(wanted: Any, names: Sequence[str], dims: int, many: int = 2) -> tuple[int, ...]:
    """Axes of (D, H, W) that may be mirrored; `auto` is W unless a name speaks of a side or there are more structures
    than `many`, which their places tell apart."""
    axes = wanted.flip_axes
    if axes == "auto":
        axes = () if sided(names) or len(names) > many else ("W",)
    return tuple("DHW".index(axis) for axis in axes if axis != "D" or dims == 3)


def augment(
    image: np.ndarray, target: np.ndarray, wanted: Any, axes: Sequence[int], generator: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Image (C, D, H, W) in preprocessed units, class numbers (D, H, W)."""
    for axis in axes:
        if generator.random() < 0.5:
            image, target = np.flip(image, axis + 1), np.flip(target, axis)
    if (wanted.rotate_degrees or wanted.scale) and generator.random() < wanted.probability:
        image, target = turned(image, target, wanted, generator)
    image = image.astype(np.float32)
    if wanted.brightness and generator.random() < wanted.probability:
        factor, shift = 1 + wanted.brightness * generator.uniform(-1, 1, 2)
        image = image * factor + (shift - 1)
    if wanted.noise and generator.random() < wanted.probability / 2:
        image = image + generator.normal(0, wanted.noise * generator.random(), image.shape).astype(np.float32)
    return image, target


def turned(
    image: np.ndarray, target: np.ndarray, wanted: Any, generator: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Turned and scaled in the plane of the slices, about the middle; structures keep hard edges."""
    angle = math.radians(wanted.rotate_degrees) * generator.uniform(-1, 1)
    scale = 1 + wanted.scale * generator.uniform(-1, 1)
    height, width = target.shape[1:]
    cosine, sine = math.cos(angle) / scale, math.sin(angle) / scale
    # Coordinates run from -1 to 1 over either axis, whatever their lengths.
    theta = torch.tensor([[[cosine, -sine * height / width, 0], [sine * width / height, cosine, 0]]])
    depth = target.shape[0]
    grid = F.affine_grid(theta, [1, 1, height, width], align_corners=False).expand(depth, -1, -1, -1)
    planes = torch.from_numpy(np.ascontiguousarray(image.transpose(1, 0, 2, 3), dtype=np.float32))
    classes = torch.from_numpy(np.ascontiguousarray(target[:, None], dtype=np.float32))
    moved = F.grid_sample(planes, grid, mode="bilinear", padding_mode="border", align_corners=False)
    kept = F.grid_sample(classes, grid, mode="nearest", padding_mode="border", align_corners=False)
    return moved.numpy().transpose(1, 0, 2, 3), kept[:, 0].numpy().astype(target.dtype)
