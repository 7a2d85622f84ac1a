"""The typed configuration that segmentations share; a template's config.py adds what is its own."""

from typing import Annotated, Literal

from pydantic import Field

from shared.trainkit.configfile import Section
from shared.trainkit.exported.segmenter.inference import Preprocess
from shared.trainkit.exported.segmenter.network import ModelConfig
from shared.trainkit.segmentation.nnunet_config import NnunetConfig


class Sampling(Section):
    patches_per_image: int = Field(default=4, ge=1)
    """Drawn from each training image in an epoch."""
    foreground: float = Field(default=0.75, ge=0, le=1)
    """Part of the patches that hold a voxel of a structure; the structure is drawn first, so that rare ones count."""


class Augmentation(Section):
    """Applied to each patch by itself, in preprocessed units; 0 switches a part off."""

    flip_axes: tuple[Literal["D", "H", "W"], ...] | Literal["auto"] = "auto"
    """Axes that may be mirrored. auto: W (left-right), where the template finds that it keeps the anatomy true."""
    probability: float = Field(default=0.5, ge=0, le=1)
    rotate_degrees: float = Field(default=10, ge=0, le=180)
    """In the plane of a slice."""
    scale: float = Field(default=0.1, ge=0, lt=1)
    brightness: float = Field(default=0.1, ge=0, lt=1)
    """Values are scaled and shifted by up to this."""
    noise: float = Field(default=0.05, ge=0)


class Training(Section):
    epochs: int = Field(default=1000, ge=1)
    """Upper bound; `train_seconds` and `patience` may end it earlier."""
    train_seconds: float | None = Field(default=600, gt=0)
    """Wall seconds of the whole command, reading and packaging included; null is no bound."""
    batch_size: int = Field(default=1, ge=1)
    """Halved, with `accumulate` doubled, where a GPU's memory does not hold it."""
    accumulate: int = Field(default=1, ge=1)
    """Batches whose gradients are added up for one step."""
    learning_rate: float = Field(default=0.01, gt=0)
    weight_decay: float = Field(default=0.01, ge=0)
    metric: Literal["dice"] = "dice"
    """Chooses the weights, on the validation part: mean over the structures of an image, then over images."""
    patience: int = Field(default=40, ge=0)
    """Evaluations without a better metric after which training ends; 0 is never."""
    save_seconds: float = Field(default=15, ge=0)
    """At most one checkpoint in this time; a killed training loses no more than that and an epoch."""
    precision: Literal["auto", "fp32", "fp16", "bf16"] = "auto"
    """auto: mixed precision on a GPU only. bf16 is done on a CPU, too; fp16 is fp32 there."""
    processes: Annotated[int, Field(ge=1)] | Literal["auto"] = "auto"
    """That train together, each on its own batches (monai; nnunet has one GPU). auto: one for each GPU that can be
    seen; one without a GPU."""
    workers: int | Literal["auto"] = "auto"
    """Processes that draw patches. auto: none on fewer than eight cores."""
    seed: int = 0


class Fold(Section):
    """Train and val rows divided anew by patient into `count` parts, of which part `number` (from 0) is val."""

    count: int = Field(ge=2)
    number: int = Field(default=0, ge=0)


class Settings(Section):
    """A template adds `loss`, the LossConfig of its model.py."""

    engine: Literal["auto", "monai", "nnunet"] = "auto"
    """auto: nnunet with a GPU and two hours of train_seconds or no bound, else monai."""
    index: str = "train_index.jsonl"
    label_map: str = "label_map.json"
    data_root: str | None = None
    """Folder that the index's files are relative to; null takes $M3_DATA, else the working directory."""
    fold: Fold | None = None
    """null: the val part of the index. Neither engine ever makes folds of its own."""
    cache: str | None = "cache"
    """Folder of preprocessed images; null keeps them in memory only."""
    score_map: bool = False
    """Whether the package writes the probability of any structure beside each mask."""
    preprocess: Preprocess = Preprocess()
    model: ModelConfig = ModelConfig()
    sampling: Sampling = Sampling()
    augmentation: Augmentation = Augmentation()
    training: Training = Training()
    nnunet: NnunetConfig = NnunetConfig()
    """Of that engine, which shares index, label map, data_root, fold, score_map and train_seconds with the other."""
