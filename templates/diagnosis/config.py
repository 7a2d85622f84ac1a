"""The typed configuration: keys that report generation has, too, in shared/trainkit/images/settings.py, network and
loss in model.py. Unknown keys and wrong values are refused together, each by name."""

from pathlib import Path
from typing import Literal

from model import LossConfig, ModelConfig

from shared.trainkit.configfile import ConfigError, load_config
from shared.trainkit.images import settings

__all__ = ["Config", "ConfigError", "load"]


class Training(settings.Training):
    metric: Literal["auc_macro", "auc_macro_by_patient", "balanced_accuracy", "accuracy", "f1_macro"] = "auc_macro"
    """Chooses the weights, on the validation part."""
    sampling: Literal["shuffled", "balanced"] = "shuffled"
    """balanced: samples are drawn so that an epoch sees every class equally often; loss.class_weights is then off."""


class Config(settings.Settings):
    label_map: str = "label_map.json"
    multi_label: bool | Literal["auto"] = "auto"
    """Several labels may hold for one sample. auto: if any row of the index has a list of labels."""
    model: ModelConfig = ModelConfig()
    loss: LossConfig = LossConfig()
    augmentation: settings.Augmentation = settings.Augmentation()
    training: Training = Training()


def load(path: str | Path) -> Config:
    """Raises ConfigError with everything that is wrong."""
    return load_config(path, Config)
