"""The Module Architect's expert: take the template of the task, fit its configuration to the data and the machine."""

import json
from collections.abc import Generator, Mapping
from typing import Any

from shared.agent.brief import Brief
from shared.agent.calls import call, set_keys, submit, text_of
from shared.contracts.modules import AssembledModule
from shared.contracts.tools import CopyFiles, ReadFiles
from shared.contracts.transcript import Call, Observation
from shared.errors import UserError

WORK = "/workspace"


def playbook(brief: Brief) -> Generator[tuple[Call, ...], Observation, None]:
    """Copy the template, set its configuration and submit. What does not pass goes back to the template's own
    automatic shape; after that the reason is the end."""
    assert brief.planned is not None and brief.locked is not None
    plan = brief.planned.plan
    if plan.task != "diagnosis":
        raise UserError(f"the playbook core has no template for {plan.task} yet; name a language model as core")
    looked = yield (
        call(CopyFiles(source=f"/templates/{plan.task}", destination=WORK)),
        call(ReadFiles(paths=(f"{WORK}/config.yaml", f"{WORK}/plan.json", f"{WORK}/environment.json"))),
    )
    copied, read = looked.results
    if not copied.ok:
        raise UserError(f"the template could not be copied: {copied.summary}")
    gpu = bool(as_object(text_of(read, f"{WORK}/environment.json")).get("gpus"))
    shape = input_shape(geometry(text_of(read, f"{WORK}/plan.json")), plan.dimensions, gpu)
    width = 64 if gpu else 16
    wanted = {"input_shape": list(shape), "metric": plan.metric, "width": width}
    edits, config = set_keys("config.yaml", text_of(read, f"{WORK}/config.yaml"), wanted)
    module = AssembledModule(
        template=plan.task,
        model=f"resnet10, width {width}, {plan.dimensions}D",
        loss="cross-entropy with balanced class weights",
        augmentation="flips where allowed, small rotation, scale, shift and intensity",
        input_shape=(1, *shape),
    )
    judged = yield (*edits, submit("submit_module", module))
    back, _ = set_keys("config.yaml", config, {"input_shape": "auto"})
    module = module.model_copy(update={"notes": "input shape left to the template: " + "; ".join(judged.notes)})
    judged = yield (*back, submit("submit_module", module))
    raise UserError("the module was not accepted: " + "; ".join(judged.notes))


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


def input_shape(measured: Mapping[str, Any], dimensions: int, gpu: bool) -> tuple[int, ...]:
    """(D, H, W) or (H, W): near the images' own size, no larger than the machine can train on in minutes."""
    sizes = measured.get("image_sizes", {})
    common = max(sizes, key=lambda size: sizes[size]) if sizes else "96x96"
    edges = [int(part) for part in str(common).replace("*", "x").split("x") if part.strip().isdigit()] or [96]
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
