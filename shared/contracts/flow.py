"""The stages of a run, in one table: who takes each, what begins and ends it, what else may be said and asked for.

Everything else follows from it: who holds the baton, whose order it is and what work handed back makes void
(`shared.contracts.state`), which events wake whom (`shared.bus.streams`), what the server lets each service say and ask
(`shared.bus.rights`), and which workspace a role has.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, TypeVar

from shared.contracts.base import SERVICES, Event, Service
from shared.contracts.data import DatasetLocked, DatasetPrepared
from shared.contracts.modules import ModuleAssembled
from shared.contracts.questions import Point, QuestionAnswered, QuestionAsked
from shared.contracts.runs import (
    CancelRequested,
    DatasetAdded,
    Infeasible,
    RoleFailed,
    RunFinished,
    RunRequested,
    TaskPlanned,
    WorkReturned,
)
from shared.contracts.scoring import RunScored
from shared.contracts.tools import ToolClass
from shared.contracts.training import JobFinished, JobStarted, TrainingFinished

T = TypeVar("T")


@dataclass(frozen=True)
class Stage:
    """A stage of a run. It is open when all before it are answered and it is not."""

    service: Service
    """Who takes it."""
    wakes: type[Event] | None
    """The fact that begins it, answer of the stage before; `Event` stands for every fact."""
    answer: type[Event] | None
    """The fact that ends it. It counts while the stage is open, so once, and again when work was handed back to it."""
    fact: Literal["requested", "planned", "prepared", "locked", "assembled", "trained", "scored", "finished", ""]
    """Where `RunState` keeps the answer."""
    also: tuple[type[Event], ...] = ()
    """What else its service may say."""
    speaks: Literal["in turn", "until the end", "at any time"] = "in turn"
    """When that counts: while the stage is open, until the run is over, or always."""
    approval: Point | None = None
    """What a person approves of its answer, where one wants to, before the run goes on."""
    asks: tuple[ToolClass, ...] = ()
    """Classes of work that it may ask a runner for, that of a role's tool calls first. Only runners of `data` and
    `intake` mount raw datasets."""
    area: Literal["plan", "data", "build", ""] = ""
    """Workspace of its role, and what calls see beside it: `data` the raw dataset, `build` the training view. The
    Module Architect's is handed on to the Model Trainer, the Data Engineer's to nobody."""
    consumer: str = ""
    """Name of its consumer where that is not the service's."""

    @property
    def name(self) -> str:
        return self.consumer or self.service


_AGENT = (RoleFailed, QuestionAsked)

KEEPER = Stage(
    # A pure function in the Task Manager's service that looks at a run after each of its facts: it asks for approvals,
    # answers with defaults, and may end a run at any stage.
    "task_manager", Event, RunFinished, "finished", (QuestionAsked, QuestionAnswered),
    speaks="until the end", consumer="keeper",
)  # fmt: skip

STAGES: tuple[Stage, ...] = (
    Stage(
        "gateway", None, RunRequested, "requested", (DatasetAdded, CancelRequested, QuestionAnswered),
        speaks="at any time", asks=("data",),
    ),
    Stage("task_manager", RunRequested, TaskPlanned, "planned", _AGENT, approval="plan", asks=("data",), area="plan"),
    Stage(
        "data_engineer", TaskPlanned, DatasetPrepared, "prepared", (*_AGENT, Infeasible), asks=("data",), area="data"
    ),
    Stage(
        "scorer", DatasetPrepared, DatasetLocked, "locked", (RoleFailed, WorkReturned), approval="split", asks=("data",)
    ),
    Stage(
        "module_architect", DatasetLocked, ModuleAssembled, "assembled", (*_AGENT, WorkReturned),
        asks=("build", "train"), area="build",
    ),
    Stage(
        "model_trainer", ModuleAssembled, TrainingFinished, "trained", (*_AGENT, WorkReturned),
        asks=("build", "train"), area="build",
    ),
    Stage(
        "scorer", TrainingFinished, RunScored, "scored", (RoleFailed, WorkReturned), approval="release",
        asks=("train",),
    ),
    KEEPER,
    # No stage of its own: it works on calls and jobs, and says when a job began and ended.
    Stage("tool_runner", None, None, "", (JobStarted, JobFinished), speaks="at any time", asks=("intake",)),
)  # fmt: skip
"""In order. Work that is handed back to a service makes the answer of its first stage void, and all after it."""


def stage_of(service: Service) -> Stage:
    """The first stage of a service."""
    return next(stage for stage in STAGES if stage.service == service)


def answered_by(kind: type[Event]) -> Stage | None:
    """The stage that a fact of this kind ends."""
    return next((stage for stage in STAGES if stage.answer is kind), None)


def _of(service: Service, column: Callable[[Stage], Iterable[T]]) -> tuple[T, ...]:
    return tuple(dict.fromkeys(entry for stage in STAGES if stage.service == service for entry in column(stage)))


SAYS: Mapping[Service, tuple[str, ...]] = {
    service: _of(service, lambda stage: (kind.__name__ for kind in (stage.answer, *stage.also) if kind))
    for service in SERVICES
}
"""Which facts are whose to say; the server refuses all others."""

GOES_ON: Mapping[Service, Service] = {
    after.service: before.service for before, after in pairwise(STAGES) if before.area and after.area
}
"""Of a run without collaboration: which role's conversation a role goes on with. None goes on over the lock."""

ASKS: Mapping[Service, tuple[ToolClass, ...]] = {
    service: _of(service, lambda stage: stage.asks) for service in SERVICES
}
"""Of which classes a service may ask a runner for work."""
