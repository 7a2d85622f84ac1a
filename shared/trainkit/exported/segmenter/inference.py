"""From voxels to what the network sees, and from its answers to a mask on the input's own grid. Training and the
delivered package run this same file.

Axis order: (C, D, H, W), turned by `scan.Grid`; spacing in mm in that order. In 2D D counts slices, each by itself.
Memory is bounded by the image and one window's height of probabilities, whatever the number of slices.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
import torch.nn.functional as F

from .scan import BadImage, Scan

OVERLAP = 0.5
"""Of neighbouring windows."""


@dataclass(frozen=True)
class Preprocess:
    """What is done to every image; stored in the package as it was in training.

    `spacing` [D, H, W] in mm is what images are resampled to (in 2D, D is as in the file: slices are seen one by one);
    `patch_size` [D, H, W] or [H, W] voxels of that spacing is what the network sees at once. `intensity`: `ct` clips to
    `window` = [low, high] in the image's own units and scales to -1..1, `zscore` is by image and channel over the
    voxels that are not 0. `auto` and 0 channels stand only in a configuration: training replaces them by what it found
    in the training images. `max_voxels` and `patch_voxels` bound what `auto` makes of spacing and patch.
    """

    __pydantic_config__ = {"extra": "forbid"}
    dimensions: Literal[2, 3, "auto"] = "auto"
    spacing: tuple[float, float, float] | Literal["auto"] = "auto"
    max_voxels: int = 1_000_000
    patch_size: tuple[int, int] | tuple[int, int, int] | Literal["auto"] = "auto"
    patch_voxels: int = 2**18
    intensity: Literal["auto", "ct", "zscore"] = "auto"
    window: tuple[float, float] | None = None
    channels: int = 0

    @property
    def patch(self) -> tuple[int, int, int]:
        """[D, H, W] also in 2D, where D is 1."""
        if self.patch_size == "auto":
            raise ValueError("patch_size still says auto; training settles it first")
        return (1, *self.patch_size) if len(self.patch_size) == 2 else self.patch_size


def working_size(size: Sequence[int], spacing: Sequence[float], how: Preprocess) -> tuple[int, int, int]:
    """Voxels (D, H, W) that an image has for the network."""
    if how.spacing == "auto":
        raise ValueError("spacing still says auto; training settles it first")
    wanted = [max(1, round(n * mm / to)) for n, mm, to in zip(size, spacing, how.spacing, strict=True)]
    return (size[0] if how.dimensions == 2 else wanted[0], wanted[1], wanted[2])


def prepare(scan: Scan, how: Preprocess) -> np.ndarray:
    """Channels of a scan, turned, resampled and normalised: float32 (C, D, H, W). Raises BadImage."""
    if how.channels and len(scan.data) != how.channels:
        raise BadImage(f"has {len(scan.data)} channel(s) where the model takes {how.channels}")
    size = working_size(scan.grid.size, scan.grid.spacing, how)
    return np.stack([normalise(resize(scan.grid.turn(channel), size), how) for channel in scan.data])


def normalise(volume: np.ndarray, how: Preprocess) -> np.ndarray:
    if how.intensity == "ct":
        if how.window is None:
            raise ValueError("intensity: ct needs window: [low, high]")
        low, high = how.window
        scaled = (np.clip(volume, low, high) - low) / max(high - low, 1e-6) * 2 - 1
        return np.asarray(scaled, dtype=np.float32)
    if how.intensity != "zscore":
        raise ValueError(f"intensity {how.intensity!r} is none of ct, zscore; training settles auto first")
    body = volume[volume != 0]
    body = body if body.size else volume.ravel()
    mean, spread = float(body.mean(dtype=np.float64)), float(body.std(dtype=np.float64))
    # A constant image becomes zeros, never a division by zero.
    scaled = (volume - mean) / spread if spread > 1e-6 * max(1.0, abs(mean)) else volume * 0
    return np.clip(scaled, -5, 5).astype(np.float32)


def resize(volume: np.ndarray, size: Sequence[int]) -> np.ndarray:
    """(D, H, W) -> float32 of `size`, linear, with anti-aliasing where it shrinks; a few slices at a time."""
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


def segment(
    network: Any,
    image: np.ndarray,
    size: Sequence[int],
    how: Preprocess,
    device: str,
    scores: np.ndarray | None = None,
) -> np.ndarray:
    """Class numbers (D, H, W) on a grid of `size` over the same extent as `image` (C, d, h, w), 0 background.

    Probabilities are interpolated slice by slice before the largest is taken, so that edges are not those of the
    coarser grid. `scores` (D, H, W), where given, is filled with the probability that a voxel is not background.
    """
    result: np.ndarray | None = None
    ready, begin, done = None, 0, 0
    scale = image.shape[1] / size[0]
    for slices in window_slices(network, image, how, device):
        ready = slices if ready is None else torch.cat([ready, slices], 1)
        if result is None:
            result = np.zeros(tuple(size), np.uint8 if ready.shape[0] <= 256 else np.uint16)
        end = begin + ready.shape[1]
        while done < size[0]:
            place = min(max((done + 0.5) * scale - 0.5, 0.0), image.shape[1] - 1)
            low = math.floor(place)
            high = min(low + 1, image.shape[1] - 1)
            if high >= end:
                break
            here = torch.lerp(ready[:, low - begin], ready[:, high - begin], place - low)
            if tuple(here.shape[1:]) != tuple(size[1:]):
                here = F.interpolate(here[None], tuple(size[1:]), mode="bilinear")[0]
            result[done] = here.argmax(0).cpu().numpy()
            if scores is not None:
                scores[done] = (1 - here[0]).cpu().numpy()
            done += 1
        if done < size[0]:
            # Slices before the next one's are not needed any more; it may lie beyond what is ready.
            past = min(math.floor(max((done + 0.5) * scale - 0.5, 0.0)), end) - begin
            ready, begin = ready[:, past:], begin + past
    assert result is not None and done == size[0]
    return result


def window_slices(network: Any, image: np.ndarray, how: Preprocess, device: str) -> Iterator[torch.Tensor]:
    """Probabilities (classes, k, h, w) of the next k slices, from overlapping windows with Gaussian weights."""
    patch = how.patch
    shape = image.shape[1:]
    padded = [(0, max(0, edge - size)) for size, edge in zip(shape, patch, strict=True)]
    full = torch.from_numpy(pad(image, padded))
    weight = gaussian(patch).to(device)
    places = [starts(size, edge) for size, edge in zip(full.shape[1:], patch, strict=True)]
    depth, height, width = patch
    sums: torch.Tensor | None = None
    weights = torch.zeros(1, depth, *full.shape[2:], device=device)
    for number, top in enumerate(places[0]):
        for row in places[1]:
            for column in places[2]:
                window = full[None, :, top : top + depth, row : row + height, column : column + width].to(device)
                chances = probabilities(network, window, how)
                if sums is None:
                    sums = torch.zeros(chances.shape[0], depth, *full.shape[2:], device=device)
                sums[:, :, row : row + height, column : column + width] += chances * weight
                weights[:, :, row : row + height, column : column + width] += weight
        assert sums is not None
        last = number + 1 == len(places[0])
        # Slices that no later window reaches are done.
        complete = (shape[0] if last else places[0][number + 1]) - top
        yield (sums[:, :complete] / weights[:, :complete])[:, :, : shape[1], : shape[2]]
        sums, weights = rolled(sums, complete), rolled(weights, complete)


def rolled(sums: torch.Tensor, count: int) -> torch.Tensor:
    """The first slices gone, empty ones at the end."""
    return torch.cat([sums[:, count:], torch.zeros_like(sums[:, :count])], 1)


def probabilities(network: Any, window: torch.Tensor, how: Preprocess) -> torch.Tensor:
    """(1, C, d, h, w) -> (classes, d, h, w) float32."""
    flat = how.dimensions == 2
    with torch.inference_mode(), torch.autocast("cuda", enabled=window.device.type == "cuda"):
        logits = network(window[:, :, 0] if flat else window)["logits"]
    found = logits.float().softmax(1)[0]
    return found[:, None] if flat else found


def starts(size: int, edge: int) -> list[int]:
    """Where windows of `edge` begin on an axis, evenly spread."""
    count = 1 if edge == 1 else math.ceil((size - edge) / max(1, round(edge * (1 - OVERLAP)))) + 1
    return [round(place) for place in np.linspace(0, size - edge, size if edge == 1 else count)]


def gaussian(patch: Sequence[int]) -> torch.Tensor:
    """(d, h, w): 1 in the middle, falling with an eighth of the edge, never 0."""
    weight = torch.ones(())
    for edge in patch:
        axis = (torch.arange(edge) - (edge - 1) / 2) / max(edge / 8, 1e-6)
        weight = weight[..., None] * torch.exp(-0.5 * axis**2)
    return weight.clamp_min(1e-3)


def pad(image: np.ndarray, widths: Sequence[tuple[int, int]]) -> np.ndarray:
    """(C, D, H, W) made larger with each channel's least value: air in a CT, background elsewhere."""
    if not any(before or after for before, after in widths):
        return np.ascontiguousarray(image)
    least = image.reshape(len(image), -1).min(1)
    return np.stack(
        [np.pad(channel, widths, constant_values=value) for channel, value in zip(image, least, strict=True)]
    )
