"""Trusted probe: do the workspace's dataset and model work together? Reads only; runs in the sandbox, in the workspace.

    python verify_batches.py --folder /workspace --config config.yaml      (data below $M3_DATA)

The last line of stdout is one JSON object, whatever happens. It calls what every template promises:
`config.load(path)`; of its cases.py or data.py `build(config, split)` with `.rows` and `.label_names` and, if there is
one, `resolve(config)`; `model.build(config, num_classes)`; for reports, where labels are token numbers, `.vocabulary`
(their count) takes the place of the classes. Of the model, its `.loss` and the dataset's `.augment` it tells what they
say of themselves; an `.augment` whose `.of_batches` is true is part of the step that is timed. Code of the workspace
runs in this process: the facts are as honest as that code, which is why only the scorer's figures count as results.
"""

import argparse
import importlib
import json
import os
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import _reports
import _segmentation
from _batches import BATCH, SPLITS, attempt, compare, drawn, look, number, stacked, taken

from shared.training.imports import NotExportable, needed
from shared.training.package import described

STEPS, STEP_SECONDS = 6, 5.0
"""By turns with all threads and with half of them, which on a busy machine may take a tenth of the time. The fastest
counts, as the first one warms up; after so many seconds only the second one is still begun."""
TOLD = 500
"""Letters at most of what a built object says of itself."""
DATASETS = ("cases", "data")
"""Modules of a template; the first that has `build` makes its datasets."""
AUTO = "auto"
KEYS = 200


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--folder", default=".")
    parser.add_argument("--config", default="config.yaml")
    options = parser.parse_args(arguments)
    begin = time.monotonic()
    # Whatever the workspace's code prints goes to stderr, so that our line is the last of stdout.
    out = os.dup(1)
    os.dup2(2, 1)
    facts = gather(folder_of(options.folder), options.config)
    facts["seconds"] = round(time.monotonic() - begin, 2)
    facts["ok"] = not facts["errors"]
    sys.stdout.flush()
    os.write(out, (json.dumps(facts) + "\n").encode())
    # Nothing that the code registered for the exit may write after us.
    os._exit(0)


def folder_of(virtual: str) -> Path:
    if virtual == "/workspace" or virtual.startswith("/workspace/"):
        root = os.environ.get("M3_WORKSPACE") or str(Path.cwd())
        return Path(root, virtual.removeprefix("/workspace").lstrip("/"))
    return Path(virtual)


def gather(folder: Path, config_name: str) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "errors": [],
        "batches": {},
        "counts": {},
        "label_names": [],
        "vocabulary": 0,
        "patients_on_both_sides": [],
        "bad_samples": {},
        "constant_samples": 0,
        "forward": None,
        "parameters": None,
        "built": {},
        "config": {},
        "settled": {},
        "step": None,
        "device": "cpu",
    }
    errors: list[str] = facts["errors"]
    if not folder.is_dir():
        errors.append(f"{folder} is no folder")
        return facts
    folder = folder.resolve()
    os.chdir(folder)
    sys.path.insert(0, str(folder))
    config_module = attempt(errors, folder, lambda: importlib.import_module("config"))
    config = attempt(errors, folder, lambda: config_module.load(config_name)) if config_module else None
    dataset = attempt(errors, folder, partial(dataset_module, folder)) if config is not None else None
    if dataset is None:
        return facts
    try:
        needed(folder / "predict.py")
    except NotExportable as error:
        errors.append(str(error))
    written = flat(config)
    if hasattr(dataset, "resolve"):
        config = attempt(errors, folder, lambda: dataset.resolve(config))
    if config is None:
        return facts
    facts["config"] = flat(config)
    facts["settled"] = {
        key: value
        for key, value in facts["config"].items()
        if written.get(key) in (AUTO, None) and value not in (AUTO, None)
    }
    built = {split: attempt(errors, folder, partial(dataset.build, config, split)) for split in SPLITS}
    first: dict[str, Any] | None = None
    for split, data in built.items():
        if data is None:
            continue
        batch = look(split, data, facts, folder)
        first = first or batch
    compare(built, facts)
    if first is not None and not errors:
        attempt(errors, folder, lambda: run_model(config, facts, first, built["train"]))
    return facts


def packaged(config: Any) -> Any:
    """A configuration as predict.py has it (`Asked.settings`)."""
    values = config.model_dump(mode="json") if hasattr(config, "model_dump") else vars(config)
    return json.loads(json.dumps(values), object_hook=lambda keys: SimpleNamespace(**keys))


def flat(config: Any, above: str = "") -> dict[str, Any]:
    """Key, as in `training.metric`, -> value of a configuration that is a pydantic model; of another kind nothing."""
    values = config.model_dump(mode="json") if hasattr(config, "model_dump") else config
    found: dict[str, Any] = {}
    for key, value in values.items() if isinstance(values, dict) else ():
        found |= flat(value, f"{above}{key}.") if isinstance(value, dict) else {f"{above}{key}": value}
    return dict(list(found.items())[:KEYS])


def dataset_module(folder: Path) -> Any:
    """Raises AttributeError where no module of the folder makes datasets."""
    for name in DATASETS:
        if (folder / f"{name}.py").is_file():
            module = importlib.import_module(name)
            if hasattr(module, "build"):
                return module
    raise AttributeError(f"none of {', '.join(f'{name}.py' for name in DATASETS)} has a function build(config, split)")


def run_model(config: Any, facts: dict[str, Any], batch: dict[str, Any], data: Any) -> None:
    """Forward and backward on one batch: a loss that is finite, one logit a class (of each voxel, background
    included, in a segmentation; of each token in a report), gradients that arrive."""
    import torch

    model_module = importlib.import_module("model")
    torch.manual_seed(0)
    reports = _reports.are_reports(batch["labels"], facts["vocabulary"])
    telling = [len(data.telling)] if reports and hasattr(data, "telling") else []
    classes = facts["vocabulary"] if reports else len(facts["label_names"])
    model = model_module.build(config, classes, *telling)
    try:
        if "model.py" in needed(Path("predict.py")).files:
            model_module.build(packaged(config), classes, *telling)
    except Exception as error:
        facts["errors"].append(
            f"model.build fails with the configuration of a package, a namespace of config.yaml's keys that is no "
            f"Config: {type(error).__name__}: {error}; read keys only (no model_copy, no isinstance)"
        )
    objects = {"model": model, "loss": getattr(model, "loss", None), "augmentation": getattr(data, "augment", None)}
    facts["built"] = {name: described(found)[:TOLD] for name, found in objects.items()}
    facts["parameters"] = sum(weight.numel() for weight in model.parameters())
    model.train()
    batch = taken(model, batch)
    answer = model(**batch)
    answer["loss"].backward()
    reached = any(weight.grad is not None and bool(weight.grad.abs().sum() > 0) for weight in model.parameters())
    shape, loss = list(answer["logits"].shape), number(answer["loss"].detach())
    facts["forward"] = {"logits_shape": shape, "loss": loss, "gradients": reached}
    expected = [len(batch["image"]), len(facts["label_names"])]
    if _segmentation.are_masks(batch["image"], batch["labels"]):
        expected = [expected[0], expected[1] + 1, *batch["image"].shape[2:]]
    elif reports:
        expected = [*batch["labels"].shape, facts["vocabulary"]]
        if telling and shape == [expected[0], *telling]:
            expected = shape  # a model that says what a report tells, and writes no words
    if shape != expected:
        facts["errors"].append(f"the model gives logits of shape {shape}; expected {expected}")
    if loss is None:
        facts["errors"].append("the loss of the first batch is NaN or infinite")
    elif not reached:
        facts["errors"].append("no gradient reaches the model's weights")
    elif reports:
        facts["errors"] += _reports.image_faults(model, batch)
    if not facts["errors"] and not facts["bad_samples"]:
        facts["step"] = fastest_step(getattr(config, "training", None), model, data)


def fastest_step(wanted: Any, model: Any, data: Any) -> dict[str, float]:
    """Samples of a step as the training makes it, and its milliseconds: drawn, where no other process does that,
    augmented, trained on. `wanted` is the section `training`, if there is one."""
    import torch

    from shared.training.machine import workers
    from shared.training.trial import Steps

    size = min(getattr(wanted, "batch_size", BATCH), 2 * BATCH)
    loads = hasattr(wanted, "workers") and workers(wanted) > 0
    augment: Any = getattr(data, "augment", None)

    def batch() -> dict[str, Any]:
        found: dict[str, Any] = taken(model, stacked([drawn(data, number % len(data)) for number in range(size)]))
        return found

    def prepare(found: Any) -> Any:
        of_batches = getattr(augment, "of_batches", False)
        return {**found, "image": augment(found["image"])} if of_batches else found

    steps = Steps(model, wanted, torch.device("cpu"), 0.0, prepare)
    most, times, first, begin = torch.get_num_threads(), list[float](), batch(), time.monotonic()
    for turn in range(STEPS):
        if len(times) > 1 and time.monotonic() - begin > STEP_SECONDS:
            break
        torch.set_num_threads(max(1, most >> turn % 2))
        start = time.monotonic()
        steps.step(first if loads else batch())
        times.append(time.monotonic() - start)
    torch.set_num_threads(most)
    return {"samples": size, "milliseconds": round(1000 * min(times), 1)}


if __name__ == "__main__":
    main()
