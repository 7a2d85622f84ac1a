"""The settings of config.yaml, typed. Unknown keys and wrong values are refused together, each by name.

The section `training` says how train.py trains; all others also say what the model is. data.py settles `auto`.
"""

from pathlib import Path
from typing import Literal

import sections
from pydantic import Field
from sections import Preprocess

from shared.training import configfile
from shared.training.configfile import Section, Source, load_config


class Text(Section):
    writer: Literal["auto", "either", "decoder", "sentences"] = "auto"
    """What writes: the decoder, word by word, or sentences that at least three patients of the training part share
    (learning.py), in the combination that suits the images best (telling.py); for these no decoder is trained. either:
    the better one on the validation part. auto: sentences where there are any and a CPU has little time, else either.
    """
    vocabulary: int = Field(default=4000, ge=16)
    """Upper bound of what is learned from the training reports, besides the 256 bytes: rare words fall into pieces."""
    max_tokens: int | Literal["auto"] = Field(default="auto")
    """Longer training reports are cut, and no longer one is written. auto: 95th percentile of the training reports."""


class Model(sections.Backbone):
    """The encoder, applied to each view by itself, and the decoder (model.py)."""

    dropout: float = 0.1
    tokens: int = 64
    """Positions of a view's feature map that the decoder sees, at most (resnets)."""
    hidden: int = 128
    layers: int = 2
    heads: int = 4
    positions: int = 512
    """These four are of the decoder, a GPT-2 with cross-attention to the visual tokens."""
    telling: int = 256
    """Words that the images are asked for directly beside the text, and with them the sentences that patients share."""


class Loss(Section):
    """Cross-entropy of the next word, and of which telling words and sentences come (model.py)."""

    words: float = 5.0
    """Weight of the second; 0 switches it off. Where no decoder is trained, it is the whole loss. The mean over many
    words that are mostly absent is small: with less weight the encoder learned much later than the decoder."""
    word_dropout: float = 0.15
    """Part of the earlier words that the decoder does not see in training, so that it has to look."""


class Augmentation(sections.Augmentation):
    """Less than for a diagnosis, because texts tell places and sizes."""

    rotate_degrees: float = Field(default=5, ge=0, le=180)
    scale: float = Field(default=0.05, ge=0, lt=1)
    shift: float = Field(default=0.03, ge=0, lt=1)


class Training(configfile.Training):
    """Further keys, from epochs to seed, stand in shared/training/configfile.py."""

    metric: Literal["rouge_l", "bleu_1", "bleu_2", "bleu_3", "bleu_4"] = "rouge_l"
    """Chooses the weights, on the validation part."""
    evaluate_steps: int = Field(default=40, ge=1)
    """Reports are written and scored after the first epoch that ends this many steps after the last time."""
    judged: int = Field(default=48, ge=1)
    """Validation reports written at an evaluation, evenly drawn; the final figures are those of all."""


class Config(Source):
    """`index` and `data_root` stand in shared/training/configfile.py."""

    cache: str | None = "cache"
    """Folder of preprocessed samples; null keeps them in memory only."""
    preprocess: Preprocess = Preprocess()
    text: Text = Text()
    model: Model = Model()
    loss: Loss = Loss()
    augmentation: Augmentation = Augmentation()
    training: Training = Training()


def load(path: str | Path) -> Config:
    return load_config(path, Config)
