"""The Model Trainer's expert: set the training to the time it has, start it, react to how it ends, deliver."""

from collections.abc import Generator, Mapping, Sequence
from typing import Any

import yaml

from services.model_trainer.remedies import Changes, Config, changed, remedy
from services.model_trainer.search import FILE, Found, search
from shared.agent.brief import Brief
from shared.agent.calls import call, submit, text_of
from shared.agent.returning import bad_samples, hand_back
from shared.contracts.starting import StartTraining, Try, TryConfigs
from shared.contracts.tools import EditFiles, ReadFiles
from shared.contracts.training import TRAIN, FinishedTraining, for_training
from shared.contracts.transcript import Call, Observation
from shared.errors import GateFailed, UserError
from shared.failures import Ended, Known, diagnose, named

CONFIG = "/workspace/config.yaml"
LEAST = 10.0
"""Seconds of a try."""
TRIES = 4
"""Jobs that are started before the trainer says that it cannot."""


def playbook(brief: Brief) -> Generator[tuple[Call, ...], Observation, None]:
    """One job in the ordinary case, after a search where there is time for one: then what it chose is gone on with. A
    failure is mended by its cause; a cause that stays is the end."""
    looked = yield (call(ReadFiles(paths=(CONFIG, FILE))),)
    keys = parsed(text_of(looked.results[0], CONFIG))
    found = yield from search(brief, keys, text_of(looked.results[0], FILE))
    seconds = brief.train_seconds - found.seconds
    change: Changes = {"training.train_seconds": for_training(seconds), "training.seed": brief.requested.seed}
    change |= found.changes
    causes: list[str] = []
    for number in range(TRIES):
        edit = call(EditFiles(path="config.yaml", set=change))
        keys = changed(keys, change)
        ended = yield from train(found if not number else Found(), seconds, (edit,))
        job = job_of(ended)
        told = str(job.get("summary", "; ".join(result.summary for result in ended.results)))
        known = failure(job, told)
        # A model that finds nothing is worth another try, and is delivered where that does not help.
        change = remedy(known, keys, causes.count(known.name) + 1) if known else {}
        if job.get("outcome") == "ok" and (number == TRIES - 1 or "dice_zero" in causes or not change):
            kept, job_id = training_keys(keys), str(job["job_id"])
            answer = FinishedTraining(job_id=job_id, hyper_parameters=kept, notes=found.notes)
            judged = yield (submit("submit_training", answer),)
            raise GateFailed("the package was not accepted: " + "; ".join(judged.notes), "package_accepted")
        if samples := bad_samples(ended):
            judged = yield (hand_back(samples, "the training refuses its data"),)
            raise UserError(
                f"{len(samples)} samples cannot be trained on ({next(iter(samples.values()))}), and the Data "
                f"Engineer could not take them back: {'; '.join(judged.notes)}"
            )
        causes.append(known.name if known else last_line(told))
        if not change:
            break
    last = f"\n{known}" if known else ""
    raise UserError(
        f"training failed {len(causes)} times and the playbook knows no further remedy: {', '.join(causes)}{last}"
    )


def train(found: Found, seconds: float, calls: Sequence[Call]) -> Generator[tuple[Call, ...], Observation, Observation]:
    """Go on with what the search chose, for the rest of the time; where nothing was chosen, or it cannot be gone on
    with, train the workspace from its beginning."""
    if found.job and seconds >= LEAST:
        on = call(TryConfigs(tries=(Try(name="last", continues=found.job),), seconds=int(seconds)))
        ended = yield (*calls, on)
        if ended.event:
            return ended
        calls = ()
    return (yield (*calls, call(StartTraining(command=TRAIN, seconds=seconds))))


def job_of(ended: Observation) -> Mapping[str, Any]:
    """The one job that has ended; empty where none was started."""
    event = ended.event or {}
    jobs = event.get("jobs")
    return jobs[0] if isinstance(jobs, list) and jobs and isinstance(jobs[0], dict) else event


def failure(job: Mapping[str, Any], told: str) -> Known | None:
    """The known failure of a job, as the runner found it, else by the words that it ended with."""
    outcome = str(job.get("outcome", "failed"))
    return named(told) or (None if outcome == "ok" else diagnose(Ended(outcome, job.get("exit_code"), told)))


def parsed(config: str) -> Config:
    found = yaml.safe_load(config) if config else {}
    return found if isinstance(found, dict) else {}


def training_keys(config: Config) -> dict[str, int | float | str]:
    """The plain values of the configuration's section `training`."""
    section = config.get("training", {})
    return {str(key): value for key, value in section.items() if isinstance(value, int | float | str)}


def last_line(told: str) -> str:
    lines = [line for line in told.strip().splitlines() if line.strip()]
    return f"other ({lines[-1][:200]})" if lines else "other"
