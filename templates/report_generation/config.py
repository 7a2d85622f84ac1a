"""The typed configuration. Unknown keys and wrong values are refused together, each by name."""

from pathlib import Path
from typing import Literal

from inference import Preprocess
from model import LossConfig, ModelConfig, Special
from pydantic import Field
from pydantic.dataclasses import dataclass
from views import Views

from shared.trainkit.configfile import ConfigError, Section, load_config

__all__ = ["Config", "ConfigError", "load"]


@dataclass(frozen=True, config={"extra": "forbid"})
class Model(ModelConfig):
    decoder: str | None = None
    """Folder with config.json and model.safetensors of a GPT-2 to start from. It settles hidden, layers, heads and
    positions; its tokenizer.json is taken unless text.tokenizer names another. Its cross-attention is learned anew."""


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


class Augmentation(Section):
    """Applied to each view by itself, in preprocessed units; 0 switches a part off."""

    flip_axes: tuple[Literal["D", "H", "W"], ...] | Literal["auto"] = "auto"
    """Axes that may be mirrored. auto: W (left-right in an axial slice), none if a training report speaks of a side."""
    probability: float = Field(default=0.5, ge=0, le=1)
    rotate_degrees: float = Field(default=5, ge=0, le=180)
    """In the plane of a slice."""
    scale: float = Field(default=0.05, ge=0, lt=1)
    shift: float = Field(default=0.03, ge=0, lt=1)
    """Part of the image's size."""
    brightness: float = Field(default=0.1, ge=0, lt=1)
    """Values are scaled and shifted by up to this."""
    noise: float = Field(default=0.05, ge=0)


class Training(Section):
    epochs: int = Field(default=100, ge=1)
    """Upper bound; `train_seconds` and `patience` may end it earlier."""
    train_seconds: float | None = Field(default=600, gt=0)
    """Wall seconds of the whole command, reading and packaging included; null is no bound."""
    batch_size: int = Field(default=8, ge=1)
    accumulate: int = Field(default=1, ge=1)
    """Batches whose gradients are added up for one step."""
    learning_rate: float = Field(default=1e-3, gt=0)
    weight_decay: float = Field(default=0.05, ge=0)
    metric: Literal["rouge_l", "bleu_1", "bleu_2", "bleu_3", "bleu_4"] = "rouge_l"
    """Chooses the weights, on the validation part."""
    patience: int = Field(default=15, ge=0)
    """Evaluations without a better metric after which training ends; 0 is never."""
    evaluate_steps: int = Field(default=40, ge=1)
    """Reports are written and scored after the first epoch that ends this many steps after the last time."""
    judged: int = Field(default=48, ge=1)
    """Validation reports written at an evaluation, evenly drawn; the final figures are those of all."""
    save_seconds: float = Field(default=15, ge=0)
    """At most one checkpoint in this time; a killed training loses no more than that and an epoch."""
    precision: Literal["auto", "fp32", "fp16", "bf16"] = "auto"
    """auto: mixed precision on a GPU only."""
    workers: int | Literal["auto"] = "auto"
    """Processes that load data. auto: none on fewer than eight cores."""
    seed: int = 0


class Config(Section):
    index: str = "train_index.jsonl"
    data_root: str | None = None
    """Folder that the index's files are relative to; null takes $M3_DATA, else the working directory."""
    cache: str | None = "cache"
    """Folder of preprocessed samples; null keeps them in memory only."""
    preprocess: Preprocess = Preprocess()
    views: Views = Views()
    text: Text = Text()
    model: Model = Model()
    loss: LossConfig = LossConfig()
    generation: Generation = Generation()
    augmentation: Augmentation = Augmentation()
    training: Training = Training()


def load(path: str | Path) -> Config:
    """Raises ConfigError with everything that is wrong."""
    return load_config(path, Config)
