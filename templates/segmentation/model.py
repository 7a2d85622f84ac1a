"""Network and loss. predict.py imports this file, too: of `shared` it may import `shared.imaging` alone.

Kept by whoever edits it: `build(config, num_classes)` -> a module whose `forward(image, labels=None)` returns {"loss",
"logits"}; image is (B, C, D, H, W) or (B, C, H, W), labels (B, D, H, W) or (B, H, W) with class numbers, 0 background;
logits are (B, 1 + num_classes, D, H, W) or (B, 1 + num_classes, H, W).
"""

import math
from typing import Any

import torch
import torch.nn.functional as F
from data import seen
from torch import nn


class Segmenter(nn.Module):
    """A network that gives each voxel a score a class, and the loss that it learns by."""

    def __init__(self, network: nn.Module, loss: nn.Module) -> None:
        super().__init__()
        self.network, self.loss = network, loss

    def __repr__(self) -> str:
        """Class of the network, the channels of its convolutions and how many these are."""
        layers = [layer for layer in self.network.modules() if hasattr(layer, "out_channels")]
        widths = [int(layer.out_channels) for layer in layers if hasattr(layer, "weight")]
        name = type(self.network).__name__
        if not widths:
            return name
        return f"{name}, {len(widths)} convolutions of {min(widths[:-1] or widths)} to {max(widths)} channels"

    def forward(self, image: torch.Tensor, labels: torch.Tensor | None = None) -> dict[str, torch.Tensor]:
        logits = self.network(image)
        if labels is None:
            return {"logits": logits}
        return {"loss": self.loss(logits.float(), labels), "logits": logits}


class OverlapAndEntropy(nn.Module):
    """Overlap (Tversky; Dice where `missed` is 0.5) of a batch, and cross-entropy over all voxels, by their weights. A
    voxel of a class that has n of them counts n to the power of minus `rare` in the cross-entropy.

    With `present_only` a structure that the batch has not is left out of the overlap, and a batch without any has
    cross-entropy alone. Made without MONAI's one-hot copy of the labels, which would be the largest tensor of all.
    """

    def __init__(
        self, overlap_weight: float, cross_entropy_weight: float, missed: float, present_only: bool, rare: float = 0.0
    ) -> None:
        super().__init__()
        self.overlap_weight, self.cross_entropy_weight = overlap_weight, cross_entropy_weight
        self.missed, self.present_only, self.rare = missed, present_only, rare

    def forward(self, logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        likelihood = logits.log_softmax(1)
        hit = -F.nll_loss(likelihood, labels, reduction="none")
        # By class: voxels that there are, probability on them, and probability in all.
        wanted = torch.bincount(labels.flatten(), minlength=logits.shape[1]).to(logits.dtype)
        weight = (wanted + 10).pow(-self.rare)[labels]
        loss = -self.cross_entropy_weight * (weight * hit).sum() / weight.sum()
        both = torch.zeros_like(wanted).index_add(0, labels.flatten(), hit.exp().flatten())
        found = likelihood.exp().transpose(0, 1).flatten(1).sum(1)
        seen = wanted[1:] > 0 if self.present_only else torch.ones_like(wanted[1:], dtype=torch.bool)
        if not seen.any():
            return loss
        both, found, wanted = both[1:][seen], found[1:][seen], wanted[1:][seen]
        wrong = (1 - self.missed) * (found - both) + self.missed * (wanted - both)
        return loss + self.overlap_weight * (1 - (both + 0.5) / (both + wrong + 0.5)).mean()

    def extra_repr(self) -> str:
        shown = ("overlap_weight", "cross_entropy_weight", "missed", "present_only", "rare")
        return ", ".join(f"{name}={getattr(self, name)}" for name in shown)


def build(config: Any, num_classes: int) -> Segmenter:
    """`config` needs `.preprocess.patch_size` and `.preprocess.channels` (settled), `.model`, `.loss`; `num_classes`
    counts structures, without background. Raises ValueError for a patch that does not fit."""
    how, loss = config.preprocess, config.loss
    weights = loss.overlap_weight, loss.cross_entropy_weight, loss.missed, loss.present_only, loss.rare
    network = make_network(config.model, how.patch_size, seen(how.spacing, how), how.channels, num_classes + 1)
    return Segmenter(network, OverlapAndEntropy(*weights))


def make_network(wanted: Any, patch: Any, spacing: Any, channels: int, classes: int) -> nn.Module:
    """MONAI's UNet or SegResNet; `patch` is (D, H, W) or (H, W), `spacing` its axes' mm, `classes` has background."""
    steps = strides(wanted, patch, spacing)
    needed = multiples(steps, len(patch))
    if any(size % multiple for size, multiple in zip(patch, needed, strict=True)):
        raise ValueError(f"{wanted.network} halves the axes: preprocess.patch_size must be multiples of {needed}")
    # Late: the import takes seconds, and the configuration is checked before.
    from monai_parts import nets

    shared: dict[str, Any] = {
        "spatial_dims": len(patch),
        "in_channels": channels,
        "out_channels": classes,
        "norm": ("INSTANCE", {"affine": True}),
    }
    if wanted.network == "segresnet":
        return nets.SegResNet(
            init_filters=wanted.width,
            dropout_prob=wanted.dropout or None,
            blocks_down=(1,) * wanted.levels,
            blocks_up=(1,) * (wanted.levels - 1),
            **shared,
        )
    network = nets.UNet(
        channels=[wanted.width * 2**level for level in range(wanted.levels)],
        strides=steps,
        num_res_units=0,  # with two Dice was lower after as many epochs, on a CPU and a GPU
        dropout=wanted.dropout,
        **shared,
    )
    # Kernels of the last layer that do not overlap: with MONAI's, many structures take half of a step on a CPU.
    last = network.model[-1].conv
    network.model[-1] = type(last)(last.in_channels, classes, last.stride, last.stride)
    return network


def strides(wanted: Any, patch: Any, spacing: Any) -> list[tuple[int, ...]]:
    """How much coarser each level makes each axis: 2 or 1. With unet an axis that has become short stays, and one of
    twice the spacing of another waits for it, as in nnU-Net (Isensee and others, 2021): slices that lie 5 mm apart are
    not merged before their pixels are as coarse."""
    sizes, found = [float(size) for size in patch], []
    mm = [float(each) for each in spacing]
    for _ in range(wanted.levels - 1):
        finest = min((each for each, size in zip(mm, sizes, strict=True) if size >= 8), default=0.0)
        waits = [size < 8 or each >= 2 * finest for each, size in zip(mm, sizes, strict=True)]
        found.append(tuple(1 if wait and wanted.network == "unet" else 2 for wait in waits))
        sizes = [size / step for size, step in zip(sizes, found[-1], strict=True)]
        mm = [each * step for each, step in zip(mm, found[-1], strict=True)]
    return found


def multiples(steps: list[tuple[int, ...]], axes: int) -> list[int]:
    """Of which the edges of a patch have to be."""
    return [math.prod(step[axis] for step in steps) for axis in range(axes)]
