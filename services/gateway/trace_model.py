"""What a trace tells, as it goes over HTTP. All times are seconds; `at` counts from the request."""

from pydantic import Field

from services.gateway.bodies import Body
from shared.contracts.runs import Level
from shared.contracts.training import JobKind


class CallTrace(Body):
    tool: str
    ok: bool | None = Field(None, description="Null where the call is under way or its result is in no transcript.")
    seconds: float = 0.0
    isolation: str = ""
    problem: str = Field("", description="Beginning of a refusal.")


class TurnTrace(Body):
    number: int
    at: float
    tokens: int
    waited: float = Field(description="For its tools.")
    calls: tuple[CallTrace, ...]


class JobTrace(Body):
    job_id: str
    job: JobKind
    asked_by: str
    at: float = Field(description="When it was asked for.")
    queued: float = Field(description="Until it was first started, or until now.")
    ran: float = Field(0.0, description="From its first start to its end or until now, redeliveries included.")
    attempts: int = 0
    outcome: str = Field(description="As in JobFinished, or `queued` or `running`.")
    isolation: str = ""


class Work(Body):
    """A role's work on one order. `held` is null where the sender did not hold the baton."""

    held: float | None = None
    turns: tuple[TurnTrace, ...] = ()
    jobs: tuple[JobTrace, ...] = ()


class Handoff(Work):
    """A fact that passes the run on, and the work that led to it."""

    kind: str
    sender: str
    recipient: str
    at: float


class Open(Work):
    """Work that no fact has answered: of the role that is at it, or of one that was stopped."""

    role: str


class Share(Body):
    """What a role took of the run's wall time; `working` and `waiting` add up to the time it held the baton."""

    role: str
    turns: int
    actions: int
    tokens: int
    estimated: bool
    working: float
    waiting: float = Field(description="For tools and jobs.")
    share: float = Field(description="Of the wall time, 0 to 1.")


class Trace(Body):
    run_id: str
    requirement: str
    status: str
    level: Level
    seconds: float
    handoffs: tuple[Handoff, ...]
    open: tuple[Open, ...]
    roles: tuple[Share, ...]
