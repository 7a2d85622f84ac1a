"""The cases of the index, preprocessed once and kept in a cache; training's side of data.py."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from config import Config
from data import prepare
from patches import Patches
from survey import resolve

from shared.imaging.volume import to_dhw
from shared.training import checks, masks, ranks
from shared.training.cache import cache_of


class Cases:
    """The images of a split: `load(row)` has them as the network's data, `raw(row)` as they are."""

    def __init__(self, config: Config, rows: Sequence[masks.Row], values: Mapping[str, int]) -> None:
        self.rows = list(rows)
        self.values = dict(values)
        self.names = list(values)
        self.how = config.preprocess
        self.root = config.data_folder
        # What an image becomes depends on settings and on the code that prepares it.
        settings = self.how.model_dump(exclude={"patch_size", "patch_voxels", "max_voxels", "passes"})
        self.cache = cache_of(config.cache, [settings, self.values], Path(__file__).with_name("data.py"))

    def load(self, row: masks.Row) -> tuple[np.ndarray, np.ndarray]:
        """Preprocessed image (C, D, H, W) float16 and class numbers (D, H, W). Raises BadImage: all that is wrong."""
        files = [self.root / str(file) for file in (*row["files"], row["target"])]

        def make() -> np.ndarray:
            image, labels = self.raw(row)
            seen = prepare(image, self.how)
            return np.concatenate([seen, shrink(to_dhw(labels, image), seen.shape[1:])[None]])

        # One array, in which float16 holds class numbers up to 2048 exactly.
        both = self.cache.get(str(row["sample_id"]), files, make)
        return both[:-1], both[-1].astype(np.uint8 if len(self.values) < 256 else np.uint16)

    def raw(self, row: masks.Row) -> tuple[Any, np.ndarray]:
        """The image and its class numbers on the axes of its file."""
        return masks.load_case(row, self.root, self.values)


def build(config: Config, *splits: str) -> Patches:
    """Of train or val, or both; augmented where train is among them. `auto` in the configuration is settled first."""
    config = resolve(config)
    rows = [row for row in checks.read_index(config.index) if row["split"] in splits]
    return Patches(Cases(config, rows, masks.label_values(config)), config, train="train" in splits)


def read_all(config: Config) -> tuple[Config, dict[str, Patches], dict[str, dict[str, int]]]:
    """The settled configuration, both splits, and `check`'s counts. Raises DataProblems."""
    config = resolve(config)
    sets = {split: build(config, split) for split in ("train", "val")}
    return config, sets, ranks.by_first(lambda: check(config, sets))


def check(config: Config, sets: Mapping[str, Patches]) -> dict[str, dict[str, int]]:
    """Read every image into the cache; -> split -> structure -> images that have it. Raises DataProblems."""
    values = sets["train"].cases.values
    present: dict[str, list[np.ndarray]] = {split: [] for split in sets}

    def read(row: masks.Row) -> None:
        data = sets[row["split"]]
        labels = data.cases.load(row)[1]
        present[row["split"]].append(np.bincount(labels.ravel(), minlength=len(values) + 1)[1:] > 0)
        if data.train:
            data.places(row, labels)  # here, where several images are looked at together

    checks.refuse(checks.read_all([row for data in sets.values() for row in data.rows], read))
    counts = {
        split: {name: int(sum(one[number] for one in found)) for number, name in enumerate(values)}
        for split, found in present.items()
    }
    checks.refuse(masks.missing(counts, values, config.every_structure))
    for sentence in masks.limits(counts, values):
        print(sentence, flush=True)
    return counts


def shrink(labels: np.ndarray, size: Sequence[int]) -> np.ndarray:
    """Class numbers (D, H, W) on a coarser grid, by the nearest voxel. A structure too small for it keeps one."""
    if tuple(size) == labels.shape:
        return labels
    steps = [(np.arange(new) + 0.5) * old / new for new, old in zip(size, labels.shape, strict=True)]
    found = labels[np.ix_(*(step.astype(int) for step in steps))]
    there, here = np.bincount(labels.ravel()), np.bincount(found.ravel(), minlength=int(labels.max()) + 1)
    for number in np.flatnonzero((there > 0) & (here == 0)):
        middle = np.argwhere(labels == number).mean(0) + 0.5
        place = (middle * np.array(size) / np.array(labels.shape)).astype(int)
        found[tuple(np.minimum(place, np.array(size) - 1))] = number
    return found
