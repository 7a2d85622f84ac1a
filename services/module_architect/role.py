"""The Module Architect as data."""

from pathlib import Path

from pydantic import JsonValue, TypeAdapter

from services.module_architect.check import check_module
from services.module_architect.playbook import CONFIG, TEMPLATES, playbook
from shared.agent.asking import ask_person
from shared.agent.brief import Brief
from shared.agent.calls import call
from shared.agent.returning import return_work
from shared.agent.role import Facts, Probe, Role, Submission
from shared.contracts.base import Event, Spent
from shared.contracts.modules import AssembledModule, ModuleAssembled
from shared.contracts.starting import TryConfigs
from shared.contracts.state import RunState
from shared.contracts.tools import (
    CopyFiles,
    EditFiles,
    ListFiles,
    PreviewDirs,
    PreviewFiles,
    ReadFiles,
    RunScript,
    ViewImage,
    WriteFiles,
)
from shared.contracts.training import for_training
from shared.contracts.transcript import Call

SHAPES = TypeAdapter(dict[str, tuple[int, ...]])


def probe(answer: AssembledModule, brief: Brief) -> Probe:
    return Probe("verify_batches", ("--folder", answer.folder, "--config", answer.config))


LOOP = 0.8
"""Of a training's time, what its loop gets, about; the rest is for reading, tiers, evaluations and the package."""


def pace(facts: Facts, brief: Brief) -> dict[str, JsonValue]:
    """Size of the network, what a step of so many samples took, and how many epochs of such steps fit into the time: a
    guess, and none where a GPU will train, which the probe does not use."""
    found = {name: facts[name] for name in ("parameters", "device", "step") if facts.get(name)}
    counts, config, step = (facts.get(name) for name in ("counts", "config", "step"))
    cases = counts.get("train") if isinstance(counts, dict) else None
    if isinstance(step, dict) and isinstance(cases, int) and cases and not brief.machine.get("gpus"):
        patches = config.get("sampling.patches_per_image") if isinstance(config, dict) else None
        cases *= patches if isinstance(patches, int) else 1
        each, size = (max(1.0, float(str(step.get(name)))) for name in ("milliseconds", "samples"))
        fit = 1000 * LOOP * brief.train_seconds / (each * max(1, cases / size))
        found["epochs"] = {"seconds": brief.train_seconds, "fit": round(fit, 1)}
    return found


def assembled(answer: AssembledModule, facts: Facts, brief: Brief, state: RunState, spent: Spent) -> Event:
    batches = facts["batches"]
    assert isinstance(batches, dict)
    shapes = SHAPES.validate_python(
        {split: batch["shape"] for split, batch in batches.items() if isinstance(batch, dict)}
    )
    built = facts.get("built")
    settled = facts.get("settled")
    words = {name: str(told) for name, told in built.items() if told} if isinstance(built, dict) else {}
    return ModuleAssembled.make(
        run_id=brief.run_id,
        sender="module_architect",
        cause=brief.order,
        # On record are the shape that the probe saw and the words of what it built, whatever the answer says.
        module=answer.model_copy(update={"input_shape": shapes["train"][1:], **words}),
        batch_shapes=shapes,
        workspace_sha256=str(facts["workspace_sha256"]),
        settled=settled if isinstance(settled, dict) else {},
        config=config if isinstance(config := facts.get("config"), dict) else {},
        measured=pace(facts, brief),
        spent=spent,
    )


def opening(brief: Brief, again: bool) -> tuple[Call, ...]:
    """The template of the task in the workspace, its configuration and its page, and some cases of every class."""
    assert brief.planned is not None
    template, name, _ = TEMPLATES[brief.planned.plan.task]
    source = f"/templates/{template}"
    if again:  # what was edited stays
        return call(ReadFiles(paths=(f"/workspace/{CONFIG}", f"{source}/README.md"))), call(ViewImage())
    begin = [CopyFiles(source=source, destination="/workspace")]
    if name != CONFIG:
        begin.append(CopyFiles(source=f"{source}/{name}", destination=f"/workspace/{CONFIG}", overwrite=True))
    read = ReadFiles(paths=(f"{source}/{name}", f"{source}/README.md"))
    # What `auto` becomes follows from the time.
    timed = EditFiles(path=CONFIG, set={"training.train_seconds": for_training(brief.train_seconds)})
    return tuple(call(one) for one in (*begin, timed, read, ViewImage()))


ROLE = Role(
    name="module_architect",
    tools=(
        ListFiles,
        ReadFiles,
        CopyFiles,
        WriteFiles,
        EditFiles,
        RunScript,
        PreviewDirs,
        PreviewFiles,
        ViewImage,
        TryConfigs,
    ),
    submissions=(
        Submission(tool="submit_module", answer=AssembledModule, check=check_module, event=assembled, probe=probe),
        return_work("module_architect"),
        ask_person("module_architect"),
    ),
    prompt=Path(__file__).with_name("prompt.md"),
    playbook=playbook,
    opening=opening,
)
