"""Rows of the index -> what the network is fed. The file to edit when a dataset needs something of its own.

Kept by whoever edits it, because train.py and the checks call them:
`resolve(config) -> Config` (no `auto` left), `build(config, split) -> Dataset` with `len()`, `.rows`, `.label_names`
and items {"image": float32 (1, D, H, W) or (1, H, W), "labels": int64 scalar, or float32 (classes,) if multi-label}.
"""

import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from config import Augmentation, Config
from inference import Preprocess, load_image, preprocess

from shared.trainkit.cache import ArrayCache
from shared.trainkit.checks import DataProblems, Problem
from shared.trainkit.index import labels_of, read_index

Row = Mapping[str, Any]
LOOKED_AT = 24
"""Training samples from which `auto` is settled."""


class Dataset(torch.utils.data.Dataset[dict[str, torch.Tensor]]):
    """One split. A label outside the label map raises DataProblems that names sample and label."""

    def __init__(self, config: Config, rows: Sequence[Row], label_names: Sequence[str], augment: bool) -> None:
        self.rows = list(rows)
        self.label_names = list(label_names)
        self.root = data_root(config)
        self.how = config.preprocess
        self.multi_label = bool(config.multi_label)
        folder = Path(config.cache) if config.cache else Path(os.devnull)
        self.cache = ArrayCache(folder, asdict(config.preprocess))
        self.targets = [encode(row, self.label_names, self.multi_label) for row in rows]
        self.augmentation = partial(make_augmentation, config, self.label_names) if augment else None

    @cached_property
    def augment(self) -> Any:
        """None without augmentation. Made on first use: the import takes seconds, and the images are checked before."""
        return self.augmentation() if self.augmentation else None

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, number: int) -> dict[str, torch.Tensor]:
        image = torch.from_numpy(self.image(self.rows[number]).astype(np.float32))
        if self.augment is not None:
            # From torch's generator, which differs by worker and is part of a checkpoint.
            self.augment.set_random_state(int(torch.randint(2**31, ())))
            image = self.augment(image).as_tensor().contiguous()
        return {"image": image, "labels": self.targets[number]}

    def image(self, row: Row) -> np.ndarray:
        """Preprocessed, not augmented. Raises BadImage."""
        files = [self.root / file for file in row["files"]]

        def make() -> np.ndarray:
            return preprocess(load_image(files, row["attributes"])[0], row["attributes"], self.how)

        return self.cache.get(str(row["sample_id"]), files, row["attributes"], make)


def build(config: Config, split: str) -> Dataset:
    """`split` is train (augmented) or val. `auto` in the configuration is settled first."""
    config = resolve(config)
    rows = [row for row in read_index(config.index) if row["split"] == split]
    return Dataset(config, rows, label_names(config), augment=split == "train")


def label_names(config: Config) -> list[str]:
    return list(json.loads(Path(config.label_map).read_text(encoding="utf-8"))["names"])


def data_root(config: Config) -> Path:
    return Path(config.data_root or os.environ.get("M3_DATA") or ".")


def encode(row: Row, names: Sequence[str], multi_label: bool) -> torch.Tensor:
    found = labels_of(row)
    unknown = [label for label in found if label not in names]
    if unknown or (not multi_label and len(found) != 1):
        text = f"has the label {unknown[0]!r}, which is not in the label map" if unknown else f"has {len(found)} labels"
        raise DataProblems([Problem(str(row["sample_id"]), text)])
    if not multi_label:
        return torch.tensor(names.index(found[0]))
    return torch.tensor([float(name in found) for name in names])


def resolve(config: Config) -> Config:
    """Replace every `auto` by what up to 24 evenly drawn training samples show. A second call changes nothing."""
    how, multi_label = config.preprocess, config.multi_label
    if multi_label != "auto" and how.input_shape != "auto" and how.intensity != "auto":
        return config
    rows = [row for row in read_index(config.index) if row["split"] == "train"]
    if multi_label == "auto":
        multi_label = any(isinstance(row["label"], list | tuple) for row in rows)
    if how.input_shape == "auto" or how.intensity == "auto":
        drawn = [rows[round(at)] for at in np.linspace(0, len(rows) - 1, min(LOOKED_AT, len(rows)))]
        how = settle(how, [found for row in drawn if (found := glimpse(row, data_root(config))) is not None])
    return config.model_copy(update={"multi_label": multi_label, "preprocess": how})


def glimpse(row: Row, root: Path) -> np.ndarray | None:
    """The image, or None where it cannot be read: that is reported with all the others before training."""
    try:
        return load_image([root / file for file in row["files"]], row["attributes"])[0]
    except (ValueError, OSError):
        return None


def settle(how: Preprocess, images: Sequence[np.ndarray]) -> Preprocess:
    if not images:
        raise DataProblems(
            [Problem("training images", "none of those looked at can be read; give input_shape to see why")]
        )
    if how.input_shape == "auto":
        volumes = [image.shape for image in images if image.ndim == 3 and image.shape[0] > 1]
        if volumes:
            depth = float(np.median([shape[0] for shape in volumes]))
            how = replace(how, input_shape=(fitting(depth, 8, 32), *plane(volumes, 64)))
        else:
            how = replace(how, input_shape=plane([image.shape for image in images], 128))
    if how.intensity == "auto":
        # Hounsfield units reach far below zero, and their zero means something: keep the scale.
        lows = [float(np.percentile(image, 1)) for image in images]
        if how.window is not None:
            how = replace(how, intensity="window")
        elif np.median(lows) < -500:
            body = np.concatenate([image[image > -1000].ravel()[::97] for image in images])
            low, high = np.percentile(body, (0.5, 99.5)) if body.size else (-1000, 400)
            how = replace(how, intensity="window", window=(round(float(low)), round(max(float(high), low + 1))))
        else:
            how = replace(how, intensity="zscore")
    return how


def plane(shapes: Sequence[tuple[int, ...]], largest: int) -> tuple[int, int]:
    height, width = (float(np.median([shape[axis] for shape in shapes])) for axis in (-2, -1))
    shrink = min(1.0, largest / max(height, width))
    return fitting(height * shrink, 16, largest), fitting(width * shrink, 16, largest)


def fitting(size: float, least: int, most: int) -> int:
    """Nearest multiple of eight within bounds."""
    return int(min(most, max(least, 8 * math.floor(size / 8 + 0.5))))


def make_augmentation(config: Config, names: Sequence[str]) -> Any:
    """MONAI transforms on one sample, channel first; None where all is switched off."""
    wanted: Augmentation = config.augmentation
    dims = len(config.preprocess.input_shape)
    flips = wanted.flip_axes
    if flips == "auto":
        sided = any({"left", "right"} & set(name.lower().replace("_", " ").split()) for name in names)
        flips = () if sided else ("W",)
    axes = [{"D": 0, "H": dims - 2, "W": dims - 1}[axis] for axis in flips if axis != "D" or dims == 3]
    chance, turn = wanted.probability, math.radians(wanted.rotate_degrees)
    if not (axes or turn or wanted.scale or wanted.shift or wanted.brightness or wanted.noise):
        return None
    from monai import transforms as T

    steps: list[Any] = [T.RandFlip(prob=0.5, spatial_axis=axis) for axis in axes]
    if turn or wanted.scale or wanted.shift:
        sizes = config.preprocess.input_shape
        steps.append(
            T.RandAffine(
                prob=chance,
                rotate_range=(turn, 0.0, 0.0) if dims == 3 else (turn,),
                scale_range=(wanted.scale,) * dims,
                translate_range=[wanted.shift * int(size) for size in sizes],
                padding_mode="border",
            )
        )
    if wanted.brightness:
        steps.append(T.RandScaleIntensity(factors=wanted.brightness, prob=chance))
        steps.append(T.RandShiftIntensity(offsets=wanted.brightness, prob=chance))
    if wanted.noise:
        steps.append(T.RandGaussianNoise(prob=chance / 2, std=wanted.noise))
    return T.Compose(steps)
