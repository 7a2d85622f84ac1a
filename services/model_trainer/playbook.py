"""The Model Trainer's expert: set the training to the time it has, start it, react to how it ends, deliver."""

import re
from collections.abc import Generator

import yaml

from shared.agent.brief import Brief
from shared.agent.calls import call, set_keys, submit, text_of
from shared.agent.returning import faulty_samples, hand_back
from shared.contracts.tools import ReadFiles, StartTraining
from shared.contracts.training import FinishedTraining
from shared.contracts.transcript import Call, Observation
from shared.errors import UserError

CONFIG = "/workspace/config.yaml"
COMMAND = ("python", "train.py", "--config", "config.yaml")
TRIES = 4
"""Jobs that are started before the trainer says that it cannot."""


def playbook(brief: Brief) -> Generator[tuple[Call, ...], Observation, None]:
    """One job in the ordinary case. A failure is mended by its cause; a cause that stays is the end."""
    looked = yield (call(ReadFiles(paths=(CONFIG,))),)
    config = text_of(looked.results[0], CONFIG)
    # The rest of the budget is for starting, checking the images and writing the package.
    change: dict[str, object] = {"train_seconds": int(brief.train_seconds * 0.9), "seed": brief.requested.seed}
    causes: list[str] = []
    for _ in range(TRIES):
        edits, config = set_keys("config.yaml", config, change)
        ended = yield (*edits, call(StartTraining(command=COMMAND, seconds=brief.train_seconds)))
        job = ended.event or {}
        if job.get("outcome") == "ok":
            answer = FinishedTraining(job_id=str(job["job_id"]), hyper_parameters=training_keys(config))
            judged = yield (submit("submit_training", answer),)
            cause = "package: " + "; ".join(judged.notes)
        else:
            told = str(job.get("summary", "; ".join(result.summary for result in ended.results)))
            if samples := faulty_samples(told):
                judged = yield (hand_back(samples, "the training refuses its data"),)
                raise UserError(
                    f"{len(samples)} samples cannot be trained on ({next(iter(samples.values()))}), and the Data "
                    f"Engineer could not take them back: {'; '.join(judged.notes)}"
                )
            cause = cause_of(str(job.get("outcome", "")), told)
        causes.append(cause)
        change = remedy(cause, training_keys(config), causes.count(cause))
        if not change:
            break
    raise UserError(
        f"training failed {len(causes)} times and the playbook knows no further remedy: {', '.join(causes)}"
    )


def training_keys(config: str) -> dict[str, int | float | str]:
    """The plain values of the configuration's section `training`."""
    found = yaml.safe_load(config) if config else {}
    section = found.get("training", {}) if isinstance(found, dict) else {}
    return {str(key): value for key, value in section.items() if isinstance(value, int | float | str)}


CAUSES: dict[str, str] = {
    "memory": r"out of memory|memoryerror|cannot allocate|DefaultCPUAllocator",
    "nan": r"\bnan\b|not finite|infinite loss|diverge",
}


def cause_of(outcome: str, summary: str) -> str:
    """The kind of failure by how the job ended, else by its words; `other` keeps its last line."""
    if outcome in ("memory", "timeout"):
        return "memory" if outcome == "memory" else "time"
    for cause, pattern in CAUSES.items():
        if re.search(pattern, summary, re.IGNORECASE):
            return cause
    lines = [line for line in summary.strip().splitlines() if line.strip()]
    return f"other ({lines[-1][:200]})" if lines else "other"


def remedy(cause: str, settings: dict[str, int | float | str], times: int) -> dict[str, object]:
    """What to change next, or nothing when this cause is beyond the playbook."""
    batch, rate, seconds = (float(settings.get(key, 0)) for key in ("batch_size", "learning_rate", "train_seconds"))
    if times > 2:
        return {}
    if cause == "memory" and batch > 1:
        return {"batch_size": int(batch) // 2}
    if cause == "nan" and rate:
        return {"learning_rate": rate / 5}
    if cause == "time" and seconds:
        return {"train_seconds": int(seconds) // 2}
    return {}
