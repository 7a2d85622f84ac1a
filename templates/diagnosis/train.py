"""Train a classifier: `python train.py --config config.yaml`, or `python train.py --smoke` for a try-out in seconds.

Reads train_index.jsonl and label_map.json, images below $M3_DATA. Leaves progress.jsonl, metrics.json (validation
only), checkpoints/ and package/ in the working directory. A second call with the same configuration, data and code
goes on from the newest intact checkpoint. Exit codes: 0 done, 1 the training failed, 2 configuration or data are
wrong (all problems are listed), 143 stopped by SIGTERM with a checkpoint saved.
"""

import math
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

# Set before the frameworks are imported: nothing here may look for a network.
os.environ.setdefault("HF_HUB_OFFLINE", "1")
# Threads that wait do not spin: on a machine shared with others that costs half the speed.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import config
import dataset
import model
import torch

from shared.trainkit.checks import Problem, label_problems
from shared.trainkit.images import run
from shared.trainkit.images.task import Costs, Measured, Row, Task
from shared.trainkit.index import labels_of


class Diagnosis(Task):
    name = "diagnosis"
    folder = Path(__file__).resolve().parent
    load = staticmethod(config.load)
    dataset = dataset
    undefined = (
        "{metric} was never defined on the validation part\n"
        "give the split val samples of at least two classes, or choose training.metric accuracy"
    )

    def inputs(self, config: Any) -> list[Path]:
        return [Path(config.label_map), *super().inputs(config)]

    def problems(self, config: Any, rows: Sequence[Row]) -> list[Problem]:
        return label_problems(rows, dataset.label_names(config))

    def model(self, config: Any, train_set: Any) -> torch.nn.Module:
        from metrics import class_weights

        weights = None
        if config.loss.class_weights == "balanced" and config.training.sampling == "shuffled":
            weights = class_weights(hot(train_set, config.multi_label).numpy(), bool(config.multi_label))
        return model.build(config, len(train_set.label_names), weights)

    def costs(self, config: Any, model: Any, val_set: Any, batch_seconds: float) -> Costs:
        # An evaluation has no backward pass: about a third of the work.
        seconds = batch_seconds / 3 * math.ceil(len(val_set) / config.training.batch_size)
        return Costs(evaluation=seconds, final=seconds)

    def trainer(self, config: Any, **fields: Any) -> Any:
        from metrics import scores

        from shared.trainkit.images.sampling import SamplingTrainer, balanced

        val_set, train_set = fields["eval_dataset"], fields["train_dataset"]
        patients = [str(row["patient"]) for row in val_set.rows]
        even = config.training.sampling == "balanced"
        return SamplingTrainer(
            sampler=balanced(hot(train_set, config.multi_label), config.training.seed) if even else None,
            compute_metrics=lambda found: {
                name: math.nan if value is None else value
                for name, value in scores(
                    found.predictions, found.label_ids, bool(config.multi_label), patients
                ).items()
            },
            **fields,
        )

    def measure(self, config: Any, model: Any, trainer: Any, val_set: Any) -> Measured:
        from metrics import auc_by_class, scores

        found = trainer.predict(val_set)
        patients = [str(row["patient"]) for row in val_set.rows]
        several = bool(config.multi_label)
        by_class = auc_by_class(found.predictions, found.label_ids, several)
        return Measured(
            metrics=scores(found.predictions, found.label_ids, several, patients),
            more={
                "auc_by_class": dict(zip(val_set.label_names, by_class, strict=True)),
                "multi_label": several,
                "patients": {"val": len(set(patients))},
            },
        )

    def packaged(self, config: Any) -> dict[str, Any]:
        return {"multi_label": bool(config.multi_label)}

    def facts(self, config: Any, rows: Sequence[Row], train_set: Any) -> dict[str, Any]:
        counts: dict[str, dict[str, int]] = {"train": {}, "val": {}}
        for row in rows:
            for label in labels_of(row):
                counts[row["split"]][label] = counts[row["split"]].get(label, 0) + 1
        how, wanted = config.preprocess, config.model
        deep = len(how.input_shape) == 3
        kind = "scan: a folder of slices, a NIfTI, DICOM" if deep else "image: a PNG, JPG, DICOM"
        several = (
            " Several labels may hold for one INPUT; those with 0.5 or more are named." if config.multi_label else ""
        )
        return {
            "label_names": train_set.label_names,
            "input_text": (
                f"One INPUT is one {kind} or npy or pt file. It is normalised ({how.intensity}"
                f"{f' {how.window}' if how.window else ''}) and resampled to {tuple(how.input_shape)}, axes "
                f"{'(D, H, W)' if deep else '(H, W)'}.{several}"
            ),
            "input_shape": (1, *how.input_shape),
            "counts": counts,
            "model": f"{wanted.backbone} (width {wanted.width}, {wanted.norm} norm)",
        }


def hot(data: Any, multi_label: bool) -> torch.Tensor:
    """(samples, classes) of 0 and 1."""
    targets = torch.stack(data.targets)
    return targets if multi_label else torch.nn.functional.one_hot(targets, len(data.label_names))


if __name__ == "__main__":
    sys.exit(run.main(__doc__, Diagnosis()))
