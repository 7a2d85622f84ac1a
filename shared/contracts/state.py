"""A run's state is a pure fold over its events; nothing else is remembered about it."""

from collections.abc import Iterable

from pydantic import Field

from shared.contracts.base import AGENTS, AgentName, Contract, Event, Ref, RunId, Service, Spent
from shared.contracts.data import DatasetLocked, DatasetPrepared
from shared.contracts.flow import KEEPER, STAGES, Stage, answered_by, stage_of
from shared.contracts.modules import ModuleAssembled
from shared.contracts.questions import DATASET, MORE, UNSAID, YES, Point, QuestionAnswered, QuestionAsked, approve, more
from shared.contracts.runs import (
    Budget,
    CancelRequested,
    DatasetAdded,
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


class Resumed(Contract):
    """A role's new order: the event that brought what it waited for."""

    role: AgentName
    order: str


class RunState(Contract):
    """Everything that follows from the events so far. `head` is the sequence of the last one in the stream EVENTS."""

    run_id: RunId
    head: int = 0
    seen: frozenset[str] = frozenset()
    """`<sender> <event_id>` of every event: ids can be foretold, so one counts for its own sender only."""
    passed_over: frozenset[int] = frozenset()
    """Sequences of events that were not their sender's to say when they came (`out_of_turn`)."""
    requested: RunRequested | None = None
    planned: TaskPlanned | None = None
    prepared: DatasetPrepared | None = None
    locked: DatasetLocked | None = None
    sealed: Ref | None = None
    """The `SealedSplit` of the last lock, also when work was handed back since."""
    assembled: ModuleAssembled | None = None
    trained: TrainingFinished | None = None
    scored: RunScored | None = None
    infeasible: Infeasible | None = None
    failed: RoleFailed | None = None
    cancel: CancelRequested | None = None
    question: QuestionAsked | None = None
    """The open one: nothing goes on before its answer."""
    answers: dict[str, str] = {}
    """Key -> what was answered last."""
    asked: dict[str, QuestionAsked] = {}
    """Key -> the question; the keeper's are the Task Manager's."""
    resumed: Resumed | None = None
    """The answer, or added dataset, that the role which waited for it has not acted upon yet."""
    approved: dict[Point, str] = {}
    """Point -> event_id of the fact that a person approved; another plan or split is asked about again."""
    refused: QuestionAnswered | None = None
    """A person's no, which ends the run."""
    finished: RunFinished | None = None
    jobs: dict[str, JobStarted] = {}
    """Running ones."""
    jobs_done: dict[str, JobFinished] = {}
    jobs_before_lock: frozenset[str] = frozenset()
    """Of jobs that had begun when the last lock was made."""
    handed_back: WorkReturned | None = None
    """Work that its target has not answered yet."""
    returned: dict[str, int] = {}
    """`from>to` -> times work was handed back."""
    locks: int = 0
    scorings: int = 0
    budget: Budget = Budget()
    spent: Spent = Spent()
    waited: float = 0.0
    """Seconds in which a question was open."""
    first_at: float = Field(default=0.0)
    last_at: float = Field(default=0.0)
    """Seconds since the epoch of the first and last event."""

    def knows(self, event: Event) -> bool:
        """Whether the run has this event already."""
        return _mark(event) in self.seen

    @property
    def status(self) -> str:
        """The typed end, or what the run is doing."""
        if self.finished:
            return self.finished.end
        if self.cancel:
            return "cancelling"
        if self.question:
            return "waiting_for_answer"
        return "running"

    def fact(self, stage: Stage) -> Event | None:
        """The answer of a stage, if it has one."""
        found: Event | None = getattr(self, stage.fact)
        return found

    @property
    def open_stage(self) -> Stage | None:
        """The stage that the run is in; None when it is over or waits for a person."""
        if self.finished or self.question:
            return None
        return KEEPER if self.awaiting_approval else next(one for one in STAGES if not self.fact(one))

    @property
    def stage(self) -> Service | None:
        """Who holds the baton; None when the run is over or waits for a person."""
        return self.open_stage.service if self.requested and self.open_stage else None

    @property
    def live(self) -> bool:
        """False when no role may start new work on the run."""
        return not (self.finished or self.cancel or self.failed or self.infeasible or self.refused)

    @property
    def wants_dataset(self) -> bool:
        """Whether a new dataset concerns the run: it has no plan, and is not held up by another question."""
        if not self.live or self.requested is None or self.planned:
            return False
        return self.question is None or self.question.question.key == DATASET

    @property
    def reached(self) -> dict[Point, str]:
        """Point -> event_id of the plan, the lock or the score worth a release that stands there now."""
        worth = self.scored if self.scored and self.scored.level in ("valid", "useful") else None
        facts = {one.approval: self.fact(one) for one in STAGES if one.approval}
        facts["release"] = worth
        return {point: fact.event_id for point, fact in facts.items() if fact}

    @property
    def awaiting_approval(self) -> Point | None:
        """The point that was reached and that a person has yet to approve; no role starts anything before that."""
        asks = self.requested.approvals if self.requested else ()
        if self.locked and self.locked.unvouched and self.requested and not self.requested.unattended:
            asks = (*asks, "split")
        open_ones = (point for point, fact in self.reached.items() if self.approved.get(point) != fact)
        return next((point for point in open_ones if point in asks), None)

    @property
    def trainings(self) -> list[JobFinished]:
        """Ends of the training jobs under the lock that stands now."""
        return [
            done for done in self.jobs_done.values() if done.job == "train" and done.job_id not in self.jobs_before_lock
        ]

    def training(self, name: str) -> JobFinished | None:
        """One of `trainings`, by its id or the name of a try; of several of a name the newest."""
        known = [done for done in self.trainings if name in done.names]
        return known[-1] if known else None

    @property
    def package(self) -> Ref | None:
        """What training delivered. None before the yes where a person wants to be asked before a release."""
        asks = self.requested is not None and "release" in self.requested.approvals
        if asks and ("release" not in self.reached or self.awaiting_approval):
            return None
        made = self.finished.package if self.finished else None
        return made or (self.trained.package if self.trained else None)

    def summary(self) -> RunSummary:
        return RunSummary(
            run_id=self.run_id,
            requirement=self.requested.requirement if self.requested else "",
            status=self.status,
            stage=self.stage,
            level=self.finished.level if self.finished else "none",
            core=self.requested.core if self.requested else "",
            question=self.question.question.text if self.question and not self.finished else "",
            asked_by=self.requested.asked_by if self.requested else "",
        )


def fold(run_id: str, events: Iterable[tuple[int, Event | None]], start: RunState | None = None) -> RunState:
    """Fold (stream sequence, event) pairs into the state. Pure.

    An event seen before changes nothing but the head, nor does one out of turn, nor None, which stands for a message
    that is no event.
    """
    state = start or RunState(run_id=run_id)
    for sequence, event in events:
        state = _step(state, sequence, event) if event else state.model_copy(update={"head": sequence})
    return state


def order_for(service: Service, state: RunState) -> str | None:
    """event_id that asks a service to take its stage now, or None when the baton is elsewhere. Pure: any wake-up may
    call it."""
    stage = state.open_stage
    before = answered_by(stage.wakes) if stage and stage.wakes else None
    if not state.live or stage is None or before is None or stage.service != service:
        return None
    if state.resumed and state.resumed.role == service:
        return state.resumed.order
    if state.handed_back and state.handed_back.target == service:
        return state.handed_back.event_id
    begun = state.fact(before)
    return begun.event_id if begun else None


def out_of_turn(state: RunState, event: Event) -> bool:
    """Whether `event` comes from a service that has no say in the run as it stands (`Stage.answer`, `Stage.speaks`)."""
    kind, stage = type(event), answered_by(type(event))
    if stage and stage is not KEEPER:
        return state.open_stage is not stage or stage.service != event.sender
    if event.sender == KEEPER.service and kind in (KEEPER.answer, *KEEPER.also):
        return state.finished is not None or (kind is QuestionAsked and state.question is not None)
    return stage_of(event.sender).speaks == "in turn" and state.stage != event.sender


def _mark(event: Event) -> str:
    return f"{event.sender} {event.event_id}"


def _step(state: RunState, sequence: int, event: Event) -> RunState:
    if state.knows(event):
        return state.model_copy(update={"head": sequence})
    if out_of_turn(state, event):
        return state.model_copy(update={"head": sequence, "passed_over": state.passed_over | {sequence}})
    stamp = event.at.timestamp()
    update: dict[str, object] = {
        "head": sequence,
        "seen": state.seen | {_mark(event)},
        "first_at": state.first_at or stamp,
        "last_at": stamp,
    }
    spent = getattr(event, "spent", None)
    if isinstance(spent, Spent) and not isinstance(event, RunFinished):
        update["spent"] = state.spent + spent
    if stage := answered_by(type(event)):
        update |= {stage.fact: event, "resumed": None, "handed_back": None}
    match event:
        case RunRequested():
            update |= {"budget": event.budget}
        case QuestionAsked():
            update |= {"question": event, "asked": state.asked | {event.question.key: event}}
        case QuestionAnswered():
            update |= _answered(state, event)
        case DatasetAdded() if state.wants_dataset:
            update |= {"question": None, "resumed": Resumed(role="task_manager", order=event.event_id)}
            update["waited"] = state.waited + _open_for(state, event)
        case DatasetLocked():
            update |= {"sealed": event.sealed, "locks": event.locks}
            update["jobs_before_lock"] = frozenset({*state.jobs, *state.jobs_done})
        case RunScored():
            update |= {"scorings": event.scorings}
        case Infeasible():
            update |= {"infeasible": event}
        case RoleFailed():
            update |= {"failed": event}
        case CancelRequested():
            update |= {"cancel": event}
        case WorkReturned():
            pair = f"{event.sender}>{event.target}"
            update |= {"returned": state.returned | {pair: state.returned.get(pair, 0) + 1}, "handed_back": event}
            update["resumed"] = None
            first = STAGES.index(stage_of(event.target))
            update |= {stage.fact: None for stage in STAGES[first:] if stage.fact}
        case JobStarted():
            update |= {"jobs": state.jobs | {event.job_id: event}}
        case JobFinished():
            update["spent"] = state.spent + Spent(gpu_seconds=event.gpu_seconds)
            update |= {
                "jobs": {job: started for job, started in state.jobs.items() if job != event.job_id},
                "jobs_done": state.jobs_done | {event.job_id: event},
            }
            if event.job == "train":
                update["spent"] = state.spent + Spent(gpu_seconds=event.gpu_seconds)
    return state.model_copy(update=update)


def _open_for(state: RunState, answer: Event) -> float:
    """Seconds for which the question that `answer` ends was open."""
    return max(0.0, (answer.at - state.question.at).total_seconds()) if state.question else 0.0


def _answered(state: RunState, event: QuestionAnswered) -> dict[str, object]:
    asked = state.question
    if asked is None or event.caused_by != asked.event_id:
        return {}  # of a question that is not open: nothing waits for it
    unattended = state.requested is not None and state.requested.unattended
    if event.sender != "gateway" and not (unattended and event.value == asked.question.default):
        return {}  # only a person says more than the default
    update: dict[str, object] = {"question": None, "answers": state.answers | {event.key: event.value}}
    update["waited"] = state.waited + _open_for(state, event)
    point = state.awaiting_approval
    if asked.question.wants != "approval":
        if asked.sender in AGENTS:
            update["resumed"] = Resumed(role=asked.sender, order=event.event_id)
    elif point and event.key == approve(point) and asked.sender == "task_manager":
        passed = {"approved": state.approved | {point: state.reached[point]}}
        update |= passed if event.value in (YES, UNSAID) else {"refused": event}
    elif state.requested and event.value == MORE:
        first = state.requested.budget.model_dump(exclude_none=True)
        raised = {name: getattr(state.budget, name) + first[name] for name in first if event.key == more(name)}
        update["budget"] = state.budget.model_copy(update=raised)
    return update
