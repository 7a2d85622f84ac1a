"""The Data Engineer as data."""

from pathlib import Path

from services.data_engineer.check import check_dataset, check_infeasible
from services.data_engineer.playbook import playbook
from shared.agent.brief import Brief
from shared.agent.role import Facts, Probe, Role, Submission
from shared.contracts.base import Event, Ref, Spent
from shared.contracts.data import DatasetPrepared, Handoff, IndexMeta, PreparedDataset
from shared.contracts.runs import Infeasibility, Infeasible
from shared.contracts.state import RunState
from shared.contracts.tools import (
    CheckDataset,
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


def probe(answer: PreparedDataset, brief: Brief) -> Probe:
    return Probe(
        "verify_index",
        ("--index", answer.index_path, "--meta", answer.meta_path),
        exports=(answer.index_path, answer.meta_path),
    )


def claim_probe(answer: Infeasibility, brief: Brief) -> Probe:
    task = brief.planned.plan.task if brief.planned else "diagnosis"
    accounts = (f"--accounts={answer.accounts}",) if answer.accounts else ()
    return Probe("verify_infeasible", ("--claim", answer.claim, "--task", task, *accounts))


def prepared(answer: PreparedDataset, facts: Facts, brief: Brief, state: RunState, spent: Spent) -> Event:
    exports = facts["exports"]
    assert isinstance(exports, dict)
    meta = IndexMeta.model_validate(facts["meta"])
    handoff = Handoff(
        layout=answer.handoff.layout,
        geometry={**answer.handoff.geometry, "measured": facts.get("geometry", {})},
        oddities=answer.handoff.oddities,
    )
    return DatasetPrepared.make(
        run_id=brief.run_id,
        sender="data_engineer",
        cause=brief.order,
        index=Ref.model_validate(exports[answer.index_path]),
        meta=meta,
        counts=facts["counts"],
        patients=facts["patients"],
        handoff=handoff,
        warnings=(*answer.warnings, *exclusions(meta)),
        spent=spent,
    )


def exclusions(meta: IndexMeta) -> tuple[str, ...]:
    """What was left out and why, from the index itself: nobody has to remember to say it."""
    return tuple(
        f"left out, {meta.excluded_counts.get(reason, len(names))} x {reason}: {', '.join(names[:3])}"
        for reason, names in sorted(meta.excluded.items())
    )


def infeasible(answer: Infeasibility, facts: Facts, brief: Brief, state: RunState, spent: Spent) -> Event:
    return Infeasible.make(run_id=brief.run_id, sender="data_engineer", cause=brief.order, finding=answer, spent=spent)


ROLE = Role(
    name="data_engineer",
    tools=(
        PreviewDirs,
        PreviewFiles,
        CheckDataset,
        ListFiles,
        ReadFiles,
        CopyFiles,
        WriteFiles,
        EditFiles,
        RunScript,
        ViewImage,
    ),
    submissions=(
        Submission(tool="submit_dataset", answer=PreparedDataset, check=check_dataset, event=prepared, probe=probe),
        Submission(
            tool="declare_infeasible", answer=Infeasibility, check=check_infeasible, event=infeasible, probe=claim_probe
        ),
    ),
    prompt=Path(__file__).with_name("prompt.md"),
    playbook=playbook,
)
