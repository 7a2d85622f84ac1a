"""Rows of the index -> what the network is fed. images.py has the views of a case, here is its report.

train.py and the checks call `resolve` and `build`; the rest is free to change. A row is a line of train_index.jsonl:
sample_id, patient, split, files (the views of a case), and target, the report's text.
"""

import math
from collections.abc import Sequence
from typing import Any

import images
import numpy as np
import torch
from images import Row, rows_of
from learning import learn
from telling import Telling
from words import Words

from shared.training.sides import sided

SECONDS_A_CASE, GPU_CORES = 2.0, 4
"""Of a core, from which a decoder is worth its time: with an eighth of it, sentences alone were far ahead. So they were
on a GPU (an H200) with 0.17 s a case: a decoder's many small steps keep one busy as they do some cores."""


class Cases(images.Cases):
    """One split. Items are {"image": float32 (views * C, ...), "labels": int64 (max_tokens,), -100 past the end,
    "facts": float32 (F,), which telling words and sentences the report has}."""

    def __init__(self, config: Any, rows: Sequence[Row], words: Words, telling: Telling, cache: Any = None) -> None:
        super().__init__(config, rows, cache)
        self.words, self.vocabulary, self.telling = words, len(words), telling
        self.targets = [torch.tensor(words.labels(row["target"], config.text.max_tokens)) for row in rows]
        self.facts = [torch.from_numpy(telling.facts(row["target"], words)) for row in rows]

    def __getitem__(self, number: int) -> dict[str, torch.Tensor]:
        image = images.as_tensor(self.image(self.rows[number]))
        return {"image": image, "labels": self.targets[number], "facts": self.facts[number]}


def build(config: Any, split: str, cache: Any = None) -> Cases:
    """`split` is train or val. `auto` in the configuration is settled first."""
    config = resolve(config)
    rows = rows_of(config)
    training = [row for row in rows if row["split"] == "train"]
    words, telling = learn(training, config.text.vocabulary, config.model.telling)
    return Cases(config, [row for row in rows if row["split"] == split], words, telling, cache)


def resolve(config: Any) -> Any:
    """Replace every `auto` by what training rows and their images show. A second call changes nothing."""
    rows = rows_of(config)
    training = [row for row in rows if row["split"] == "train"]
    of_sides = sided((str(row["target"]) for row in training), names=False)
    length = config.text.max_tokens
    if length == "auto":
        words, _ = learn(training, config.text.vocabulary, config.model.telling)
        length = math.ceil(float(np.percentile([len(words.encode(row["target"])) + 1 for row in training], 95)))
    # A report that ends with its length is asked for past it once more.
    text = config.text.model_copy(update={"max_tokens": max(2, min(length, config.model.positions - 1))})
    if text.writer == "auto":
        _, telling = learn(training, text.vocabulary, config.model.telling)
        text = text.model_copy(update={"writer": choose_writer(config.training, telling, len(training))})
    return images.resolve(config, training, of_sides, slices=False).model_copy(update={"text": text})


def choose_writer(wanted: Any, telling: Telling, cases: int) -> str:
    """Sentences where there are any and little time a case, else either. `wanted`: the section `training`."""
    seconds = wanted.whole_seconds or wanted.train_seconds
    cores = GPU_CORES if torch.cuda.is_available() else torch.get_num_threads()
    little = seconds is not None and seconds * cores < SECONDS_A_CASE * cases
    return "sentences" if telling.sentences and little else "either"


def channel_names(views: int, channels: int) -> tuple[str, ...]:
    """Of all views; none where there is one channel in all."""
    names = [f" channel {number}" for number in range(channels)] if channels > 1 else [""]
    return tuple(f"view {view}{name}" for view in range(views) for name in names) if views * channels > 1 else ()
