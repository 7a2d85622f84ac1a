"""Rows of the index as images with class numbers, preprocessed once; a template's dataset.py draws patches of them."""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch

from shared.trainkit.cache import ArrayCache
from shared.trainkit.exported.segmenter.inference import prepare
from shared.trainkit.exported.segmenter.masks import load_mask
from shared.trainkit.exported.segmenter.readers import load_scan
from shared.trainkit.exported.segmenter.scan import BadImage, Scan
from shared.trainkit.segmentation.augment import flip_axes
from shared.trainkit.segmentation.patches import Places, structure_places

Row = Mapping[str, Any]


class Cases(torch.utils.data.Dataset[dict[str, torch.Tensor]]):  # type: ignore[misc]
    """One split. A template's Dataset adds `__getitem__`: a patch of the image of that number."""

    sides_only = False
    """Whether images may be mirrored however many structures there are, if no name speaks of a side."""

    def __init__(self, config: Any, rows: Sequence[Row], values: Mapping[str, int], train: bool) -> None:
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
        self.known: dict[str, Places] = {}

    def __len__(self) -> int:
        return len(self.rows)

    @cached_property
    def axes(self) -> tuple[int, ...]:
        """That may be mirrored, of (D, H, W)."""
        many = len(self.label_names) if self.sides_only else 2
        return flip_axes(self.config.augmentation, self.label_names, int(self.how.dimensions), many)

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

    def find_places(self, target: np.ndarray) -> Places:
        """Voxels that patches are drawn around, of class numbers (D, H, W)."""
        return structure_places(target)

    def places(self, row: Row, target: np.ndarray | None = None) -> Places:
        """Those of a row (whose class numbers are `target`), looked for once; empty where it has no structure."""
        name = str(row["sample_id"])
        if name not in self.known:
            self.known[name] = self.find_places(self.case(row)[1] if target is None else target)
        return self.known[name]

    def turns(self, times: int) -> list[Sequence[int]]:
        """An epoch: for each patch, the numbers of the images of which one is drawn."""
        return [(number,) for _ in range(times) for number in range(len(self))]

    def item(self, image: np.ndarray, target: np.ndarray) -> dict[str, torch.Tensor]:
        """What the network is fed: {"image": float32 (C, D, H, W) or (C, H, W), "labels": int64 without C}."""
        if self.how.dimensions == 2:
            image, target = image[:, 0], target[0]
        return {
            "image": torch.from_numpy(np.ascontiguousarray(image, dtype=np.float32)),
            "labels": torch.from_numpy(np.ascontiguousarray(target, dtype=np.int64)),
        }


def fresh_generator() -> np.random.Generator:
    """From torch's, which differs by worker and is part of a checkpoint."""
    return np.random.default_rng(int(torch.randint(2**31, ())))


def label_values(config: Any) -> dict[str, int]:
    """Structure -> its value in the masks, in the order of the class numbers 1..N."""
    found = json.loads(Path(config.label_map).read_text(encoding="utf-8"))
    names, values = list(found["names"]), found.get("values") or {}
    # Without values the masks hold the class numbers.
    return {name: int(values.get(name, number)) for number, name in enumerate(names, 1)}


def data_root(config: Any) -> Path:
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
