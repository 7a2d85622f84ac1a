"""Rows of the index -> what the network is fed. predict.py reads its inputs by this same file.

train.py, predict.py and the checks call `resolve`, `build` and `read`; the rest is free to change. A row is a line of
train_index.jsonl: sample_id, patient, split, files (the views of a case), and target, the report's text.
"""

import math
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import augment
import images
import numpy as np
import torch
from images import Row, data_root, rows_of
from words import Words, learn

from shared.imaging.inputs import views_of
from shared.imaging.volume import BadImage, Image

MOST_VIEWS = 4
"""Of a case that `auto` looks at."""


def read(files: Sequence[Path], how: Any, most: int) -> np.ndarray:
    """One case as the network sees it: float32 (most * C, D, H, W) or (most * C, H, W). Raises BadImage.

    `how` is the settled section `preprocess`; of the views, the first `most` are taken, and one that the case has not
    is zeros. Each picture in 2D is a view, in 3D each volume and series; pictures are slices there. Where the network
    sees several channels that are no colours, as many images of one channel are one view. What is done here is done in
    training and by predict.py.
    """
    groups = views_of(files, len(how.input_shape))
    if images.are_channels(len(groups), how) and images.load_image(groups[0], how).array.shape[-1] == 1:
        groups = [list(files)]
    found = [images.preprocess(images.load_image(group, how), how) for group in groups[:most]]
    return np.concatenate([*found, *[np.zeros_like(found[0])] * (most - len(found))])


class Cases(torch.utils.data.Dataset):
    """One split. Items are {"image": float32 (views * C, ...), "labels": int64 (max_tokens,), -100 past the end}."""

    def __init__(self, config: Any, rows: Sequence[Row], words: Words, cache: Any = None) -> None:
        """`cache.get(sample, files, make)` gives what `make()` does, faster (shared.training.cache)."""
        self.rows = list(rows)
        self.augment = augment.Augment(config.augmentation, images.whole(config.preprocess))
        self.words, self.vocabulary = words, len(words)
        self.targets = [torch.tensor(words.labels(row["target"], config.text.max_tokens)) for row in rows]
        self.root, self.how, self.most, self.cache = data_root(config), config.preprocess, config.views.most, cache

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, number: int) -> dict[str, torch.Tensor]:
        image = images.as_tensor(self.image(self.rows[number]))
        return {"image": image, "labels": self.targets[number]}

    def image(self, row: Row) -> np.ndarray:
        """Raises BadImage."""
        files = [self.root / file for file in row["files"]]
        if self.cache is None:
            return read(files, self.how, self.most)
        return self.cache.get(str(row["sample_id"]), files, lambda: read(files, self.how, self.most))


def build(config: Any, split: str, cache: Any = None) -> Cases:
    """`split` is train or val. `auto` in the configuration is settled first."""
    config = resolve(config)
    rows = rows_of(config)
    return Cases(config, [row for row in rows if row["split"] == split], make_words(config, rows), cache)


def resolve(config: Any) -> Any:
    """Replace every `auto` by what training rows and up to 24 of their images show. A second call changes nothing."""
    rows = rows_of(config)
    training = [row for row in rows if row["split"] == "train"]
    views = config.views
    if views.most == "auto":
        usual = math.ceil(float(np.percentile([len(row["files"]) for row in training], 95)))
        views = views.model_copy(update={"most": min(MOST_VIEWS, usual)})
    how = images.settle(config.preprocess, glimpses(config, training))
    sided = any(re.search(r"\b(left|right)", str(row["target"]), re.IGNORECASE) for row in training)
    augmented = augment.settle(config.augmentation, how, sided)
    length = config.text.max_tokens
    if length == "auto":
        words = make_words(config, rows)
        length = math.ceil(float(np.percentile([len(words.encode(row["target"])) + 1 for row in training], 95)))
    # A report that ends with its length is asked for past it once more.
    text = config.text.model_copy(update={"max_tokens": max(2, min(length, config.model.positions - 1))})
    update = {"preprocess": how, "views": views, "augmentation": augmented, "text": text}
    return config.model_copy(update=update)


def make_words(config: Any, rows: Sequence[Row]) -> Words:
    """Learned from the training reports, the same each time."""
    return learn([row["target"] for row in rows if row["split"] == "train"], config.text.vocabulary)


def telling_words(cases: Cases, most: int) -> list[int]:
    """Token numbers that tell reports apart: in more than one in fifty and not in nearly all, the most even first."""
    counts = np.zeros(cases.vocabulary)
    for target in cases.targets:
        counts[np.unique(target[target >= 0])] += 1
    share = counts / max(1, len(cases))
    apart = (counts >= 2) & (share >= 0.02) & (share <= 0.95)
    ranked = np.argsort(-(share * (1 - share)), kind="stable")
    return [int(number) for number in ranked if apart[number]][:most]


def channel_names(views: int, channels: int) -> tuple[str, ...]:
    """Of all views; none where there is one channel in all."""
    names = [f" channel {number}" for number in range(channels)] if channels > 1 else [""]
    return tuple(f"view {view}{name}" for view in range(views) for name in names) if views * channels > 1 else ()


def glimpses(config: Any, rows: Sequence[Row]) -> Iterator[Image]:
    """First views of evenly drawn rows, as they are in their files. Damaged ones are told before training."""
    for place in np.linspace(0, len(rows) - 1, min(images.LOOKED_AT, len(rows))).round().astype(int):
        try:
            yield images.load_image([data_root(config) / rows[place]["files"][0]], config.preprocess)
        except (BadImage, OSError):
            continue
