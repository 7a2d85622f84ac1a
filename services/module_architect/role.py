"""The Module Architect as data."""

from pathlib import Path

from pydantic import JsonValue, TypeAdapter

from services.module_architect.check import check_module
from services.module_architect.playbook import playbook
from shared.agent.asking import ask_person
from shared.agent.brief import Brief
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

SHAPES = TypeAdapter(dict[str, tuple[int, ...]])


def probe(answer: AssembledModule, brief: Brief) -> Probe:
    return Probe("verify_batches", ("--folder", answer.folder, "--config", answer.config))


def pace(facts: Facts, batch: int, seconds: float) -> dict[str, JsonValue]:
    """Size of the network, what a step of the probe's `samples` took, and how many epochs of such steps `seconds` hold:
    a guess, as loading and augmentation are not in it."""
    found = {name: facts[name] for name in ("parameters", "device") if facts.get(name)}
    counts, config, step = facts.get("counts"), facts.get("config"), facts.get("milliseconds")
    cases = counts.get("train") if isinstance(counts, dict) else None
    if isinstance(step, int | float) and step > 0 and isinstance(cases, int) and cases:
        patches = config.get("sampling.patches_per_image") if isinstance(config, dict) else None
        cases *= patches if isinstance(patches, int) else 1
        found["step"] = {"samples": batch, "milliseconds": step}
        found["epochs"] = {"seconds": seconds, "fit": round(1000 * seconds / (step * max(1, cases / batch)), 1)}
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
        measured=pace(facts, shapes["train"][0], brief.train_seconds),
        spent=spent,
    )


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
)
