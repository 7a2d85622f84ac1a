"""The ground of every contract: frozen, closed to unknown fields, and small.

Messages carry references to stored things, never the things themselves.
"""

import hashlib
import secrets
from datetime import UTC, datetime
from typing import Annotated, ClassVar, Literal, Self, get_args

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

MAX_MESSAGE_BYTES = 256 * 1024
"""What is larger goes to the object store and travels as a `Ref`."""

# One NATS subject token: no dots, spaces or wildcards.
Token = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-]{1,80}$")]
RunId = Token

Service = Literal[
    "gateway", "task_manager", "data_engineer", "module_architect", "model_trainer", "tool_runner", "scorer"
]
SERVICES: tuple[Service, ...] = get_args(Service)
AgentName = Literal["task_manager", "data_engineer", "module_architect", "model_trainer"]
AGENTS: tuple[AgentName, ...] = ("task_manager", "data_engineer", "module_architect", "model_trainer")

TaskKind = Literal["diagnosis", "organ_segmentation", "anomaly_detection", "report_generation"]
SEGMENTATIONS: frozenset[TaskKind] = frozenset({"organ_segmentation", "anomaly_detection"})
"""Tasks whose answer is a mask."""


class Contract(BaseModel):
    """Frozen and closed: an unknown field is an error, so that two versions never talk past each other. What stands
    below a field describes it in the JSON Schema, too, from which models learn how a tool is called."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class ToolArgs(Contract):
    """Arguments of a tool. `tool` is the name by which a core calls it."""

    tool: ClassVar[str]
    reads_only: ClassVar[bool] = True
    """Calls that only read may run side by side."""


class Ref(Contract):
    """A stored object. Readers verify `sha256` and `size` before they trust the bytes."""

    bucket: str
    key: str
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    size: int = Field(ge=0)
    """Bytes."""
    media_type: str = "application/octet-stream"


class Spent(Contract):
    """What a piece of work cost. Addable; a budget of the same shape is the upper bound."""

    turns: int = 0
    actions: int = 0
    """Tool calls asked for by a core, whatever became of them."""
    input_tokens: int = 0
    cached_tokens: int = 0
    """Of the input, what an endpoint read from its cache."""
    output_tokens: int = 0
    tokens_estimated: bool = False
    """True where no endpoint counted and the figure is bytes sent / 4."""
    usd: float = 0.0
    unpriced: bool = False
    """True where some of the tokens have no known price: `usd` leaves those out."""
    gpu_seconds: float = 0.0
    away_seconds: float = 0.0
    """Of the wall time, that in which the role's model was away: no bound counts it."""

    def __add__(self, other: "Spent") -> "Spent":
        return Spent(
            turns=self.turns + other.turns,
            actions=self.actions + other.actions,
            input_tokens=self.input_tokens + other.input_tokens,
            cached_tokens=self.cached_tokens + other.cached_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            tokens_estimated=self.tokens_estimated or other.tokens_estimated,
            usd=self.usd + other.usd,
            unpriced=self.unpriced or other.unpriced,
            gpu_seconds=self.gpu_seconds + other.gpu_seconds,
            away_seconds=self.away_seconds + other.away_seconds,
        )


class Event(Contract):
    """One fact about a run, appended once to the stream EVENTS under `subject()`."""

    to: ClassVar[str] = "all"
    """Last subject token: `all`, or the one role that must act on it. `Addressed` events override `recipient`."""

    kind: str
    run_id: RunId
    event_id: Token
    caused_by: str | None = None
    """event_id of the fact that led to this one; None for the first."""
    sender: Service
    at: datetime

    def recipient(self) -> str:
        return self.to

    def subject(self) -> str:
        return f"evt.{self.run_id}.{self.sender}.{self.kind}.{self.recipient()}"

    def encode(self) -> bytes:
        data = self.model_dump_json().encode()
        if len(data) > MAX_MESSAGE_BYTES:
            raise ValueError(f"{self.kind} is {len(data)} bytes; put the payload into the store and send a Ref")
        return data

    @classmethod
    def make(
        cls, *, run_id: str, sender: Service, cause: "Event | str | None", salt: str = "", **fields: object
    ) -> Self:
        """Build the event with a deterministic id, so that a repeated handler appends the same fact.

        The id is a hash of run, sender, kind, cause and `salt` (for several facts of one kind from one cause).
        """
        cause_id = cause.event_id if isinstance(cause, Event) else cause
        kind = cls.model_fields["kind"].default
        digest = hashlib.sha256(f"{run_id}|{sender}|{kind}|{cause_id}|{salt}".encode()).hexdigest()[:24]
        return cls(run_id=run_id, sender=sender, caused_by=cause_id, event_id=digest, at=datetime.now(UTC), **fields)


def new_run_id() -> str:
    """Sortable by time, safe as a subject token, unguessable enough for a URL."""
    return datetime.now(UTC).strftime("r%Y%m%d-%H%M%S-") + secrets.token_hex(3)
