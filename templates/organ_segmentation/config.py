"""The typed configuration: keys in shared/trainkit/segmentation/settings.py, the loss in model.py. Unknown keys and
wrong values are refused together, each by name."""

from pathlib import Path

from model import LossConfig

from shared.trainkit.configfile import ConfigError, load_config
from shared.trainkit.segmentation.settings import Settings

__all__ = ["Config", "ConfigError", "load"]


class Config(Settings):
    loss: LossConfig = LossConfig()


def load(path: str | Path) -> Config:
    """Raises ConfigError with everything that is wrong."""
    return load_config(path, Config)
