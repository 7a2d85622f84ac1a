"""Train a segmentation: `python train.py --config config.yaml`, or `python train.py --smoke` for a try-out in seconds.

Reads train_index.jsonl and label_map.json, images and masks below $M3_DATA. Leaves progress.jsonl, metrics.json
(validation only), checkpoints/ and package/ in the working directory. A second call with the same configuration, data
and code goes on from the newest intact checkpoint. Exit codes: 0 done, 1 the training failed, 2 configuration or data
are wrong (all problems are listed), 143 stopped by SIGTERM with a checkpoint saved.
"""

import argparse
import os
import signal
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

# Set before the frameworks are imported: nothing here may look for a network.
os.environ.setdefault("HF_HUB_OFFLINE", "1")
# Threads that wait do not spin: on a machine shared with others that costs half the speed.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

from config import Config, ConfigError, load

from shared.trainkit import checkpoints, checks
from shared.trainkit.index import IndexInvalid, read_index
from shared.trainkit.package import PackageFacts, write_package
from shared.trainkit.progress import ProgressFile, write_metrics

HERE = Path(__file__).resolve().parent
EXPORTED = ("predict.py", "inference.py", "readers.py", "model.py")
IMPORTED = ("torch", "numpy", "safetensors", "monai", "nibabel", "pydicom", "pillow")
CHECKPOINTS = Path("checkpoints")
HOURS = 2
"""Of training from which nnU-Net is worth its planning, on a GPU."""


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--config", default="config.yaml")
    parser.add_argument("--smoke", action="store_true", help="train on tiny data of its own, package, predict")
    arguments = parser.parse_args(argv)
    if arguments.smoke:
        from smoke import run_smoke

        return run_smoke()
    try:
        return train(load(arguments.config))
    except (ConfigError, IndexInvalid, checks.DataProblems, FileNotFoundError) as error:
        print(error, file=sys.stderr)
        return 2
    except checks.TrainingFailed as error:
        print(error, file=sys.stderr)
        return 1


def train(config: Config) -> int:
    begin = time.monotonic()
    rows = check_rows(config)
    return {"monai": train_monai, "nnunet": train_nnunet}[engine(config)](config, rows, begin)


def engine(config: Config) -> str:
    if config.engine != "auto":
        return config.engine
    import torch

    seconds = config.training.train_seconds
    return "nnunet" if torch.cuda.is_available() and (seconds is None or seconds >= HOURS * 3600) else "monai"


def check_rows(config: Config) -> list[dict[str, Any]]:
    """What can be said without opening an image; the sooner the better."""
    from dataset import data_root, label_values

    rows = read_index(config.index)
    values = label_values(config)
    problems = checks.split_problems(rows, config.index) + checks.value_problems(values)
    problems += [checks.Problem(str(row["sample_id"]), "has no mask (target)") for row in rows if not row["target"]]
    root = data_root(config)
    if not root.is_dir():
        problems.append(checks.Problem("data_root", f"{root} is no folder; set data_root or M3_DATA"))
    checks.refuse(problems)
    return rows


def train_nnunet(config: Config, rows: list[dict[str, Any]], begin: float) -> int:
    import nnunet_train
    from dataset import data_root, label_values

    from shared.trainkit.callbacks import TimeBudget

    values, progress = label_values(config), ProgressFile(Path("progress.jsonl"))
    budget = TimeBudget(config.training.train_seconds, begin)
    # Absolute: nnU-Net's own processes may stand elsewhere.
    places = data_root(config).resolve(), Path.cwd()
    found = nnunet_train.train(config, rows, list(values), values, *places, budget, progress)
    finish(found)
    return 0


def train_monai(config: Config, rows: list[dict[str, Any]], begin: float) -> int:
    import dataset

    config = dataset.resolve(config)
    train_set, val_set = dataset.build(config, "train"), dataset.build(config, "val")
    counts = check_images(rows, {"train": train_set, "val": val_set})

    # Late: what is wrong with the data is told before the frameworks are loaded.
    import torch
    from loop import fit
    from transformers import set_seed

    set_seed(config.training.seed)
    model = build_model(config, len(train_set.label_names))
    settled = config.model_dump(mode="json", exclude={"training": {"train_seconds", "save_seconds", "workers"}})
    code = [HERE / name for name in ("dataset.py", "augment.py", *EXPORTED[1:])]
    mark = checkpoints.fingerprint(settled, [Path(config.index), Path(config.label_map), *code])
    attempt, picked = checkpoints.resume(CHECKPOINTS, mark)
    patch = tuple(config.preprocess.patch_size)
    print(
        f"{len(train_set)} train and {len(val_set)} val images, {len(train_set.label_names)} structures, "
        f"patch {patch}, spacing {config.preprocess.spacing} mm",
        flush=True,
    )
    try:
        result = fit(config, model, train_set, val_set, attempt, picked, begin, CHECKPOINTS)
    except torch.cuda.OutOfMemoryError:
        raise checks.TrainingFailed(
            f"the GPU's memory does not hold a batch of {config.training.batch_size} patches of {patch}\n"
            "halve training.batch_size and double training.accumulate, or take a smaller preprocess.patch_size"
        ) from None
    if result is None:
        print("stopped as asked; the same command goes on from the checkpoint", flush=True)
        return 128 + signal.SIGTERM
    deliver(config, rows, counts, train_set.values, result, time.monotonic() - begin + attempt.seconds, attempt.number)
    return 0


def check_images(rows: list[dict[str, Any]], sets: dict[str, Any]) -> dict[str, dict[str, int]]:
    """Read everything into the cache; -> split -> structure -> images that have it. Raises DataProblems."""
    import numpy as np

    names = sets["train"].label_names
    counts = {split: dict.fromkeys(names, 0) for split in sets}
    present: dict[str, list[int]] = {}

    def read(row: Mapping[str, Any]) -> None:
        target = sets[row["split"]].case(row)[1]
        present[row["sample_id"]] = [int(number) for number in np.flatnonzero(np.bincount(target.ravel())) if number]

    problems = checks.read_all(rows, read, len(os.sched_getaffinity(0)))
    for row in rows:
        for number in present.get(row["sample_id"], []):
            counts[row["split"]][names[number - 1]] += 1
    if not problems:
        problems = [
            checks.Problem(f"structure {name}", f"no training mask has it (value {sets['train'].values[name]})")
            for name in names
            if not counts["train"][name]
        ]
    checks.refuse(problems)
    if missing := [name for name in names if not counts["val"][name]]:
        print(f"no validation image has {', '.join(missing)}: nothing is known about their quality", flush=True)
    return counts


def build_model(config: Config, structures: int) -> Any:
    import model

    try:
        return model.build(config, structures)
    except ValueError as error:
        raise ConfigError(str(error)) from None


def deliver(
    config: Config,
    rows: list[dict[str, Any]],
    counts: dict[str, dict[str, int]],
    values: dict[str, int],
    result: Any,
    seconds: float,
    attempts: int,
) -> None:
    """Write package/ and then metrics.json; the latter says that all is done."""
    from shared.trainkit.callbacks import save_weights

    how = config.preprocess
    shape = [how.channels, *how.patch_size]
    files = f"a file or folder of {how.channels} channels in order" if how.channels > 1 else "a file"
    scale = f"clipped to {how.window}" if how.intensity == "ct" else "z-score by image"
    spacing = " x ".join(f"{mm:g}" for mm in how.spacing)
    facts = PackageFacts(
        task="organ_segmentation",
        label_names=list(values),
        label_values=values,
        input_text=(
            f"One INPUT is {files} (NIfTI, npy, PNG) or a folder of DICOM slices. Values are {scale}; images are "
            f"turned to the nearest RAS+ axes and resampled to {spacing} mm, axes (D, H, W) = (inferior to superior, "
            "posterior to anterior, left to right). The mask is on the input's own grid, with the dataset's own values."
        ),
        input_shape=shape,
        counts=counts,
        metric_name=config.training.metric,
        metrics=result.metrics,
        model=f"{config.model.network} (width {config.model.width}, {config.model.levels} levels)",
        parameters=result.parameters,
        epochs=result.epochs,
        seconds=seconds,
        device=result.device,
        value_range=(-1.0, 1.0) if how.intensity == "ct" else (-5.0, 5.0),
        output="segmentation",
    )
    write_package(
        Path("package"),
        code=[HERE / name for name in EXPORTED],
        imports=IMPORTED,
        save_weights=lambda path: save_weights(result.model, path),
        config={
            "task": "organ_segmentation",
            "engine": "monai",
            "preprocess": asdict(how),
            "model": asdict(config.model),
            "loss": asdict(config.loss),
        },
        facts=facts,
    )
    finish(
        {
            "metrics": result.metrics,
            "metric_name": config.training.metric,
            "epochs": result.epochs,
            "seconds": seconds,
            "samples": {split: sum(row["split"] == split for row in rows) for split in counts},
            "device": result.device,
            "parameters": result.parameters,
            "engine": "monai",
            "grid": f"the images' own, {result.measured} validation images",
            "best_epoch": result.best_epoch,
            "attempts": attempts,
            "input_shape": shape,
        }
    )


def finish(found: dict[str, Any]) -> None:
    """metrics.json and the last line of progress."""
    known = ("metrics", "metric_name", "epochs", "seconds", "samples", "device", "parameters")
    fields = {key: found[key] for key in known}
    write_metrics(Path("metrics.json"), **fields, more={key: found[key] for key in found if key not in known})
    name, epochs = found["metric_name"], found["epochs"]
    value = found["metrics"][name]
    ProgressFile(Path("progress.jsonl")).write(
        epoch=epochs, epochs=epochs, metric=value, metric_name=name, eta_seconds=0.0, text="done"
    )
    shown = "not defined" if value is None else f"{value:.3f}"
    print(f"{name} {shown} on val; package/ and metrics.json written in {found['seconds']:.0f} s", flush=True)


if __name__ == "__main__":
    sys.exit(main())
