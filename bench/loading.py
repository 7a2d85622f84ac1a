"""Images a second that the templates' datasets give, beside MONAI's CacheDataset and PersistentDataset.

    python -m bench.loading [--images 36] [--passes 3] [--folder DIR]

The transforms are equivalent: read, RAS+, resample, normalise; augmented as the templates' defaults say. A pass goes
through a DataLoader (theirs MONAI's, ours PyTorch's) in batches of four, without processes that load in parallel.
`files`: opening the dataset and the first pass, from files that the system has in memory; `reopened`: opening it anew
on the cache folder that this left, and a first pass (CacheDataset has no folder); `later`: the median of further
passes; `augmented`: the same with augmentation. The datasets take turns pass by pass. `ours/best` is ours beside the
better of MONAI's two. A minute or two.
"""

import argparse
import logging
import os
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import monai.data
import torch
from monai.data import CacheDataset, PersistentDataset
from monai.transforms import Compose

from bench.rig.kinds import Kind
from bench.rig.modules import template
from bench.rig.monai_steps import Steps, classified, segmented
from shared.training.cache import ArrayCache

COLUMNS = ("files", "reopened", "later", "augmented")
Open = Callable[[bool], Any]
"""Augmented or not -> a dataset on a cache folder that stays."""

KINDS: Mapping[Kind, tuple[int, ...]] = {
    Kind("diagnosis", 2): (256, 256),
    Kind("diagnosis", 3): (40, 96, 96),
    Kind("organ_segmentation", 2, engine="monai"): (256, 256),
    Kind("organ_segmentation", 3, engine="monai"): (40, 96, 96),
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=36, help="of which two thirds are for training; volumes: half")
    parser.add_argument("--passes", type=int, default=3)
    parser.add_argument("--folder", type=Path, help="where to work (a temporary folder)")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    print(f"load {os.getloadavg()[0]:.1f}, images a second")
    print(f"{'':28}{'':20}" + "".join(f"{column:>11}" for column in COLUMNS), flush=True)
    for kind, shape in KINDS.items():
        with tempfile.TemporaryDirectory(prefix="bench-loading-", dir=given.folder) as folder:
            show(kind, measure(kind, shape, given.images // (kind.dimensions - 1), given.passes, Path(folder)))
    return 0


def show(kind: Kind, found: dict[str, dict[str, float]]) -> None:
    best = {column: max(found[name].get(column, 0) for name in list(found)[1:]) for column in COLUMNS}
    ratios = {column: found["ours"][column] / best[column] for column in COLUMNS}
    for number, (name, speeds) in enumerate({**found, "ours/best": ratios}.items()):
        cells = (f"{speeds[column]:11.2f}" if column in speeds else f"{'-':>11}" for column in COLUMNS)
        print(f"{f'{kind.template} {kind.dimensions}D' if not number else '':28}{name:20}{''.join(cells)}", flush=True)


def measure(kind: Kind, shape: Sequence[int], count: int, passes: int, folder: Path) -> dict[str, dict[str, float]]:
    """Dataset -> column -> images a second."""
    kind.data(folder, tuple(shape), count)
    paths = {"index": "train_index.jsonl", "label_map": "label_map.json", "data_root": "data", "cache": "cache"}
    with template(kind.folder) as modules:
        known = {name: str(folder / path) for name, path in paths.items()}
        config = modules.data.resolve(modules.config.Config.model_validate(known))
        numbers = (key for key, value in config.augmentation.model_dump().items() if isinstance(value, int | float))
        off: dict[str, Any] = {**dict.fromkeys(numbers, 0.0), "flip_axes": ()}
        still = config.model_copy(update={"augmentation": config.augmentation.model_copy(update=off)})
        rows = modules.data.build(config, "train").rows
        steps = (classified if kind.template == "diagnosis" else segmented)(config, rows)
        datasets: dict[str, Open] = {
            "ours": lambda augment: ours(modules.data, config if augment else still, augment, folder / "cache"),
            **monai_datasets(steps, folder / "persistent"),
        }
        return take_turns(datasets, passes)


def ours(data: Any, config: Any, augment: bool, cache: Path) -> Any:
    """The template's dataset. Classification augments batches: `on_batches` is what is done to one."""
    if not hasattr(data, "images"):
        return data.build(config, "train")
    found = data.build(config, "train", ArrayCache(cache, config.preprocess.model_dump()))
    found.on_batches = found.augment if augment else None
    return found


def monai_datasets(steps: Steps, folder: Path) -> dict[str, Open]:
    def transform(augment: bool) -> Any:
        return Compose([*steps.still, *(steps.augmented if augment else steps.drawn)])

    return {
        "CacheDataset": lambda augment: CacheDataset(steps.items, transform(augment), num_workers=1, progress=False),
        "PersistentDataset": lambda augment: PersistentDataset(steps.items, transform(augment), cache_dir=folder),
    }


def take_turns(datasets: Mapping[str, Open], passes: int) -> dict[str, dict[str, float]]:
    speeds: dict[str, dict[str, float]] = {name: {} for name in datasets}

    def open_all(augment: bool, column: str = "") -> dict[str, Any]:
        """Each opened and gone through once; noted under `column`, if any."""
        opened = {}
        for name, open_one in datasets.items():
            began = time.perf_counter()
            opened[name] = open_one(augment)
            one_pass(opened[name])
            if column == "files" or (column and name != "CacheDataset"):
                speeds[name][column] = len(opened[name]) / (time.perf_counter() - began)
        return opened

    def further(opened: Mapping[str, Any], column: str) -> None:
        seconds: dict[str, list[float]] = {name: [] for name in opened}
        for _ in range(passes):
            for name, dataset in opened.items():
                began = time.perf_counter()
                one_pass(dataset)
                seconds[name].append(time.perf_counter() - began)
        for name, dataset in opened.items():
            speeds[name][column] = len(dataset) / statistics.median(seconds[name])

    open_all(False, "files")
    further(open_all(False, "reopened"), "later")
    further(open_all(True), "augmented")
    return speeds


def one_pass(dataset: Any) -> None:
    loader = monai.data.DataLoader if isinstance(dataset, monai.data.Dataset) else torch.utils.data.DataLoader
    augment = getattr(dataset, "on_batches", None)
    for batch in loader(dataset, batch_size=4):
        if augment:
            augment(batch["image"])


if __name__ == "__main__":
    sys.exit(main())
