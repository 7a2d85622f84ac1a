"""What a template adds to the program that both share: the abstract `Task` that its train.py fills in."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import torch

from shared.trainkit.checks import Problem

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Costs:
    """Seconds beside the training steps."""

    evaluation: float
    final: float
    """Of the last evaluation, which `metrics.json` has."""


@dataclass(frozen=True)
class Measured:
    """What the delivered weights reach on the validation part."""

    metrics: dict[str, float | None]
    more: dict[str, Any] = field(default_factory=dict)
    """Further entries of metrics.json."""
    limits: tuple[str, ...] = ()
    """Sentences for the model card."""
    files: dict[str, Any] = field(default_factory=dict)
    """Further JSON files of the working directory, by name."""


class Task:
    name: ClassVar[str]
    folder: Path
    """With predict.py and model.py."""
    exported: ClassVar[tuple[str, ...]] = ("predict.py", "model.py")
    """Files of the folder that the package gets."""
    imported: ClassVar[tuple[str, ...]] = ("torch", "numpy", "safetensors", "nibabel", "pydicom", "pillow")
    """Distributions that they need; MONAI is added where the backbone is its."""
    load: Any
    """config.load."""
    dataset: Any
    """The module dataset of the folder."""
    undefined: ClassVar[str]
    """Two lines for a training whose metric was never defined."""

    def inputs(self, config: Any) -> list[Path]:
        """Files beside the index that make a training another one."""
        return [Path(config.model.weights)] if config.model.weights else []

    def problems(self, config: Any, rows: Sequence[Row]) -> list[Problem]:
        """What can be said without opening an image."""
        raise NotImplementedError

    def model(self, config: Any, train_set: Any) -> torch.nn.Module:
        """Raises ValueError where the configuration does not make one."""
        raise NotImplementedError

    def costs(self, config: Any, model: Any, val_set: Any, batch_seconds: float) -> Costs:
        """`config.training` has the batch that is trained with; `batch_seconds` are those of one."""
        raise NotImplementedError

    def trainer(self, config: Any, **fields: Any) -> Any:
        """`fields` are a Transformers Trainer's; its evaluation gives `training.metric`."""
        raise NotImplementedError

    def measure(self, config: Any, model: Any, trainer: Any, val_set: Any) -> Measured:
        """Called in every process of the training."""
        raise NotImplementedError

    def every(self, config: Any, steps: int) -> int:
        """Epochs between evaluations, where an epoch has so many steps."""
        return 1

    def packaged(self, config: Any) -> dict[str, Any]:
        """config.json of the package, beside the sections that both templates have."""
        raise NotImplementedError

    def facts(self, config: Any, rows: Sequence[Row], train_set: Any) -> dict[str, Any]:
        """Fields of PackageFacts: label_names, input_text, input_shape, counts, model, and output where it is text."""
        raise NotImplementedError

    def files(self, train_set: Any) -> list[Path]:
        """Further files of the package, written below checkpoints/."""
        return []
