"""Rows of the index -> what the network is fed. The file to edit when a dataset needs something of its own.

Kept by whoever edits it, because train.py and the checks call them:
`resolve(config) -> Config` (no `auto` left), `build(config, split) -> Dataset` with `len()`, `.rows`, `.words`,
`.vocabulary` and items {"image": float32 (views, D, H, W) or (views, H, W), "labels": int64 (max_tokens,)}.
"""

import json
import math
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from config import Augmentation, Config, ConfigError
from inference import Preprocess, load_image
from model import Special
from views import Views, grouped, load_case
from words import Words, learn
from words import load as load_words

from shared.trainkit.cache import ArrayCache
from shared.trainkit.checks import DataProblems, Problem
from shared.trainkit.index import read_index

Row = Mapping[str, Any]
LOOKED_AT = 24
"""Training samples from which `auto` is settled."""
MOST_VIEWS = 4
"""Files of a case up to which `auto` takes them for views; and views that are looked at."""


class Dataset(torch.utils.data.Dataset[dict[str, torch.Tensor]]):
    """One split. `image` has the views of a case as channels; a view that the case has not is zeros."""

    def __init__(self, config: Config, rows: Sequence[Row], words: Words, augment: bool) -> None:
        self.rows = list(rows)
        self.words = words
        self.vocabulary = len(words)
        self.root = data_root(config)
        self.how, self.views = config.preprocess, config.views
        self.length = int(config.text.max_tokens)
        folder = Path(config.cache) if config.cache else Path(os.devnull)
        self.cache = ArrayCache(folder, [asdict(config.preprocess), asdict(config.views)])
        self.targets = [torch.tensor(words.labels(row["target"], self.length)) for row in rows]
        self.augmentation = partial(make_augmentation, config, self.rows) if augment else None

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
            image = torch.stack([self.augment(view[None]).as_tensor()[0] if view.any() else view for view in image])
        return {"image": image.contiguous(), "labels": self.targets[number]}

    def image(self, row: Row) -> np.ndarray:
        """Preprocessed, not augmented. Raises BadImage."""
        files = [self.root / file for file in row["files"]]

        def make() -> np.ndarray:
            return load_case(files, row["attributes"], self.how, self.views)

        return self.cache.get(str(row["sample_id"]), files, row["attributes"], make)


def build(config: Config, split: str) -> Dataset:
    """`split` is train (augmented) or val. `auto` in the configuration is settled first."""
    config = resolve(config)
    rows = read_index(config.index)
    words = make_words(config, rows)
    return Dataset(config, [row for row in rows if row["split"] == split], words, augment=split == "train")


def data_root(config: Config) -> Path:
    return Path(config.data_root or os.environ.get("M3_DATA") or ".")


def make_words(config: Config, rows: Sequence[Row]) -> Words:
    """Learned from the training reports, the same each time; or the one that the configuration names."""
    path = config.text.tokenizer or config.model.decoder
    try:
        if path:
            return load_words(Path(path))
        texts = [row["target"] for row in rows if row["split"] == "train"]
        return learn(texts, config.text.kind, config.text.vocabulary)
    except ValueError as error:
        raise ConfigError(str(error)) from None


def resolve(config: Config) -> Config:
    """Replace every `auto` by what up to 24 evenly drawn training samples show. A second call changes nothing."""
    how, views, text, model = config.preprocess, config.views, config.text, config.model
    if "auto" not in (how.input_shape, how.intensity, views.files, views.most, text.max_tokens, text.special):
        return config
    rows = read_index(config.index)
    training = [row for row in rows if row["split"] == "train"]
    if model.decoder:
        model = replace(model, **decoder_sizes(Path(model.decoder)))
    words = make_words(config, rows)
    lengths = [len(words.encode(row["target"])) + 1 for row in training]
    length = math.ceil(float(np.percentile(lengths, 95))) if text.max_tokens == "auto" else text.max_tokens
    # A report that ends with its length is asked for past it once more.
    length = min(length, model.positions - 1)
    special = Special(words.begin, words.end, words.pad, words.unknown)
    text = text.model_copy(update={"max_tokens": max(2, length), "special": special})
    views = settle_views(views, training)
    if how.input_shape == "auto" or how.intensity == "auto":
        drawn = [training[round(at)] for at in np.linspace(0, len(training) - 1, min(LOOKED_AT, len(training)))]
        how = settle(how, [image for row in drawn for image in glimpse(row, data_root(config), views)])
    return config.model_copy(update={"preprocess": how, "views": views, "text": text, "model": model})


def decoder_sizes(folder: Path) -> dict[str, int]:
    """Of a local GPT-2."""
    try:
        found = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        names = {"hidden": "n_embd", "layers": "n_layer", "heads": "n_head", "positions": "n_positions"}
        return {name: int(found[theirs]) for name, theirs in names.items()}
    except (OSError, ValueError, KeyError) as error:
        raise ConfigError(f"model.decoder {folder} is no folder of a GPT-2 ({error})") from None


def settle_views(views: Views, rows: Sequence[Row]) -> Views:
    counts = [len(row["files"]) for row in rows]
    if views.files == "auto":
        volumes = all(str(file).lower().endswith((".nii", ".nii.gz")) for row in rows for file in row["files"])
        few = float(np.median(counts)) <= MOST_VIEWS
        views = replace(views, files="views" if volumes or few else "slices")
    if views.most == "auto":
        most = math.ceil(float(np.percentile(counts, 95))) if views.files == "views" else 1
        views = replace(views, most=min(MOST_VIEWS, most))
    return views


def glimpse(row: Row, root: Path, views: Views) -> list[np.ndarray]:
    """The first view, or nothing where it cannot be read: that is reported with all the others before training."""
    try:
        return [load_image(grouped([root / file for file in row["files"]], views)[0], row["attributes"])[0]]
    except (ValueError, OSError):
        return []


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


def telling_words(data: Dataset, most: int) -> list[int]:
    """Token numbers that tell reports apart: in more than one in fifty and not in nearly all, the most even first."""
    counts = np.zeros(data.vocabulary)
    for target in data.targets:
        counts[np.unique(target[target >= 0])] += 1
    share = counts / max(1, len(data))
    apart = (counts >= 2) & (share >= 0.02) & (share <= 0.95)
    ranked = np.argsort(-(share * (1 - share)), kind="stable")
    return [int(number) for number in ranked if apart[number]][:most]


def make_augmentation(config: Config, rows: Sequence[Row]) -> Any:
    """MONAI transforms on one view, channel first; None where all is switched off."""
    wanted: Augmentation = config.augmentation
    dims = len(config.preprocess.input_shape)
    flips = wanted.flip_axes
    if flips == "auto":
        sided = any(re.search(r"\b(left|right)", str(row["target"]), re.IGNORECASE) for row in rows)
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
