"""A template's configuration: YAML against a typed model. What is unknown or wrong is refused together, by name."""

import os
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

Model = TypeVar("Model", bound=BaseModel)


class ConfigError(ValueError):
    """Names every wrong or unknown key, one a line."""


class Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Source(Section):
    """Where a training's cases are; the first keys of every configuration."""

    index: str = "train_index.jsonl"
    data_root: str | None = None
    """Folder that the index's files are relative to; null takes $M3_DATA, else the working directory."""

    @property
    def data_folder(self) -> Path:
        return Path(self.data_root or os.environ.get("M3_DATA") or ".")


class Training(Section):
    """What this library reads of a section `training`; a template has it with its own defaults and more keys."""

    epochs: int | None = Field(default=None, ge=1)
    """Upper bound; null is as many as `train_seconds` holds."""
    train_seconds: float | None = Field(default=600, gt=0)
    """Wall seconds of the whole command, reading and packaging included; null is no bound."""
    whole_seconds: float | None = Field(default=None, gt=0)
    """Of a try: the seconds of the training that it stands for, by which `auto` is settled. null: its own."""
    batch_size: int = Field(default=8, ge=1)
    """Of each process. Halved, with `accumulate` doubled, where the memory does not hold it."""
    accumulate: int = Field(default=1, ge=1)
    """Batches whose gradients are added up for one step."""
    learning_rate: float = Field(default=1e-3, gt=0)
    weight_decay: float = Field(default=0.05, ge=0)
    patience: int = Field(default=0, ge=0)
    """Evaluations without a better metric after which training ends; 0 is never: the rate falls with the time, which is
    of use to its end, and the best weights are kept anyway."""
    save_seconds: float = Field(default=15, ge=0)
    """At most one checkpoint in this time; a killed training loses no more than that and an epoch."""
    precision: Literal["auto", "fp32", "fp16", "bf16"] = "auto"
    """auto: mixed precision on a GPU only. bf16 is done on a CPU, too; fp16 is fp32 there."""
    processes: Annotated[int, Field(ge=1)] | Literal["auto"] = "auto"
    """That train together, each on its own batches. auto: one for each GPU that can be seen; one without a GPU."""
    workers: int | Literal["auto"] = "auto"
    """Processes that load data. auto: none on fewer than eight cores."""
    seed: int = 0

    @model_validator(mode="after")
    def ends(self) -> Self:
        if self.train_seconds is None and self.epochs is None:
            raise ValueError("a training without train_seconds and without epochs has no end; set one of them")
        return self

    @property
    def most_epochs(self) -> int:
        """A number in any case, for engines that want one."""
        return self.epochs or 10**6


class FittedTraining(Training):
    """With a last fit (lastfit.py)."""

    last_fit: float = Field(default=0.25, ge=0, le=0.5)
    """Part of the time, at its end, in which the chosen weights are trained on with the validation cases, too; what is
    measured are the weights before. 0: none."""


UNMARKED = {"training": {"train_seconds", "whole_seconds", "last_fit", "save_seconds", "workers", "processes"}}
"""Of a configuration: what does not make a training another one."""


def load_config(path: str | Path, model: type[Model]) -> Model:
    """Raises ConfigError with everything that is wrong."""
    path = Path(path)
    if not path.is_file():
        raise ConfigError(f"{path} does not exist")
    try:
        found: Any = yaml.safe_load(path.read_text(encoding="utf-8"))
    except yaml.YAMLError as error:
        raise ConfigError(f"{path} is not YAML: {error}") from None
    try:
        return model.model_validate({} if found is None else found)
    except ValidationError as error:
        raise ConfigError(
            "\n".join([f"{path.name} has {error.error_count()} problem(s):", *map(_line, error.errors())])
        ) from None


def _line(problem: Any) -> str:
    key = ".".join(str(part) for part in problem["loc"]) or "the file"
    if problem["type"] in ("extra_forbidden", "unexpected_keyword_argument"):
        return f"- unknown key {key}"
    return f"- {key}: {problem['msg']}, not {problem['input']!r}"
