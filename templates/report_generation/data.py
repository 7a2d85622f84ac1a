"""Rows of the index -> what the network is fed. predict.py reads its inputs by this same file.

train.py, predict.py and the checks call `resolve`, `build` and `read`; the rest is free to change. A row is a line of
train_index.jsonl: sample_id, patient, split, files (the views of a case), and target, the report's text.
"""

import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import augment
import images
import numpy as np
import torch
from images import Row, rows_of
from telling import Telling
from telling import learn as learn_telling
from words import Words, learn

from shared.imaging.inputs import views_of

MOST_VIEWS = 4
"""Of a case that `auto` looks at."""


def read(files: Sequence[Path], how: Any, most: int) -> np.ndarray:
    """One case as the network sees it: float32 (most * C, D, H, W) or (most * C, H, W). Raises BadImage.

    `how` is the settled section `preprocess`; of the views, the first `most` are taken, and one that the case has not
    is zeros. Each picture in 2D is a view, in 3D each volume and series; pictures are slices there. Where the network
    sees several channels that are no colours, as many images of one channel are one view.
    """
    groups = views_of(files, len(how.input_shape))
    if images.are_channels(len(groups), how) and images.load_image(groups[0], how).array.shape[-1] == 1:
        groups = [list(files)]
    found = [images.preprocess(images.load_image(group, how), how) for group in groups[:most]]
    return np.concatenate([*found, *[np.zeros_like(found[0])] * (most - len(found))])


class Cases(torch.utils.data.Dataset):
    """One split. Items are {"image": float32 (views * C, ...), "labels": int64 (max_tokens,), -100 past the end,
    "facts": float32 (F,), which telling words and sentences the report has}."""

    def __init__(self, config: Any, rows: Sequence[Row], words: Words, telling: Telling, cache: Any = None) -> None:
        """`cache.get(sample, files, make)` gives what `make()` does, faster (shared.training.cache)."""
        self.rows = list(rows)
        self.augment = augment.Augment(config.augmentation, images.whole(config.preprocess))
        self.words, self.vocabulary, self.telling = words, len(words), telling
        self.targets = [torch.tensor(words.labels(row["target"], config.text.max_tokens)) for row in rows]
        self.facts = [torch.from_numpy(telling.facts(row["target"], words)) for row in rows]
        self.root, self.how, self.most, self.cache = config.data_folder, config.preprocess, config.views.most, cache

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, number: int) -> dict[str, torch.Tensor]:
        image = images.as_tensor(self.image(self.rows[number]))
        return {"image": image, "labels": self.targets[number], "facts": self.facts[number]}

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
    words = make_words(config, rows)
    telling = learn_telling([row for row in rows if row["split"] == "train"], words, config.model.telling)
    return Cases(config, [row for row in rows if row["split"] == split], words, telling, cache)


def resolve(config: Any) -> Any:
    """Replace every `auto` by what training rows and up to 24 of their images show. A second call changes nothing."""
    rows = rows_of(config)
    training = [row for row in rows if row["split"] == "train"]
    views = config.views
    if views.most == "auto":
        usual = math.ceil(float(np.percentile([len(row["files"]) for row in training], 95)))
        views = views.model_copy(update={"most": min(MOST_VIEWS, usual)})
    wanted, folder = config.preprocess, config.data_folder
    first_views = images.glimpses(training, lambda row: images.load_image([folder / row["files"][0]], wanted))
    how = images.settle(wanted, first_views)
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


def channel_names(views: int, channels: int) -> tuple[str, ...]:
    """Of all views; none where there is one channel in all."""
    names = [f" channel {number}" for number in range(channels)] if channels > 1 else [""]
    return tuple(f"view {view}{name}" for view in range(views) for name in names) if views * channels > 1 else ()
