"""The typed configuration. Unknown keys and wrong values are refused together, each by name."""

from pathlib import Path
from typing import Literal

from inference import Preprocess
from model import LossConfig, ModelConfig
from pydantic import Field

from shared.trainkit.configfile import ConfigError, Section, load_config

__all__ = ["Config", "ConfigError", "load"]


class Augmentation(Section):
    """Applied to each training sample by itself, in preprocessed units; 0 switches a part off."""

    flip_axes: tuple[Literal["D", "H", "W"], ...] | Literal["auto"] = "auto"
    """Axes that may be mirrored. auto: W (left-right in an axial slice), none if a class name speaks of a side."""
    probability: float = Field(default=0.5, ge=0, le=1)
    rotate_degrees: float = Field(default=10, ge=0, le=180)
    """In the plane of a slice."""
    scale: float = Field(default=0.1, ge=0, lt=1)
    shift: float = Field(default=0.05, ge=0, lt=1)
    """Part of the image's size."""
    brightness: float = Field(default=0.1, ge=0, lt=1)
    """Values are scaled and shifted by up to this."""
    noise: float = Field(default=0.05, ge=0)


class Training(Section):
    epochs: int = Field(default=40, ge=1)
    """Upper bound; `train_seconds` and `patience` may end it earlier."""
    train_seconds: float | None = Field(default=600, gt=0)
    """Wall seconds of the whole command, reading and packaging included; null is no bound."""
    batch_size: int = Field(default=8, ge=1)
    accumulate: int = Field(default=1, ge=1)
    """Batches whose gradients are added up for one step."""
    learning_rate: float = Field(default=1e-3, gt=0)
    weight_decay: float = Field(default=0.05, ge=0)
    metric: Literal["auc_macro", "balanced_accuracy", "accuracy", "f1_macro"] = "auc_macro"
    """Chooses the weights, on the validation part."""
    patience: int = Field(default=15, ge=0)
    """Epochs without a better metric after which training ends; 0 is never."""
    save_seconds: float = Field(default=15, ge=0)
    """At most one checkpoint in this time; a killed training loses no more than that and an epoch."""
    precision: Literal["auto", "fp32", "fp16", "bf16"] = "auto"
    """auto: mixed precision on a GPU only."""
    workers: int | Literal["auto"] = "auto"
    """Processes that load data. auto: none on fewer than eight cores."""
    seed: int = 0


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
    model: ModelConfig = ModelConfig()
    loss: LossConfig = LossConfig()
    augmentation: Augmentation = Augmentation()
    training: Training = Training()


def load(path: str | Path) -> Config:
    """Raises ConfigError with everything that is wrong."""
    return load_config(path, Config)
