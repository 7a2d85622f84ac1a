"""The Module Architect's expert: take the template of the task, fit its configuration to the data and the machine."""

import json
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from typing import Any

from shared.agent.brief import Brief
from shared.agent.calls import call, set_keys, submit, text_of
from shared.agent.returning import faulty_samples, hand_back
from shared.contracts.base import TaskKind
from shared.contracts.modules import AssembledModule
from shared.contracts.tools import CopyFiles, ReadFiles
from shared.contracts.transcript import Call, Observation
from shared.errors import UserError

WORK = "/workspace"


@dataclass(frozen=True)
class Fit:
    """`keys` of config.yaml for this data and machine, what they are set `back` to when the probe does not accept
    them, and the module that results."""

    keys: Mapping[str, object]
    back: Mapping[str, object]
    module: AssembledModule


def playbook(brief: Brief) -> Generator[tuple[Call, ...], Observation, None]:
    """Copy the template, set its configuration and submit. What does not pass goes back to the template's own
    automatic choice; after that the reason is the end."""
    assert brief.planned is not None and brief.locked is not None
    task = brief.planned.plan.task
    if task not in FITS:
        raise UserError(f"the playbook core has no template for {task} yet; name a language model as core")
    looked = yield (
        call(CopyFiles(source=f"/templates/{task}", destination=WORK)),
        call(ReadFiles(paths=(f"{WORK}/config.yaml", f"{WORK}/plan.json", f"{WORK}/environment.json"))),
    )
    copied, read = looked.results
    if not copied.ok:
        raise UserError(f"the template could not be copied: {copied.summary}")
    measured = geometry(text_of(read, f"{WORK}/plan.json"))
    fit = FITS[task](brief, measured, as_object(text_of(read, f"{WORK}/environment.json")))
    edits, config = set_keys("config.yaml", text_of(read, f"{WORK}/config.yaml"), fit.keys)
    judged = yield (*edits, submit("submit_module", fit.module))
    if samples := faulty_samples("\n".join(judged.notes)):
        judged = yield (hand_back(samples, "the module cannot be fed"),)
        raise UserError(
            f"{len(samples)} samples cannot be used ({next(iter(samples.values()))}), and the Data Engineer could not "
            f"take them back: {'; '.join(judged.notes)}"
        )
    back, _ = set_keys("config.yaml", config, fit.back)
    notes = f"{', '.join(fit.back)} left to the template: " + "; ".join(judged.notes)
    judged = yield (*back, submit("submit_module", fit.module.model_copy(update={"notes": notes})))
    raise UserError("the module was not accepted: " + "; ".join(judged.notes))


def diagnosis(brief: Brief, measured: Mapping[str, Any], machine: Mapping[str, Any]) -> Fit:
    assert brief.planned is not None
    plan, gpu = brief.planned.plan, bool(machine.get("gpus"))
    shape = input_shape(measured, plan.dimensions, gpu)
    width = 64 if gpu else 16
    module = AssembledModule(
        template=plan.task,
        model=f"resnet10, width {width}, {plan.dimensions}D",
        loss="cross-entropy with balanced class weights",
        augmentation="flips where allowed, small rotation, scale, shift and intensity",
        input_shape=(1, *shape),
    )
    keys = {"input_shape": list(shape), "metric": plan.metric, "width": width}
    return Fit(keys, {"input_shape": "auto"}, module)


NNUNET_SECONDS = 7200
"""Training time from which nnU-Net's planning pays, on a GPU."""


def segmentation(brief: Brief, measured: Mapping[str, Any], machine: Mapping[str, Any]) -> Fit:
    """Spacing and patch are settled by the template from the images themselves, within what the machine can do in the
    time: on a CPU an image gets a thousand voxels for each core and second."""
    assert brief.planned is not None
    plan, gpu = brief.planned.plan, bool(machine.get("gpus"))
    engine = "nnunet" if gpu and brief.train_seconds >= NNUNET_SECONDS else "monai"
    threads = int(machine.get("cpu_threads", 2))
    image = 16_000_000 if gpu else int(min(2_000_000, max(200_000, 1000 * threads * brief.train_seconds)))
    patch = 2**21 if gpu else 2**18 if int(machine.get("memory_mb", 8192)) >= 4096 else 2**17
    width, units, batch = (32, 2, 2) if gpu else (16, 0, 1)
    intensity = {"ct": "ct", "mr": "zscore", "mri": "zscore"}.get(plan.modality.strip().lower(), "auto")
    keys = {
        "engine": engine,
        "dimensions": plan.dimensions,
        "max_voxels": image,
        "patch_voxels": min(patch, image),
        "intensity": intensity,
        "width": width,
        "residual_units": units,
        "batch_size": batch,
        "metric": plan.metric,
    }
    network = f"MONAI UNet (SegResNet with a GPU and the time for it), width {width}, {plan.dimensions}D"
    lesions = plan.task == "anomaly_detection"
    module = AssembledModule(
        template=plan.task,
        model="nnU-Net v2 as it plans itself" if engine == "nnunet" else network,
        loss=f"{'overlap with the lesions that a batch has' if lesions else 'Dice'} and cross-entropy",
        augmentation="small rotation, scale and intensity; flips only where no structure has a side",
        input_shape=(1, *patch_shape(measured, plan.dimensions, min(patch, image))),
        notes=(
            f"intensity {intensity}; images of up to {image} voxels, patches of up to {min(patch, image)}; the "
            "template settles spacing and patch from the training images, the input shape here is an estimate"
        ),
    )
    return Fit(keys, {"intensity": "auto", "dimensions": "auto"}, module)


FITS: dict[TaskKind, Callable[[Brief, Mapping[str, Any], Mapping[str, Any]], Fit]] = {
    "diagnosis": diagnosis,
    "organ_segmentation": segmentation,
    "anomaly_detection": segmentation,
}


def as_object(text: str) -> Mapping[str, Any]:
    """A JSON object from text, empty when it is none (a cut file, for instance)."""
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def geometry(plan: str) -> Mapping[str, Any]:
    """What the Data Engineer measured, from the text of the plan that lies in the workspace."""
    found: Any = as_object(plan)
    for key in ("handoff", "geometry", "measured"):
        found = found.get(key) if isinstance(found, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def common_size(measured: Mapping[str, Any]) -> list[int]:
    """Edges of the most common image, as stored; empty when nothing was measured."""
    sizes = measured.get("image_sizes", {})
    common = max(sizes, key=lambda size: sizes[size]) if sizes else ""
    return [int(part) for part in str(common).replace("*", "x").split("x") if part.strip().isdigit()]


def patch_shape(measured: Mapping[str, Any], dimensions: int, voxels: int) -> tuple[int, ...]:
    """(D, H, W) or (H, W) of an image's size, its longest edges cut until no more than `voxels` are left; the shortest
    edge of a volume is taken for D."""
    edges = sorted(common_size(measured) or [64] * dimensions)[-dimensions:]
    edges = [*[1] * (dimensions - len(edges)), *edges]
    total = 1
    for edge in edges:
        total *= edge
    while total > voxels:
        longest = edges.index(max(edges))
        total = total // edges[longest] * (edges[longest] * 7 // 8)
        edges[longest] = edges[longest] * 7 // 8
    return tuple(max(8, edge // 8 * 8) if edge > 1 else 1 for edge in edges)


def input_shape(measured: Mapping[str, Any], dimensions: int, gpu: bool) -> tuple[int, ...]:
    """(D, H, W) or (H, W): near the images' own size, no larger than the machine can train on in minutes."""
    edges = common_size(measured) or [96, 96]
    largest = {(2, True): 384, (2, False): 160, (3, True): 160, (3, False): 64}[(dimensions, gpu)]
    side = max(32, min(largest, max(edges[-2:]) // 16 * 16 or 32))
    if dimensions == 2:
        return (side, side)
    if len(edges) == 3:
        depth = min(edges)
    else:
        slices = measured.get("files_per_sample", {})
        depth = int(slices.get("median", 32)) if isinstance(slices, Mapping) else 32
    return (max(16, min(96 if gpu else 24, depth // 8 * 8)), side, side)
