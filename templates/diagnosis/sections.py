"""Sections of config.yaml that both image templates have. `auto` is settled by data.py from the training images."""

from typing import Annotated, Literal

from pydantic import Field

from shared.training.configfile import Section

Part = Annotated[float, Field(ge=0, lt=1)]


class Preprocess(Section):
    """What is done to every image, in training and in use (images.py)."""

    input_shape: tuple[int, int] | tuple[int, int, int] | Literal["auto"] = "auto"
    """(D, H, W) of a volume or (H, W) of a picture, to which images are resampled."""
    channels: int | Literal["auto"] = "auto"
    """Of an image. Three of a picture are colour, for which a grey one is taken, too; where there is one, colour
    becomes grey."""
    intensity: Literal["auto", "zscore", "minmax", "window"] = "auto"
    """zscore: mean 0 and deviation 1 of each image; minmax: the 0.5 and 99.5 percentile of each image become -1 and 1;
    both for each channel by itself but for colour. window: `window` becomes -1 to 1."""
    window: tuple[float, float] | None = None
    """[low, high] in the image's own units, HU for CT."""
    passes: int = Field(default=12, ge=0)
    """`input_shape: auto` is smaller where a CPU would not see each training image so often in the time. 0: never."""
    views: int | Literal["auto"] = "auto"
    """Images of one case that are seen beside each other, each on its own grid; further ones are left out. auto: what
    95 % of the cases have, at most four."""


class Backbone(Section):
    """The network (networks.py)."""

    backbone: Literal[
        "resnet10", "resnet18", "resnet34", "resnet50",
        "densenet121", "densenet169", "densenet201",
        "efficientnet-b0", "efficientnet-b1", "efficientnet-b2", "efficientnet-b3", "efficientnet-b4",
        "vit", "swinunetr",
    ] = "resnet10"  # fmt: skip
    width: int = 16
    """Size: channels of the first stage (resnet), growth rate (densenet), a twelfth of the hidden size (vit: 16 is
    ViT-Ti, 64 ViT-B), a third of the feature size (swinunetr: 16 is the usual 48); efficientnets have none."""
    norm: Literal["batch", "group", "instance"] = "batch"
    """batch learns fastest (measured); group and instance do not depend on the batch, for batches below four. vit and
    swinunetr have their own."""
    patch: int | Literal["auto"] = "auto"
    """Of vit: edge of a patch; auto takes the largest of 16, 8, 4 that leaves eight patches on each axis."""
    weights: str | None = None
    """A .safetensors or .pt file for the backbone to begin with, absolute or relative to the
    workspace (pretrained.py)."""


class Augmentation(Section):
    """Of each training image by itself, in preprocessed units (augment.py). 0 switches a part off."""

    modality: Literal["auto", "ct", "mr", "xray", "ultrasound", "other"] = "auto"
    """Settles what stands on auto below. auto: ct where values are in HU, else other."""
    flip_axes: tuple[Literal["D", "H", "W"], ...] | Literal["auto"] = "auto"
    """Axes that may be mirrored. auto: W (left-right in an axial slice), none where labels speak of a side."""
    probability: float = Field(default=0.5, ge=0, le=1)
    """Of each part."""
    rotate_degrees: float = Field(default=10, ge=0, le=180)
    """In the plane of a slice."""
    scale: float = Field(default=0.1, ge=0, lt=1)
    shift: float = Field(default=0.05, ge=0, lt=1)
    """Part of the image's size."""
    brightness: Part | Literal["auto"] = "auto"
    """Values are scaled and shifted by up to this."""
    gamma: Part | Literal["auto"] = "auto"
    """Contrast is bent with an exponent of up to this away from 1."""
    bias_field: Part | Literal["auto"] = "auto"
    """A smooth field of up to about this part, as the coils of an MR scanner leave it."""
    noise: Annotated[float, Field(ge=0)] | Literal["auto"] = "auto"
    """Largest standard deviation."""
