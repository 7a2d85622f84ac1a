"""All events by name, and how to read one off the wire."""

from typing import Annotated

from pydantic import Field, TypeAdapter

from shared.contracts.base import MAX_MESSAGE_BYTES, Event
from shared.contracts.data import DatasetLocked, DatasetPrepared
from shared.contracts.modules import ModuleAssembled
from shared.contracts.questions import QuestionAnswered, QuestionAsked
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
from shared.contracts.training import JobFinished, JobStarted, TrainingFinished

AnyEvent = Annotated[
    RunRequested
    | TaskPlanned
    | DatasetAdded
    | DatasetPrepared
    | DatasetLocked
    | ModuleAssembled
    | TrainingFinished
    | RunScored
    | RunFinished
    | Infeasible
    | WorkReturned
    | QuestionAsked
    | QuestionAnswered
    | CancelRequested
    | RoleFailed
    | JobStarted
    | JobFinished,
    Field(discriminator="kind"),
]

_adapter: TypeAdapter[Event] = TypeAdapter(AnyEvent)


def decode_event(data: bytes) -> Event:
    """Raises pydantic.ValidationError when the bytes are no event of ours."""
    return _adapter.validate_json(data)


def read_event(subject: str, data: bytes) -> Event:
    """An event as it stands in the log. Raises ValueError also when it is larger than any that we write, or says
    something else than its subject.

    The server checks who publishes on a subject, so a payload that names another sender or kind is a forgery.
    """
    if len(data) > MAX_MESSAGE_BYTES:
        raise ValueError(f"an event of {len(data)} bytes on {subject}")
    event = decode_event(data)
    if event.subject() != subject:
        raise ValueError(f"an event on {subject} that says it is {event.kind} of {event.sender}")
    return event
