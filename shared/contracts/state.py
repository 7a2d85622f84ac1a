"""A run's state is a pure fold over its events; nothing else is remembered about it."""

from collections.abc import Iterable

from pydantic import Field

from shared.contracts.base import Contract, Event, RunId, Service, Spent
from shared.contracts.data import DatasetLocked, DatasetPrepared
from shared.contracts.modules import ModuleAssembled
from shared.contracts.runs import (
    ApprovalAsked,
    ApprovalGiven,
    Budget,
    BudgetExtended,
    CancelRequested,
    DatasetAdded,
    DatasetNeeded,
    Infeasible,
    RoleFailed,
    RunFinished,
    RunRequested,
    RunSummary,
    TaskPlanned,
    WorkReturned,
)
from shared.contracts.scoring import RunScored
from shared.contracts.training import JobFinished, JobStarted, TrainingFinished


class RunState(Contract):
    """Everything that follows from the events so far. `head` is the sequence of the last one in the stream EVENTS."""

    run_id: RunId
    head: int = 0
    seen: frozenset[str] = frozenset()
    """event_ids."""
    requested: RunRequested | None = None
    planned: TaskPlanned | None = None
    prepared: DatasetPrepared | None = None
    locked: DatasetLocked | None = None
    assembled: ModuleAssembled | None = None
    trained: TrainingFinished | None = None
    scored: RunScored | None = None
    needed: DatasetNeeded | None = None
    """Set while the run waits for a dataset."""
    infeasible: Infeasible | None = None
    failed: RoleFailed | None = None
    cancel: CancelRequested | None = None
    approval: ApprovalAsked | None = None
    """Set while the run waits for an answer."""
    finished: RunFinished | None = None
    jobs: dict[str, JobStarted] = {}
    """Running ones."""
    jobs_done: dict[str, JobFinished] = {}
    added: DatasetAdded | None = None
    """The dataset that ended a wait, until a plan is made."""
    handed_back: WorkReturned | None = None
    """Work that its target has not answered yet."""
    returned: dict[str, int] = {}
    """`from>to` -> times work was handed back."""
    locks: int = 0
    scorings: int = 0
    budget: Budget = Budget()
    spent: Spent = Spent()
    first_at: float = Field(default=0.0)
    last_at: float = Field(default=0.0)
    """Seconds since the epoch of the first and last event."""

    @property
    def status(self) -> str:
        """The typed end, or what the run is doing."""
        if self.finished:
            return self.finished.end
        if self.cancel:
            return "cancelling"
        if self.needed:
            return "waiting_for_dataset"
        if self.approval:
            return "waiting_for_approval"
        return "running"

    @property
    def stage(self) -> Service | None:
        """Who holds the baton; None when the run is over or waits for a person."""
        if self.finished or self.needed or self.approval or not self.requested:
            return None
        if not self.planned:
            return "task_manager"
        if not self.prepared:
            return "data_engineer"
        if not self.locked:
            return "scorer"
        if not self.assembled:
            return "module_architect"
        if not self.trained:
            return "model_trainer"
        if not self.scored:
            return "scorer"
        return "task_manager"

    @property
    def live(self) -> bool:
        """False when no role may start new work on the run."""
        return not (self.finished or self.cancel or self.failed or self.infeasible)

    def summary(self) -> RunSummary:
        return RunSummary(
            run_id=self.run_id,
            requirement=self.requested.requirement if self.requested else "",
            status=self.status,
            stage=self.stage,
            level=self.finished.level if self.finished else "none",
            core=self.requested.core if self.requested else "",
        )


def fold(run_id: str, events: Iterable[tuple[int, Event]], start: RunState | None = None) -> RunState:
    """Fold (stream sequence, event) pairs into the state. Pure; an event seen before changes nothing but the head."""
    state = start or RunState(run_id=run_id)
    for sequence, event in events:
        state = _step(state, sequence, event)
    return state


_FORGETS: dict[str, tuple[str, ...]] = {
    # Work handed back, or done again, makes what came after it void.
    "data_engineer": ("prepared", "locked", "assembled", "trained", "scored"),
    "module_architect": ("assembled", "trained", "scored"),
    "task_manager": ("planned", "prepared", "locked", "assembled", "trained", "scored"),
    "model_trainer": ("trained", "scored"),
}


def _step(state: RunState, sequence: int, event: Event) -> RunState:
    if event.event_id in state.seen:
        return state.model_copy(update={"head": sequence})
    stamp = event.at.timestamp()
    update: dict[str, object] = {
        "head": sequence,
        "seen": state.seen | {event.event_id},
        "first_at": state.first_at or stamp,
        "last_at": stamp,
    }
    spent = getattr(event, "spent", None)
    if isinstance(spent, Spent) and not isinstance(event, RunFinished):
        update["spent"] = state.spent + spent
    match event:
        case RunRequested():
            update |= {"requested": event, "budget": event.budget}
        case TaskPlanned():
            update |= {"planned": event, "needed": None, "added": None, "handed_back": None}
        case DatasetNeeded():
            update |= {"needed": event, "handed_back": None}
        case DatasetAdded():
            update |= {"needed": None, "added": event}
        case DatasetPrepared():
            update |= {
                "prepared": event,
                "handed_back": None,
                "locked": None,
                "assembled": None,
                "trained": None,
                "scored": None,
            }
        case DatasetLocked():
            update |= {"locked": event, "locks": event.locks, "assembled": None, "trained": None, "scored": None}
        case ModuleAssembled():
            update |= {"assembled": event, "handed_back": None, "trained": None, "scored": None}
        case TrainingFinished():
            update |= {"trained": event, "handed_back": None, "scored": None}
        case RunScored():
            update |= {"scored": event, "scorings": event.scorings}
        case Infeasible():
            update |= {"infeasible": event}
        case RoleFailed():
            update |= {"failed": event}
        case CancelRequested():
            update |= {"cancel": event}
        case BudgetExtended():
            update |= {"budget": event.budget}
        case ApprovalAsked():
            update |= {"approval": event}
        case ApprovalGiven():
            update |= {"approval": None}
        case WorkReturned():
            pair = f"{event.sender}>{event.target}"
            update |= {"returned": state.returned | {pair: state.returned.get(pair, 0) + 1}, "handed_back": event}
            update |= {name: None for name in _FORGETS[event.target]}
        case JobStarted():
            update |= {"jobs": state.jobs | {event.job_id: event}}
        case JobFinished():
            update |= {
                "jobs": {job: started for job, started in state.jobs.items() if job != event.job_id},
                "jobs_done": state.jobs_done | {event.job_id: event},
            }
        case RunFinished():
            update |= {"finished": event}
    return state.model_copy(update=update)
