"""The typed configuration, a section a file of the template. Unknown keys and wrong values are refused together, each
by name; `auto` is settled from the training images by survey.py and recorded in the package."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, model_validator

from shared.training import configfile
from shared.training.configfile import Section, load_config
from shared.training.masks import Source

Axis = Literal["D", "H", "W"]


class Preprocess(Section):
    """What is done to every image, in training and in use (data.py)."""

    dimensions: Literal[2, 3, "auto"] = "auto"
    """2: a picture, or a volume slice by slice. auto: 2 for pictures, and for volumes where a CPU has little time and
    slices can tell the structures."""
    slices: Axis | Literal["auto"] = "auto"
    """In 2D, the axis across which volumes are cut, as far apart as in the file; auto: that of thick slices, else D."""
    spacing: tuple[float, float, float] | Literal["auto"] = "auto"
    """[D, H, W] in mm that images are resampled to."""
    nominal_spacing: tuple[float, float, float] | None = None
    """[D, H, W] in mm that every image is taken to have, whatever its header says; null: what that says. Set where
    spacing is auto and structures are more alike in voxels than in mm (images that were resized and kept headers)."""
    max_voxels: int = 1_000_000
    """Of an image at that spacing, where spacing is auto."""
    passes: int = Field(default=32, ge=0)
    """Times that the training should see each structure in each image: without a GPU auto makes images coarser for it,
    within reason (survey.py); 0: it does not."""
    patch_size: tuple[int, int] | tuple[int, int, int] | Literal["auto"] = "auto"
    """[D, H, W] voxels of that spacing that the network sees at once; in 2D without the axis of `slices`."""
    patch_voxels: int = 2**18
    """At most, where patch_size is auto; in volumes fewer where a CPU would train on too few patches (survey.py)."""
    intensity: Literal["auto", "ct", "zscore"] = "auto"
    """ct clips to `window` and scales to -1..1; zscore is by image and channel over the voxels that are not about 0."""
    window: tuple[float, float] | None = None
    """[low, high] in the image's own units, with intensity: ct; null: from the structures' voxels."""
    channels: int = 0
    """0: as most training images have."""

    @model_validator(mode="after")
    def _of_one_kind(self) -> "Preprocess":
        if "auto" not in (self.dimensions, self.patch_size) and len(self.patch_size) != self.dimensions:
            raise ValueError(f"patch_size has {len(self.patch_size)} values for {self.dimensions} dimensions")
        return self


class Model(Section):
    network: Literal["unet", "segresnet"] = "unet"
    width: int = Field(default=16, ge=1)
    """Channels of the first level, doubled on each of the `levels`."""
    levels: int = Field(default=4, ge=1)
    dropout: float = Field(default=0.0, ge=0, lt=1)


class Loss(Section):
    overlap_weight: float = 1.0
    cross_entropy_weight: float = 1.0
    missed: float = Field(default=0.5, ge=0, le=1)
    """What a missed voxel weighs beside an invented one: 0.5 is Dice, more finds more and invents more."""
    rare: float = Field(default=0.5, ge=0, le=1)
    """A voxel of a class with n voxels in a batch counts n to the power of minus this in the cross-entropy: 0 each
    voxel alike, 1 each class."""
    present_only: bool = False
    """Overlap of those structures alone that a batch has: of many kinds of lesions it has few."""


class Sampling(Section):
    patches_per_image: int = Field(default=4, ge=1)
    """Drawn from each training image in an epoch."""
    foreground: float = Field(default=0.75, ge=0, le=1)
    """Part of the patches that hold a voxel of a structure; the structure is drawn first, so that rare ones count."""
    small_lesions: float = Field(default=0.0, ge=0, le=1)
    """Which connected piece of a structure a patch is drawn around: 0 by their sizes, 1 each alike."""
    empty_images: float | None = Field(default=None, ge=0, lt=1)
    """Part of an epoch that images without any structure have at most; null: each image as often as any other."""


class Augmentation(Section):
    """Of each training patch by itself, in preprocessed units; 0 switches a part off."""

    flip_axes: tuple[Axis, ...] | Literal["auto", "unsided"] = "auto"
    """Axes that may be mirrored. unsided: W (left-right) unless a name speaks of a side; auto: the same, and not with
    more than two structures, which their places tell apart."""
    probability: float = Field(default=0.5, ge=0, le=1)
    rotate_degrees: float = Field(default=10, ge=0, le=180)
    """In the plane of a slice."""
    scale: float = Field(default=0.3, ge=0, lt=1)
    brightness: float = Field(default=0.1, ge=0, lt=1)
    """Values are scaled and shifted by up to this."""
    noise: float = Field(default=0.05, ge=0)


class Prediction(Section):
    """How the network is applied (predict.py), also when weights are chosen."""

    overlap: float = Field(default=0.5, ge=0, lt=1)
    """Of neighbouring windows."""
    flips: tuple[Axis, ...] = ()
    """Axes over whose mirrored images probabilities are averaged; each doubles the time."""
    min_component_mm3: Annotated[float, Field(ge=0)] | Literal["auto"] = "auto"
    """Smaller connected pieces of a structure are taken for background. auto: what is best on the validation part."""
    min_component_score: Annotated[float, Field(ge=0, lt=1)] | Literal["auto"] = "auto"
    """Pieces become background, too, in which the probability of a structure nowhere comes to this; auto likewise."""


class Training(configfile.FittedTraining):
    """Further keys, from epochs to seed, stand in shared/training/configfile.py."""

    batch_size: int = Field(default=1, ge=1)
    learning_rate: float = Field(default=0.01, gt=0)
    weight_decay: float = Field(default=0.01, ge=0)
    metric: Literal["dice"] = "dice"
    """Chooses the weights, on the validation part: mean over the structures of an image, then over images."""


class Config(Source):
    """The first keys, from `index` to `score_map`, stand in shared/training/masks.py."""

    cache: str | None = "cache"
    """Folder of preprocessed images; null keeps them in memory only."""
    preprocess: Preprocess = Preprocess()
    model: Model = Model()
    loss: Loss = Loss()
    sampling: Sampling = Sampling()
    augmentation: Augmentation = Augmentation()
    prediction: Prediction = Prediction()
    training: Training = Training()


def load(path: str | Path) -> Config:
    return load_config(path, Config)
