"""The Model Trainer as data."""

from pathlib import Path

from services.model_trainer.check import check_training
from services.model_trainer.playbook import playbook
from shared.agent.asking import ask_person
from shared.agent.brief import Brief
from shared.agent.returning import return_work
from shared.agent.role import Facts, Probe, Role, Submission
from shared.contracts.base import Event, Spent
from shared.contracts.starting import Repackage, StartTraining, TryConfigs
from shared.contracts.state import RunState
from shared.contracts.tools import (
    CopyFiles,
    EditFiles,
    ListFiles,
    PreviewFiles,
    ReadFiles,
    RunScript,
    ViewImage,
    WriteFiles,
)
from shared.contracts.training import OF_THE_JOB, FinishedTraining, TrainingFinished


def probe(answer: FinishedTraining, brief: Brief) -> Probe:
    return Probe("verify_package", ("--package", "/package", "--index", "train_index.jsonl"), job=answer.job_id)


def finished(answer: FinishedTraining, facts: Facts, brief: Brief, state: RunState, spent: Spent) -> Event:
    job = state.training(answer.job_id)
    assert job is not None, "the check has seen to it"
    return TrainingFinished.make(
        run_id=brief.run_id,
        sender="model_trainer",
        cause=brief.order,
        package=job.delivers,
        # What else it told stays with the job.
        validation={key: value for key, value in job.metrics.items() if key not in OF_THE_JOB},
        hyper_parameters=answer.hyper_parameters,
        attempts=max(1, sum(done.job == "train" and not done.tried for done in state.jobs_done.values())),
        gpu_seconds=job.gpu_seconds,
        seconds=job.seconds,
        notes=answer.notes,
        spent=spent,
    )


ROLE = Role(
    name="model_trainer",
    tools=(
        ListFiles,
        ReadFiles,
        CopyFiles,
        WriteFiles,
        EditFiles,
        RunScript,
        PreviewFiles,
        ViewImage,
        TryConfigs,
        StartTraining,
        Repackage,
    ),
    submissions=(
        Submission(tool="submit_training", answer=FinishedTraining, check=check_training, event=finished, probe=probe),
        return_work("model_trainer"),
        ask_person("model_trainer"),
    ),
    prompt=Path(__file__).with_name("prompt.md"),
    playbook=playbook,
)
