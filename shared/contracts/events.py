"""All events by name, and how to read one off the wire."""

from collections.abc import Mapping
from typing import Annotated

from pydantic import Field, TypeAdapter

from shared.contracts.base import Event, Service
from shared.contracts.data import DatasetLocked, DatasetPrepared
from shared.contracts.modules import ModuleAssembled
from shared.contracts.runs import (
    ApprovalAsked,
    ApprovalGiven,
    BudgetExtended,
    CancelRequested,
    DatasetAdded,
    DatasetNeeded,
    Infeasible,
    RoleFailed,
    RunFinished,
    RunRequested,
    TaskPlanned,
    WorkReturned,
)
from shared.contracts.scoring import RunScored
from shared.contracts.training import JobFinished, JobStarted, TrainingFinished

AnyEvent = Annotated[
    RunRequested
    | TaskPlanned
    | DatasetNeeded
    | DatasetAdded
    | DatasetPrepared
    | DatasetLocked
    | ModuleAssembled
    | TrainingFinished
    | RunScored
    | RunFinished
    | Infeasible
    | WorkReturned
    | ApprovalAsked
    | ApprovalGiven
    | CancelRequested
    | BudgetExtended
    | RoleFailed
    | JobStarted
    | JobFinished,
    Field(discriminator="kind"),
]

SAYS: Mapping[Service, tuple[str, ...]] = {
    "gateway": ("RunRequested", "DatasetAdded", "CancelRequested", "ApprovalGiven", "BudgetExtended"),
    "task_manager": ("TaskPlanned", "DatasetNeeded", "RunFinished", "Infeasible", "RoleFailed", "ApprovalAsked"),
    "data_engineer": ("DatasetPrepared", "Infeasible", "WorkReturned", "RoleFailed", "ApprovalAsked"),
    "module_architect": ("ModuleAssembled", "Infeasible", "WorkReturned", "RoleFailed", "ApprovalAsked"),
    "model_trainer": ("TrainingFinished", "Infeasible", "WorkReturned", "RoleFailed", "ApprovalAsked"),
    "tool_runner": ("JobStarted", "JobFinished"),
    "scorer": ("DatasetLocked", "RunScored", "WorkReturned", "RoleFailed"),
}
"""Which facts are whose to say; the server refuses all others (`shared.bus.rights`)."""

_adapter: TypeAdapter[Event] = TypeAdapter(AnyEvent)


def decode_event(data: bytes) -> Event:
    """Raises pydantic.ValidationError when the bytes are no event of ours."""
    return _adapter.validate_json(data)


def read_event(subject: str, data: bytes) -> Event:
    """An event as it stands in the log. Raises ValueError also when it says something else than its subject.

    The server checks who publishes on a subject, so a payload that names another sender or kind is a forgery.
    """
    event = decode_event(data)
    if event.subject() != subject:
        raise ValueError(f"an event on {subject} that says it is {event.kind} of {event.sender}")
    return event
