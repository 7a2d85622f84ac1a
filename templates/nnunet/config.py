"""The typed configuration. Unknown keys and wrong values are refused together; `auto` follows machine and data."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from shared.training.configfile import Section, load_config
from shared.training.masks import Source


class Nnunet(Section):
    """nnU-Net plans patch, network and normalisation itself; what stands here bounds it."""

    configuration: Literal["auto", "2d", "3d_fullres"] = "auto"
    """auto: 3d_fullres for volumes, 2d for pictures."""
    modality: Literal["auto", "ct", "other"] = "auto"
    """ct: clipped and scaled by the intensities of all structures; other: z-score an image. auto: ct where most images
    have values below -500 (HU)."""
    memory_gb: Annotated[float, Field(gt=0)] | Literal["auto"] = "auto"
    """What the planner aims at; decides patch and batch. auto: up to 8 on a GPU, 0.15 on a CPU, so that an iteration
    takes about a second."""
    features: Annotated[int, Field(ge=4)] | Literal["auto"] = "auto"
    """Channels of the first stage. auto: 32 on a GPU, 8 on a CPU."""
    epochs: Annotated[int, Field(ge=1)] | Literal["auto"] = "auto"
    """Upper bound, as is the time. auto: 1000."""
    iterations: Annotated[int, Field(ge=1)] | Literal["auto"] = "auto"
    """Batches an epoch. auto: at most 250, and as many as a twentieth of the time has."""
    learning_rate: float = Field(default=0.01, gt=0)
    """At the start; it falls to zero by the end of the time or of the epochs, whichever comes first."""
    mirror: Literal["auto", "all", "none"] = "auto"
    """Mirrored training patches. auto: all axes, none if the name of a structure speaks of a side."""
    mirrored_prediction: bool | Literal["auto"] = "auto"
    """Average over mirrored images when predicting, up to eight times slower. auto: on a GPU."""
    save_seconds: float = Field(default=15, ge=0)
    """At most one checkpoint in this time, always after a whole epoch."""
    processes: Annotated[int, Field(ge=1)] | Literal["auto"] = "auto"
    """That preprocess. auto: one for every four cores."""
    workers: Annotated[int, Field(ge=0)] | Literal["auto"] = "auto"
    """Processes that augment. auto: none on fewer than eight cores."""


class Training(Section):
    train_seconds: float | None = Field(default=7200, gt=0)
    """Wall seconds of the whole command, planning and packaging included; null is no bound."""
    seed: int = 0


class Config(Source):
    """The first keys, from `index` to `score_map`, stand in shared/training/masks.py."""

    nnunet: Nnunet = Nnunet()
    training: Training = Training()


def load(path: str | Path) -> Config:
    return load_config(path, Config)
