"""The typed configuration: what lesions need beside shared/trainkit/segmentation/settings.py; the loss in model.py.
Unknown keys and wrong values are refused together, each by name."""

from pathlib import Path

from model import LossConfig
from pydantic import Field

from shared.trainkit.configfile import ConfigError, load_config
from shared.trainkit.segmentation.settings import Sampling, Settings

__all__ = ["Config", "ConfigError", "load"]


class LesionSampling(Sampling):
    small_lesions: float = Field(default=0.5, ge=0, le=1)
    """Which lesion of an image a patch is drawn around: 0 by their sizes, 1 each alike, so that small ones count."""
    empty_images: float = Field(default=0.25, ge=0, lt=1)
    """At most this part of an epoch comes from images without any lesion."""


class Config(Settings):
    loss: LossConfig = LossConfig()
    sampling: LesionSampling = LesionSampling()
    score_map: bool = True
    """Whether the package writes the probability of any lesion beside each mask."""


def load(path: str | Path) -> Config:
    """Raises ConfigError with everything that is wrong."""
    return load_config(path, Config)
