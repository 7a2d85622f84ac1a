"""What goes in and out over HTTP. The contracts are used as they are wherever they fit."""

from datetime import datetime
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from shared.contracts.base import Ref, Token
from shared.contracts.erasure import Amount
from shared.contracts.questions import Point, Question
from shared.contracts.runs import Budget, RunSummary, Switch
from shared.contracts.transcript import Waiting
from shared.contracts.weights import Suffix
from shared.settings import Right


class Body(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class NewRun(Body):
    """A request in plain words."""

    requirement: str = Field(examples=["I want to train a model for disease diagnosis using 3D CT images."])
    core: str = Field(
        "playbook", description="playbook, a model's name or <endpoint>:<model>; `A,task_manager=B` for one role"
    )
    without: tuple[Switch, ...] = Field((), description="What the run goes without, to see what it is worth.")
    budget: Budget = Budget()
    seed: int = 0
    dataset: str | None = Field(None, description="Id of the dataset to take; without it the Task Manager chooses.")
    approvals: tuple[Point, ...] = Field((), description="Where a person is asked before the run goes on.")
    unattended: bool = Field(False, description="Questions get their default; one without ends the run: needs_answer.")


class RunCreated(Body):
    run_id: str
    notes: tuple[str, ...] = Field((), description="What whoever asked should know of the models.")


class RunDetail(Body):
    summary: RunSummary
    question: Question | None = Field(description="What the run waits for a person to say, at POST .../answers.")
    waiting: Waiting | None = Field(None, description="The endpoint of a language model that the run waits for.")
    state: dict[str, Any] = Field(description="The fold over the run's events.")


class NewAnswer(Body):
    """To the open question of a run."""

    key: str
    value: str = Field(description="One of the question's options where it has a choice; a dataset's id; free words.")


class CancelRun(Body):
    reason: str = Field("", max_length=1000)


class RunStatus(Body):
    run_id: str
    status: str


class NewDataset(Body):
    """A datacard, as text or as an object (or a list of them), in either spelling of its keys."""

    card: str | dict[str, Any] | list[Any]
    path: str | None = Field(None, description="Takes the place of the card's own path.")
    here: bool = Field(True, description="False registers the description only; nothing can be trained from it.")
    archive: Ref | None = Field(None, description="What POST /archives answered, instead of a path.")


class DatasetsAdded(Body):
    dataset_ids: tuple[str, ...]
    resumed: tuple[str, ...] = Field((), description="Runs that waited for a dataset and were woken.")


class NewWeights(Body):
    """Weights for the shelf."""

    name: Token
    file: Ref = Field(description="What POST /archives answered.")
    suffix: Suffix = Field(description="How the file is to be read.")
    licence: str = Field(min_length=1, max_length=300)
    source: str = Field(min_length=1, max_length=1000)
    learned_from: tuple[Token, ...] = Field(
        default=(),
        description="Datasets registered here that they were trained on; runs on these are not offered them.",
    )


class ArchiveLimits(Body):
    """Upper bounds of one archive."""

    sent: int = Field(description="Bytes as they are sent.")
    unpacked: int = Field(description="Bytes of all files.")
    files: int


class Login(Body):
    """What a device authorization flow (RFC 8628) at the OpenID provider needs."""

    issuer: str
    client_id: str
    scope: str


class Me(Body):
    name: str = Field(description="As it stands in runs and audit.")
    rights: tuple[Right, ...]


class NewErasure(Body):
    """What to erase, everywhere and for good."""

    ids: tuple[Token, ...] = Field((), description="Runs that have ended, and datasets.")
    older_than_days: float | None = Field(
        None, ge=0, description="Also every run that ended, and every archive that no dataset took, so long ago."
    )
    dry_run: bool = Field(True, description="Only tell what would go.")


class Erasure(Body):
    """What was erased (or would be), and what is left."""

    ids: tuple[str, ...]
    at: datetime
    by: str
    dry_run: bool
    erased: dict[str, Amount] = Field(description="Place -> messages, objects or files there, and their bytes.")
    archives: int = Field(description="That were sent and that no dataset took.")
    left: tuple[str, ...] = Field(description="What stays, and why, in sentences.")


class Artifact(Body):
    name: str
    ref: Ref | None = Field(None, description="Null where it is made when it is asked for.")
    url: str


class Health(Body):
    ready: bool
    unhealthy: dict[str, str] = Field({}, description="Part -> what is wrong with it.")


class Problem(Body):
    """Every error has this shape."""

    error: str
    hint: str | None = None
