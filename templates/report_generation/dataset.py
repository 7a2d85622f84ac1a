"""Rows of the index -> what the network is fed. The file to edit when a dataset needs something of its own.

Kept by whoever edits it, because train.py and the checks call them:
`resolve(config) -> Config` (no `auto` left), `build(config, split) -> Dataset` with `len()`, `.rows`, `.words`,
`.vocabulary` and items {"image": float32 (views, D, H, W) or (views, H, W), "labels": int64 (max_tokens,)}.
"""

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from config import Config, ConfigError
from model import Special
from views import Views, grouped, load_case
from words import Words, learn
from words import load as load_words

from shared.trainkit.exported.imaging.inference import load_image
from shared.trainkit.images import augment
from shared.trainkit.images.cases import Images, data_root
from shared.trainkit.images.survey import settle
from shared.trainkit.index import read_index

Row = Mapping[str, Any]
MOST_VIEWS = 4
"""Files of a case up to which `auto` takes them for views; and views that are looked at."""


class Dataset(Images):
    """One split. `image` has the views of a case as channels; a view that the case has not is zeros."""

    def __init__(self, config: Config, rows: Sequence[Row], words: Words, train: bool) -> None:
        targets = [torch.tensor(words.labels(row["target"], int(config.text.max_tokens))) for row in rows]
        super().__init__(config, rows, targets, [asdict(config.preprocess), asdict(config.views)], train)
        self.words = words
        self.vocabulary = len(words)
        self.views = config.views

    def __getitem__(self, number: int) -> dict[str, torch.Tensor]:
        image = self.seen(number)
        return {"image": image, "labels": self.targets[number]}

    def read(self, row: Row) -> np.ndarray:
        """Preprocessed, not augmented: float32 (views, ...). Raises BadImage."""
        return load_case(self.files(row), row["attributes"], self.how, self.views)


def build(config: Config, split: str) -> Dataset:
    """`split` is train (augmented) or val. `auto` in the configuration is settled first."""
    config = resolve(config)
    rows = read_index(config.index)
    words = make_words(config, rows)
    return Dataset(config, [row for row in rows if row["split"] == split], words, train=split == "train")


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
    """Replace every `auto` by what training rows and up to 24 of their images show. A second call changes nothing."""
    rows, root = read_index(config.index), data_root(config)
    training = [row for row in rows if row["split"] == "train"]
    views = settle_views(config.views, training)

    def first_view(row: Row) -> np.ndarray:
        return load_image(grouped([root / file for file in row["files"]], views)[0], row["attributes"])[0]

    how = settle(config.preprocess, training, first_view)
    sided = any(re.search(r"\b(left|right)", str(row["target"]), re.IGNORECASE) for row in training)
    update = {
        "preprocess": how,
        "views": views,
        "augmentation": augment.settle(config.augmentation, training, how, sided),
    }
    return settle_text(config, rows).model_copy(update=update)


def settle_text(config: Config, rows: Sequence[Row]) -> Config:
    """Length of a report, special tokens, and sizes of a decoder that is given."""
    text, model = config.text, config.model
    if "auto" not in (text.max_tokens, text.special):
        return config
    if model.decoder:
        model = replace(model, **decoder_sizes(Path(model.decoder)))
    words = make_words(config, rows)
    lengths = [len(words.encode(row["target"])) + 1 for row in rows if row["split"] == "train"]
    length = math.ceil(float(np.percentile(lengths, 95))) if text.max_tokens == "auto" else text.max_tokens
    # A report that ends with its length is asked for past it once more.
    length = min(length, model.positions - 1)
    special = Special(words.begin, words.end, words.pad, words.unknown)
    text = text.model_copy(update={"max_tokens": max(2, length), "special": special})
    return config.model_copy(update={"text": text, "model": model})


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


def telling_words(data: Dataset, most: int) -> list[int]:
    """Token numbers that tell reports apart: in more than one in fifty and not in nearly all, the most even first."""
    counts = np.zeros(data.vocabulary)
    for target in data.targets:
        counts[np.unique(target[target >= 0])] += 1
    share = counts / max(1, len(data))
    apart = (counts >= 2) & (share >= 0.02) & (share <= 0.95)
    ranked = np.argsort(-(share * (1 - share)), kind="stable")
    return [int(number) for number in ranked if apart[number]][:most]
