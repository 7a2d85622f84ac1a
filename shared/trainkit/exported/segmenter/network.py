"""The networks that model.py puts a loss on: MONAI's, each in 2D and 3D. Exported with the package."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import nn


@dataclass(frozen=True)
class ModelConfig:
    """`network`: unet or segresnet; `auto` (a configuration's only) is segresnet with a GPU and twenty minutes or more.

    `width`: channels of the first level, doubled on each of the `levels`. `residual_units` of unet; segresnet has its
    own blocks. An axis of a patch that has become short is not halved further by unet.
    """

    __pydantic_config__ = {"extra": "forbid"}
    network: Literal["auto", "unet", "segresnet"] = "auto"
    width: int = 16
    levels: int = 4
    residual_units: int = 0
    dropout: float = 0.0

    def halvings(self, size: int) -> int:
        """How often an axis of that many voxels is halved."""
        if self.network == "segresnet":
            return self.levels - 1
        count = 0
        while count < self.levels - 1 and size >= 8 * 2**count:
            count += 1
        return count


class Segmenter(nn.Module):  # type: ignore[misc]
    """forward(image (B, C, D, H, W) or (B, C, H, W), labels (B, D, H, W) or (B, H, W) of class numbers) ->
    {"loss", "logits" (B, 1 + N, ...)}; without labels there is no loss."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, image: torch.Tensor, labels: torch.Tensor | None = None) -> dict[str, torch.Tensor]:
        logits = self.network(image)
        if labels is None:
            return {"logits": logits}
        return {"loss": self.compute_loss(logits.float(), labels), "logits": logits}

    def compute_loss(self, logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        raise NotImplementedError


@dataclass(frozen=True)
class Overlap:
    """Of a whole batch by class, background first: probability mass on right voxels, in all, and voxels that there are;
    `hit` is the log-likelihood of each voxel's class. Made without a one-hot copy of the labels, which would be the
    largest tensor of all."""

    both: torch.Tensor
    found: torch.Tensor
    wanted: torch.Tensor
    hit: torch.Tensor

    @classmethod
    def of(cls, logits: torch.Tensor, labels: torch.Tensor) -> "Overlap":
        likelihood = logits.log_softmax(1)
        hit = likelihood.gather(1, labels[:, None])
        wanted = torch.bincount(labels.flatten(), minlength=logits.shape[1]).to(logits.dtype)
        both = torch.zeros_like(wanted).index_add(0, labels.flatten(), hit.exp().flatten())
        return cls(both, likelihood.exp().transpose(0, 1).flatten(1).sum(1), wanted, hit)


def make_network(wanted: ModelConfig, patch: Sequence[int], channels: int, classes: int) -> nn.Module:
    """`patch` is (D, H, W) or (H, W), `classes` counts background. Raises ValueError for a patch that does not fit."""
    if wanted.network == "auto":
        raise ValueError("model.network still says auto; training settles it first")
    halved = [wanted.halvings(size) for size in patch]
    if any(size % 2**count for size, count in zip(patch, halved, strict=True)):
        needed = [2**count for count in halved]
        raise ValueError(f"{wanted.network} halves the axes: preprocess.patch_size must be multiples of {needed}")
    # Late: the import takes seconds, and the configuration is checked before.
    from monai.networks import nets

    shared: dict[str, Any] = {
        "spatial_dims": len(patch),
        "in_channels": channels,
        "out_channels": classes,
        "norm": ("INSTANCE", {"affine": True}),
    }
    if wanted.network == "segresnet":
        network: nn.Module = nets.SegResNet(
            init_filters=wanted.width,
            dropout_prob=wanted.dropout or None,
            blocks_down=(1,) * wanted.levels,
            blocks_up=(1,) * (wanted.levels - 1),
            **shared,
        )
    else:
        network = nets.UNet(
            channels=[wanted.width * 2**level for level in range(wanted.levels)],
            strides=[tuple(2 if level < count else 1 for count in halved) for level in range(wanted.levels - 1)],
            num_res_units=wanted.residual_units,
            dropout=wanted.dropout,
            **shared,
        )
    return network
