"""Networks and losses. Exported with the package: imports torch and MONAI, and nothing of training.

Kept by whoever edits this file: `build(config, num_classes)`, a module whose `forward(image, labels=None)` returns
{"loss", "logits"}; image is (B, C, D, H, W) or (B, C, H, W), labels (B, D, H, W) or (B, H, W) with class numbers,
0 background; logits (B, 1 + num_classes, D, H, W) or (B, 1 + num_classes, H, W).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import nn


@dataclass(frozen=True)
class ModelConfig:
    """`network`: unet or segresnet (MONAI's), each in 2D and 3D.

    `width`: channels of the first level, doubled on each of the `levels`. `residual_units` of unet; segresnet has its
    own blocks. An axis of a patch that has become short is not halved further by unet.
    """

    __pydantic_config__ = {"extra": "forbid"}
    network: Literal["unet", "segresnet"] = "unet"
    width: int = 16
    levels: int = 4
    residual_units: int = 0
    dropout: float = 0.0


@dataclass(frozen=True)
class LossConfig:
    """Dice over the structures of the whole batch, and cross-entropy over all voxels, by their weights."""

    __pydantic_config__ = {"extra": "forbid"}
    dice_weight: float = 1.0
    cross_entropy_weight: float = 1.0


class Segmenter(nn.Module):
    def __init__(self, network: nn.Module, loss: LossConfig) -> None:
        super().__init__()
        self.network = network
        self.loss = loss

    def forward(self, image: torch.Tensor, labels: torch.Tensor | None = None) -> dict[str, torch.Tensor]:
        logits = self.network(image)
        if labels is None:
            return {"logits": logits}
        return {"loss": self.compute_loss(logits.float(), labels), "logits": logits}

    def compute_loss(self, logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """Without a one-hot copy of the labels, which would be the largest tensor of all."""
        classes = logits.shape[1]
        likelihood = F.log_softmax(logits, 1)
        hit = likelihood.gather(1, labels[:, None])
        wanted = torch.bincount(labels.flatten(), minlength=classes).to(logits.dtype)
        overlap = torch.zeros_like(wanted).index_add(0, labels.flatten(), hit.exp().flatten())
        found = likelihood.exp().transpose(0, 1).flatten(1).sum(1)
        dice = (2 * overlap + 1) / (found + wanted + 1)
        return self.loss.dice_weight * (1 - dice[1:].mean()) - self.loss.cross_entropy_weight * hit.mean()


def halvings(config: ModelConfig, size: int) -> int:
    """How often an axis of that many voxels is halved."""
    if config.network == "segresnet":
        return config.levels - 1
    count = 0
    while count < config.levels - 1 and size >= 8 * 2**count:
        count += 1
    return count


def build(config: Any, num_classes: int) -> Segmenter:
    """`config` needs `.preprocess.patch_size` and `.preprocess.channels` (resolved), `.model`, `.loss`; `num_classes`
    counts structures, without background."""
    wanted: ModelConfig = config.model
    patch: Sequence[int] = config.preprocess.patch_size
    halved = [halvings(wanted, size) for size in patch]
    wrong = [size for size, count in zip(patch, halved, strict=True) if size % 2**count]
    if wrong:
        needed = [2**count for count in halved]
        raise ValueError(f"{wanted.network} halves the axes: preprocess.patch_size must be multiples of {needed}")
    # Late: the import takes seconds, and the configuration is checked before.
    from monai.networks import nets

    dims, channels, classes = len(patch), config.preprocess.channels, num_classes + 1
    if wanted.network == "segresnet":
        network: nn.Module = nets.SegResNet(
            spatial_dims=dims,
            init_filters=wanted.width,
            in_channels=channels,
            out_channels=classes,
            dropout_prob=wanted.dropout or None,
            norm=("INSTANCE", {"affine": True}),
            blocks_down=(1,) * wanted.levels,
            blocks_up=(1,) * (wanted.levels - 1),
        )
    else:
        network = nets.UNet(
            spatial_dims=dims,
            in_channels=channels,
            out_channels=classes,
            channels=[wanted.width * 2**level for level in range(wanted.levels)],
            strides=[tuple(2 if level < count else 1 for count in halved) for level in range(wanted.levels - 1)],
            num_res_units=wanted.residual_units,
            dropout=wanted.dropout,
            norm=("INSTANCE", {"affine": True}),
        )
    return Segmenter(network, config.loss)
