"""What the playbook changes after a failure: by its name in the catalogue, and by the keys that the template has."""

import copy
from collections.abc import Mapping
from typing import Any

from pydantic import JsonValue

from shared.failures import Known

Config = Mapping[str, Any]
Changes = dict[str, JsonValue]
"""`section.key` -> value."""
MOST = 2
"""Times that one failure is tried to be mended."""
NO_WORKERS: Changes = {"training.workers": 0}
FOREGROUND = 0.95


def remedy(known: Known, config: Config, times: int) -> Changes:
    """What to change after this failure has come `times` times; nothing when it is beyond the playbook."""
    if times > MOST:
        return {}
    on_nnunet = "nnunet" in config
    match known.name:
        case "memory" | "gpu_memory" | "dead_worker" if on_nnunet:
            return less_nnunet(config)
        case "memory" | "gpu_memory":
            return less(config, times, batch="batch of one" not in known.cause)
        case "dead_worker" | "shm" | "processes" if times == 1:
            return {"nnunet.workers": 0, "nnunet.processes": 1} if on_nnunet else NO_WORKERS
        case "dead_worker":
            return less(config, times)
        case "nan" | "not_learned" if on_nnunet:
            return {"nnunet.learning_rate": (_number(config, "nnunet", "learning_rate") or 0.01) / 5}
        case "nan" | "not_learned":
            rate = _number(config, "training", "learning_rate")
            return {"training.learning_rate": rate / 5} if rate else {}
        case "time":
            seconds = _number(config, "training", "train_seconds")
            return {"training.train_seconds": int(seconds) // 2} if seconds else {}
        case "batch_of_one":
            return {"training.batch_size": int(_number(config, "training", "batch_size") or 1) + 1}
        case "dice_zero":
            share = _number(config, "sampling", "foreground")
            return {"sampling.foreground": FOREGROUND} if share and share < FOREGROUND else {}
    return {}


def less(config: Config, times: int = 1, batch: bool = True) -> Changes:
    """At first half the batch with twice the batches a step; then a smaller patch or input; then less width."""
    size, pieces = (int(_number(config, "training", key) or 1) for key in ("batch_size", "accumulate"))
    changes: Changes = {}
    if batch and size > 1:
        changes = {"training.batch_size": size // 2, "training.accumulate": 2 * pieces}
        if times == 1:
            return changes
    return changes | smaller(config)


def smaller(config: Config) -> Changes:
    shapes = {key: _section(config, "preprocess").get(key) for key in ("patch_size", "input_shape")}
    for key, shape in shapes.items():
        if isinstance(shape, list) and all(isinstance(size, int) for size in shape):
            # Networks halve an axis several times: multiples of eight, or short axes as they are.
            reduced = [max(16, size * 4 // 5 // 8 * 8) if size > 16 else size for size in shape]
            if reduced != shape:
                return {f"preprocess.{key}": reduced}
    voxels = _number(config, "preprocess", "patch_voxels")
    if voxels and shapes["patch_size"] == "auto":
        return {"preprocess.patch_voxels": int(voxels) // 2}
    width = _number(config, "model", "width")
    return {"model.width": int(width) // 2} if width and width >= 8 else {}


def less_nnunet(config: Config) -> Changes:
    """Fewer processes cost only time, so they go with a smaller plan."""
    target = _number(config, "nnunet", "memory_gb") or 4.0
    return {"nnunet.workers": 0, "nnunet.processes": 1, "nnunet.memory_gb": target / 2}


def changed(config: Config, changes: Changes) -> Config:
    """The configuration after the changes."""
    found = copy.deepcopy(dict(config))
    for name, value in changes.items():
        *sections, key = name.split(".")
        inside = found
        for section in sections:
            if not isinstance(inside.get(section), dict):
                inside[section] = {}
            inside = inside[section]
        inside[key] = value
    return found


def _section(config: Config, name: str) -> Mapping[str, Any]:
    found = config.get(name)
    return found if isinstance(found, Mapping) else {}


def _number(config: Config, section: str, key: str) -> float | None:
    found = _section(config, section).get(key)
    return float(found) if isinstance(found, int | float) and not isinstance(found, bool) else None
