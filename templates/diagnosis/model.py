"""Network and loss. Exported with the package: of `shared` it may import `shared.trainkit.exported` and nothing else.

Kept by whoever edits this file: `ModelConfig`, `LossConfig`, `build(config, num_classes, class_weights)`, a module
whose `forward(image, labels=None)` returns {"loss", "logits"}; image is (B, 1, D, H, W) or (B, 1, H, W), logits
(B, classes).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import nn

from shared.trainkit.exported.imaging.backbones import BackboneConfig as ModelConfig
from shared.trainkit.exported.imaging.backbones import make_encoder, map_of

__all__ = ["LossConfig", "ModelConfig", "build"]


@dataclass(frozen=True)
class LossConfig:
    """`name`: cross_entropy or focal; where several labels may hold for a sample bce, focal or asymmetric; auto takes
    the first. Focal (Lin et al. 2017) turns down what is already right, by the power `focal_gamma`. Asymmetric (Ridnik
    et al. 2021, "Asymmetric Loss For Multi-Label Classification") turns down absent labels more than present ones, by
    their own powers, and passes over absent ones below the probability `margin`: for many labels, each of them rare.

    `class_weights`: balanced or none; of bce and focal with several labels the weight of present ones; asymmetric has
    none. `label_smoothing` is of cross_entropy only.
    """

    __pydantic_config__ = {"extra": "forbid"}
    name: Literal["auto", "cross_entropy", "focal", "bce", "asymmetric"] = "auto"
    class_weights: Literal["balanced", "none"] = "balanced"
    label_smoothing: float = 0.05
    focal_gamma: float = 2.0
    gamma_absent: float = 4.0
    gamma_present: float = 1.0
    margin: float = 0.05


class Classifier(nn.Module):
    """The mean over the positions of a feature map, and a linear layer."""

    def __init__(
        self,
        config: ModelConfig,
        loss: LossConfig,
        shape: Sequence[int],
        classes: int,
        multi_label: bool,
        weights: Sequence[float] | None,
    ) -> None:
        super().__init__()
        self.encoder = make_encoder(config, shape)
        channels, _ = map_of(self.encoder, shape)
        self.head = nn.Sequential(nn.Dropout(config.dropout), nn.Linear(channels, classes))
        self.loss = loss
        self.multi_label = multi_label
        # Not part of the weights: the package has no use for it.
        self.register_buffer("class_weights", torch.tensor(weights) if weights else None, persistent=False)

    def forward(self, image: torch.Tensor, labels: torch.Tensor | None = None) -> dict[str, torch.Tensor]:
        logits = self.head(self.encoder(image).flatten(2).mean(2))
        if labels is None:
            return {"logits": logits}
        return {"loss": self.compute_loss(logits.float(), labels), "logits": logits}

    def compute_loss(self, logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        name, weights, gamma = self.loss.name, self.class_weights, self.loss.focal_gamma
        if not self.multi_label:
            if name == "focal":
                return focal(logits, labels, weights, gamma)
            return F.cross_entropy(logits, labels, weight=weights, label_smoothing=self.loss.label_smoothing)
        if name == "asymmetric":
            return asymmetric(logits, labels.float(), self.loss)
        losses = F.binary_cross_entropy_with_logits(logits, labels.float(), pos_weight=weights, reduction="none")
        if name == "focal":
            right = torch.where(labels > 0, logits, -logits).sigmoid()
            losses = losses * (1 - right) ** gamma
        return losses.mean()


def focal(logits: torch.Tensor, labels: torch.Tensor, weights: torch.Tensor | None, gamma: float) -> torch.Tensor:
    likelihood = F.log_softmax(logits, 1).gather(1, labels[:, None])[:, 0]
    losses = -((1 - likelihood.exp()) ** gamma) * likelihood
    return losses.mean() if weights is None else (losses * weights[labels]).mean()


def asymmetric(logits: torch.Tensor, labels: torch.Tensor, how: LossConfig) -> torch.Tensor:
    """Mean over samples and labels."""
    present = logits.sigmoid()
    absent = (1 - present + how.margin).clamp(max=1)
    found = -F.logsigmoid(logits) * (1 - present) ** how.gamma_present
    missed = -absent.clamp(min=1e-8).log() * (1 - absent) ** how.gamma_absent
    return torch.where(labels > 0, found, missed).mean()


def build(config: Any, num_classes: int, class_weights: Sequence[float] | None = None) -> Classifier:
    """`config` needs `.preprocess.input_shape` (resolved), `.model`, `.loss`, `.multi_label`."""
    multi_label = bool(config.multi_label)
    if multi_label and config.loss.name == "cross_entropy":
        raise ValueError("loss.name cross_entropy is for one label a sample; use bce, focal, asymmetric or auto")
    if not multi_label and config.loss.name in ("bce", "asymmetric"):
        raise ValueError(
            f"loss.name {config.loss.name} is for several labels a sample; use cross_entropy, focal or auto"
        )
    shape = config.preprocess.input_shape
    return Classifier(config.model, config.loss, shape, num_classes, multi_label, class_weights)
