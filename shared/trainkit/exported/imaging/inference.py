"""From files to the tensor that the network sees. Training and the delivered package run this same file.

Axis order everywhere: (D, H, W) for a volume, (H, W) for an image; spacing in mm in that order. A NIfTI is turned to
the nearest RAS+ orientation and transposed, so D runs inferior to superior, H posterior to anterior, W left to right.
Every reason not to use an input is a `BadImage` whose text names it; nothing is repaired by guessing.
"""

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
import torch.nn.functional as F

from .readers import BadImage, read_file, read_series, suffix_of

__all__ = ["BadImage", "Preprocess", "input_files", "load_image", "preprocess"]

Spacing = tuple[float, float, float] | None
Value = Any


@dataclass(frozen=True)
class Preprocess:
    """What is done to every image; stored in the package as it was in training.

    `input_shape` is (D, H, W) or (H, W). `intensity`: `zscore` (per image), `minmax` (per image, 0.5 to 99.5
    percentile) or `window` (clip to `window` = [low, high] in the image's own units, HU for CT). `auto` stands only in
    a configuration: training replaces it by what it found in the training images.
    `roi`: `auto` crops to attributes such as roiX, roiY, roiZ, roiWidth, roiHeight, roiDepth (voxels) where a sample
    has them, `none` never; `roi_margin` is added on each side as a part of the region's size.
    """

    __pydantic_config__ = {"extra": "forbid"}
    input_shape: tuple[int, int] | tuple[int, int, int] | Literal["auto"] = "auto"
    intensity: Literal["auto", "zscore", "minmax", "window"] = "auto"
    window: tuple[float, float] | None = None
    roi: Literal["auto", "none"] = "auto"
    roi_margin: float = 0.5


def input_files(path: Path) -> tuple[list[Path], dict[str, Value]]:
    """Files of one INPUT and its attributes: a file is itself, a folder its images in natural order.

    `attributes.json` in the folder is read, hidden files are passed over.
    """
    if not path.exists():
        raise BadImage(f"{path.name} does not exist")
    if path.is_file():
        return [path], {}
    attributes: dict[str, Value] = {}
    listed = [item for item in path.iterdir() if item.is_file() and not item.name.startswith(".")]
    for item in listed:
        if item.name == "attributes.json":
            attributes = json.loads(item.read_text())
    images = [item for item in listed if item.name != "attributes.json" and suffix_of(item)]
    if not images:
        raise BadImage(f"the folder {path.name} holds no image that can be read")
    return sorted(images, key=lambda item: natural(item.name)), attributes


def natural(name: str) -> list[tuple[int, int, str]]:
    """`2.png` before `10.png`."""
    return [(0, int(part), "") if part.isdigit() else (1, 0, part.lower()) for part in re.split(r"(\d+)", name) if part]


def load_image(files: Sequence[Path | str], attributes: Mapping[str, Value]) -> tuple[np.ndarray, Spacing]:
    """Read one sample: a volume (D, H, W) or image (H, W) as finite float32, and its spacing where a header tells it.

    Several files are slices in the given order, except DICOM, which is sorted by position. `rescale_slope` and
    `rescale_intercept` in `attributes` are applied to formats whose headers have none (PNG, JPG, TIF, npy, pt), and to
    NIfTI as `rescaled` says.
    """
    paths = [Path(file) for file in files]
    if len(paths) == 1 and paths[0].is_dir():
        paths, found = input_files(paths[0])
        attributes = {**found, **attributes}
    if not paths:
        raise BadImage("no files")
    kinds = {suffix_of(path) for path in paths}
    if "" in kinds:
        unknown = next(path.name for path in paths if not suffix_of(path))
        raise BadImage(f"{unknown} is of no known image type")
    if kinds == {"dicom"}:
        volume, spacing = read_series(paths)
    elif len(paths) == 1:
        volume, spacing = read_file(paths[0])
    elif kinds <= {"picture", "numpy", "torch"}:
        volume, spacing = stack([read_file(path)[0] for path in paths], paths), None
    else:
        raise BadImage(f"{len(paths)} files of types {', '.join(sorted(kinds))} do not make one scan")
    volume = squeeze(volume)
    if not np.isfinite(volume).all():
        raise BadImage(f"{int((~np.isfinite(volume)).sum())} values are NaN or infinite")
    if kinds <= {"picture", "numpy", "torch", "nifti"}:
        volume = rescaled(volume, plain_names(attributes), doubtful=kinds == {"nifti"})
    return np.ascontiguousarray(volume, dtype=np.float32), spacing


def rescaled(volume: np.ndarray, named: Mapping[str, Value], doubtful: bool) -> np.ndarray:
    """Stored values in physical units by the slope and intercept of a table.

    `doubtful` where a converter may have applied them already, as most do that write NIfTI: then what leaves more
    voxels between air and soft tissue (HU) is taken.
    """
    slope, intercept = number(named, "rescaleslope", 1.0), number(named, "rescaleintercept", 0.0)
    if (slope, intercept) == (1.0, 0.0):
        return volume
    changed = volume * slope + intercept
    return volume if doubtful and bodily(volume) >= bodily(changed) else changed


def bodily(volume: np.ndarray) -> int:
    """Voxels between air and soft tissue, taken as HU."""
    return int(((volume > -1100) & (volume < 200)).sum())


def squeeze(volume: np.ndarray) -> np.ndarray:
    """Drop axes of length one beyond three; anything else with more than three axes is refused."""
    while volume.ndim > 3 and 1 in volume.shape:
        volume = volume.squeeze(volume.shape.index(1))
    if volume.ndim not in (2, 3) or 0 in volume.shape:
        raise BadImage(f"has shape {tuple(volume.shape)}; expected two or three axes, none empty")
    return volume


def stack(slices: Sequence[np.ndarray], paths: Sequence[Path]) -> np.ndarray:
    """One volume from slices; those of another size are resized to the most common one."""
    planes = []
    for plane, path in zip(slices, paths, strict=True):
        plane = plane[0] if plane.ndim == 3 and plane.shape[0] == 1 else plane
        if plane.ndim != 2:
            raise BadImage(f"{path.name} has shape {tuple(plane.shape)} where one slice is expected")
        planes.append(plane)
    size = Counter(plane.shape for plane in planes).most_common(1)[0][0]
    return np.stack([plane if plane.shape == size else resize(plane, size) for plane in planes])


def resize(volume: np.ndarray, shape: Sequence[int]) -> np.ndarray:
    """Linear, with anti-aliasing where it shrinks; 2D or 3D."""
    data = torch.from_numpy(np.ascontiguousarray(volume, dtype=np.float32))
    planes = data[None] if data.ndim == 2 else data
    height, width = shape[-2], shape[-1]
    if tuple(planes.shape[1:]) != (height, width):
        planes = F.interpolate(planes[:, None], (height, width), mode="bilinear", antialias=True)[:, 0]
    if len(shape) == 3 and planes.shape[0] != shape[0]:
        # The slice axis as the rows of one picture: torch anti-aliases only 2D.
        rows = planes.reshape(1, 1, planes.shape[0], height * width)
        planes = F.interpolate(rows, (shape[0], height * width), mode="bilinear", antialias=True)
        planes = planes.reshape(shape[0], height, width)
    found: np.ndarray = (planes[0] if len(shape) == 2 else planes).numpy()
    return found


def preprocess(volume: np.ndarray, attributes: Mapping[str, Value], how: Preprocess) -> np.ndarray:
    """(D, H, W) or (H, W) in its own units -> float32 with a channel axis first, of `how.input_shape`."""
    if how.input_shape == "auto" or how.intensity == "auto":
        raise ValueError("the preprocessing still says auto; training resolves it first")
    shape = tuple(how.input_shape)
    if len(shape) == 3 and volume.ndim == 2:
        volume = volume[None]
    if len(shape) == 2 and volume.ndim == 3:
        if volume.shape[0] != 1:
            raise BadImage(f"is a volume of {volume.shape[0]} slices where the model takes single images")
        volume = volume[0]
    if how.roi == "auto":
        volume = crop(volume, attributes, how.roi_margin)
    if how.intensity == "window":
        if how.window is None:
            raise ValueError("intensity: window needs window: [low, high]")
        low, high = how.window
        volume = (np.clip(volume, low, high) - low) / max(high - low, 1e-6) * 2 - 1
        return resize(volume, shape)[None].astype(np.float32)
    if how.intensity == "minmax":
        low, high = np.percentile(volume, (0.5, 99.5))
        scaled = (np.clip(volume, low, high) - low) / (high - low) if high > low else np.zeros_like(volume)
        return (resize(scaled, shape) * 2 - 1)[None].astype(np.float32)
    if how.intensity != "zscore":
        raise ValueError(f"intensity {how.intensity!r} is none of zscore, minmax, window")
    small = resize(volume, shape)
    spread = float(small.std())
    # A constant image becomes zeros, never a division by zero.
    scaled = (small - small.mean()) / spread if spread > 1e-6 * max(1.0, abs(float(small.mean()))) else small * 0
    clipped: np.ndarray = np.clip(scaled, -5, 5)[None].astype(np.float32)
    return clipped


def crop(volume: np.ndarray, attributes: Mapping[str, Value], margin: float) -> np.ndarray:
    """Cut to the region of interest, where the attributes name one; outside parts are cut off."""
    named = plain_names(attributes)
    axes = (("roiz", "roidepth"), ("roiy", "roiheight"), ("roix", "roiwidth"))[-volume.ndim :]
    cut = []
    for (start_name, size_name), length in zip(axes, volume.shape, strict=True):
        start, size = number(named, start_name, -1), number(named, size_name, 0)
        if start < 0 or size <= 0 or start >= length:
            cut.append(slice(None))
            continue
        pad = size * margin
        cut.append(slice(max(0, round(start - pad)), min(length, max(round(start + size + pad), round(start) + 1))))
    return volume[tuple(cut)]


def plain_names(attributes: Mapping[str, Value]) -> dict[str, Value]:
    """Column names without case, spaces and underscores: RescaleSlope and rescale_slope are one."""
    return {re.sub(r"[^a-z0-9]", "", str(key).lower()): value for key, value in attributes.items()}


def number(named: Mapping[str, Value], key: str, default: float) -> float:
    value = named.get(key)
    if value is None or value == "":
        return default
    try:
        found = float(value)
    except (TypeError, ValueError):
        raise BadImage(f"the attribute {key} is {value!r}, which is no number") from None
    if not np.isfinite(found):
        raise BadImage(f"the attribute {key} is {value!r}, which is not finite")
    return found
