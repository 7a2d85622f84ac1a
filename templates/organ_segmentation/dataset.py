"""Rows of the index -> what the network is fed. The file to edit when a dataset needs something of its own.

Kept by whoever edits it, because train.py and the checks call them:
`resolve(config) -> Config` (no `auto` left), `build(config, split) -> Dataset` with `len()`, `.rows`, `.label_names`
and items {"image": float32 (C, D, H, W) or (C, H, W), "labels": int64 (D, H, W) or (H, W), class numbers 1..N in the
order of `.label_names`, 0 background}.
"""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from augment import augment, flip_axes
from config import Config
from inference import pad, prepare
from readers import BadImage, Scan, load_mask, load_scan

from shared.trainkit.cache import ArrayCache
from shared.trainkit.index import read_index

Row = Mapping[str, Any]


class Dataset(torch.utils.data.Dataset[dict[str, torch.Tensor]]):
    """One split: an item is a patch of the image of that number, another one each time."""

    def __init__(self, config: Config, rows: Sequence[Row], values: Mapping[str, int], train: bool) -> None:
        self.rows = list(rows)
        self.values = dict(values)
        self.label_names = list(values)
        self.config = config
        self.how = config.preprocess
        self.root = data_root(config)
        self.train = train
        folder = Path(config.cache) if config.cache else Path(os.devnull)
        recipe = {key: value for key, value in asdict(self.how).items() if not key.startswith(("patch", "max"))}
        self.cache = ArrayCache(folder, [recipe, self.values])

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, number: int) -> dict[str, torch.Tensor]:
        # From torch's generator, which differs by worker and is part of a checkpoint.
        generator = np.random.default_rng(int(torch.randint(2**31, ())))
        share = self.config.sampling.foreground if self.train else 1.0
        image, target = cut(*self.case(self.rows[number]), self.how.patch, share, generator)
        if self.train:
            image, target = augment(image, target, self.config.augmentation, self.axes, generator)
        if self.how.dimensions == 2:
            image, target = image[:, 0], target[0]
        return {
            "image": torch.from_numpy(np.ascontiguousarray(image, dtype=np.float32)),
            "labels": torch.from_numpy(np.ascontiguousarray(target, dtype=np.int64)),
        }

    @cached_property
    def axes(self) -> tuple[int, ...]:
        """That may be mirrored, of (D, H, W)."""
        return flip_axes(self.config.augmentation, self.label_names, int(self.how.dimensions))

    def case(self, row: Row) -> tuple[np.ndarray, np.ndarray]:
        """Preprocessed and not augmented: image (C, D, H, W) float16 and class numbers (D, H, W) uint8 or uint16.

        Raises BadImage, which names all that is wrong with the sample.
        """
        files = [*image_files(row, self.root), self.root / str(row["target"])]

        def make() -> np.ndarray:
            scan, target = load_case(row, self.root, self.values)
            image = prepare(scan, self.how)
            return np.concatenate([image, shrink(scan.grid.turn(target), image.shape[1:])[None]])

        # One array, in which float16 holds class numbers up to 2048 exactly.
        both = self.cache.get(str(row["sample_id"]), files, None, make)
        return both[:-1], both[-1].astype(np.uint8 if len(self.values) < 256 else np.uint16)


def build(config: Config, split: str) -> Dataset:
    """`split` is train (augmented) or val. `auto` in the configuration is settled first."""
    config = resolve(config)
    rows = [row for row in read_index(config.index) if row["split"] == split]
    return Dataset(config, rows, label_values(config), train=split == "train")


def resolve(config: Config) -> Config:
    """Replace every `auto` of `preprocess` by what up to 16 evenly drawn training samples show. A second call changes
    nothing."""
    from survey import settle

    how = config.preprocess
    settled = "auto" not in (how.dimensions, how.spacing, how.patch_size, how.intensity) and how.channels
    if settled and (how.intensity != "ct" or how.window):
        return config
    rows = [row for row in read_index(config.index) if row["split"] == "train"]
    found = settle(config, rows, data_root(config), label_values(config))
    return config.model_copy(update={"preprocess": found})


def label_values(config: Config) -> dict[str, int]:
    """Structure -> its value in the masks, in the order of the class numbers 1..N."""
    found = json.loads(Path(config.label_map).read_text(encoding="utf-8"))
    names, values = list(found["names"]), found.get("values") or {}
    # Without values the masks hold the class numbers.
    return {name: int(values.get(name, number)) for number, name in enumerate(names, 1)}


def data_root(config: Config) -> Path:
    return Path(config.data_root or os.environ.get("M3_DATA") or ".")


def image_files(row: Row, root: Path) -> list[Path]:
    return [root / str(file) for file in row["files"]]


def load_case(row: Row, root: Path, values: Mapping[str, int]) -> tuple[Scan, np.ndarray]:
    """A sample as it is, and its mask as class numbers, both in the file's axes. Raises BadImage with all problems."""
    problems = []
    scan = mask = None
    try:
        scan = load_scan(image_files(row, root))
    except BadImage as error:
        problems.append(str(error))
    name = str(row["target"])
    try:
        mask, grid = load_mask(root / name)
        mask, unknown = to_classes(mask, values)
        if unknown:
            known = ", ".join(f"{value} {structure}" for structure, value in values.items())
            problems.append(f"{name} holds {shorten(unknown)}, which the label map does not have ({known})")
        if scan is not None and (difference := scan.grid.difference(grid)):
            problems.append(f"{name} {difference}")
    except BadImage as error:
        problems.append(str(error))
    if problems:
        raise BadImage("; ".join(problems))
    assert scan is not None and mask is not None
    if grid.order != scan.grid.order or grid.flips != scan.grid.flips:
        mask = scan.grid.turn_back(grid.turn(mask))
    return scan, mask


def shorten(values: Sequence[int]) -> str:
    text = ", ".join(map(str, values[:10])) + (f" and {len(values) - 10} more" if len(values) > 10 else "")
    return f"the value{'s' if len(values) > 1 else ''} {text}"


def to_classes(mask: np.ndarray, values: Mapping[str, int]) -> tuple[np.ndarray, list[int]]:
    """Class numbers in place of the dataset's values, and the values that stand for nothing."""
    low, high = int(mask.min()), int(mask.max())
    if high - low > 2**20:
        return mask, [int(value) for value in np.unique(mask) if value and int(value) not in values.values()]
    shifted = mask.astype(np.int64) - low
    present = np.flatnonzero(np.bincount(shifted.ravel(), minlength=high - low + 1)) + low
    table = np.zeros(high - low + 1, np.uint8 if len(values) < 256 else np.uint16)
    for number, value in enumerate(values.values(), 1):
        if low <= value <= high:
            table[value - low] = number
    known = {0, *values.values()}
    return table[shifted], [int(value) for value in present if int(value) not in known]


def shrink(target: np.ndarray, size: Sequence[int]) -> np.ndarray:
    """Class numbers (D, H, W) on another grid over the same extent, by the nearest voxel. A structure too small for
    that grid keeps the voxel nearest to its middle."""
    if tuple(size) == target.shape:
        return target
    steps = [(np.arange(new) + 0.5) * old / new for new, old in zip(size, target.shape, strict=True)]
    found = target[np.ix_(*(step.astype(int) for step in steps))]
    there, here = np.bincount(target.ravel()), np.bincount(found.ravel(), minlength=int(target.max()) + 1)
    for number in np.flatnonzero((there > 0) & (here == 0)):
        middle = np.argwhere(target == number).mean(0) + 0.5
        place = (middle * np.array(size) / np.array(target.shape)).astype(int)
        found[tuple(np.minimum(place, np.array(size) - 1))] = number
    return found


def cut(
    image: np.ndarray, target: np.ndarray, patch: Sequence[int], foreground: float, generator: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """A patch, by the share `foreground` around a voxel of a structure that is drawn first; the image is padded where
    it is smaller."""
    widths = []
    for size, edge in zip(target.shape, patch, strict=True):
        before = max(0, edge - size) // 2
        widths.append((before, max(0, edge - size) - before))
    if any(before or after for before, after in widths):
        image, target = pad(image, widths), np.pad(target, widths)
    room = [size - edge for size, edge in zip(target.shape, patch, strict=True)]
    if not any(room):
        return image, target
    start = [int(generator.integers(0, free + 1)) for free in room]
    if generator.random() < foreground:
        present = np.flatnonzero(np.bincount(target.ravel())[1:]) + 1
        if present.size:
            places = np.flatnonzero(target == generator.choice(present))
            middle = np.unravel_index(int(generator.choice(places)), target.shape)
            # Anywhere in the middle half of the patch, so that structures are not always seen from within.
            start = [
                int(np.clip(at - edge // 2 + generator.integers(-(edge // 4), edge // 4 + 1), 0, free))
                for at, edge, free in zip(middle, patch, room, strict=True)
            ]
    window = tuple(slice(begin, begin + edge) for begin, edge in zip(start, patch, strict=True))
    return image[(slice(None), *window)], target[window]
