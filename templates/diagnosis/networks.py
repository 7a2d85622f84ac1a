"""Backbones by name: image -> feature map, each in 2D and 3D; MONAI where it has them, ResNet in resnet.py."""

import math
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import torch
from resnet import RESNETS, ResNet, swap_norm
from torch import nn


def make_encoder(wanted: Any, shape: Sequence[int], inputs: int = 1, places: int = 0) -> nn.Module:
    """(N, inputs, *shape) -> (N, channels, *map), by the section `model`. A resnet stops halving once its map has
    `places` positions or fewer. Raises ValueError for a shape that does not suit the backbone, with one that does."""
    name, width, dims = wanted.backbone, wanted.width, len(shape)
    if name in RESNETS:
        return ResNet(name, width, wanted.norm, shape, places, inputs)
    # Late: the import takes longer than a prediction, and a resnet does without.
    from monai.networks import nets

    if name.startswith("densenet"):
        if min(shape) < 32:
            raise unfit(shape, [max(32, size) for size in shape], f"{name} halves each axis five times, from 32 on")
        whole = getattr(nets, name.replace("densenet", "DenseNet"))(dims, inputs, 1, 2 * width, growth_rate=width)
        layers = nn.Sequential(OrderedDict(features=whole.features, relu=nn.ReLU()))
        return swap_norm(Convolutional(layers), wanted.norm)
    if name.startswith("efficientnet"):
        return swap_norm(Convolutional(nets.EfficientNetBNFeatures(name, False, False, dims, inputs)), wanted.norm)
    if name == "vit":
        return VisionTransformer(inputs, width, shape, patches(wanted, shape))
    if name == "swinunetr":
        if any(size % 32 for size in shape):
            near = [max(32, 32 * round(size / 32)) for size in shape]
            raise unfit(shape, near, "swinunetr halves each axis five times and takes multiples of 32")
        return Swin(inputs, width, dims)
    raise ValueError(f"there is no backbone {name!r}")


def unfit(shape: Sequence[int], near: Sequence[int], reason: str) -> ValueError:
    return ValueError(f"{reason}: preprocess.input_shape {list(shape)} does not suit it; take {list(near)}")


def patches(wanted: Any, shape: Sequence[int]) -> list[int]:
    """Edge of a patch on each axis."""
    fixed = None if wanted.patch == "auto" else wanted.patch
    edges = [fixed or next((edge for edge in (16, 8) if not size % edge and size >= 8 * edge), 4) for size in shape]
    if any(size % edge for size, edge in zip(shape, edges, strict=True)):
        near = [max(edge, edge * round(size / edge)) for size, edge in zip(shape, edges, strict=True)]
        raise unfit(shape, near, f"vit cuts an image into patches of {' x '.join(map(str, edges))} (model.patch)")
    return edges


def map_of(encoder: nn.Module, shape: Sequence[int], inputs: int = 1) -> tuple[int, int]:
    """Channels and positions of the feature map for images of (inputs, *shape)."""
    with torch.no_grad():
        found = encoder.eval()(torch.zeros(1, inputs, *shape))
    encoder.train()
    return int(found.shape[1]), math.prod(found.shape[2:])


class Convolutional(nn.Module):
    """A network that gives a map, or the maps of all its stages, of which the last is taken."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        layout = torch.channels_last_3d if image.ndim == 5 else torch.channels_last
        found = self.network(image.contiguous(memory_format=layout))
        return found[-1] if isinstance(found, list | tuple) else found


class VisionTransformer(nn.Module):
    """Twelve layers over patches; heads of about 64 channels."""

    def __init__(self, inputs: int, width: int, shape: Sequence[int], patch: Sequence[int]) -> None:
        super().__init__()
        from monai.networks import nets

        hidden = 12 * width
        heads = next(count for count in range(max(1, hidden // 64), 0, -1) if hidden % count == 0)
        self.network = nets.ViT(
            inputs, tuple(shape), tuple(patch), hidden, 4 * hidden, num_heads=heads, spatial_dims=len(shape)
        )
        self.grid = tuple(size // edge for size, edge in zip(shape, patch, strict=True))

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        return self.network(image)[0].transpose(1, 2).unflatten(2, self.grid)


class Swin(Convolutional):
    """The encoder of SwinUNETR: shifted windows of 7, four stages of two layers."""

    def __init__(self, inputs: int, width: int, dims: int) -> None:
        import einops  # noqa: F401  (MONAI's needs it, and a package has what is imported)
        from monai.networks.nets.swin_unetr import SwinTransformer

        heads: Any = (3, 6, 12, 24)
        super().__init__(
            SwinTransformer(inputs, 3 * width, (7,) * dims, (2,) * dims, (2, 2, 2, 2), heads, spatial_dims=dims)
        )
