"""Files -> the tensor of a case that the network sees. Training and the delivered package run this same file.

Axis order everywhere: channels, then (D, H, W) of a volume or (H, W) of a picture. A volume is turned to the nearest
RAS+ orientation and transposed, so D runs inferior to superior, H posterior to anterior, W left to right.
`how` is the section `preprocess` of the configuration; but for `settle` it holds no `auto` any more.
Every reason not to use an input is a `BadImage`; nothing is repaired by guessing.
"""

import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import augment
import numpy as np
import torch

from shared.imaging import volume
from shared.imaging.formats import kind_of
from shared.imaging.inputs import views_of
from shared.imaging.resample import resized
from shared.imaging.units import looks_like_hu
from shared.imaging.volume import BadImage, Image, as_picture, channels_first, fitted, size_dhw

Row = Mapping[str, Any]
LOOKED_AT, COUNTED = 24, 200
"""Training cases from which `auto` is settled, and from which that of views is."""
VOXELS_A_SECOND = 1_600_000
"""What a core trains a resnet10 on, evaluations included."""
MOST_VIEWS = 4
"""Of a case that `auto` looks at."""


def rows_of(config: Any) -> list[Row]:
    # Not splitlines(): it also breaks at characters that are legal inside a JSON string.
    lines = Path(config.index).read_text(encoding="utf-8").split("\n")
    return [json.loads(line) for line in lines if line.strip()]


class Cases(torch.utils.data.Dataset):
    """The rows of a split, and their images; data.py adds what is to be learned of them."""

    def __init__(self, config: Any, rows: Sequence[Row], cache: Any = None) -> None:
        """`cache.get(sample, files, make)` gives what `make()` does, faster (shared.training.cache)."""
        self.rows, self.cache = list(rows), cache
        self.root, self.how = config.data_folder, config.preprocess
        self.augment = augment.Augment(config.augmentation, whole(config.preprocess))

    def __len__(self) -> int:
        return len(self.rows)

    def image(self, row: Row) -> np.ndarray:
        """Raises BadImage."""
        files = [self.root / file for file in row["files"]]
        if self.cache is None:
            return read(files, self.how)
        return self.cache.get(str(row["sample_id"]), files, lambda: read(files, self.how))

    def augmented(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        return {**batch, "image": self.augment(batch["image"])}


def read(files: Sequence[Path], how: Any) -> np.ndarray:
    """A case as the network sees it: float32 (views * C, D, H, W) or (views * C, H, W). Raises BadImage.

    In 2D each picture is a view, in 3D each volume and series; pictures are slices there. The first `how.views` are
    taken, and one that the case has not is zeros. Where the network sees several channels that are no colours, as many
    images of one channel are one view.
    """
    groups = views_of(files, len(how.input_shape))
    if are_channels(len(groups), how) and load_image(groups[0], how).array.shape[-1] == 1:
        groups = [list(files)]
    found = [preprocess(load_image(group, how), how) for group in groups[: how.views]]
    return np.concatenate([*found, *[np.zeros_like(found[0])] * (how.views - len(found))])


def whole(how: Any) -> tuple[int, ...]:
    """(channels, D, H, W) or (channels, H, W) of an image as the network sees it."""
    return (how.channels, *how.input_shape)


def in_colour(how: Any) -> bool:
    """Whether the network sees colour pictures."""
    return len(how.input_shape) == 2 and how.channels == 3


def are_channels(images: int, how: Any) -> bool:
    """Whether so many images of an input are the channels of one."""
    return 1 < images == how.channels and not in_colour(how)


def load_image(files: Sequence[Path], how: Any) -> Image:
    """The image of one input, on the axes of its file: `.array` has its channels last. Raises BadImage.

    Several files are slices in the given order, except DICOM, which is sorted by position. As many images as the
    network has channels (volumes, series, or pictures in 2D) are one each, on one grid. A fourth axis holds channels.
    """
    if len(files) > 1 and "auto" not in (how.input_shape, how.channels):
        groups = views_of(files, len(how.input_shape))
        if are_channels(len(groups), how):
            images = [volume.read(group, uneven="accept") for group in groups]
            return volume.stack(images, [group[0].name for group in groups])
    # A gap in a series is no reason not to look at it: there is no mask that would not fit.
    return volume.read(files, axis4="channels", uneven="accept")


def preprocess(image: Image, how: Any) -> np.ndarray:
    """float32 (channels, D, H, W) or (channels, H, W). Raises BadImage for other dimensions or channels."""
    image = fitted(as_picture(image) if len(how.input_shape) == 2 else image, how.channels)
    values = channels_first(image)
    if len(how.input_shape) == 3 and values.ndim == 3:
        values = values[:, None]
    # Colour keeps its hue; other channels have scales of their own.
    groups = values[None] if in_colour(how) else values[:, None]
    return np.concatenate([normalise(group, how) for group in groups])


def normalise(values: np.ndarray, how: Any) -> np.ndarray:
    """Channels of one scale, (C, D, H, W) or (C, H, W), at their shape and about -1 to 1 (zscore: -5 to 5)."""
    shape = how.input_shape
    if how.intensity == "window":
        if how.window is None:
            raise ValueError("intensity: window needs window: [low, high]")
        low, high = how.window
        return resize((np.clip(values, low, high) - low) / max(high - low, 1e-6) * 2 - 1, shape)
    if how.intensity == "minmax":
        low, high = np.percentile(values, (0.5, 99.5))
        scaled = (np.clip(values, low, high) - low) / (high - low) if high > low else np.zeros_like(values)
        return resize(scaled, shape) * 2 - 1
    small = resize(values, shape)
    spread = float(small.std())
    # A constant image becomes zeros, never a division by zero.
    scaled = (small - small.mean()) / spread if spread > 1e-6 * max(1.0, abs(float(small.mean()))) else small * 0
    return np.clip(scaled, -5, 5).astype(np.float32)


def value_range(how: Any) -> tuple[float, float]:
    """Least and largest value that `normalise` gives."""
    return (-5.0, 5.0) if how.intensity == "zscore" else (-1.0, 1.0)


def resize(values: np.ndarray, shape: Sequence[int]) -> np.ndarray:
    """(C, D, H, W) or (C, H, W) -> float32 (C, *shape), linear, with anti-aliasing where it shrinks."""
    if len(shape) == 2:
        return np.concatenate([resized(channel[None], (1, *shape)) for channel in values])
    return np.stack([resized(channel, shape) for channel in values])


def as_tensor(values: np.ndarray) -> torch.Tensor:
    """float32, rounded to float16: training keeps samples so, and use must not differ."""
    return torch.from_numpy(values.astype(np.float16)).float()


def told(how: Any) -> str:
    """What one image is, in sentences for the model card."""
    deep = len(how.input_shape) == 3
    if in_colour(how):
        channels = "Images are seen in colour; grey ones are taken, too. "
    elif how.channels == 1:
        channels = "One channel is seen; colour becomes grey. "
    else:
        channels = (
            f"An image has {how.channels} channels: a file with all of them (of a NIfTI the fourth axis), or a folder "
            "with a file (or DICOM series) a channel, in natural order of the names, of which the channels' are part. "
        )
    window = f" {tuple(how.window)}" if how.intensity == "window" else ""
    return (
        f"{channels}Each is normalised ({how.intensity}{window}) and resampled to {tuple(how.input_shape)}, axes "
        f"{'(D, H, W)' if deep else '(H, W)'}."
    )


def resolve(config: Any, rows: Sequence[Row], sided: bool, slices: bool) -> Any:
    """`preprocess` and `augmentation` without `auto`, as training rows and their images say. `sided`: left and right
    mean something else; `slices`: where most cases have more than MOST_VIEWS pictures, those of a case are one volume
    as long as no `input_shape` says what they are. Raises BadImage where there are no images."""
    views = len(rows) and np.median([len(row["files"]) for row in rows]) <= MOST_VIEWS and pictures(rows[0]["files"])
    how = settle(config.preprocess, glimpses(config, rows, 3 if slices and not views else 2))
    if how.views == "auto":
        how = how.model_copy(update={"views": usual_views(config, rows, how)})
    if config.preprocess.input_shape == "auto":
        most = affordable(config, how.views * len(rows))
        how = how.model_copy(update={"input_shape": within(how.input_shape, most)})
    update = {"preprocess": how, "augmentation": augment.settle(config.augmentation, how, sided)}
    return config.model_copy(update=update)


def pictures(files: Sequence[str]) -> bool:
    return {kind_of(file) for file in files} == {"picture"}


def affordable(config: Any, images: int) -> float:
    """Voxels of an image with which so many of them are seen `passes` times in the time that a CPU has."""
    seconds = config.training.whole_seconds or config.training.train_seconds
    if seconds is None or not config.preprocess.passes or torch.cuda.is_available():
        return math.inf
    return seconds * torch.get_num_threads() * VOXELS_A_SECOND / (config.preprocess.passes * images)


def within(shape: Sequence[int], most: float) -> tuple[int, ...]:
    """(D, H, W) or (H, W) with about so many voxels at most, all axes alike and each 16 at least, or as short as it
    was."""
    factor = min(1.0, (most / math.prod(shape)) ** (1 / len(shape)))
    return tuple(eights(size * factor, min(size, 16), size) for size in shape)


def usual_views(config: Any, rows: Sequence[Row], how: Any) -> int:
    """What 95 % of the cases have at most; images that are the channels of one do not count as views."""
    root, drawn = config.data_folder, rows[:: math.ceil(len(rows) / COUNTED)]
    counts = [len(views_of([root / file for file in row["files"]], len(how.input_shape))) for row in drawn]
    most = math.ceil(float(np.percentile(counts, 95)))
    return 1 if are_channels(most, how) else min(MOST_VIEWS, most)


def glimpses(config: Any, rows: Sequence[Row], unknown: int) -> Iterator[Image]:
    """First views of evenly drawn rows, as they are in their files, by so many dimensions where they are `unknown`.
    Damaged ones are passed over here."""
    how = config.preprocess
    for place in np.linspace(0, len(rows) - 1, min(LOOKED_AT, len(rows))).round().astype(int):
        files = [config.data_folder / file for file in rows[place]["files"]]
        with suppress(BadImage, OSError):
            groups = views_of(files, unknown if how.input_shape == "auto" else len(how.input_shape))
            channels = how.channels != "auto" and are_channels(len(groups), how)
            yield load_image(files if channels else groups[0], how)


def settle(how: Any, images: Iterable[Image]) -> Any:
    """`how` with every `auto` replaced by what these training images show. Raises BadImage where there are none."""
    if "auto" not in (how.input_shape, how.channels, how.intensity):
        return how
    sizes, channels, in_hu, body = [], Counter(), [], []
    for image in images:
        array = image.array
        sizes.append(size_dhw(image))
        channels[array.shape[-1]] += 1
        in_hu.append(all(looks_like_hu(array[..., channel]) for channel in range(array.shape[-1])))
        if in_hu[-1]:
            body.append(array[array > -1000][::97])
    if not sizes:
        raise BadImage("none of the training images looked at can be read; give preprocess.input_shape to see why")
    found: dict[str, Any] = {}
    if how.channels == "auto":
        # Of equals the larger: grey is taken for colour at no loss.
        found["channels"] = max((times, count) for count, times in channels.items())[1]
    if how.input_shape == "auto":
        found["input_shape"] = usual_shape(sizes)
    if how.intensity == "auto":
        # Hounsfield units mean the same in all images: their scale is kept.
        if how.window is None and 2 * sum(in_hu) > len(in_hu):
            values = np.concatenate(body)
            low, high = np.percentile(values, (0.5, 99.5)) if values.size else (-1000, 400)
            found["window"] = (round(float(low)), round(max(float(high), low + 1)))
        found["intensity"] = "window" if how.window or "window" in found else "zscore"
    return how.model_copy(update=found)


def usual_shape(sizes: Sequence[tuple[int, int, int]]) -> tuple[int, ...]:
    """Near the median (D, H, W), at most 32 x 64 x 64; (H, W) of at most 128 x 128 where all are pictures."""
    volumes = [size for size in sizes if size[0] > 1]
    depth, height, width = np.median(volumes or sizes, axis=0).tolist()
    largest = 64 if volumes else 128
    shrink = min(1.0, largest / max(height, width))
    plane = (eights(height * shrink, 16, largest), eights(width * shrink, 16, largest))
    return (eights(depth, 8, 32), *plane) if volumes else plane


def eights(size: float, least: int, most: int) -> int:
    """Nearest multiple of eight within bounds."""
    return int(min(most, max(least, 8 * math.floor(size / 8 + 0.5))))
