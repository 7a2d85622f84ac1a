"""Train a classifier: `python train.py --config config.yaml`, or `python train.py --smoke` for a try-out in seconds.

Reads train_index.jsonl and label_map.json, images below $M3_DATA. Leaves progress.jsonl, metrics.json (validation
only), checkpoints/ and package/ in the working directory. A second call with the same configuration, data and code
goes on from the newest intact checkpoint. Exit codes: 0 done, 1 the training failed, 2 configuration or data are
wrong (all problems are listed), 143 stopped by SIGTERM with a checkpoint saved.
"""

import argparse
import os
import signal
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

# Set before the frameworks are imported: nothing here may look for a network.
os.environ.setdefault("HF_HUB_OFFLINE", "1")
# Threads that wait do not spin: on a machine shared with others that costs half the speed.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

from config import Config, ConfigError, load

from shared.trainkit import checkpoints, checks
from shared.trainkit.exported import CLI
from shared.trainkit.index import IndexInvalid, labels_of, read_index
from shared.trainkit.package import PackageFacts, write_package
from shared.trainkit.progress import ProgressFile, write_metrics

HERE = Path(__file__).resolve().parent
EXPORTED = ("predict.py", "inference.py", "readers.py", "model.py")
IMPORTED = ("torch", "numpy", "safetensors", "nibabel", "pydicom", "pillow")
CHECKPOINTS = Path("checkpoints")


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


def train(config: Config) -> int:
    begin = time.monotonic()
    rows = check_rows(config)

    import dataset

    config = dataset.resolve(config)
    train_set, val_set = dataset.build(config, "train"), dataset.build(config, "val")
    names = train_set.label_names
    readers = {"train": train_set, "val": val_set}
    threads = len(os.sched_getaffinity(0))
    checks.refuse(checks.read_all(rows, lambda row: readers[row["split"]].image(row), threads))

    # Late: what is wrong with the data is told before the frameworks are loaded.
    import torch
    from loop import fit
    from transformers import set_seed

    set_seed(config.training.seed)
    model = build_model(config, train_set, len(names))
    settled = config.model_dump(mode="json", exclude={"training": {"train_seconds", "save_seconds", "workers"}})
    code = [HERE / name for name in ("dataset.py", *EXPORTED[1:])]
    mark = checkpoints.fingerprint(settled, [Path(config.index), Path(config.label_map), *code])
    attempt, picked = checkpoints.resume(CHECKPOINTS, mark)
    shape = tuple(config.preprocess.input_shape)
    print(f"{len(train_set)} train and {len(val_set)} val samples, {len(names)} classes, input {shape}", flush=True)

    try:
        result = fit(config, model, train_set, val_set, attempt, picked, begin, CHECKPOINTS)
    except torch.cuda.OutOfMemoryError:
        print(
            f"the GPU's memory does not hold a batch of {config.training.batch_size} images of {shape}\n"
            "halve training.batch_size and double training.accumulate, or take a smaller preprocess.input_shape",
            file=sys.stderr,
        )
        return 1
    except checks.TrainingFailed as error:
        print(error, file=sys.stderr)
        return 1
    if result is None:
        print("stopped as asked; the same command goes on from the checkpoint", flush=True)
        return 128 + signal.SIGTERM
    deliver(config, rows, names, result, time.monotonic() - begin + attempt.seconds, attempt.number)
    return 0


def check_rows(config: Config) -> list[dict[str, Any]]:
    """What can be said without opening an image; the sooner the better."""
    from dataset import data_root, label_names

    rows = read_index(config.index)
    names = label_names(config)
    problems = checks.split_problems(rows, config.index) + checks.label_problems(rows, names)
    root = data_root(config)
    if not root.is_dir():
        problems.append(checks.Problem("data_root", f"{root} is no folder; set data_root or M3_DATA"))
    checks.refuse(problems)
    return rows


def build_model(config: Config, train_set: Any, classes: int) -> Any:
    import model
    import torch
    from metrics import class_weights

    weights = None
    if config.loss.class_weights == "balanced":
        targets = torch.stack(train_set.targets)
        hot = targets if config.multi_label else torch.nn.functional.one_hot(targets, classes)
        weights = class_weights(hot.numpy(), bool(config.multi_label))
    try:
        return model.build(config, classes, weights)
    except ValueError as error:
        raise ConfigError(str(error)) from None


def deliver(
    config: Config, rows: list[dict[str, Any]], names: list[str], result: Any, seconds: float, attempts: int
) -> None:
    """Write package/ and then metrics.json; the latter says that all is done."""
    from shared.trainkit.callbacks import save_weights

    counts: dict[str, dict[str, int]] = {"train": {}, "val": {}}
    for row in rows:
        for label in labels_of(row):
            counts[row["split"]][label] = counts[row["split"]].get(label, 0) + 1
    samples = {split: sum(row["split"] == split for row in rows) for split in counts}
    how, metric = config.preprocess, config.training.metric
    order = "(D, H, W)" if len(how.input_shape) == 3 else "(H, W)"
    kind = "scan: a folder of slices, a NIfTI, DICOM" if len(how.input_shape) == 3 else "image: a PNG, JPG, DICOM"
    facts = PackageFacts(
        task="diagnosis",
        label_names=names,
        input_text=(
            f"One INPUT is one {kind} or npy or pt file. It is normalised ({how.intensity}"
            f"{f' {how.window}' if how.window else ''}) and resampled to {tuple(how.input_shape)}, axes {order}."
        ),
        input_shape=(1, *how.input_shape),
        counts=counts,
        metric_name=metric,
        metrics=result.metrics,
        model=f"{config.model.backbone} (width {config.model.width}, {config.model.norm} norm)",
        parameters=result.parameters,
        epochs=result.epochs,
        seconds=seconds,
        device=result.device,
        value_range=(-5.0, 5.0) if how.intensity == "zscore" else (-1.0, 1.0),
    )
    write_package(
        Path("package"),
        code=[*(HERE / name for name in EXPORTED), CLI],
        imports=IMPORTED if config.model.backbone.startswith("resnet") else (*IMPORTED, "monai"),
        save_weights=lambda path: save_weights(result.model, path),
        config={
            "task": "diagnosis",
            "multi_label": bool(config.multi_label),
            "preprocess": asdict(config.preprocess),
            "model": asdict(config.model),
            "loss": asdict(config.loss),
        },
        facts=facts,
    )
    write_metrics(
        Path("metrics.json"),
        metrics=result.metrics,
        metric_name=metric,
        epochs=result.epochs,
        seconds=seconds,
        samples=samples,
        device=result.device,
        parameters=result.parameters,
        more={"best_epoch": result.best_epoch, "attempts": attempts, "input_shape": [1, *how.input_shape]},
    )
    ProgressFile(Path("progress.jsonl")).write(
        epoch=result.epochs,
        epochs=result.epochs,
        metric=result.metrics[metric],
        metric_name=metric,
        eta_seconds=0.0,
        text="done",
    )
    print(
        f"best {metric} {result.metrics[metric]:.3f} on val; package/ and metrics.json written in {seconds:.0f} s",
        flush=True,
    )


if __name__ == "__main__":
    sys.exit(main())
