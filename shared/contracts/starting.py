"""Tools that start jobs: a role that calls one sleeps until its jobs have ended."""

from typing import Annotated

from pydantic import Field, JsonValue, StringConstraints

from shared.contracts.base import Contract, ToolArgs


class StartTraining(ToolArgs):
    """Start a training job in the build workspace and go to sleep until it ends. Its end comes back as JobFinished.
    In one turn with a submission, it is started only if the submission is refused.

    Example: command ["python", "train.py", "--config", "config.yaml"]. `seconds` are cut to the run's
    `train_seconds`. All trainings that end ok and all tries share twice that; one that fails uses nothing up.
    """

    tool = "start_training"
    reads_only = False
    command: tuple[str, ...] = Field(min_length=1)
    seconds: float = Field(default=3600, gt=0)


MOST_TRIES = 8
"""In one call."""


class Try(Contract):
    """The workspace with some changes."""

    name: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-]{1,40}$")]
    """A short word for it, of your own, once in a run."""
    changes: dict[str, JsonValue] = {}
    """Dotted key of config.yaml -> value, such as {"training.learning_rate": 0.0003}."""
    files: dict[str, str] = {}
    """Path in the workspace -> its whole text, where a try needs other code."""
    continues: str | None = None
    """Name or job id of a training of this run (`workspace`: the last one there) that is gone on with, from its
    workspace and checkpoints (of before its last fit), for `seconds` more; its learning rate begins where it would be
    in a training of the whole time. With `changes` of anything but the time the template begins anew."""


class TryConfigs(ToolArgs):
    """Train 1 to 8 variants of the workspace for `seconds` each and go to sleep until all have ended; you are then told
    one table of all trainings so far, best first. Each runs in a copy of its own, side by side where runners are free,
    so your workspace stays as it is; the package of any can be delivered. Give only what differs: no changes are the
    workspace as it is. `training.train_seconds` is set for you. Tries share twice the run's
    `train_seconds` with the trainings in the workspace; what a job takes to begin and end beyond its seconds does not
    count. Tries that run side by side share the machine: of two on two cores each makes half of the steps.

    Where validation patients are few, `folds` trains each try so many times, each time with another part of all
    patients held out, and compares tries on all of them. Folds are never delivered: train what won in the workspace.
    """

    tool = "try_configs"
    tries: tuple[Try, ...] = Field(min_length=1, max_length=MOST_TRIES)
    seconds: float = Field(ge=10)
    """Wall seconds of each; of each fold."""
    folds: int = Field(default=1, ge=1, le=5)


class Repackage(ToolArgs):
    """Write the package of a finished training anew, in seconds: its weights, with the code of your workspace as it is
    now (predict.py and what it imports) and those .json files of the workspace that the package has, too, such as an
    edited config.json. A job without training, which measures the new package on the validation cases: you sleep, and
    deliver it by its own id.
    """

    tool = "repackage"
    job: str
    """Name or job id of the training; `workspace`: the last one there."""


STARTERS = (StartTraining.tool, TryConfigs.tool, Repackage.tool)
"""By name. `data["jobs"]` of their results are the ids."""
