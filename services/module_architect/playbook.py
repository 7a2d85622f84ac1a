"""The Module Architect's expert: take the template of the task, fit its configuration to the data and the machine."""

from collections.abc import Generator, Mapping
from typing import Any

from shared.agent.brief import Brief
from shared.agent.calls import call, submit
from shared.contracts.modules import AssembledModule
from shared.contracts.tools import CopyFiles, EditFiles, PreviewFiles
from shared.contracts.transcript import Call, Observation
from shared.errors import UserError


def playbook(brief: Brief) -> Generator[tuple[Call, ...], Observation, None]:
    """Copy the template, set the configuration, submit; what the probe finds wrong is mended by falling back to
    the template's own automatic settings, one after the other."""
    assert brief.planned is not None and brief.locked is not None
    plan = brief.planned.plan
    if plan.task != "diagnosis":
        raise UserError(f"the playbook core has no template for {plan.task} yet; name a language model as core")
    looked = yield (
        call(CopyFiles(source=f"/templates/{plan.task}", destination="/workspace")),
        call(PreviewFiles(paths=("/workspace/plan.json", "/workspace/environment.json"))),
    )
    if not looked.results[0].ok:
        raise UserError(f"the template could not be copied: {looked.results[0].summary}")
    shape = input_shape(geometry(looked), plan.dimensions, has_gpu(looked))
    width = 64 if has_gpu(looked) else 16
    edits: list[Call] = [
        edit("  input_shape: auto", f"  input_shape: {list(shape)}"),
        edit("  metric: auc_macro", f"  metric: {plan.metric}"),
        edit("  width: 16", f"  width: {width}"),
    ]
    yield tuple(edit for edit in edits if edit.arguments["old"] != edit.arguments["new"])
    module = AssembledModule(
        template=plan.task,
        model=f"resnet10, width {width}, {plan.dimensions}D",
        loss="cross-entropy with balanced class weights",
        augmentation="flips where allowed, small rotation, scale, shift and intensity",
        input_shape=(1, *shape),
    )
    judged = yield (submit("submit_module", module),)
    # The measured shape did not suit: let the template settle it from the training images.
    yield (edit(f"  input_shape: {list(shape)}", "  input_shape: auto"),)
    while True:
        module = module.model_copy(update={"notes": "input shape left to the template: " + "; ".join(judged.notes)})
        judged = yield (submit("submit_module", module),)


def edit(old: str, new: str) -> Call:
    return call(EditFiles(path="config.yaml", old=old, new=new))


def geometry(looked: Observation) -> Mapping[str, Any]:
    """What the Data Engineer measured, from the plan that lies in the workspace."""
    content = file_facts(looked, "/workspace/plan.json").get("value", {})
    handoff = content.get("handoff", {}) if isinstance(content, Mapping) else {}
    measured = handoff.get("geometry", {}).get("measured", {}) if isinstance(handoff, Mapping) else {}
    return measured if isinstance(measured, Mapping) else {}


def has_gpu(looked: Observation) -> bool:
    content = file_facts(looked, "/workspace/environment.json").get("value", {})
    return bool(isinstance(content, Mapping) and content.get("gpus"))


def file_facts(looked: Observation, path: str) -> Mapping[str, Any]:
    files = looked.results[1].data.get("files", {})
    facts = files.get(path, {}) if isinstance(files, Mapping) else {}
    return facts if isinstance(facts, Mapping) else {}


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
