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
    intensity = intensity_of(measured, plan.modality)
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


AIR, GREY = -100.0, 255.0
"""Images in Hounsfield units reach below the first; images saved as pictures end at the second."""
LEARNED_BY = ("rouge_l", "bleu_1", "bleu_2", "bleu_3", "bleu_4")
"""Figures by which the report template can choose weights; a plan with another one has them chosen by the first."""
MOST_VIEWS = 4


def reports(brief: Brief, measured: Mapping[str, Any], machine: Mapping[str, Any]) -> Fit:
    """Each view goes through the encoder by itself, so that time and memory grow with their number."""
    assert brief.planned is not None
    plan, gpu = brief.planned.plan, bool(machine.get("gpus"))
    views, files = views_of(measured, plan.dimensions)
    shape = input_shape(measured, plan.dimensions, gpu)
    if not gpu and plan.dimensions == 2:
        shape = tuple(min(128, edge) for edge in shape)
    metric = plan.metric if plan.metric in LEARNED_BY else LEARNED_BY[0]
    width, hidden, layers, heads, batch = (32, 512, 4, 8, 16) if gpu else (16, 128, 2, 4, 8)
    if gpu and plan.dimensions == 3:
        batch = max(2, 8 // views)
    keys = {
        "input_shape": list(shape),
        "files": files,
        "most": views,
        "metric": metric,
        "width": width,
        "hidden": hidden,
        "layers": layers,
        "heads": heads,
        "batch_size": batch,
    }
    module = AssembledModule(
        template=plan.task,
        model=f"resnet10 of width {width}, {plan.dimensions}D, and a GPT-2 of {layers} layers with {hidden} channels",
        loss="cross-entropy of the next word, with earlier words hidden at times, and of which telling words come",
        augmentation="small rotation, scale, shift and intensity; mirrored only where no report names a side",
        input_shape=(views, *shape),
        notes=f"weights are chosen by {metric}"
        + ("" if metric == plan.metric else f", which stands in for {plan.metric}"),
    )
    return Fit(keys, {"input_shape": "auto", "files": "auto", "most": "auto"}, module)


FITS: dict[TaskKind, Callable[[Brief, Mapping[str, Any], Mapping[str, Any]], Fit]] = {
    "diagnosis": diagnosis,
    "organ_segmentation": segmentation,
    "anomaly_detection": segmentation,
    "report_generation": reports,
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


def intensity_of(measured: Mapping[str, Any], modality: str) -> str:
    """How the template is to take grey values. CT keeps its scale where the values are Hounsfield units: they reach far
    below zero, and no image ends where grey values do while others go on."""
    kind = {"ct": "ct", "mr": "zscore", "mri": "zscore"}.get(modality.strip().lower(), "auto")
    found = measured.get("intensity")
    if kind != "ct" or not isinstance(found, Mapping) or not {"min", "max", "lowest_maximum"} <= found.keys():
        return kind
    low, high, lowest = (float(found[key]) for key in ("min", "max", "lowest_maximum"))
    return "zscore" if low > AIR or lowest <= GREY < high / 2 else "ct"


def views_of(measured: Mapping[str, Any], dimensions: int) -> tuple[int, str]:
    """How many views of a case are looked at, and what several files of a case are: `views` or `slices` of one scan."""
    files, kinds = measured.get("files_per_sample", {}), measured.get("extensions", {})
    usual = int(files.get("median", 1)) if isinstance(files, Mapping) else 1
    volumes = isinstance(kinds, Mapping) and bool(kinds) and all(str(kind).startswith(".nii") for kind in kinds)
    if dimensions == 3 and not volumes and usual > MOST_VIEWS:
        return 1, "slices"
    return max(1, min(MOST_VIEWS, usual)), "views"


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
