"""Network and loss. predict.py builds the network by this same file.

train.py, predict.py and the checks call `build`; what it returns is a module whose `forward(image, labels=None)` gives
{"logits": (B, classes)} and, with labels, "loss". `image` is float32 (B, views * C, ...); labels are (B,)
numbers, or (B, classes) of 0 and 1 where several may hold.
"""

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from images import whole
from networks import make_encoder, map_of
from torch import nn

PLACES = 64
"""Of a feature map, below which a resnet halves it no more: pictures that small findings are in need as many."""


class Classifier(nn.Module):
    """A backbone, mean and maximum over the positions of its feature map (a small finding is lost in the mean), and a
    linear layer: for each view of a case. The case's logits are the mean over its views, and with several views each
    one is taught by itself, too."""

    def __init__(
        self, encoder: nn.Module, channels: int, classes: int, dropout: float, loss: nn.Module, views: int = 1
    ) -> None:
        """`channels` are those of the encoder's feature map."""
        super().__init__()
        self.encoder, self.views = encoder, views
        self.head = nn.Sequential(nn.Dropout(dropout), nn.Linear(2 * channels, classes))
        # It begins with the mean alone: maxima are large, and trainings that began with both have stuck.
        nn.init.zeros_(self.head[1].weight[:, channels:])
        self.loss = loss

    def forward(self, image: torch.Tensor, labels: torch.Tensor | None = None) -> dict[str, torch.Tensor]:
        views = image.unflatten(1, (self.views, -1))
        there = views.flatten(2).any(2)  # a view that a case has not is zeros
        there[:, 0] |= ~there.any(1)  # of a case of blank images the first one is looked at
        seen = self.encoder(views[there]).flatten(2)
        each = self.head(torch.cat([seen.mean(2), seen.amax(2)], 1))
        case = there.nonzero()[:, 0]
        logits = each.new_zeros(len(image), each.shape[1]).index_add(0, case, each) / there.sum(1, keepdim=True)
        if labels is None:
            return {"logits": logits}
        loss = self.loss(logits.float(), labels)
        if self.views > 1:
            loss = (loss + self.loss(each.float(), labels[case])) / 2
        return {"loss": loss, "logits": logits}


class Loss(nn.Module):
    """(B, classes) logits, labels -> mean. `weights` of classes, or of present labels where several may hold."""

    def __init__(self, weights: Sequence[float] | None = None, **settings: float) -> None:
        super().__init__()
        self.settings = settings
        # Not among the saved weights: a package has no use for it.
        self.register_buffer("weights", torch.tensor(weights) if weights else None, persistent=False)

    def extra_repr(self) -> str:
        weights = [] if self.weights is None else [f"weights {[round(value, 2) for value in self.weights.tolist()]}"]
        return ", ".join([*(f"{name} {value:g}" for name, value in self.settings.items()), *weights])


class CrossEntropy(Loss):
    def forward(self, logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(logits, labels, self.weights, label_smoothing=self.settings["label_smoothing"])


class Focal(Loss):
    """Turns down what is already right, by the power `gamma` (Lin et al. 2017)."""

    def forward(self, logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        likelihood = F.log_softmax(logits, 1).gather(1, labels[:, None])[:, 0]
        losses = -((1 - likelihood.exp()) ** self.settings["gamma"]) * likelihood
        return losses.mean() if self.weights is None else (losses * self.weights[labels]).mean()


class BinaryCrossEntropy(Loss):
    """Of each label by itself; focal with a `gamma` above 0."""

    def forward(self, logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        losses = F.binary_cross_entropy_with_logits(logits, labels.float(), pos_weight=self.weights, reduction="none")
        right = torch.where(labels > 0, logits, -logits).sigmoid()
        return (losses * (1 - right) ** self.settings["gamma"]).mean()


class Asymmetric(Loss):
    """For many labels, each of them rare (Ridnik et al. 2021): turns down absent labels more than present ones, by
    their own powers, and passes over absent ones below the probability `margin`."""

    def forward(self, logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        present, settings = logits.sigmoid(), self.settings
        absent = (1 - present + settings["margin"]).clamp(max=1)
        found = -F.logsigmoid(logits) * (1 - present) ** settings["gamma_present"]
        missed = -absent.clamp(min=1e-8).log() * (1 - absent) ** settings["gamma_absent"]
        return torch.where(labels > 0, found, missed).mean()


def make_loss(wanted: Any, several: bool, weights: Sequence[float] | None) -> Loss:
    """By the section `loss`. Raises ValueError for one that does not suit the labels."""
    fitting = ("bce", "focal", "asymmetric") if several else ("cross_entropy", "focal")
    name = fitting[0] if wanted.name == "auto" else wanted.name
    if name not in fitting:
        labels = "one label a sample" if several else "several labels a sample"
        raise ValueError(f"loss.name {name} is for {labels}; use {', '.join(fitting)} or auto")
    if name == "cross_entropy":
        return CrossEntropy(weights, label_smoothing=wanted.label_smoothing)
    if name == "asymmetric":
        powers = {key: getattr(wanted, key) for key in ("gamma_absent", "gamma_present", "margin")}
        return Asymmetric(**powers)
    gamma = wanted.focal_gamma if name == "focal" else 0.0
    return BinaryCrossEntropy(weights, gamma=gamma) if several else Focal(weights, gamma=gamma)


def build(config: Any, classes: int, class_weights: Sequence[float] | None = None) -> nn.Module:
    """The untrained network, by the settled configuration (`multi_label`, `preprocess`, `model`, `loss`)."""
    inputs, *shape = whole(config.preprocess)
    encoder = make_encoder(config.model, shape, inputs, PLACES)
    channels, _ = map_of(encoder, shape, inputs)
    loss = make_loss(config.loss, bool(config.multi_label), class_weights)
    return Classifier(encoder, channels, classes, config.model.dropout, loss, config.preprocess.views)
