"""The typed configuration: keys that diagnosis has, too, in shared/trainkit/images/settings.py, network and loss in
model.py. Unknown keys and wrong values are refused together, each by name."""

from pathlib import Path
from typing import Literal

from model import LossConfig, ModelConfig, Special
from pydantic import Field
from views import Views

from shared.trainkit.configfile import ConfigError, Section, load_config
from shared.trainkit.images import settings

__all__ = ["Config", "ConfigError", "load"]


class Text(Section):
    kind: Literal["bpe", "word"] = "bpe"
    """bpe: rare words fall into pieces, none is unknown."""
    vocabulary: int = Field(default=4000, ge=16)
    """Upper bound of what is learned from the training reports; bpe always has the 256 bytes besides."""
    tokenizer: str | None = None
    """A tokenizer.json or a folder with one, in place of learning it."""
    max_tokens: int | Literal["auto"] = Field(default="auto")
    """Longer training reports are cut, and no longer one is written. auto: 95th percentile of the training reports."""
    special: Special | Literal["auto"] = "auto"
    """Token numbers of begin, end, padding and unknown; auto finds them by their names."""


class Generation(Section):
    beams: int = Field(default=1, ge=1, le=16)
    """1 is greedy, which kept closer to the images wherever it was compared: with more beams the likeliest text wins,
    and that is the one that suits most cases. While training goes on, validation reports are written greedily."""
    no_repeat_ngram: int = Field(default=0, ge=0)
    """Tokens in a row that may not come twice in a report. 0 allows all: reports do repeat phrases."""
    length_penalty: float = 1.0
    """Above 1 longer reports, below 1 shorter ones; with several beams."""


class Augmentation(settings.Augmentation):
    """Of each view by itself; less of it than for a diagnosis, because texts tell places and sizes."""

    rotate_degrees: float = Field(default=5, ge=0, le=180)
    scale: float = Field(default=0.05, ge=0, lt=1)
    shift: float = Field(default=0.03, ge=0, lt=1)


class Training(settings.Training):
    epochs: int = Field(default=100, ge=1)
    metric: Literal["rouge_l", "bleu_1", "bleu_2", "bleu_3", "bleu_4"] = "rouge_l"
    """Chooses the weights, on the validation part."""
    evaluate_steps: int = Field(default=40, ge=1)
    """Reports are written and scored after the first epoch that ends this many steps after the last time."""
    judged: int = Field(default=48, ge=1)
    """Validation reports written at an evaluation, evenly drawn; the final figures are those of all."""


class Config(settings.Settings):
    views: Views = Views()
    text: Text = Text()
    model: ModelConfig = ModelConfig()
    loss: LossConfig = LossConfig()
    generation: Generation = Generation()
    augmentation: Augmentation = Augmentation()
    training: Training = Training()


def load(path: str | Path) -> Config:
    """Raises ConfigError with everything that is wrong."""
    return load_config(path, Config)
