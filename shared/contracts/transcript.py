"""A role's transcript: one message a turn on `turns.<role>.<run>`, fenced on that subject."""

from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field, JsonValue, TypeAdapter

from shared.contracts.base import AgentName, Contract, RunId, Spent
from shared.contracts.tools import ToolResult

OPENING = "m3builder"
"""Core of a turn that was taken for a model, before its own first one."""


class Call(Contract):
    """One tool call that a core asks for. `name` is a tool or `submit_<answer>`."""

    name: str
    arguments: dict[str, JsonValue] = {}
    provider_id: str = ""
    """The model provider's id of the call, kept so that its protocol can be replayed."""


class Turn(Contract):
    """What a core decided; recorded before the first call is sent."""

    type: Literal["turn"] = "turn"
    run_id: RunId
    role: AgentName
    number: int = Field(ge=1)
    at: datetime
    core: str
    text: str = ""
    remark: str = ""
    """What the core is told of its reply, such as that it was cut off."""
    kept: JsonValue = None
    """What the model's protocol wants back with this turn, unchanged: signed reasoning. Nothing else reads it."""
    calls: tuple[Call, ...]
    hidden: tuple[str, ...] = ()
    """Of text and calls, what the model knows by surrogates only (`shared.disclosure`)."""
    spent: Spent = Spent()


class Observation(Contract):
    """What came of a turn: one result a call, then what a check or an event had to say."""

    type: Literal["observation"] = "observation"
    run_id: RunId
    role: AgentName
    number: int
    """Of the turn that it answers; 0 for the waking event."""
    results: tuple[ToolResult, ...] = ()
    notes: tuple[str, ...] = ()
    """Problems found by the check, nudges."""
    budget: str = ""
    """What is used of the run's budget by now, in a sentence, and once that it nears its end."""
    event_id: str | None = None
    """The event that woke the role, or that a job's end was told by."""
    event: dict[str, JsonValue] | None = None

    @property
    def opens(self) -> bool:
        """Whether this is the brief that a role was woken with."""
        return self.event is not None and "order" in self.event


class Waiting(Contract):
    """Published to `log.<run>.<role>`, not part of the state: a role's model is away, whom it asks for `turn`."""

    run_id: RunId
    role: AgentName
    turn: int
    endpoint: str
    since: datetime
    reason: str

    def __str__(self) -> str:
        return f"waiting for the endpoint {self.endpoint} since {self.since:%H:%M} UTC: {self.reason}"


Entry = Annotated[Turn | Observation, Field(discriminator="type")]
_adapter: TypeAdapter[Turn | Observation] = TypeAdapter(Entry)


def decode_entry(data: bytes) -> Turn | Observation:
    return _adapter.validate_json(data)
