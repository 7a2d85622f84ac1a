"""Rows of the index -> what the network is fed. predict.py reads its inputs by this same file.

train.py, predict.py and the checks call `resolve`, `build` and `read`; the rest is free to change. A row is a line of
train_index.jsonl: sample_id, patient, files, split, and label: a class name, or a list of names.
"""

import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import augment
import images
import numpy as np
import torch
from images import Row, rows_of

from shared.imaging.inputs import views_of
from shared.imaging.volume import Image

MOST_VIEWS, MOST_COUNTED = 4, 200


def read(files: Sequence[Path], how: Any) -> np.ndarray:
    """One input as the network sees it: float32 (views * C, D, H, W) or (views * C, H, W). Raises BadImage.

    `how` is the settled section `preprocess`; a view that the input has not is zeros. In 2D each picture is a view, in
    3D each volume and series; pictures are slices there.
    """
    if how.views == 1:
        return images.preprocess(images.load_image(files, how), how)
    groups = views_of(files, len(how.input_shape))
    found = [images.preprocess(images.load_image(group, how), how) for group in groups[: how.views]]
    return np.concatenate([*found, *[np.zeros_like(found[0])] * (how.views - len(found))])


class Cases(torch.utils.data.Dataset):
    """One split. Items are {"image": float32 (views * C, ...), "labels": int64, or float32 (classes,) of 0 and 1}."""

    def __init__(self, config: Any, rows: Sequence[Row], cache: Any = None) -> None:
        """`cache.get(sample, files, make)` gives what `make()` does, faster (shared.training.cache)."""
        self.rows = list(rows)
        self.augment = augment.Augment(config.augmentation, images.whole(config.preprocess))
        self.label_names, self.ordered = label_names(config), ordered(config)
        self.targets = [target(row, self.label_names, bool(config.multi_label)) for row in rows]
        self.root, self.how, self.cache = config.data_folder, config.preprocess, cache

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, number: int) -> dict[str, torch.Tensor]:
        image = images.as_tensor(self.image(self.rows[number]))
        return {"image": image, "labels": self.targets[number]}

    def image(self, row: Row) -> np.ndarray:
        """Raises BadImage."""
        files = [self.root / file for file in row["files"]]
        if self.cache is None:
            return read(files, self.how)
        return self.cache.get(str(row["sample_id"]), files, lambda: read(files, self.how))


def build(config: Any, split: str, cache: Any = None) -> Cases:
    """`split` is train or val. `auto` in the configuration is settled first."""
    config = resolve(config)
    return Cases(config, [row for row in rows_of(config) if row["split"] == split], cache)


def resolve(config: Any) -> Any:
    """Replace every `auto` by what training rows and up to 24 of their images show. A second call changes nothing."""
    rows = [row for row in rows_of(config) if row["split"] == "train"]
    several = config.multi_label
    if several == "auto":
        several = any(isinstance(row.get("label"), list) for row in rows)
    how = images.settle(config.preprocess, images.glimpses(rows, lambda row: first_image(config, row)))
    if how.views == "auto":
        how = how.model_copy(update={"views": usual_views(config, rows, how)})
    sided = any({"left", "right"} & set(name.lower().replace("_", " ").split()) for name in label_names(config))
    augmented = augment.settle(config.augmentation, how, sided)
    return config.model_copy(update={"multi_label": several, "preprocess": how, "augmentation": augmented})


def usual_views(config: Any, rows: Sequence[Row], how: Any) -> int:
    """What 95 % of the cases have at most; images that are the channels of one do not count as views."""
    root, drawn = config.data_folder, rows[:: math.ceil(len(rows) / MOST_COUNTED)]
    counts = [len(views_of([root / file for file in row["files"]], len(how.input_shape))) for row in drawn]
    most = math.ceil(float(np.percentile(counts, 95)))
    return 1 if images.are_channels(most, how) else min(MOST_VIEWS, most)


def first_image(config: Any, row: Row) -> Image:
    how, files = config.preprocess, [config.data_folder / file for file in row["files"]]
    # Where nothing is known yet, several volumes are views on grids of their own, and pictures slices.
    groups = views_of(files, 3 if how.input_shape == "auto" else len(how.input_shape))
    channels = how.channels != "auto" and images.are_channels(len(groups), how)
    return images.load_image(files if channels else groups[0], how)


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


def one_hot(cases: Cases) -> torch.Tensor:
    """(samples, classes) of 0 and 1."""
    targets = torch.stack(cases.targets)
    return targets if targets.ndim == 2 else torch.nn.functional.one_hot(targets, len(cases.label_names))


class Balanced(torch.utils.data.Sampler):
    """As many draws as there are samples, so that each class comes as often as any other.

    A sample with several labels counts for the rarest of them, one without any for a class of its own. Drawn with
    replacement, the same in every process, another each epoch.
    """

    def __init__(self, hot: torch.Tensor, seed: int) -> None:
        classes = torch.cat([hot.double(), (hot.sum(1, keepdim=True) == 0).double()], 1)
        self.weights = (classes / classes.sum(0).clamp(min=1)).amax(1)
        self.seed, self.epoch = seed, 0

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __len__(self) -> int:
        return len(self.weights)

    def __iter__(self) -> Iterator[int]:
        generator = torch.Generator().manual_seed(self.seed * 1_000_003 + self.epoch)
        drawn = torch.multinomial(self.weights, len(self.weights), replacement=True, generator=generator)
        return iter(drawn.tolist())
