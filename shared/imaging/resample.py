"""Volumes on another grid over the same extent."""

from collections.abc import Sequence

import numpy as np


def resized(volume: np.ndarray, size: Sequence[int]) -> np.ndarray:
    """(D, H, W) -> float32 of `size`, linear, with anti-aliasing where it shrinks; a few slices at a time."""
    import torch
    import torch.nn.functional as F

    depth, height, width = size
    planes = np.empty((volume.shape[0], height, width), np.float32)
    for start in range(0, len(planes), 16):
        piece = torch.from_numpy(np.ascontiguousarray(volume[start : start + 16], dtype=np.float32))
        if tuple(piece.shape[1:]) != (height, width):
            piece = F.interpolate(piece[:, None], (height, width), mode="bilinear", antialias=True)[:, 0]
        planes[start : start + 16] = piece.numpy()
    if len(planes) == depth:
        return planes
    # The slice axis as the rows of one picture: torch anti-aliases only 2D.
    rows = torch.from_numpy(planes).reshape(1, 1, len(planes), height * width)
    rows = F.interpolate(rows, (depth, height * width), mode="bilinear", antialias=True)
    found: np.ndarray = rows.reshape(depth, height, width).numpy()
    return found
