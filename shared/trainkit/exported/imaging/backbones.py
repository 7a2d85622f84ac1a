"""Backbones by name: image -> feature map, each in 2D and 3D. Exported with the package; MONAI where it has them."""

import math
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import nn

from .resnet import RESNETS, ResNet, swap_norm

Backbone = Literal[
    "resnet10", "resnet18", "resnet34", "resnet50",
    "densenet121", "densenet169", "densenet201",
    "efficientnet-b0", "efficientnet-b1", "efficientnet-b2", "efficientnet-b3", "efficientnet-b4",
    "vit", "swinunetr",
]  # fmt: skip


@dataclass(frozen=True)
class BackboneConfig:
    """`backbone`: resnet10, 18, 34, 50, densenet121, 169, 201, efficientnet-b0 to -b4, vit, or swinunetr, the encoder
    of that network.

    `width` sets the size: channels of the first stage (resnet), growth rate (densenet), a twelfth of the hidden size
    (vit: 16 is ViT-Ti, 64 ViT-B), a third of the feature size (swinunetr: 16 is the usual 48); efficientnets have none.
    `norm`: batch learns fastest (measured); group and instance do not depend on the batch, for batches below four. vit
    and swinunetr have their own.
    `patch`: of vit, the edge of a patch on each axis; auto takes the largest of 16, 8, 4 that leaves eight patches.
    `dropout`: before the last layer.
    `weights`: of a configuration only: a .safetensors or .pt file of weights to begin with, taken where name and shape
    fit; the path is absolute or relative to the workspace.
    """

    __pydantic_config__ = {"extra": "forbid"}
    backbone: Backbone = "resnet10"
    width: int = 16
    norm: Literal["batch", "group", "instance"] = "batch"
    patch: int | Literal["auto"] = "auto"
    dropout: float = 0.2
    weights: str | None = None


def needed(wanted: BackboneConfig) -> tuple[str, ...]:
    """Distributions, beside torch."""
    if wanted.backbone in RESNETS:
        return ()
    return ("monai", "einops") if wanted.backbone == "swinunetr" else ("monai",)


def make_encoder(wanted: BackboneConfig, shape: Sequence[int], places: int = 0) -> nn.Module:
    """(N, 1, *shape) -> (N, channels, *map). A resnet stops halving once its map has at most `places` positions.

    Raises ValueError for a shape that does not suit the backbone.
    """
    name, width, dims = wanted.backbone, wanted.width, len(shape)
    if name in RESNETS:
        return ResNet(name, width, wanted.norm, shape, places)
    # Late: the import takes longer than a prediction, and a resnet does without.
    from monai.networks import nets

    if name.startswith("densenet"):
        if min(shape) < 32:
            raise unfit(shape, [max(32, size) for size in shape], f"{name} halves each axis five times, from 32 on")
        whole = getattr(nets, name.replace("densenet", "DenseNet"))(dims, 1, 1, 2 * width, growth_rate=width)
        layers = nn.Sequential(OrderedDict(features=whole.features, relu=nn.ReLU()))
        return swap_norm(Convolutional(layers), wanted.norm)
    if name.startswith("efficientnet"):
        return swap_norm(Convolutional(nets.EfficientNetBNFeatures(name, False, False, dims, 1)), wanted.norm)
    if name == "vit":
        return VisionTransformer(width, shape, patches(wanted, shape))
    if name == "swinunetr":
        if any(size % 32 for size in shape):
            near = [max(32, 32 * round(size / 32)) for size in shape]
            raise unfit(shape, near, "swinunetr halves each axis five times and takes multiples of 32")
        return Swin(width, dims)
    raise ValueError(f"there is no backbone {name!r}")


def unfit(shape: Sequence[int], near: Sequence[int], reason: str) -> ValueError:
    return ValueError(f"{reason}: preprocess.input_shape {list(shape)} does not suit it; take {list(near)}")


def patches(wanted: BackboneConfig, shape: Sequence[int]) -> list[int]:
    """Edge of a patch on each axis."""
    fixed = None if wanted.patch == "auto" else wanted.patch
    edges = [fixed or next((edge for edge in (16, 8) if not size % edge and size >= 8 * edge), 4) for size in shape]
    if any(size % edge for size, edge in zip(shape, edges, strict=True)):
        near = [max(edge, edge * round(size / edge)) for size, edge in zip(shape, edges, strict=True)]
        raise unfit(shape, near, f"vit cuts an image into patches of {' x '.join(map(str, edges))} (model.patch)")
    return edges


def map_of(encoder: nn.Module, shape: Sequence[int]) -> tuple[int, int]:
    """Channels and positions of the feature map for images of `shape`."""
    training = encoder.training
    with torch.no_grad():
        found = encoder.eval()(torch.zeros(1, 1, *shape))
    encoder.train(training)
    return int(found.shape[1]), math.prod(found.shape[2:])


class Convolutional(nn.Module):  # type: ignore[misc]
    """A network that gives a map, or the maps of all its stages, of which the last is taken."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        layout = torch.channels_last_3d if image.ndim == 5 else torch.channels_last
        found = self.network(image.contiguous(memory_format=layout))
        return found[-1] if isinstance(found, list | tuple) else found


class VisionTransformer(nn.Module):  # type: ignore[misc]
    """Twelve layers over patches; heads of about 64 channels."""

    def __init__(self, width: int, shape: Sequence[int], patch: Sequence[int]) -> None:
        super().__init__()
        from monai.networks import nets

        hidden = 12 * width
        heads = next(count for count in range(max(1, hidden // 64), 0, -1) if hidden % count == 0)
        self.network = nets.ViT(
            1, tuple(shape), tuple(patch), hidden, 4 * hidden, num_heads=heads, spatial_dims=len(shape)
        )
        self.grid = tuple(size // edge for size, edge in zip(shape, patch, strict=True))

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        return self.network(image)[0].transpose(1, 2).unflatten(2, self.grid)


class Swin(nn.Module):  # type: ignore[misc]
    """The encoder of SwinUNETR: shifted windows of 7, four stages of two layers."""

    def __init__(self, width: int, dims: int) -> None:
        super().__init__()
        from monai.networks.nets.swin_unetr import SwinTransformer

        heads: Any = (3, 6, 12, 24)
        self.network = SwinTransformer(1, 3 * width, (7,) * dims, (2,) * dims, (2, 2, 2, 2), heads, spatial_dims=dims)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        return self.network(image)[-1]
