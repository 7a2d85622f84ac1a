"""The Data Engineer as data."""

from pathlib import Path

from services.data_engineer.check import check_dataset, check_infeasible, unread
from services.data_engineer.playbook import playbook
from shared.agent.asking import ask_person
from shared.agent.brief import Brief
from shared.agent.calls import call
from shared.agent.role import Facts, Probe, Role, Submission
from shared.contracts.base import Event, Ref, Spent
from shared.contracts.cases import Coverage
from shared.contracts.data import DatasetPrepared, PreparedDataset
from shared.contracts.runs import Infeasibility, Infeasible
from shared.contracts.state import RunState
from shared.contracts.tools import (
    EditFiles,
    PreviewDirs,
    PreviewFiles,
    ProposeRules,
    ReadFiles,
    RunScript,
    TryRules,
    ViewImage,
    WriteFiles,
)
from shared.contracts.transcript import Call


def probe(answer: PreparedDataset, brief: Brief) -> Probe:
    exports = tuple(path for path in (answer.rules_path, answer.listed_path) if path)
    return Probe("resolve_rules", (answer.rules_path, "--facts"), exports=exports)


def claim_probe(answer: Infeasibility, brief: Brief) -> Probe:
    task = brief.planned.plan.task if brief.planned else "diagnosis"
    rules = (f"--rules={answer.rules_path}",) if answer.rules_path else ()
    return Probe("verify_infeasible", ("--claim", answer.claim, "--task", task, *rules))


def prepared(answer: PreparedDataset, facts: Facts, brief: Brief, state: RunState, spent: Spent) -> Event:
    exports = facts["exports"]
    assert isinstance(exports, dict)
    return DatasetPrepared.make(
        run_id=brief.run_id,
        sender="data_engineer",
        cause=brief.order,
        rules=Ref.model_validate(exports[answer.rules_path]),
        listed=Ref.model_validate(exports[answer.listed_path]) if answer.listed_path else None,
        # Examples name cases of all sides, and all services read events.
        coverage=Coverage.model_validate(facts["coverage"]).model_copy(
            update={"examples": (), "left_out_examples": {}, "unnamed": {}}
        ),
        notes=answer.notes,
        spent=spent,
    )


def infeasible(answer: Infeasibility, facts: Facts, brief: Brief, state: RunState, spent: Spent) -> Event:
    return Infeasible.make(run_id=brief.run_id, sender="data_engineer", cause=brief.order, finding=answer, spent=spent)


def opening(brief: Brief, again: bool) -> tuple[Call, ...]:
    """The search for rules, and those that were written before; these alone where cases were handed back."""
    assert brief.planned is not None
    written = (call(ReadFiles(paths=("/workspace/dataset.yaml",))),) if again else ()
    if brief.handed_back:
        return written
    plan = brief.planned.plan
    asked = ProposeRules(
        task=plan.task,
        dimensions=plan.dimensions,
        only=plan.labels,
        target=brief.requested.requirement[:500],
        answers=brief.answers,
        limit=2,
    )
    return (*written, call(asked))


ROLE = Role(
    name="data_engineer",
    tools=(
        ProposeRules,
        TryRules,
        PreviewDirs,
        PreviewFiles,
        ReadFiles,
        WriteFiles,
        EditFiles,
        RunScript,
        ViewImage,
    ),
    submissions=(
        Submission(
            tool="submit_dataset",
            answer=PreparedDataset,
            check=check_dataset,
            event=prepared,
            probe=probe,
            unread=unread,
        ),
        Submission(
            tool="declare_infeasible", answer=Infeasibility, check=check_infeasible, event=infeasible, probe=claim_probe
        ),
        ask_person("data_engineer"),
    ),
    prompt=Path(__file__).with_name("prompt.md"),
    playbook=playbook,
    opening=opening,
)
