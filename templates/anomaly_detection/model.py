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
    """Overlap (Tversky) over the lesions that a batch has, and cross-entropy over all voxels, by their weights.

    `missed`: what a missed voxel weighs against an invented one; 0.5 is Dice, more finds more and invents more. A batch
    without any lesion has cross-entropy alone, which is enough to say that there is none.
    """

    __pydantic_config__ = {"extra": "forbid"}
    overlap_weight: float = 1.0
    cross_entropy_weight: float = 1.0
    missed: float = 0.5


class LesionSegmenter(Segmenter):
    def __init__(self, network: torch.nn.Module, loss: LossConfig) -> None:
        super().__init__(network)
        self.loss = loss

    def compute_loss(self, logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        seen = Overlap.of(logits, labels)
        loss = -self.loss.cross_entropy_weight * seen.hit.mean()
        # Of many kinds of lesions a batch has few: the others would drown them in the mean.
        here = (seen.wanted[1:] > 0).nonzero().flatten() + 1
        if len(here):
            both, found, wanted = seen.both[here], seen.found[here], seen.wanted[here]
            invented, missed = found - both, wanted - both
            weight = self.loss.missed
            overlap = (both + 0.5) / (both + (1 - weight) * invented + weight * missed + 0.5)
            loss = loss + self.loss.overlap_weight * (1 - overlap.mean())
        return loss


def build(config: Any, num_classes: int) -> LesionSegmenter:
    """`config` needs `.preprocess.patch_size` and `.preprocess.channels` (resolved), `.model`, `.loss`; `num_classes`
    counts kinds of lesions, without background."""
    how = config.preprocess
    return LesionSegmenter(make_network(config.model, how.patch_size, how.channels, num_classes + 1), config.loss)
