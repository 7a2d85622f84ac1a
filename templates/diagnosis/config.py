"""The settings of config.yaml, typed. Unknown keys and wrong values are refused together, each by name.

The section `training` says how train.py trains; all others also say what the model is. data.py settles `auto`.
"""

from pathlib import Path
from typing import Literal

import sections
from sections import Augmentation, Preprocess

from shared.training import configfile
from shared.training.configfile import Section, Source, load_config


class Model(sections.Backbone):
    dropout: float = 0.2
    """Before the last layer."""


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


class Training(configfile.FittedTraining):
    """Further keys, from epochs to seed, stand in shared/training/configfile.py."""

    metric: Literal[
        "auc_macro", "auc_macro_by_patient", "balanced_accuracy", "accuracy", "f1_macro", "quadratic_kappa"
    ] = "auc_macro"
    """Chooses the weights, on the validation part."""
    sampling: Literal["shuffled", "balanced"] = "shuffled"
    """balanced: samples are drawn so that an epoch sees every class equally often; loss.class_weights is then off."""


class Config(Source):
    """`index` and `data_root` stand in shared/training/configfile.py."""

    label_map: str = "label_map.json"
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
    return load_config(path, Config)
