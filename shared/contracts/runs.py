"""A run from request to end: what the gateway, the Task Manager and its keeper say."""

from datetime import datetime
from typing import Literal, get_args

from pydantic import Field, JsonValue

from shared.contracts.base import AgentName, Contract, Event, Ref, RunId, Service, Spent, TaskKind, Token
from shared.contracts.profile import Profile
from shared.contracts.questions import Point

End = Literal[
    "succeeded", "failed_gate", "infeasible", "not_supported", "out_of_budget", "needs_answer", "cancelled", "crashed"
]
Level = Literal["none", "ran", "valid", "useful"]


class Budget(Contract):
    """Upper bounds of a run; None means no bound."""

    actions: int | None = Field(default=100, ge=1)
    tokens: int | None = Field(default=None, ge=1)
    usd: float | None = Field(default=None, gt=0)
    gpu_seconds: float | None = Field(default=None, gt=0)
    wall_seconds: float | None = Field(default=None, gt=0)
    """Since the request, but for the time in which a person is asked."""
    train_seconds: float | None = Field(default=None, gt=0)
    """Wall seconds of a training. All that end ok and all tries may take twice that together; one that failed may be
    started again."""
    search_seconds: float | None = Field(default=None, ge=0)
    """Of `train_seconds`, what the Model Trainer may spend on comparing changes of the module before it goes on with
    one; 0 is no comparison. The playbook takes a part of its own choice where none is given."""


class DataCard(Contract):
    """A dataset as registered: its free text (paper, appendix 0.A.2) and where its files lie."""

    dataset_id: Token
    name: str
    description: str
    path: str | None = None
    """Absolute folder under a data root of the operator; None when the data were uploaded or are not here."""
    archive: Ref | None = None
    """What was uploaded, as one zip or tar in the store; a runner unpacks it before the first use."""
    profile: Profile | None = None
    """What trusted code saw in the files; None where there are none yet."""
    looked_at: datetime | None = None
    """When that was."""
    extra: dict[str, JsonValue] = {}
    """Whatever else the card said, unchanged."""

    @property
    def here(self) -> bool:
        """Whether there are data to train from, or only the description."""
        return self.path is not None or self.archive is not None

    def for_planning(self) -> "DataCard":
        return self.model_copy(update={"profile": self.profile.for_planning() if self.profile else None})


Switch = Literal["collaboration", "debugging", "reflection", "few_shot"]
SWITCHES: tuple[Switch, ...] = get_args(Switch)
"""What a run can go without, to see what it is worth: roles apart, a second try after a failure, the section of each
prompt that asks to look again, and that with an example of the work."""


class RunRequested(Event):
    """A person asks for a model."""

    kind: Literal["RunRequested"] = "RunRequested"
    requirement: str = Field(min_length=1, max_length=4000)
    core: str = "playbook"
    """`playbook`, `scripted:<transcript>`, `anthropic:<model>` or `openai:<model>`."""
    without: tuple[Switch, ...] = ()
    budget: Budget = Budget()
    dataset: Token | None = None
    """The dataset to take, where a person has chosen it."""
    approvals: tuple[Point, ...] = ()
    """Where a person wants to be asked before the run goes on."""
    unattended: bool = False
    """Nobody is there to answer: questions get their default, and one without ends the run."""
    asked_by: str = ""
    seed: int = 0


class Candidate(Contract):
    """A datacard that was looked at and not taken."""

    dataset_id: Token
    reason: str


ALARM = 0.99
"""Figure above which a leak is suspected where nobody gave a bar."""


class AcceptableRange(Contract):
    """What a score must reach, and above which it is suspect. Given by request, card or benchmark."""

    metric: str
    floor: float | None = None
    alarm: float | None = None
    source: Literal["request", "card", "benchmark", "agent"]


class TaskPlan(Contract):
    """Deliver the planning document: the one dataset that fits, why, why not the others, and what is to be done."""

    task: TaskKind
    dataset_id: Token
    reason: str = Field(min_length=1)
    refused: tuple[Candidate, ...] = ()
    dimensions: Literal[2, 3]
    modality: str
    anatomy: str = ""
    metric: str
    """`auc_macro`, `balanced_accuracy`, `accuracy`, `f1_macro`, `quadratic_kappa` of grades, `dice`, ... as the scorer
    names them."""
    acceptable: AcceptableRange | None = None
    max_train: int | None = Field(default=None, ge=1)
    """Most samples to train on, if the card or request caps them."""
    max_test: int | None = Field(default=None, ge=1)
    balance_classes: bool = False
    labels: tuple[str, ...] = ()
    """Only these labels of the files are to be used. Empty: all, or what the Data Engineer finds for the request."""
    instructions: dict[AgentName, str] = {}


class TaskPlanned(Event):
    kind: Literal["TaskPlanned"] = "TaskPlanned"
    plan: TaskPlan
    card: DataCard
    spent: Spent = Spent()


class DatasetAdded(Event):
    """A dataset was registered while the run had none: the Task Manager looks again. It ends a wait for a dataset."""

    to = "task_manager"
    kind: Literal["DatasetAdded"] = "DatasetAdded"
    dataset_id: Token


Claim = Literal["no_images", "nothing_readable", "no_targets", "one_class", "one_patient", "not_supported"]
"""`not_supported` is none about the data: it names a format or kind of target that is not read yet."""


class Infeasibility(Contract):
    """End the run honestly: these data cannot support this request. Evidence is what you saw, with figures.

    A probe looks at the dataset itself and confirms the claim, or says why it does not hold. one_class and one_patient
    rest on rules: `rules_path` names them.
    """

    claim: Claim
    reason: str = Field(min_length=1)
    rules_path: str | None = None
    evidence: dict[str, JsonValue] = {}


class Infeasible(Event):
    kind: Literal["Infeasible"] = "Infeasible"
    finding: Infeasibility
    spent: Spent = Spent()


MAX_RETURNS = 2
"""Times that one role or the scorer may hand work back to the same role; after that it has to end on its own."""


class WorkReturned(Event):
    """A later role hands work back with the evidence; at most two a pair of roles."""

    kind: Literal["WorkReturned"] = "WorkReturned"
    target: AgentName
    reason: str = Field(min_length=1)
    evidence: dict[str, JsonValue] = {}
    spent: Spent = Spent()

    def recipient(self) -> str:
        return self.target


class ReturnedWork(Contract):
    """Hand work back to an earlier role because its result cannot be worked with: what is wrong, and the evidence.

    Name samples under evidence as {"samples": {sample_id: what is wrong with it}}. At most two times a pair of roles.
    """

    target: AgentName
    reason: str = Field(min_length=1)
    evidence: dict[str, JsonValue] = Field(min_length=1)


class CancelRequested(Event):
    kind: Literal["CancelRequested"] = "CancelRequested"
    reason: str = ""


class RoleFailed(Event):
    """A service could not do its part; the keeper turns this into the run's typed end."""

    kind: Literal["RoleFailed"] = "RoleFailed"
    end: Literal["crashed", "out_of_budget", "failed_gate"]
    gate: str | None = None
    reason: str
    spent: Spent = Spent()


class RunFinished(Event):
    """The typed end of a run."""

    kind: Literal["RunFinished"] = "RunFinished"
    end: End
    level: Level = "none"
    gate: str | None = None
    """Which gate failed, when `end` is `failed_gate`."""
    reason: str = ""
    package: Ref | None = None
    record: Ref | None = None
    spent: Spent = Spent()


class RunSummary(Contract):
    """One line of `m3builder runs`."""

    run_id: RunId
    requirement: str
    status: str
    stage: Service | None = None
    level: Level = "none"
    core: str = "playbook"
    question: str = ""
    """What a person is asked, while the run waits for the answer."""
    asked_by: str = ""
