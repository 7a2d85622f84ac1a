"""Networks and losses. Exported with the package: imports torch, MONAI where needed, and nothing of training.

Kept by whoever edits this file: `build(config, num_classes, class_weights)`, a module whose
`forward(image, labels=None)` returns {"loss", "logits"}; image is (B, 1, D, H, W) or (B, 1, H, W), logits (B, classes).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import nn


@dataclass(frozen=True)
class ModelConfig:
    """`backbone`: resnet10, resnet18, resnet34, resnet50, densenet121 or efficientnet-b0; each in 2D and 3D.

    `width`: channels of the first stage (resnet) or growth rate (densenet121); efficientnet-b0 has none.
    `norm`: batch learns fastest (measured); group and instance do not depend on the batch, for batches below four.
    """

    __pydantic_config__ = {"extra": "forbid"}
    backbone: Literal["resnet10", "resnet18", "resnet34", "resnet50", "densenet121", "efficientnet-b0"] = "resnet10"
    width: int = 16
    norm: Literal["batch", "group", "instance"] = "batch"
    dropout: float = 0.2


@dataclass(frozen=True)
class LossConfig:
    """`name`: auto (cross_entropy, or bce when several labels may hold), cross_entropy, focal, bce.

    `class_weights`: balanced or none.
    """

    __pydantic_config__ = {"extra": "forbid"}
    name: Literal["auto", "cross_entropy", "focal", "bce"] = "auto"
    class_weights: Literal["balanced", "none"] = "balanced"
    label_smoothing: float = 0.05
    focal_gamma: float = 2.0


RESNETS = {
    "resnet10": ("basic", (1, 1, 1, 1)),
    "resnet18": ("basic", (2, 2, 2, 2)),
    "resnet34": ("basic", (3, 4, 6, 3)),
    "resnet50": ("bottleneck", (3, 4, 6, 3)),
}


class Classifier(nn.Module):
    def __init__(
        self, network: nn.Module, loss: LossConfig, multi_label: bool, weights: Sequence[float] | None
    ) -> None:
        super().__init__()
        self.network = network
        self.loss = loss
        self.multi_label = multi_label
        # Not part of the weights: the package has no use for it.
        self.register_buffer("class_weights", torch.tensor(weights) if weights else None, persistent=False)

    def forward(self, image: torch.Tensor, labels: torch.Tensor | None = None) -> dict[str, torch.Tensor]:
        # Twice as fast on a CPU as the default layout.
        layout = torch.channels_last_3d if image.ndim == 5 else torch.channels_last
        logits = self.network(image.contiguous(memory_format=layout))
        if labels is None:
            return {"logits": logits}
        return {"loss": self.compute_loss(logits.float(), labels), "logits": logits}

    def compute_loss(self, logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        if self.multi_label:
            return F.binary_cross_entropy_with_logits(logits, labels.float(), pos_weight=self.class_weights)
        smoothing = self.loss.label_smoothing
        if self.loss.name == "focal":
            likelihood = F.log_softmax(logits, 1).gather(1, labels[:, None])[:, 0]
            losses = -((1 - likelihood.exp()) ** self.loss.focal_gamma) * likelihood
            return (losses * self.class_weights[labels]).mean() if self.class_weights is not None else losses.mean()
        return F.cross_entropy(logits, labels, weight=self.class_weights, label_smoothing=smoothing)


def build(config: Any, num_classes: int, class_weights: Sequence[float] | None = None) -> Classifier:
    """`config` needs `.preprocess.input_shape` (resolved), `.model`, `.loss`, `.multi_label`."""
    if config.model.backbone == "densenet121" and min(config.preprocess.input_shape) < 32:
        raise ValueError("densenet121 halves each axis five times: preprocess.input_shape must be 32 or more on each")
    network = make_network(config.model, config.preprocess.input_shape, num_classes)
    multi_label = bool(config.multi_label)
    if multi_label and config.loss.name not in ("auto", "bce"):
        raise ValueError(f"loss.name {config.loss.name!r} does not suit several labels a sample; use bce or auto")
    if not multi_label and config.loss.name == "bce":
        raise ValueError("loss.name bce is for several labels a sample; use cross_entropy, focal or auto")
    return Classifier(network, config.loss, multi_label, class_weights)


def make_network(config: ModelConfig, shape: Sequence[int], num_classes: int) -> nn.Module:
    if config.backbone in RESNETS:
        return ResNet(config, shape, num_classes)
    dims = len(shape)
    # Late: the import takes longer than a prediction, and a resnet does without.
    from monai.networks import nets

    if config.backbone == "densenet121":
        network = nets.DenseNet121(
            dims, 1, num_classes, 2 * config.width, growth_rate=config.width, dropout_prob=config.dropout
        )
    elif config.backbone == "efficientnet-b0":
        network = nets.EfficientNetBN("efficientnet-b0", False, False, dims, 1, num_classes)
    else:
        raise ValueError(f"there is no backbone {config.backbone!r}")
    return swap_norm(network, config.norm)


class ResNet(nn.Module):
    """The usual ResNet in 2D or 3D with a choice of norm.

    Not MONAI's: in 1.6 that hands its norm argument to the first layer only. An axis that has become short is not
    halved further, so that scans of few slices keep their depth.
    """

    def __init__(self, config: ModelConfig, shape: Sequence[int], num_classes: int) -> None:
        super().__init__()
        dims = len(shape)
        conv = nn.Conv3d if dims == 3 else nn.Conv2d
        kind, counts = RESNETS[config.backbone]
        stride, shape = halve(shape)
        stem = conv(1, config.width, 5, stride, 2, bias=False)
        layers: list[nn.Module] = [stem, make_norm(config.norm, config.width, dims), nn.ReLU(inplace=True)]
        stride, shape = halve(shape, 8)
        layers.append((nn.MaxPool3d if dims == 3 else nn.MaxPool2d)(3, stride, 1))
        channels = config.width
        for stage, count in enumerate(counts):
            for number in range(count):
                stride = (1,) * dims
                if stage and not number:
                    stride, shape = halve(shape)
                block = Block(channels, config.width * 2**stage, stride, kind, config.norm)
                layers.append(block)
                channels = block.channels
        self.features = nn.Sequential(*layers)
        self.head = nn.Sequential(nn.Dropout(config.dropout), nn.Linear(channels, num_classes))
        for module in self.features.modules():
            if isinstance(module, nn.Conv2d | nn.Conv3d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        return self.head(self.features(image).flatten(2).mean(2))


def halve(shape: Sequence[int], least: int = 4) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Stride of each axis and the shape after it; an axis of `least` or fewer is kept."""
    stride = tuple(2 if size > least else 1 for size in shape)
    return stride, tuple(-(-size // step) for size, step in zip(shape, stride, strict=True))


class Block(nn.Module):
    """Basic: two 3-convolutions. Bottleneck: 1, 3, 1 with four times the channels out."""

    def __init__(self, channels: int, planes: int, stride: tuple[int, ...], kind: str, norm: str) -> None:
        super().__init__()
        dims = len(stride)
        conv = nn.Conv3d if dims == 3 else nn.Conv2d
        self.channels = planes * (4 if kind == "bottleneck" else 1)
        one = (1,) * dims
        sizes = ((3, stride), (3, one)) if kind == "basic" else ((1, one), (3, stride), (1, one))
        steps: list[nn.Module] = []
        before = channels
        for number, (size, step) in enumerate(sizes):
            last = number == len(sizes) - 1
            after = self.channels if last else planes
            steps += [conv(before, after, size, step, size // 2, bias=False), make_norm(norm, after, dims)]
            steps += [] if last else [nn.ReLU(inplace=True)]
            before = after
        self.body = nn.Sequential(*steps)
        self.shortcut: nn.Module = nn.Identity()
        if stride != one or channels != self.channels:
            other = conv(channels, self.channels, 1, stride, bias=False)
            self.shortcut = nn.Sequential(other, make_norm(norm, self.channels, dims))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.relu(self.body(x) + self.shortcut(x))


def make_norm(norm: str, channels: int, dims: int) -> nn.Module:
    """Instance is group norm with one channel a group."""
    if norm == "batch":
        return nn.BatchNorm3d(channels) if dims == 3 else nn.BatchNorm2d(channels)
    return nn.GroupNorm(channels if norm == "instance" else math.gcd(8, channels), channels)


def swap_norm(module: nn.Module, norm: str) -> nn.Module:
    """Batch norm layers of a ready-made network, replaced."""
    for name, child in module.named_children():
        if isinstance(child, nn.modules.batchnorm._BatchNorm):
            if norm != "batch":
                setattr(module, name, make_norm(norm, child.num_features, 0))
        else:
            swap_norm(child, norm)
    return module
