"""Augmentation of batches: tensors on whatever device they are, each view of each case changed in its own way.

Channels of an image are moved, bent and scaled alike, so that they stay on one grid and colour keeps its hue; noise is
drawn for each by itself, as it is measured.
"""

import math
from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F

MODALITIES: dict[str, dict[str, float]] = {
    # HU mean the same on every scanner: no more than its calibration drifts, about a hundredth of the window.
    "ct": {"brightness": 0.01, "gamma": 0.0, "bias_field": 0.0, "noise": 0.05},
    # No scale of its own; contrast differs by sequence and scanner, brightness by the place in the coil.
    "mr": {"brightness": 0.1, "gamma": 0.3, "bias_field": 0.3, "noise": 0.05},
    # Exposure and the maker's curve differ.
    "xray": {"brightness": 0.1, "gamma": 0.2, "bias_field": 0.0, "noise": 0.05},
    # Gain and the depth's compensation of it differ, and speckle is the picture.
    "ultrasound": {"brightness": 0.1, "gamma": 0.2, "bias_field": 0.2, "noise": 0.1},
    "other": {"brightness": 0.1, "gamma": 0.0, "bias_field": 0.0, "noise": 0.05},
}


def settle(wanted: Any, how: Any, sided: bool) -> Any:
    """The section `augmentation` without `auto`. `sided`: left and right mean something else."""
    modality = wanted.modality
    if modality == "auto":  # a window that begins below 0 is one of HU
        modality = "ct" if how.intensity == "window" and how.window is not None and how.window[0] < 0 else "other"
    values: dict[str, Any] = {"modality": modality}
    values |= {key: value for key, value in MODALITIES[modality].items() if getattr(wanted, key) == "auto"}
    if wanted.flip_axes == "auto":
        values["flip_axes"] = () if sided else ("W",)
    return wanted.model_copy(update=values)


class Augment:
    """(B, views * channels, [D,] H, W) -> the same shape. A view of zeros is one that a case has not, and stays so."""

    of_batches = True
    """Not of samples, by the dataset itself: whoever tries a step without train.py goes by this."""

    def __init__(self, wanted: Any, whole: Sequence[int]) -> None:
        """`wanted` is the settled section `augmentation`, `whole` the channels and shape of one view."""
        self.wanted = wanted
        self.channels = whole[0]
        axes = {"D": -3, "H": -2, "W": -1}
        self.flips = [axes[axis] for axis in wanted.flip_axes if axis != "D" or len(whole) == 4]

    def __repr__(self) -> str:
        parts = self.wanted.model_dump(exclude={"modality", "probability", "flip_axes"})
        on = ", ".join(f"{name} {value:g}" for name, value in parts.items() if value)
        flips = f"flips of {' and '.join(self.wanted.flip_axes)}, " if self.flips else "no flips, "
        return f"{flips}{on or 'nothing else'} (as for {self.wanted.modality}, each with {self.wanted.probability:g})"

    @torch.no_grad()
    def __call__(self, batch: torch.Tensor) -> torch.Tensor:
        views = batch.unflatten(1, (-1, self.channels)).flatten(0, 1)
        there = views.flatten(1).any(1)
        changed = views.clone()
        changed[there] = self.noisy(self.bent(self.moved(self.flipped(views[there]))))
        return changed.unflatten(0, (len(batch), -1)).flatten(1, 2)

    def flipped(self, views: torch.Tensor) -> torch.Tensor:
        for axis in self.flips:
            views = torch.where(self.chosen(views, 0.5), views.flip(axis), views)
        return views

    def moved(self, views: torch.Tensor) -> torch.Tensor:
        """Turned in the plane, scaled along each axis and shifted; what comes in from outside repeats the border."""
        wanted = self.wanted
        picked = self.chosen(views).flatten()
        count, dims = int(picked.sum()), views.ndim - 2
        if not count or not (wanted.rotate_degrees or wanted.scale or wanted.shift):
            return views
        angle = self.between(count, views, math.radians(wanted.rotate_degrees))
        # Axes in the order of affine_grid: W, H, then D.
        scale = 1 + self.between((count, dims), views, wanted.scale)
        shift = self.between((count, dims), views, 2 * wanted.shift)
        turned = torch.stack([angle.cos(), -angle.sin(), angle.sin(), angle.cos()], 1).view(count, 2, 2)
        # affine_grid counts each axis from -1 to 1, whatever its length.
        size = torch.tensor(views.shape[:-3:-1], device=views.device)
        plane = torch.cat([turned * scale[:, None, :2] * size[None, :] / size[:, None], shift[:, :2, None]], 2)
        grid = F.affine_grid(plane, [count, 1, *views.shape[-2:]], align_corners=False)
        moved = F.grid_sample(views[picked].flatten(1, -3), grid, padding_mode="border", align_corners=False)
        if dims == 3:  # the depth by itself: the same as all at once, in a quarter of the time
            depth = views.shape[2]
            places = torch.arange(depth, device=views.device)
            seen = ((2 * places + 1) / depth - 1) * scale[:, 2:] + shift[:, 2:]  # (B, D), from -1 to 1
            seen = (((seen + 1) * depth - 1) / 2).clamp(0, depth - 1)
            weights = (1 - (seen[:, :, None] - places).abs()).clamp(min=0)
            moved = weights[:, None] @ moved.unflatten(1, views.shape[1:3]).flatten(-2)
        views = views.clone()
        views[picked] = moved.view(count, *views.shape[1:])
        return views

    def bent(self, views: torch.Tensor) -> torch.Tensor:
        """Bias field, contrast, brightness."""
        wanted, some = self.wanted, (len(views), *[1] * (views.ndim - 1))
        if wanted.bias_field or wanted.gamma:
            # Both act on what was measured, which begins at zero.
            flat = views.flatten(1)
            low, high = (found.view(some) for found in flat.aminmax(dim=1))
            measured = views - low
            if wanted.bias_field:
                coarse = self.between((len(views), 1, *[3] * (views.ndim - 2)), views, wanted.bias_field)
                mode = "trilinear" if views.ndim == 5 else "bilinear"
                field = F.interpolate(coarse * self.chosen(views), views.shape[2:], mode=mode, align_corners=True)
                measured = measured * field.exp()
            if wanted.gamma:
                least, most = 1 - wanted.gamma, 1 / (1 - wanted.gamma)
                power = least + (most - least) * torch.rand(some, device=views.device)
                power = torch.where(self.chosen(views), power, 1.0)
                span = (high - low).clamp(min=1e-6)
                measured = (measured / span) ** power * span
            views = measured + low
        if wanted.brightness:
            views = views * (1 + self.between(some, views, wanted.brightness) * self.chosen(views))
            views = views + self.between(some, views, wanted.brightness) * self.chosen(views)
        return views

    def noisy(self, views: torch.Tensor) -> torch.Tensor:
        if not self.wanted.noise:
            return views
        some = (len(views), *[1] * (views.ndim - 1))
        deviation = torch.rand(some, device=views.device) * self.wanted.noise
        return views + torch.randn_like(views) * deviation * self.chosen(views, self.wanted.probability / 2)

    def chosen(self, views: torch.Tensor, probability: float | None = None) -> torch.Tensor:
        """Which views a part changes: (B, 1, ...) of truth values."""
        chance = self.wanted.probability if probability is None else probability
        return torch.rand((len(views), *[1] * (views.ndim - 1)), device=views.device) < chance

    def between(self, shape: Any, views: torch.Tensor, most: float) -> torch.Tensor:
        """Drawn evenly from -most to most."""
        return (2 * torch.rand(shape, device=views.device) - 1) * most
