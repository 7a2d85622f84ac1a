"""The Model Trainer's expert: set the training to the time it has, start it, react to how it ends, deliver."""

import re
from collections.abc import Generator, Mapping
from typing import Any

from shared.agent.brief import Brief
from shared.agent.calls import call, submit
from shared.contracts.tools import EditFiles, StartTraining
from shared.contracts.training import FinishedTraining
from shared.contracts.transcript import Call, Observation
from shared.errors import UserError

COMMAND = ("python", "train.py", "--config", "config.yaml")
TRIES = 4
"""Jobs that are started before the trainer says that it cannot."""


def playbook(brief: Brief) -> Generator[tuple[Call, ...], Observation, None]:
    """One job in the ordinary case; a failure is mended by its cause, the same cause twice by a smaller training."""
    budget = brief.train_seconds
    settings: dict[str, object] = {"train_seconds": 600, "batch_size": 8, "learning_rate": 0.001, "seed": 0}
    change: dict[str, object] = {"train_seconds": int(budget * 0.9), "seed": brief.requested.seed}
    causes: list[str] = []
    for _ in range(TRIES):
        edits = edits_for(settings, change)
        settings |= change
        ended = yield (*edits, call(StartTraining(command=COMMAND, seconds=budget)))
        job = ended.event or {}
        if job.get("outcome") == "ok":
            yield from deliver(str(job["job_id"]), settings, job.get("metrics"))
            cause = "package"
        else:
            cause = cause_of(str(job.get("summary", "; ".join(result.summary for result in ended.results))))
        causes.append(cause)
        change = remedy(cause, settings, causes.count(cause))
        if not change:
            break
    raise UserError(
        f"training failed {len(causes)} times and the playbook knows no further remedy: {', '.join(causes)}"
    )


def deliver(
    job_id: str, settings: Mapping[str, object], metrics: object
) -> Generator[tuple[Call, ...], Observation, None]:
    """Submit the package; returns only when the check turned it down."""
    answer = FinishedTraining(job_id=job_id, hyper_parameters=dict(settings))
    yield (submit("submit_training", answer),)


def edits_for(settings: Mapping[str, object], change: Mapping[str, object]) -> tuple[Call, ...]:
    """One edit of config.yaml a changed key; the old value is part of the match, so a foreign edit is noticed."""
    return tuple(
        call(EditFiles(path="config.yaml", old=f"  {key}: {settings[key]}", new=f"  {key}: {value}"))
        for key, value in change.items()
        if settings[key] != value
    )


CAUSES: dict[str, str] = {
    "memory": r"out of memory|memoryerror|ended memory|cannot allocate|DefaultCPUAllocator",
    "nan": r"\bnan\b|not finite|infinite loss|diverge",
    "time": r"ended timeout|time budget|took too long",
}


def cause_of(summary: str) -> str:
    """The kind of failure by the words of the job's end; `other` keeps its last line."""
    for cause, pattern in CAUSES.items():
        if re.search(pattern, summary, re.IGNORECASE):
            return cause
    lines = [line for line in summary.strip().splitlines() if line.strip()]
    return f"other ({lines[-1][:200]})" if lines else "other"


def remedy(cause: str, settings: Mapping[str, Any], times: int) -> dict[str, object]:
    """What to change next, or nothing when this cause is beyond the playbook."""
    if times > 2:
        return {}
    if cause == "memory" and settings["batch_size"] > 1:
        return {"batch_size": settings["batch_size"] // 2}
    if cause == "nan":
        return {"learning_rate": settings["learning_rate"] / 5}
    if cause == "time":
        return {"train_seconds": settings["train_seconds"] // 2}
    return {}
