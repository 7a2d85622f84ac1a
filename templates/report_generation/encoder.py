"""Image -> feature map. Exported with the package: imports torch, MONAI where needed, and nothing of training."""

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import nn

RESNETS = {
    "resnet10": ("basic", (1, 1, 1, 1)),
    "resnet18": ("basic", (2, 2, 2, 2)),
    "resnet34": ("basic", (3, 4, 6, 3)),
    "resnet50": ("bottleneck", (3, 4, 6, 3)),
}


def make_encoder(backbone: str, width: int, norm: str, shape: Sequence[int], places: int) -> nn.Module:
    """(N, 1, *shape) -> (N, channels, *map). A resnet stops halving once its map has at most `places` positions."""
    if backbone in RESNETS:
        return ResNet(backbone, width, norm, shape, places)
    dims = len(shape)
    # Late: the import takes long, and a resnet does without.
    from monai.networks import nets

    if backbone == "densenet121":
        whole = nets.DenseNet121(dims, 1, 1, 2 * width, growth_rate=width)
        return swap_norm(nn.Sequential(whole.features, nn.ReLU()), norm)
    if backbone == "efficientnet-b0":
        return swap_norm(LastMap(nets.EfficientNetBNFeatures("efficientnet-b0", False, False, dims, 1)), norm)
    raise ValueError(f"there is no backbone {backbone!r}")


def map_of(encoder: nn.Module, shape: Sequence[int]) -> tuple[int, int]:
    """Channels and positions of the feature map for images of `shape`."""
    training = encoder.training
    with torch.no_grad():
        found = encoder.eval()(torch.zeros(1, 1, *shape))
    encoder.train(training)
    return found.shape[1], math.prod(found.shape[2:])


class LastMap(nn.Module):
    """Of a network that gives the maps of all its stages."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        return self.network(image)[-1]


class ResNet(nn.Module):
    """That of the diagnosis template without its head, and with a map that stays fine enough to tell places apart.

    An axis that has become short is not halved further, so that scans of few slices keep their depth.
    """

    def __init__(self, backbone: str, width: int, norm: str, shape: Sequence[int], places: int) -> None:
        super().__init__()
        dims = len(shape)
        conv = nn.Conv3d if dims == 3 else nn.Conv2d
        kind, counts = RESNETS[backbone]
        stride, shape = halve(shape)
        stem = conv(1, width, 5, stride, 2, bias=False)
        layers: list[nn.Module] = [stem, make_norm(norm, width, dims), nn.ReLU(inplace=True)]
        stride, shape = halve(shape, 8)
        layers.append((nn.MaxPool3d if dims == 3 else nn.MaxPool2d)(3, stride, 1))
        channels = width
        for stage, count in enumerate(counts):
            for number in range(count):
                stride = (1,) * dims
                if stage and not number and math.prod(shape) > places:
                    stride, shape = halve(shape)
                block = Block(channels, width * 2**stage, stride, kind, norm)
                layers.append(block)
                channels = block.channels
        self.features = nn.Sequential(*layers)
        for module in self.features.modules():
            if isinstance(module, nn.Conv2d | nn.Conv3d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        # Twice as fast on a CPU as the default layout.
        layout = torch.channels_last_3d if image.ndim == 5 else torch.channels_last
        return self.features(image.contiguous(memory_format=layout))


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
