"""Rows of the index -> what the network is fed. images.py has the image of a case, here are its labels.

train.py and the checks call `resolve` and `build`; the rest is free to change. A row is a line of train_index.jsonl:
sample_id, patient, files, split, and label: a class name, or a list of names.
"""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import images
import torch
from images import Row, rows_of

from shared.training.sides import sided


class Cases(images.Cases):
    """One split. Items are {"image": float32 (views * C, ...), "labels": int64, or float32 (classes,) of 0 and 1}."""

    def __init__(self, config: Any, rows: Sequence[Row], cache: Any = None) -> None:
        super().__init__(config, rows, cache)
        self.label_names, self.ordered = label_names(config), ordered(config)
        self.targets = [target(row, self.label_names, bool(config.multi_label)) for row in rows]

    def __getitem__(self, number: int) -> dict[str, torch.Tensor]:
        image = images.as_tensor(self.image(self.rows[number]))
        return {"image": image, "labels": self.targets[number]}


def build(config: Any, split: str, cache: Any = None) -> Cases:
    """`split` is train or val. `auto` in the configuration is settled first."""
    config = resolve(config)
    return Cases(config, [row for row in rows_of(config) if row["split"] == split], cache)


def resolve(config: Any) -> Any:
    """Replace every `auto` by what training rows and their images show. A second call changes nothing."""
    rows = [row for row in rows_of(config) if row["split"] == "train"]
    several = config.multi_label
    if several == "auto":
        several = any(isinstance(row.get("label"), list) for row in rows)
    return images.resolve(config, rows, sided(label_names(config)), slices=True).model_copy(
        update={"multi_label": several}
    )


def label_names(config: Any) -> list[str]:
    return list(_label_map(config)["names"])


def ordered(config: Any) -> bool:
    """Whether classes are grades, from least to most."""
    return bool(_label_map(config).get("ordered"))


def _label_map(config: Any) -> dict[str, Any]:
    return dict(json.loads(Path(config.label_map).read_text(encoding="utf-8")))


def target(row: Row, names: Sequence[str], several: bool) -> torch.Tensor:
    """The number of the one class, or 0 and 1 for each. Raises ValueError for a label that is not among `names`."""
    label = row.get("label")
    held = [label] if isinstance(label, str) else list(label or [])
    if unknown := sorted({*held} - {*names}):
        raise ValueError(f"{row['sample_id']} has the label {unknown[0]!r}, which is not in the label map")
    if several:
        return torch.tensor([float(name in held) for name in names])
    if len(held) != 1:
        raise ValueError(f"{row['sample_id']} has {len(held)} labels where one is expected")
    return torch.tensor(list(names).index(held[0]))


class Balanced(torch.utils.data.WeightedRandomSampler):
    """As many draws as there are samples, so that each class comes as often as any other.

    A sample with several labels counts for the rarest of them, one without any for a class of its own. Drawn with
    replacement, the same in every process, another each epoch.
    """

    def __init__(self, hot: torch.Tensor, seed: int) -> None:
        """`hot`: (samples, classes) of 0 and 1."""
        classes = torch.cat([hot.double(), (hot.sum(1, keepdim=True) == 0).double()], 1)
        weights = (classes / classes.sum(0).clamp(min=1)).amax(1)
        super().__init__(weights, len(hot), generator=torch.Generator())
        self.seed, self.epoch = seed, 0

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __iter__(self) -> Iterator[int]:
        self.generator.manual_seed(self.seed * 1_000_003 + self.epoch)
        return super().__iter__()
