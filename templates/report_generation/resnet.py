"""The usual ResNet in 2D or 3D with a choice of norm, without a head.

Not MONAI's: in 1.6 that hands its norm argument to the first layer only. Layers have the names that torchvision and
MONAI give them, so that weights from there fit where their shapes do.
"""

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


class ResNet(nn.Module):
    """(N, inputs, *shape) -> (N, channels, *map).

    An axis that has become short is not halved further, so that scans of few slices keep their depth; none is once the
    map has at most `places` positions, so that it stays fine enough to tell places apart.
    """

    def __init__(self, name: str, width: int, norm: str, shape: Sequence[int], places: int, inputs: int) -> None:
        super().__init__()
        self.told = f"{name}, width {width}, {norm} norm"
        dims = len(shape)
        conv = nn.Conv3d if dims == 3 else nn.Conv2d
        kind, counts = RESNETS[name]
        stride, shape = halve(shape)
        self.conv1 = conv(inputs, width, 5, stride, 2, bias=False)
        self.bn1 = make_norm(norm, width, dims)
        stride, shape = halve(shape, 8)
        self.maxpool = (nn.MaxPool3d if dims == 3 else nn.MaxPool2d)(3, stride, 1)
        channels = width
        for stage, count in enumerate(counts):
            blocks: list[nn.Module] = []
            for number in range(count):
                stride = (1,) * dims
                if stage and not number and math.prod(shape) > places:
                    stride, shape = halve(shape)
                blocks.append(Block(channels, width * 2**stage, stride, kind, norm))
                channels = blocks[-1].channels
            setattr(self, f"layer{stage + 1}", nn.Sequential(*blocks))
        for module in self.modules():
            if isinstance(module, nn.Conv2d | nn.Conv3d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def extra_repr(self) -> str:
        return self.told

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        # Twice as fast on a CPU as the default layout.
        layout = torch.channels_last_3d if image.ndim == 5 else torch.channels_last
        seen = self.conv1(image.contiguous(memory_format=layout))
        seen = self.maxpool(F.relu(self.bn1(seen), inplace=True))
        return self.layer4(self.layer3(self.layer2(self.layer1(seen))))


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
        self.steps = len(sizes)
        before = channels
        for number, (size, step) in enumerate(sizes, 1):
            after = self.channels if number == len(sizes) else planes
            setattr(self, f"conv{number}", conv(before, after, size, step, size // 2, bias=False))
            setattr(self, f"bn{number}", make_norm(norm, after, dims))
            before = after
        self.downsample: nn.Module = nn.Identity()
        if stride != one or channels != self.channels:
            other = conv(channels, self.channels, 1, stride, bias=False)
            self.downsample = nn.Sequential(other, make_norm(norm, self.channels, dims))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        seen = x
        for number in range(1, self.steps + 1):
            seen = getattr(self, f"bn{number}")(getattr(self, f"conv{number}")(seen))
            if number < self.steps:
                seen = F.relu(seen, inplace=True)
        return F.relu(seen + self.downsample(x))


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
