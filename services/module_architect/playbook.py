"""The Module Architect's expert: take the template of the task, fit its configuration to the data and the machine."""

import json
import math
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import JsonValue

from shared.agent.brief import Brief
from shared.agent.calls import call, submit, text_of
from shared.agent.returning import bad_samples, hand_back
from shared.contracts.base import TaskKind
from shared.contracts.modules import AssembledModule
from shared.contracts.tools import CopyFiles, EditFiles, ReadFiles
from shared.contracts.transcript import Call, Observation
from shared.errors import UserError

WORK, CONFIG = "/workspace", "config.yaml"


@dataclass(frozen=True)
class Fit:
    """Dotted `keys` of config.yaml for this data and machine, what they are set `back` to when the probe does not
    accept them, and the module that results."""

    keys: dict[str, JsonValue]
    back: dict[str, JsonValue]
    module: AssembledModule


def playbook(brief: Brief) -> Generator[tuple[Call, ...], Observation, None]:
    """Copy the template, set its configuration and submit. What does not pass goes back to the template's own
    automatic choice; after that the reason is the end."""
    assert brief.planned is not None and brief.locked is not None
    template, name, fitted = TEMPLATES[brief.planned.plan.task]
    environment = f"{WORK}/environment.json"
    if fitted is segmentation and brief.train_seconds >= NNUNET_SECONDS:
        looked = yield (call(ReadFiles(paths=(environment,))),)
        if as_object(text_of(looked.results[0], environment)).get("gpus"):
            template, name, fitted = "nnunet", "config.yaml", nnunet
    looked = yield (
        call(CopyFiles(source=f"/templates/{template}", destination=WORK)),
        call(ReadFiles(paths=(environment,))),
    )
    copied, read = looked.results
    if not copied.ok:
        raise UserError(f"the template could not be copied: {copied.summary}")
    fit = fitted(brief, brief.locked.facts.measured, as_object(text_of(read, environment)))
    begin = CopyFiles(source=f"/templates/{template}/{name}", destination=f"{WORK}/{CONFIG}", overwrite=True)
    edit = call(EditFiles(path=CONFIG, set=fit.keys))
    edits = (edit,) if name == CONFIG else (call(begin), edit)
    judged = yield (*edits, submit("submit_module", fit.module.model_copy(update={"confirmed": True})))
    if samples := bad_samples(judged):
        judged = yield (hand_back(samples, "the module cannot be fed"),)
        raise UserError(
            f"{len(samples)} samples cannot be used ({next(iter(samples.values()))}), and the Data Engineer could not "
            f"take them back: {'; '.join(judged.notes)}"
        )
    back = call(EditFiles(path=CONFIG, set=fit.back))
    notes = f"{', '.join(fit.back)} left to the template: " + "; ".join(judged.notes)
    judged = yield (back, submit("submit_module", fit.module.model_copy(update={"notes": notes, "confirmed": True})))
    raise UserError("the module was not accepted: " + "; ".join(judged.notes))


def diagnosis(brief: Brief, measured: Mapping[str, Any], machine: Mapping[str, Any]) -> Fit:
    assert brief.planned is not None
    plan, gpu = brief.planned.plan, bool(machine.get("gpus"))
    keys: dict[str, JsonValue] = {
        "training.metric": plan.metric,
        "model.width": 64 if gpu else 16,
        "augmentation.modality": augmented_as(measured, plan.modality),
    }
    return Fit(keys | larger(brief, measured, gpu), BACK, AssembledModule(template=plan.task))


BACK: dict[str, JsonValue] = {"preprocess.input_shape": "auto", "augmentation.modality": "auto"}


def larger(brief: Brief, measured: Mapping[str, Any], gpu: bool) -> dict[str, JsonValue]:
    """A GPU sees larger images than the template would take. On a CPU the template settles their size, by the time."""
    return {"preprocess.input_shape": list(input_shape(measured, dimensions_of(brief)))} if gpu else {}


NNUNET_SECONDS = 7200
"""Training time from which nnU-Net's planning pays, on a GPU."""


GPU_STEP = 2**19
"""Voxels of a step, on a GPU, in batches of 2 to 16: a step of small patches takes no less time."""
GPU_VOXELS = 16_000_000
"""Of an image at most, on a GPU. Smaller images get what they have, so that a search can make them coarser."""


def segmentation(brief: Brief, measured: Mapping[str, Any], machine: Mapping[str, Any]) -> Fit:
    """Spacing and patch are settled by the template from the images themselves, within what the machine can do in the
    time: on a CPU an image gets a thousand voxels for each core and second."""
    assert brief.planned is not None
    plan, gpu = brief.planned.plan, bool(machine.get("gpus"))
    threads = int(machine.get("cpu_threads", 2))
    most = GPU_VOXELS if gpu else int(min(2_000_000, max(200_000, 1000 * threads * brief.train_seconds)))
    patch = min(most, 2**21 if gpu else 2**18 if int(machine.get("memory_mb", 8192)) >= 4096 else 2**17)
    size = common_size(measured)
    image = min(most, math.prod(size)) if gpu and size else most
    width, batch = (32, max(2, min(16, GPU_STEP // min(image, patch)))) if gpu else (16, 1)
    intensity = intensity_of(measured, plan.modality)
    keys: dict[str, JsonValue] = {
        "preprocess.max_voxels": image,
        "preprocess.patch_voxels": patch,
        "preprocess.intensity": intensity,
        "model.width": width,
        "training.batch_size": batch,
        "training.metric": plan.metric,
    }
    module = AssembledModule(
        template="segmentation",
        notes=(
            f"intensity {intensity}; images of up to {image} voxels, patches of up to {patch}; the template settles "
            "spacing and patch from the training images"
        ),
    )
    return Fit(keys, {"preprocess.intensity": "auto"}, module)


def nnunet(brief: Brief, measured: Mapping[str, Any], machine: Mapping[str, Any]) -> Fit:
    """nnU-Net plans everything but what the task and the profile say."""
    assert brief.planned is not None
    plan, lesions = brief.planned.plan, brief.planned.plan.task == "anomaly_detection"
    keys: dict[str, JsonValue] = {
        "task": plan.task,
        "every_structure": not lesions,
        "score_map": lesions,
        "nnunet.configuration": "2d" if dimensions_of(brief) == 2 else "3d_fullres",
        "nnunet.modality": "ct" if in_hounsfield(measured, plan.modality) else "auto",
    }
    module = AssembledModule(
        template="nnunet",
        notes="the plan is made from the training images and stands in plans.json",
    )
    return Fit(keys, {"nnunet.modality": "auto", "nnunet.configuration": "auto"}, module)


LEARNED_BY = ("rouge_l", "bleu_1", "bleu_2", "bleu_3", "bleu_4")
"""Figures by which the report template can choose weights; a plan with another one has them chosen by the first."""
MOST_VIEWS = 4


def reports(brief: Brief, measured: Mapping[str, Any], machine: Mapping[str, Any]) -> Fit:
    """Each view goes through the encoder by itself, so that time and memory grow with their number."""
    assert brief.planned is not None
    plan, gpu = brief.planned.plan, bool(machine.get("gpus"))
    views = views_of(measured)
    metric = plan.metric if plan.metric in LEARNED_BY else LEARNED_BY[0]
    width, hidden, layers, heads, batch = (32, 512, 4, 8, 16) if gpu else (16, 128, 2, 4, 8)
    if gpu and dimensions_of(brief) == 3:
        batch = max(2, 8 // views)
    keys: dict[str, JsonValue] = {
        "augmentation.modality": augmented_as(measured, plan.modality),
        "training.metric": metric,
        "model.width": width,
        "model.hidden": hidden,
        "model.layers": layers,
        "model.heads": heads,
        "training.batch_size": batch,
    }
    module = AssembledModule(
        template=plan.task,
        notes=f"weights are chosen by {metric}"
        + ("" if metric == plan.metric else f", which stands in for {plan.metric}"),
    )
    return Fit(keys | larger(brief, measured, gpu), BACK, module)


TEMPLATES: dict[TaskKind, tuple[str, str, Callable[[Brief, Mapping[str, Any], Mapping[str, Any]], Fit]]] = {
    "diagnosis": ("diagnosis", "config.yaml", diagnosis),
    "organ_segmentation": ("segmentation", "config.yaml", segmentation),
    "anomaly_detection": ("segmentation", "lesions.yaml", segmentation),
    "report_generation": ("report_generation", "config.yaml", reports),
}
"""Task -> folder below /templates, the configuration of it to begin with, and how that is fitted."""


def dimensions_of(brief: Brief) -> int:
    """What the cases are, whatever the plan says."""
    assert brief.locked is not None
    return brief.locked.facts.dimensions


def as_object(text: str) -> Mapping[str, Any]:
    """A JSON object from text, empty when it is none (a cut file, for instance)."""
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def common_size(measured: Mapping[str, Any]) -> list[int]:
    """Edges (D, H, W or H, W) of the median image; empty when nothing was measured."""
    shape = measured.get("shape")
    edges = shape.get("median") if isinstance(shape, Mapping) else None
    return [round(edge) for edge in edges] if isinstance(edges, list | tuple) else []


def in_hounsfield(measured: Mapping[str, Any], modality: str) -> bool:
    """Whether the values of most images are Hounsfield units: they look so, or the plan says CT and they may be so.
    CT that was cropped to the body holds no air, by which it would be known."""
    if float(measured.get("hu") or 0) > 0.5:
        return True
    spread = (measured.get("percentiles") or {}).get("all")
    if modality.strip().lower() != "ct" or not isinstance(spread, list | tuple) or len(spread) != 3:
        return False
    return bool(-2000 < spread[0] < -10 and spread[2] < 4000)


def intensity_of(measured: Mapping[str, Any], modality: str) -> str:
    """How the template is to take grey values: CT keeps its scale where the values are Hounsfield units."""
    if in_hounsfield(measured, modality):
        return "ct"
    return "zscore" if modality.strip().lower() in ("ct", "mr", "mri") else "auto"


def augmented_as(measured: Mapping[str, Any], modality: str) -> str:
    """The template's name of a modality, by which it augments."""
    names = {"mri": "mr", "mr": "mr", "x-ray": "xray", "radiograph": "xray", "ultrasound": "ultrasound"}
    return "ct" if in_hounsfield(measured, modality) else names.get(modality.strip().lower(), "auto")


def views_of(measured: Mapping[str, Any]) -> int:
    """How many views of a case are looked at."""
    return min(MOST_VIEWS, most_common(measured.get("views")))


def most_common(counts: Any) -> int:
    """The number (as text) that most cases have, of equals the larger; 1 where nothing was measured."""
    if not isinstance(counts, Mapping) or not counts:
        return 1
    return max(1, *(int(number) for number, cases in counts.items() if cases == max(counts.values())))


def input_shape(measured: Mapping[str, Any], dimensions: int) -> tuple[int, ...]:
    """(D, H, W) or (H, W): near the images' own size, no larger than a GPU can train on in minutes."""
    edges = common_size(measured) or [96] * dimensions
    largest = 384 if dimensions == 2 else 160
    side = max(32, min(largest, max(edges[-2:]) // 16 * 16 or 32))
    if dimensions == 2:
        return (side, side)
    return (max(16, min(96, min(edges) // 8 * 8)), side, side)
