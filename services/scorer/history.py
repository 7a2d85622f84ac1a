"""What a run has done so far, as its score needs it: which job made a package, which tables were locked. Pure."""

import hashlib
from collections.abc import Iterable, Sequence

from shared.contracts.base import Event
from shared.contracts.data import DatasetLocked
from shared.contracts.erasure import Tombstone
from shared.contracts.questions import YES, QuestionAnswered, QuestionAsked, approve
from shared.contracts.scoring import Gate
from shared.contracts.state import RunState
from shared.contracts.training import JobFinished, JobKind, JobStarted, TrainingFinished


def job_id(kind: JobKind, asked_for: Event) -> str:
    """The same event always asks for the same job."""
    return f"{kind}-{hashlib.sha256(asked_for.event_id.encode()).hexdigest()[:20]}"


def package_of_this_lock(events: Iterable[Event], trained: TrainingFinished) -> Gate:
    """Whether the package is what a training job made that first started after the newest lock before `trained`."""
    begun: set[str] = set()
    earlier: set[str] = set()
    made = False
    for event in events:
        match event:
            case DatasetLocked():
                begun, earlier, made = set(), earlier | begun, False
            case JobStarted(job="train") if event.job_id not in earlier:
                begun.add(event.job_id)
            case JobFinished(job="train", outcome="ok") if event.job_id in begun:
                made = made or event.delivers == trained.package
            case TrainingFinished() if event.event_id == trained.event_id:
                break
    evidence = "a training job of this run made it" if made else "no training job of this run made it"
    return Gate(name="package_of_this_lock", passed=made, evidence=f"{evidence} that began after this lock")


def taken_in_for_locks(events: Sequence[Event]) -> list[JobFinished]:
    """The ends of the intake jobs whose tables were locked, of all locks of a run."""
    causes = {event.caused_by for event in events if isinstance(event, DatasetLocked)}
    return [event for event in events if isinstance(event, JobFinished) and event.event_id in causes]


def approved(events: Sequence[Event]) -> bool:
    """Whether a person said yes to the split of each lock of a run."""
    locks = {event.event_id for event in events if isinstance(event, DatasetLocked)}
    asked = {event.event_id: event.caused_by for event in events if isinstance(event, QuestionAsked)
             and (event.sender, event.question.key) == ("task_manager", approve("split"))}  # fmt: skip
    yes = {asked.get(event.caused_by or "") for event in events if isinstance(event, QuestionAnswered)
           and (event.sender, event.value) == ("gateway", YES)}  # fmt: skip
    return locks <= yes


def counted(runs: Sequence[RunState], stones: Sequence[Tombstone]) -> str:
    """How often a dataset was locked and scored, with the score that is being made."""
    locks, scorings = sum(run.locks for run in runs), sum(run.scorings for run in runs) + 1
    locked, scored = ("once" if many == 1 else f"{many} times" for many in (locks, scorings))
    said = f"This dataset was locked {locked} and scored {scored} so far; its runs: {len(runs)}."
    erased = sum(stone.kind == "run" for stone in stones)
    return f"{said} Runs that were erased here, on whatever dataset: {erased}." if erased else said
