"""The whole system at one moment, as it goes over HTTP."""

from datetime import datetime

from pydantic import Field

from services.gateway.bodies import Body
from shared.contracts.base import Service
from shared.contracts.training import JobKind


class JobNow(Body):
    """A job that a runner has begun."""

    kind: JobKind
    runner: str
    isolation: str
    attempt: int
    seconds: float = Field(description="Since this attempt began.")
    share: float | None = Field(None, description="Of its epochs, 0 to 1, where it tells.")
    text: str = ""


class RunNow(Body):
    """A run that has not ended."""

    run_id: str
    status: str
    stage: Service | None
    core: str
    age: float = Field(description="Seconds since the request.")
    silence: float = Field(description="Seconds since its last event, turn or progress.")
    doing: str
    jobs: tuple[JobNow, ...] = ()


class QueueNow(Body):
    """What waits for a service, and how many of its workers wait for work."""

    name: str
    service: Service
    pending: int
    taken: int
    idle: int


class Fleet(Body):
    at: datetime
    runs: tuple[RunNow, ...] = Field(description="Those of the visitor; all of them for an operator.")
    queues: tuple[QueueNow, ...]
    dead: dict[str, int] = Field(description="Consumer -> messages that were given up.")
    streams: dict[str, int] = Field(description="Stream -> bytes.")
