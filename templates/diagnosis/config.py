"""The settings of config.yaml, typed. Unknown keys and wrong values are refused together, each by name.

The section `training` says how train.py trains; all others also say what the model is. `auto` is settled by data.py
from the training images before anything is built.
"""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from shared.training import configfile
from shared.training.configfile import ConfigError, Section, load_config

__all__ = ["Config", "ConfigError", "load"]

Part = Annotated[float, Field(ge=0, lt=1)]


class Preprocess(Section):
    """What is done to every image, in training and in use (images.py)."""

    input_shape: tuple[int, int] | tuple[int, int, int] | Literal["auto"] = "auto"
    """(D, H, W) of a volume or (H, W) of a picture, to which images are resampled."""
    channels: int | Literal["auto"] = "auto"
    """Of an image. Three of a picture are colour, for which a grey one is taken, too; where there is one, colour
    becomes grey."""
    views: int | Literal["auto"] = Field(default="auto")
    """Images of one case that are seen beside each other, each on its own grid; auto: what 95 % of the cases have."""
    intensity: Literal["auto", "zscore", "minmax", "window"] = "auto"
    """zscore: mean 0 and deviation 1 of each image; minmax: the 0.5 and 99.5 percentile of each image become -1 and 1;
    both for each channel by itself but for colour. window: `window` becomes -1 to 1."""
    window: tuple[float, float] | None = None
    """[low, high] in the image's own units, HU for CT."""


class Model(Section):
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
    dropout: float = 0.2
    """Before the last layer."""
    weights: str | None = None
    """A .safetensors or .pt file to begin with, absolute or relative to the workspace (pretrained.py)."""


class Loss(Section):
    """model.py has the formulas."""

    name: Literal["auto", "cross_entropy", "focal", "bce", "asymmetric"] = "auto"
    """cross_entropy or focal; where several labels may hold bce, focal or asymmetric. auto is the first of these."""
    class_weights: Literal["balanced", "none"] = "balanced"
    label_smoothing: float = 0.05
    """Of cross_entropy."""
    focal_gamma: float = 2.0
    gamma_absent: float = 4.0
    gamma_present: float = 1.0
    margin: float = 0.05
    """The last three are of asymmetric."""


class Augmentation(Section):
    """Applied to batches of training images, to each image by itself, in preprocessed units (augment.py). 0 switches
    a part off."""

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


class Training(configfile.Training):
    """Further keys: epochs, train_seconds, batch_size, accumulate, learning_rate, weight_decay, patience, save_seconds,
    precision, processes, workers, seed (shared/training/configfile.py)."""

    metric: Literal["auc_macro", "auc_macro_by_patient", "balanced_accuracy", "accuracy", "f1_macro"] = "auc_macro"
    """Chooses the weights, on the validation part."""
    sampling: Literal["shuffled", "balanced"] = "shuffled"
    """balanced: samples are drawn so that an epoch sees every class equally often; loss.class_weights is then off."""


class Config(Section):
    index: str = "train_index.jsonl"
    label_map: str = "label_map.json"
    data_root: str | None = None
    """Folder that the index's files are relative to; null takes $M3_DATA, else the working directory."""
    cache: str | None = "cache"
    """Folder of preprocessed samples; null keeps them in memory only."""
    multi_label: bool | Literal["auto"] = "auto"
    """Several labels may hold for one sample. auto: if any row of the index has a list of labels."""
    preprocess: Preprocess = Preprocess()
    model: Model = Model()
    loss: Loss = Loss()
    augmentation: Augmentation = Augmentation()
    training: Training = Training()


def load(path: str | Path) -> Config:
    """Raises ConfigError with everything that is wrong."""
    return load_config(path, Config)
