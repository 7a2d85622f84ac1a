"""What the train.py of both templates does: check, train, package."""

import argparse
import os
import signal
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from shared.trainkit import checkpoints, checks, ranks
from shared.trainkit.configfile import ConfigError
from shared.trainkit.exported import CLI, IMAGING
from shared.trainkit.exported.imaging.backbones import needed
from shared.trainkit.images import smoke
from shared.trainkit.images.cases import data_root
from shared.trainkit.index import read_index
from shared.trainkit.launch import launch, wanted_processes
from shared.trainkit.package import PackageFacts, write_package
from shared.trainkit.program import exit_code
from shared.trainkit.progress import ProgressFile, write_json, write_metrics

CHECKPOINTS = Path("checkpoints")
UNMARKED = {"training": {"train_seconds", "save_seconds", "workers", "processes"}}
"""Of the configuration: what does not make a training another one."""

Rows = list[dict[str, Any]]


def main(doc: str | None, task: Any, argv: list[str] | None = None) -> int:
    """The exit code: 0 done, 1 the training failed, 2 configuration or data are wrong, 143 stopped by SIGTERM."""
    parser = argparse.ArgumentParser(description=(doc or "").partition("\n")[0])
    parser.add_argument("--config", default="config.yaml")
    modes = smoke.MODES[task.name]
    parser.add_argument(
        "--smoke", nargs="?", const=modes[0], choices=(*modes, "all"), help="train on tiny data, package, predict"
    )
    arguments = parser.parse_args(argv)
    if arguments.smoke:
        chosen = modes if arguments.smoke == "all" else [arguments.smoke]
        return exit_code(lambda: smoke.run(task, chosen))
    return exit_code(lambda: train(task, task.load(arguments.config)))


def train(task: Any, config: Any) -> int:
    begin = time.monotonic()
    rows = check_rows(task, config)
    if (processes := wanted_processes(config.training.processes)) > 1:
        return launch(processes)
    device = ranks.join()
    config = task.dataset.resolve(config)
    sets = {split: task.dataset.build(config, split) for split in ("train", "val")}
    threads = len(os.sched_getaffinity(0))
    # Into the cache, from which the other processes read.
    ranks.by_first(lambda: checks.refuse(checks.read_all(rows, lambda row: sets[row["split"]].image(row), threads)))

    # Late: what is wrong with the data is told before the frameworks are loaded.
    from transformers import set_seed

    from shared.trainkit.images.loop import fit

    set_seed(config.training.seed)
    model = build_model(task, config, sets["train"])
    mark = fingerprint(task, config)
    attempt, picked = ranks.by_first(lambda: checkpoints.resume(CHECKPOINTS, mark))
    ranks.say(
        f"{len(sets['train'])} train and {len(sets['val'])} val samples, {config.model.backbone}, "
        f"input {tuple(config.preprocess.input_shape)}, augmented as {config.augmentation.modality}"
    )
    result = fit(task, config, model, sets, attempt, picked, begin, device, CHECKPOINTS)
    if result is None:
        ranks.say("stopped as asked; the same command goes on from the checkpoint")
        return 128 + signal.SIGTERM
    if ranks.first():
        deliver(task, config, rows, sets["train"], result, time.monotonic() - begin + attempt.seconds, attempt.number)
    return 0


def check_rows(task: Any, config: Any) -> Rows:
    """What can be said without opening an image; the sooner the better."""
    rows = read_index(config.index)
    problems = checks.split_problems(rows, config.index) + task.problems(config, rows)
    root = data_root(config)
    if not root.is_dir():
        problems.append(checks.Problem("data_root", f"{root} is no folder; set data_root or M3_DATA"))
    checks.refuse(problems)
    return rows


def build_model(task: Any, config: Any, train_set: Any) -> Any:
    from shared.trainkit.images.pretrained import load_into

    try:
        model = task.model(config, train_set)
        if config.model.weights:
            ranks.say(load_into(getattr(model, "encoder", model), Path(config.model.weights)))
    except ValueError as error:
        raise ConfigError(str(error)) from None
    return model


def fingerprint(task: Any, config: Any) -> str:
    """Of all that makes a training the same one."""
    settled = config.model_dump(mode="json", exclude=UNMARKED)
    ours = [file for folder in (IMAGING, Path(__file__).parent) for file in sorted(folder.glob("*.py"))]
    own = [task.folder / name for name in ("dataset.py", *task.exported)]
    return checkpoints.fingerprint(settled, [Path(config.index), *task.inputs(config), *own, *ours])


def deliver(task: Any, config: Any, rows: Rows, train_set: Any, result: Any, seconds: float, attempts: int) -> None:
    """Write package/ and then metrics.json; the latter says that all is done."""
    from shared.trainkit.callbacks import save_weights

    metrics, metric = result.measured.metrics, config.training.metric
    facts = PackageFacts(
        task=task.name,
        metric_name=metric,
        metrics=metrics,
        parameters=result.parameters,
        epochs=result.epochs,
        seconds=seconds,
        device=result.device,
        value_range=(-5.0, 5.0) if config.preprocess.intensity == "zscore" else (-1.0, 1.0),
        limits=result.measured.limits,
        **task.facts(config, rows, train_set),
    )
    write_package(
        Path("package"),
        code=[*(task.folder / name for name in task.exported), CLI, IMAGING, *task.files(train_set)],
        imports=(*task.imported, *needed(config.model)),
        save_weights=lambda path: save_weights(result.model, path),
        config={
            "task": task.name,
            "preprocess": asdict(config.preprocess),
            "model": asdict(replace(config.model, weights=None)),
            "loss": asdict(config.loss),
            **task.packaged(config),
        },
        facts=facts,
    )
    for name, found in result.measured.files.items():
        write_json(Path(name), found)
    write_metrics(
        Path("metrics.json"),
        metrics=metrics,
        metric_name=metric,
        epochs=result.epochs,
        seconds=seconds,
        samples={split: sum(row["split"] == split for row in rows) for split in ("train", "val")},
        device=result.device,
        parameters=result.parameters,
        more={
            "best_epoch": result.best_epoch,
            "attempts": attempts,
            "input_shape": list(facts.input_shape),
            **result.measured.more,
        },
    )
    ProgressFile(Path("progress.jsonl")).write(
        epoch=result.epochs,
        epochs=result.epochs,
        metric=metrics[metric],
        metric_name=metric,
        eta_seconds=0.0,
        text="done",
    )
    shown = ", ".join(f"{name} {value:.3f}" for name, value in metrics.items() if value is not None)
    print(f"{shown} on val; package/ and metrics.json written in {seconds:.0f} s", flush=True)
    for warning in result.measured.more.get("warnings", ()):
        print(f"warning: {warning}", flush=True)
