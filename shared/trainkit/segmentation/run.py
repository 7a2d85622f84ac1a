"""What a segmentation template's train.py does: check, train with one of the engines, package."""

import argparse
import os
import shutil
import signal
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from shared.trainkit import checkpoints, checks, ranks
from shared.trainkit.configfile import ConfigError
from shared.trainkit.exported import SEGMENTER
from shared.trainkit.launch import launch, wanted_processes
from shared.trainkit.package import PackageFacts, write_package
from shared.trainkit.program import exit_code
from shared.trainkit.progress import ProgressFile, write_metrics
from shared.trainkit.segmentation import smoke
from shared.trainkit.segmentation.rows import Rows, read_rows
from shared.trainkit.segmentation.template import Template

IMPORTED = ("torch", "numpy", "safetensors", "monai", "nibabel", "pydicom", "pillow")
CHECKPOINTS = Path("checkpoints")
HOURS = 2
"""Of training from which nnU-Net is worth its planning, on a GPU."""
UNMARKED: dict[str, Any] = {
    "training": {"train_seconds", "save_seconds", "workers", "processes"},
    **dict.fromkeys(("engine", "cache", "score_map", "nnunet"), True),
}
"""Of the configuration: what does not make a training another one."""


def main(doc: str | None, template: Template, argv: list[str] | None = None) -> int:
    """The exit code: 0 done, 1 the training failed, 2 configuration or data are wrong, 143 stopped by SIGTERM."""
    parser = argparse.ArgumentParser(description=(doc or "").partition("\n")[0])
    parser.add_argument("--config", default="config.yaml")
    parser.add_argument(
        "--smoke",
        nargs="?",
        const="quick",
        choices=(*smoke.MODES, "quick", "all"),
        help="train on tiny data, package, predict; without a word 3d and 2d",
    )
    arguments = parser.parse_args(argv)
    if arguments.smoke:
        chosen = {"quick": smoke.QUICK, "all": smoke.MODES}.get(arguments.smoke, (arguments.smoke,))
        return exit_code(lambda: smoke.run(template, train, chosen))
    return exit_code(lambda: train(template, template.load(arguments.config)))


def train(template: Template, config: Any) -> int:
    begin = time.monotonic()
    way = train_nnunet if engine(config) == "nnunet" else train_monai
    if way is train_nnunet and int(os.environ.get("RANK", "0")):
        return 0  # nnU-Net has one GPU: of several processes the first trains
    made = [path for path in {Path("cache"), Path(config.cache or "cache")} if not path.exists()]
    try:
        return way(template, config, check_rows(config), begin)
    except checks.DataProblems:
        for path in made if ranks.first() else ():
            shutil.rmtree(path, ignore_errors=True)
        raise


def engine(config: Any) -> str:
    if config.engine != "auto":
        return str(config.engine)
    import torch

    several = int(os.environ.get("WORLD_SIZE", "1")) > 1
    seconds = config.training.train_seconds
    long = seconds is None or seconds >= HOURS * 3600
    return "nnunet" if torch.cuda.is_available() and long and not several else "monai"


def check_rows(config: Any) -> Rows:
    """What can be said without opening an image; if there is anything, the images are opened, too, and all is said."""
    from shared.trainkit.segmentation.cases import data_root, label_values, load_case

    rows = read_rows(config)
    values = label_values(config)
    problems = checks.split_problems(rows, config.index) + checks.value_problems(values)
    problems += [checks.Problem(str(row["sample_id"]), "has no mask (target)") for row in rows if not row["target"]]
    root = data_root(config)
    if not root.is_dir():
        problems.append(checks.Problem("data_root", f"{root} is no folder; set data_root or M3_DATA"))
    elif problems:
        problems += checks.read_all([row for row in rows if row["target"]], lambda row: load_case(row, root, values))
    checks.refuse(problems)
    return rows


def train_nnunet(template: Template, config: Any, rows: Rows, begin: float) -> int:
    from shared.trainkit.callbacks import TimeBudget
    from shared.trainkit.segmentation import nnunet_train
    from shared.trainkit.segmentation.cases import data_root, label_values

    progress = ProgressFile(Path("progress.jsonl"))
    budget = TimeBudget(config.training.train_seconds, begin)
    # Absolute: nnU-Net's own processes may stand elsewhere.
    places = data_root(config).resolve(), Path.cwd()
    finish(nnunet_train.train(template, config, rows, label_values(config), *places, budget, progress))
    return 0


def train_monai(template: Template, config: Any, rows: Rows, begin: float) -> int:
    if (processes := wanted_processes(config.training.processes)) > 1:
        return launch(processes)
    device = ranks.join()
    config = template.dataset.resolve(config)
    sets = {split: template.dataset.build(config, split) for split in ("train", "val")}
    # By the first into the cache, from which the others read.
    counts = ranks.by_first(lambda: check_images(template, rows, sets))

    # Late: what is wrong with the data is told before the frameworks are loaded.
    from transformers import set_seed

    from shared.trainkit.segmentation.loop import fit, too_large
    from shared.trainkit.tiers import OUT_OF_MEMORY, lacks_memory

    set_seed(config.training.seed)
    model = build_model(template, config, len(sets["train"].label_names))
    attempt, picked = ranks.by_first(lambda: open_checkpoints(template, config))
    ranks.say(
        f"{len(sets['train'])} train and {len(sets['val'])} val images, {len(counts['train'])} structures, "
        f"{config.model.network}, patch {tuple(config.preprocess.patch_size)}, spacing {config.preprocess.spacing} mm"
    )
    try:
        result = fit(config, model, sets["train"], sets["val"], attempt, picked, begin, device, CHECKPOINTS)
    except OUT_OF_MEMORY as error:
        if not lacks_memory(error):
            raise
        raise too_large(config) from None
    if result is None:
        ranks.say("stopped as asked; the same command goes on from the checkpoint")
        return 128 + signal.SIGTERM
    if ranks.first():
        seconds = time.monotonic() - begin + attempt.seconds
        values, samples = sets["train"].values, {split: len(found) for split, found in sets.items()}
        deliver(template, config, samples, counts, values, result, seconds, attempt.number)
    return 0


def open_checkpoints(template: Template, config: Any) -> tuple[checkpoints.Attempt, Path | None]:
    """This attempt and the newest intact checkpoint of the same training; those of another one are set aside, aloud."""
    from shared.trainkit.segmentation.nnunet_plan import load_note

    settled = config.model_dump(mode="json", exclude=UNMARKED)
    ours = [file for folder in (SEGMENTER, Path(__file__).parent) for file in sorted(folder.glob("*.py"))]
    code = [template.folder / "dataset.py", template.folder / "model.py", *ours]
    mark = checkpoints.fingerprint(settled, [Path(config.index), Path(config.label_map), *code])
    if load_note(CHECKPOINTS / "run.json").get("fingerprint", mark) != mark:
        print(
            "configuration, data or code have changed: this training begins anew, the checkpoints of the earlier one "
            f"are kept in {CHECKPOINTS / 'previous'}",
            flush=True,
        )
    return checkpoints.resume(CHECKPOINTS, mark)


def check_images(template: Template, rows: Rows, sets: dict[str, Any]) -> dict[str, dict[str, int]]:
    """Read everything into the cache; -> split -> structure -> images that have it. Raises DataProblems."""
    import numpy as np

    values = sets["train"].values
    names = list(values)
    counts = {split: dict.fromkeys(names, 0) for split in sets}
    present: dict[str, list[int]] = {}

    def read(row: Mapping[str, Any]) -> None:
        target = sets[row["split"]].case(row)[1]
        present[row["sample_id"]] = [int(number) for number in np.flatnonzero(np.bincount(target.ravel())) if number]
        if row["split"] == "train":
            sets["train"].places(row, target)  # here, where several images are looked at together

    checks.refuse(checks.read_all(rows, read, len(os.sched_getaffinity(0))))
    for row in rows:
        for number in present[row["sample_id"]]:
            counts[row["split"]][names[number - 1]] += 1
    checks.refuse(template.missing(counts, values))
    for sentence in template.limits(counts, values):
        print(sentence, flush=True)
    return counts


def build_model(template: Template, config: Any, structures: int) -> Any:
    try:
        return template.model.build(config, structures)
    except ValueError as error:
        raise ConfigError(str(error)) from None


def deliver(
    template: Template,
    config: Any,
    samples: dict[str, int],
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
    scores = " A score map beside it is the probability of any structure." if config.score_map else ""
    facts = PackageFacts(
        task=template.task,
        label_names=list(values),
        label_values=values,
        input_text=(
            f"One INPUT is {files} (NIfTI, npy, PNG, JPG) or a folder of DICOM slices. Values are {scale}; images are "
            f"turned to the nearest RAS+ axes and resampled to {spacing} mm, axes (D, H, W) = (inferior to superior, "
            "posterior to anterior, left to right). The mask is on the input's own grid, with the dataset's own "
            f"values.{scores}"
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
        limits=template.limits(counts, values),
    )
    write_package(
        Path("package"),
        code=template.exported(with_model=True),
        imports=IMPORTED,
        save_weights=lambda path: save_weights(result.model, path),
        config={
            "task": template.task,
            "engine": "monai",
            "score_map": config.score_map,
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
            "samples": samples,
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
