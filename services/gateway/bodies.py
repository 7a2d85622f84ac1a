"""What goes in and out over HTTP. The contracts are used as they are wherever they fit."""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from shared.contracts.base import Ref
from shared.contracts.runs import Budget, RunSummary


class Body(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class NewRun(Body):
    """A request in plain words."""

    requirement: str = Field(examples=["I want to train a model for disease diagnosis using 3D CT images."])
    core: str = Field("playbook", description="playbook, anthropic:<model>, openai:<model> or scripted:<transcript>")
    budget: Budget = Budget()
    seed: int = 0


class RunCreated(Body):
    run_id: str


class RunDetail(Body):
    summary: RunSummary
    state: dict[str, Any] = Field(description="The fold over the run's events.")


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


class ArchiveLimits(Body):
    """Upper bounds of one archive."""

    sent: int = Field(description="Bytes as they are sent.")
    unpacked: int = Field(description="Bytes of all files.")
    files: int


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
