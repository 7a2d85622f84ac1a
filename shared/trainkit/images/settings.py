"""The typed configuration that both templates share; their config.py add what is their own."""

from typing import Annotated, Literal

from pydantic import Field

from shared.trainkit.configfile import Section
from shared.trainkit.exported.imaging.inference import Preprocess

Part = Annotated[float, Field(ge=0, lt=1)]


class Augmentation(Section):
    """Applied to each training image by itself, in preprocessed units; 0 switches a part off."""

    modality: Literal["auto", "ct", "mr", "xray", "ultrasound", "other"] = "auto"
    """Settles what stands on auto below (table in augment.py). auto: the rows' attribute `modality`, where all training
    rows have the same; else ct where values are in HU; else other."""
    flip_axes: tuple[Literal["D", "H", "W"], ...] | Literal["auto"] = "auto"
    """Axes that may be mirrored. auto: W (left-right in an axial slice), none where class names or reports speak of a
    side."""
    probability: float = Field(default=0.5, ge=0, le=1)
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


class Training(Section):
    """A template adds `metric`, which chooses the weights, and its own bounds."""

    epochs: int = Field(default=40, ge=1)
    """Upper bound; `train_seconds` and `patience` may end it earlier."""
    train_seconds: float | None = Field(default=600, gt=0)
    """Wall seconds of the whole command, reading and packaging included; null is no bound."""
    batch_size: int = Field(default=8, ge=1)
    """Of each process. Halved, with `accumulate` doubled, where the memory does not hold it."""
    accumulate: int = Field(default=1, ge=1)
    """Batches whose gradients are added up for one step."""
    learning_rate: float = Field(default=1e-3, gt=0)
    weight_decay: float = Field(default=0.05, ge=0)
    patience: int = Field(default=15, ge=0)
    """Evaluations without a better metric after which training ends; 0 is never."""
    save_seconds: float = Field(default=15, ge=0)
    """At most one checkpoint in this time; a killed training loses no more than that and an epoch."""
    precision: Literal["auto", "fp32", "fp16", "bf16"] = "auto"
    """auto: mixed precision on a GPU only. bf16 is done on a CPU, too; fp16 is fp32 there."""
    processes: Annotated[int, Field(ge=1)] | Literal["auto"] = "auto"
    """That train together, each on its own batches. auto: one for each GPU that can be seen; one without a GPU."""
    workers: int | Literal["auto"] = "auto"
    """Processes that load data. auto: none on fewer than eight cores."""
    seed: int = 0


class Settings(Section):
    """A template adds `model`, `loss` and `training`, and what is its own."""

    index: str = "train_index.jsonl"
    data_root: str | None = None
    """Folder that the index's files are relative to; null takes $M3_DATA, else the working directory."""
    cache: str | None = "cache"
    """Folder of preprocessed samples; null keeps them in memory only."""
    preprocess: Preprocess = Preprocess()
