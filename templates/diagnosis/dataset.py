"""Rows of the index -> what the network is fed. The file to edit when a dataset needs something of its own.

Kept by whoever edits it, because train.py and the checks call them:
`resolve(config) -> Config` (no `auto` left), `build(config, split) -> Dataset` with `len()`, `.rows`, `.label_names`
and items {"image": float32 (1, D, H, W) or (1, H, W), "labels": int64 scalar, or float32 (classes,) if multi-label}.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from config import Config

from shared.trainkit.checks import DataProblems, Problem
from shared.trainkit.exported.imaging.inference import load_image, preprocess
from shared.trainkit.images import augment
from shared.trainkit.images.cases import Images, data_root
from shared.trainkit.images.survey import settle
from shared.trainkit.index import labels_of, read_index

Row = Mapping[str, Any]


class Dataset(Images):
    """One split. A label outside the label map raises DataProblems that names sample and label."""

    def __init__(self, config: Config, rows: Sequence[Row], label_names: Sequence[str], train: bool) -> None:
        targets = [encode(row, label_names, bool(config.multi_label)) for row in rows]
        super().__init__(config, rows, targets, asdict(config.preprocess), train)
        self.label_names = list(label_names)

    def __getitem__(self, number: int) -> dict[str, torch.Tensor]:
        image = self.seen(number)
        return {"image": image, "labels": self.targets[number]}

    def read(self, row: Row) -> np.ndarray:
        """Preprocessed, not augmented: float32 (1, ...). Raises BadImage."""
        return preprocess(load_image(self.files(row), row["attributes"])[0], row["attributes"], self.how)


def build(config: Config, split: str) -> Dataset:
    """`split` is train (augmented) or val. `auto` in the configuration is settled first."""
    config = resolve(config)
    rows = [row for row in read_index(config.index) if row["split"] == split]
    return Dataset(config, rows, label_names(config), train=split == "train")


def label_names(config: Config) -> list[str]:
    return list(json.loads(Path(config.label_map).read_text(encoding="utf-8"))["names"])


def encode(row: Row, names: Sequence[str], multi_label: bool) -> torch.Tensor:
    found = labels_of(row)
    unknown = [label for label in found if label not in names]
    if unknown or (not multi_label and len(found) != 1):
        text = f"has the label {unknown[0]!r}, which is not in the label map" if unknown else f"has {len(found)} labels"
        raise DataProblems([Problem(str(row["sample_id"]), text)])
    if not multi_label:
        return torch.tensor(list(names).index(found[0]))
    return torch.tensor([float(name in found) for name in names])


def resolve(config: Config) -> Config:
    """Replace every `auto` by what training rows and up to 24 of their images show. A second call changes nothing."""
    rows = [row for row in read_index(config.index) if row["split"] == "train"]
    root, multi_label = data_root(config), config.multi_label
    if multi_label == "auto":
        multi_label = any(isinstance(row["label"], list | tuple) for row in rows)
    how = settle(
        config.preprocess, rows, lambda row: load_image([root / f for f in row["files"]], row["attributes"])[0]
    )
    sided = any({"left", "right"} & set(name.lower().replace("_", " ").split()) for name in label_names(config))
    settled = augment.settle(config.augmentation, rows, how, sided)
    return config.model_copy(update={"multi_label": multi_label, "preprocess": how, "augmentation": settled})
