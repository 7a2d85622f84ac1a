"""Batches as nnU-Net's trainer draws them, for the probe before training: planned on a few cases, in a folder apart."""

import atexit
import shutil
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import cases
import plan
import torch
import train
from config import Config

from shared.training import masks
from shared.training.checkpoints import Attempt

PLANNED = {"train": 4, "val": 2}
"""Cases that the probe plans on and draws from, of those that can be read."""


class Batches(torch.utils.data.Dataset[dict[str, torch.Tensor]]):
    """Item n reads case n, so that its faults are known, and is a patch from the trainer's own batches: {"image":
    float32 (C, D, H, W) or (C, H, W), "labels": int64 without C}."""

    def __init__(self, config: Config, split: str) -> None:
        self.rows = rows_of(config, split)
        self.label_names = list(masks.label_values(config))
        self.root, self.values = config.data_folder, masks.label_values(config)
        trainer = tried(config.model_dump_json())
        self.batches = trainer.dataloader_train if split == "train" else trainer.dataloader_val
        self.augment = trainer.augment
        self.waiting: list[dict[str, torch.Tensor]] = []

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, number: int) -> dict[str, torch.Tensor]:
        masks.load_case(self.rows[number], self.root, self.values)
        if not self.waiting:
            batch = next(self.batches)
            self.waiting = [
                {"image": image, "labels": labels[0].long()}
                for image, labels in zip(batch["data"], batch["target"][0], strict=True)
            ]
        return self.waiting.pop()


def build(config: Config, split: str) -> Batches:
    """`split` is train (augmented) or val."""
    return Batches(config, split)


def rows_of(config: Config, split: str) -> list[dict[str, Any]]:
    return [row for row in masks.check_rows(config) if row["split"] == split]


@cache
def tried(settings: str) -> Any:
    """The trainer with network, loss and batches, on a few cases; plans.json counts where there is one."""
    config = Config.model_validate_json(settings)
    how = config.nnunet.model_copy(update={"workers": 0, "processes": 1})
    config = config.model_copy(update={"every_structure": False, "nnunet": how})
    root, values = config.data_folder, masks.label_values(config)
    chosen: list[dict[str, Any]] = []
    for split, count in PLANNED.items():
        good = (row for row in rows_of(config, split) if readable(row, root, values))
        chosen += [row for row, _ in zip(good, range(count), strict=False)]
    folder = Path(tempfile.mkdtemp(prefix="nnunet-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    plan.set_environment(config.nnunet, folder)
    plans = folder / "plans.json"
    if cases.PLANS.exists():
        shutil.copy(cases.PLANS, plans)
    prepared = cases.prepare(config, chosen, folder, device, plans)
    trainer = train.build_trainer(config, prepared, device, Attempt(1, 0.0), folder)
    trainer.dataloader_train, trainer.dataloader_val = trainer.get_dataloaders()
    return trainer


def readable(row: dict[str, Any], root: Path, values: dict[str, int]) -> bool:
    """Whether a case can be planned on; the faults of others are told where they are drawn."""
    try:
        image, _ = masks.load_case(row, root, values)
    except (ValueError, OSError):
        return False
    return bool(image.array.any())
