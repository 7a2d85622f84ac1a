"""nnU-Net's network and loss, as the probe before training asks for them: what trains, on the plan of data.py."""

from typing import Any

import torch
from data import tried
from torch import nn
from torch.nn import functional


class Planned(nn.Module):
    """forward(image (B, C, ...), labels (B, ...) of class numbers) -> {"loss", "logits" (B, 1 + N, ...)}."""

    def __init__(self, trainer: Any) -> None:
        super().__init__()
        self.network, self.loss, self.trainer = trainer.network, trainer.loss, trainer

    def __repr__(self) -> str:
        return str(self.trainer.told())

    def forward(self, image: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        found = self.network(image.to(self.trainer.device))
        found = found if isinstance(found, list | tuple) else [found]
        labels = labels[:, None].float().to(self.trainer.device)
        # With deep supervision each resolution is compared with the mask at its own.
        targets = [functional.interpolate(labels, logits.shape[2:], mode="nearest") for logits in found]
        deep = hasattr(self.loss, "loss")
        return {"loss": self.loss(found, targets) if deep else self.loss(found[0], labels), "logits": found[0]}


def build(config: Any, num_classes: int) -> Planned:
    """`num_classes` follows from the label map, as everything here does."""
    return Planned(tried(config.model_dump_json()))
