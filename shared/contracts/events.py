"""All events by name, and how to read one off the wire."""

from typing import Annotated

from pydantic import Field, TypeAdapter

from shared.contracts.base import Event
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

_adapter: TypeAdapter[Event] = TypeAdapter(AnyEvent)


def decode_event(data: bytes) -> Event:
    """Raises pydantic.ValidationError when the bytes are no event of ours."""
    return _adapter.validate_json(data)
