"""Jobs (train, predict, intake) and the Model Trainer's answer."""

from typing import Literal

from pydantic import Field, JsonValue

from shared.contracts.base import Contract, Event, Ref, RunId, Service, Spent, Token

TRAIN = ("python", "train.py", "--config", "config.yaml")
"""What a try runs, and the playbook."""
REPACKAGE = ("python", "-P", "-m", "shared.training.repackage")
OF_THE_JOB = ("tiers", "curve", "figures")
"""Entries of a training's `metrics` that stay with its job: a package is not told by them."""


def for_training(seconds: float) -> int:
    """Of a job's seconds, what the configuration's `train_seconds` gets: the rest is for starting and for ending."""
    return int(seconds - min(0.1 * seconds, 20 + 0.02 * seconds))


JobKind = Literal["train", "predict", "intake"]
Outcome = Literal["ok", "failed", "timeout", "memory", "cancelled", "lost"]


class Tried(Contract):
    """What a training in a copy of the workspace differs by; the runner says it."""

    name: Token
    change: str = ""
    """Against the workspace, or the training that is continued: keys of config.yaml with old and new value, files."""
    continues: Token | None = None
    """Job that it goes on from."""
    seconds: float = 0.0
    """That it was given."""
    repackaged: bool = False
    """Nothing was trained: `continues` with other code around its weights."""
    fold_of: str = ""
    """Name of the try of which this is a fold: trained on other patients than the lock says, and only compared."""


class JobSpec(Contract):
    """Long work for a runner. Published to `tool.<class>.<asker>.<run>.<job>`; its end is the event JobFinished.

    `train` runs `command` in the build workspace; `predict` runs a package on sealed samples under opaque names;
    `intake` turns raw data into cases by the rules of the Data Engineer: canonical files in the bucket cases.
    """

    job_id: Token
    run_id: RunId
    kind: JobKind
    asked_by: Service
    caused_by: str
    """event_id that the asker was handling."""
    command: tuple[str, ...] = ()
    """argv inside the sandbox, for `train`."""
    inputs: dict[str, Ref] = {}
    """`predict`: package, samples (a CaseList). `intake`: rules, listed (if a script listed the cases), sealed (the
    last `SealedSplit`, by which ids of handed back cases are known again)."""
    seconds: float = Field(default=3600, gt=0)
    forked: bool = False
    """`train` in the copy of the build workspace that the runner made for this job (`try_configs`, `repackage`)."""
    pictures: bool = False
    """`train`: whoever asked looks at pictures, so the worst cases are drawn."""
    memory_mb: int | None = Field(default=None, ge=64)
    """Less than what the runner gives a job; None for all of that."""


class JobStarted(Event):
    kind: Literal["JobStarted"] = "JobStarted"
    job_id: Token
    job: JobKind
    attempt: int = 1
    runner: str = ""
    isolation: str = ""
    apart: bool = False
    """Whether the runner takes no jobs of the class `data` and has no raw data: then landlock suffices for a score."""


class JobProgress(Contract):
    """Published to `log.<run>.<job>`; not part of the state."""

    run_id: RunId
    job_id: Token
    step: int | None = None
    epoch: float | None = None
    epochs: float | None = None
    loss: float | None = None
    metric: float | None = None
    metric_name: str | None = None
    eta_seconds: float | None = None
    gpu_memory_mb: float | None = None
    text: str = ""


class JobFinished(Event):
    """Addressed to the service that asked for the job."""

    kind: Literal["JobFinished"] = "JobFinished"
    job_id: Token
    job: JobKind
    asked_by: Service
    outcome: Outcome
    exit_code: int | None = None
    seconds: float = 0.0
    gpu_seconds: float = 0.0
    attempts: int = 1
    isolation: str = ""
    summary: str = ""
    """Head and tail of the output, or the parsed cause of a failure."""
    metrics: dict[str, JsonValue] = {}
    """From `metrics.json` of the job, its tiers and its `curve`; validation figures only."""
    tried: Tried | None = None
    """Of a training in a copy of the workspace."""
    own_code: tuple[str, ...] = ()
    """Of `train`: code in the workspace and the package that is neither a template's nor our library's, 20 at most."""
    shelf: tuple[str, ...] = ()
    """Of `train`: weights that were in its reach, as name and source; what they have seen is their source's word."""
    bad_samples: dict[str, str] = {}
    """Of a `train` that refused its data: sample, or what the whole is called -> what is wrong with it, 100 at most."""
    outputs: dict[str, Ref] = {}
    """`train`: package, and maybe fitted, the same with the weights of a last fit (folder manifests). `predict`:
    predictions. `intake`: cases (a CaseTable in `sealed`)."""
    log: Ref | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """By which it may be called: its id, and the name of a try, or where it was trained."""
        return self.job_id, self.tried.name if self.tried else "workspace"

    @property
    def delivers(self) -> Ref | None:
        """Of a training: the package that a user gets."""
        return self.outputs.get("fitted") or self.outputs.get("package")

    def recipient(self) -> str:
        return self.asked_by


class FinishedTraining(Contract):
    """Deliver the package of a training that ended ok: `job_id` is its id, or the name of its try.

    A probe runs the package on validation images before it is accepted; the scorer then runs it on the test set.
    """

    job_id: Token
    hyper_parameters: dict[str, JsonValue] = {}
    notes: str = ""


class TrainingFinished(Event):
    kind: Literal["TrainingFinished"] = "TrainingFinished"
    package: Ref
    validation: dict[str, JsonValue]
    hyper_parameters: dict[str, JsonValue] = {}
    attempts: int = Field(ge=1)
    gpu_seconds: float = 0.0
    seconds: float = 0.0
    notes: str = ""
    spent: Spent = Spent()
