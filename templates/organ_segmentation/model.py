"""Network and loss. Exported with the package: of `shared` it may import `shared.trainkit.exported` and nothing else.

Kept by whoever edits this file: `ModelConfig`, `LossConfig`, `build(config, num_classes)`, a module whose
`forward(image, labels=None)` returns {"loss", "logits"}; image is (B, C, D, H, W) or (B, C, H, W), labels (B, D, H, W)
or (B, H, W) with class numbers, 0 background; logits (B, 1 + num_classes, D, H, W) or (B, 1 + num_classes, H, W).
"""

from dataclasses import dataclass
from typing import Any

import torch

from shared.trainkit.exported.segmenter.network import ModelConfig, Overlap, Segmenter, make_network

__all__ = ["LossConfig", "ModelConfig", "build"]


@dataclass(frozen=True)
class LossConfig:
    """Dice over the structures of the whole batch, and cross-entropy over all voxels, by their weights."""

    __pydantic_config__ = {"extra": "forbid"}
    dice_weight: float = 1.0
    cross_entropy_weight: float = 1.0


class OrganSegmenter(Segmenter):
    def __init__(self, network: torch.nn.Module, loss: LossConfig) -> None:
        super().__init__(network)
        self.loss = loss

    def compute_loss(self, logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        seen = Overlap.of(logits, labels)
        dice = (2 * seen.both + 1) / (seen.found + seen.wanted + 1)
        return self.loss.dice_weight * (1 - dice[1:].mean()) - self.loss.cross_entropy_weight * seen.hit.mean()


def build(config: Any, num_classes: int) -> OrganSegmenter:
    """`config` needs `.preprocess.patch_size` and `.preprocess.channels` (resolved), `.model`, `.loss`; `num_classes`
    counts structures, without background."""
    how = config.preprocess
    return OrganSegmenter(make_network(config.model, how.patch_size, how.channels, num_classes + 1), config.loss)
