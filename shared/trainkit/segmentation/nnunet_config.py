"""The settings of the nnU-Net engine, section `nnunet:` of config.yaml. `auto` follows the machine and the data."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class NnunetConfig(BaseModel):
    """nnU-Net plans patch, network and normalisation itself; what stands here bounds it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    configuration: Literal["auto", "2d", "3d_fullres"] = "auto"
    """auto: 3d_fullres for volumes, 2d for pictures."""
    modality: Literal["auto", "ct", "other"] = "auto"
    """ct: clipped and scaled by the intensities of all structures; other: z-score an image. auto: ct where most images
    have values below -500 (HU)."""
    memory_gb: float | Literal["auto"] = Field(default="auto", gt=0)
    """What the planner aims at; decides patch and batch. auto: up to 8 on a GPU, 0.15 on a CPU, so that an iteration
    takes about a second."""
    features: int | Literal["auto"] = Field(default="auto", ge=4)
    """Channels of the first stage. auto: 32 on a GPU, 8 on a CPU."""
    epochs: int | Literal["auto"] = Field(default="auto", ge=1)
    """Upper bound. auto: as many as fit into the time, 1000 without a bound."""
    patience: int = Field(default=0, ge=0)
    """Epochs without a better Dice of patches (smoothed) after which training ends; 0 is never: the rate falls by plan,
    and an early end leaves it high."""
    iterations: int | Literal["auto"] = Field(default="auto", ge=1)
    """Batches an epoch. auto: so that there are some twenty epochs, at most 250."""
    learning_rate: float = Field(default=0.01, gt=0)
    """At the start; it falls to zero by the end of the time or of the epochs, whichever comes first."""
    mirror: Literal["auto", "all", "none"] = "auto"
    """Mirrored training patches. auto: all axes, none if the name of a structure speaks of a side."""
    mirrored_prediction: bool | Literal["auto"] = "auto"
    """Average over mirrored images when predicting, up to eight times slower. auto: on a GPU."""
    save_seconds: float = Field(default=15, ge=0)
    """At most one checkpoint in this time, always after a whole epoch."""
    processes: int | Literal["auto"] = Field(default="auto", ge=1)
    """That preprocess. auto: by cores and memory, one on fewer than four cores."""
    workers: int | Literal["auto"] = Field(default="auto", ge=0)
    """Processes that augment. auto: none on fewer than eight cores."""
    compile: bool = False
    """torch.compile on a GPU: minutes to begin with, faster iterations."""
    start_over: bool = False
    """Where checkpoints of another configuration or data lie: true sets them aside and begins anew; false refuses."""
