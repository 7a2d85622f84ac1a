"""The kinds of training that there are: a template, its dimensions, one label or several, its engine."""

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.rig import data
from bench.rig.workspace import Json, Workspace

EPOCHS = 6
"""Of the small trainings: enough to be killed in the middle."""
SHAPES = {2: (40, 40), 3: (12, 32, 32)}
"""Of the small images."""


@dataclass(frozen=True)
class Kind:
    template: data.Task
    dimensions: int
    multi_label: bool = False
    engine: str = ""
    """monai or nnunet for a segmentation."""

    @property
    def folder(self) -> str:
        """Below templates/."""
        return {"monai": "segmentation", "nnunet": "nnunet"}.get(self.engine, self.template)

    @property
    def base(self) -> Json:
        """What a configuration of this kind has in any case."""
        lesions = {"task": "anomaly_detection", "every_structure": False, "score_map": True}
        return lesions if self.template == "anomaly_detection" else {}

    @property
    def name(self) -> str:
        labels = "" if self.template != "diagnosis" else " multi-label" if self.multi_label else " single-label"
        return f"{self.template} {self.dimensions}D{labels}{' ' + self.engine if self.engine else ''}"

    def data(
        self, folder: Path, shape: tuple[int, ...] | None = None, count: int = 15, contrast: float = 90
    ) -> list[Path]:
        """Make small data in a new folder. -> INPUTs for predict.py."""
        shape = shape or SHAPES[self.dimensions]
        return data.make(folder, self.template, shape, count, multi_label=self.multi_label, contrast=contrast)

    def workspace(self, folder: Path, made: Path, config: Json | None = None, threads: int = 1) -> Workspace:
        """A new one on data that lie in `made`; `config` is `small` where none is given."""
        space = Workspace(folder, self.folder, config or self.small(), threads, made / "data")
        for name in ("train_index.jsonl", "label_map.json"):
            shutil.copy(made / name, folder / name)
        return space

    def small(self, epochs: int = EPOCHS) -> Json:
        """A configuration that trains in seconds, with a checkpoint after each epoch."""
        training: dict[str, Any] = {"epochs": epochs, "train_seconds": None, "patience": 0, "save_seconds": 0}
        if self.template == "diagnosis":
            shape = [32, 32] if self.dimensions == 2 else [8, 24, 24]
            return {
                "preprocess": {"input_shape": shape},
                "model": {"width": 8},
                "training": {**training, "batch_size": 4},
            }
        if self.template == "report_generation":
            shape = [32, 32] if self.dimensions == 2 else [8, 24, 24]
            return {
                "preprocess": {"input_shape": shape},
                "model": {"width": 8, "hidden": 32, "layers": 1},
                "training": {**training, "batch_size": 4},
            }
        if self.engine == "nnunet":
            settings = {"features": 4, "memory_gb": 0.1, "epochs": epochs, "iterations": 4, "save_seconds": 0}
            return {**self.base, "nnunet": settings, "training": {"train_seconds": None}}
        return {**self.base, "model": {"width": 8, "levels": 3}, "training": training}


KINDS: tuple[Kind, ...] = (
    *(Kind("diagnosis", dimensions, many) for dimensions in (2, 3) for many in (False, True)),
    *(Kind("report_generation", dimensions) for dimensions in (2, 3)),
    *(
        Kind(template, dimensions, engine=engine)
        for template in ("organ_segmentation", "anomaly_detection")
        for dimensions in (2, 3)
        for engine in ("monai", "nnunet")
    ),
)
