"""What a report is made from: events, the scorer's table of cases, the trace and the training's progress."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel, ConfigDict, model_validator

from services.gateway.built import built
from services.gateway.trace_model import Share
from shared.contracts.base import SEGMENTATIONS, Event, Ref
from shared.contracts.runs import Level
from shared.contracts.state import RunState, fold
from shared.contracts.training import JobFinished, JobProgress, JobStarted


class _Read(BaseModel):
    # The scorer may note more than is shown here.
    model_config = ConfigDict(frozen=True, extra="ignore")


class Case(_Read):
    """A line of the scorer's table: a test sample with what was answered."""

    sample_id: str
    patient: str = ""
    failed: str = ""
    """Why there is no usable answer."""
    label: str | tuple[str, ...] | None = None
    """The class, or the labels that hold where several may; None for other tasks."""
    predicted: str | tuple[str, ...] | None = None
    probabilities: dict[str, float] = {}
    dice: float | None = None
    structures: dict[str, float | None] = {}
    """Structure -> Dice; None where it does not count."""
    reference: str = ""
    report: str = ""
    """What was to be written, and what was."""
    figures: dict[str, float] = {}
    """Of a report: whatever figure the scorer notes of the case, by its name."""

    @model_validator(mode="before")
    @classmethod
    def _gather_figures(cls, line: Any) -> Any:
        if not isinstance(line, Mapping) or "figures" in line:
            return line
        numbers = {key: one for key, one in line.items() if type(one) in (int, float) and key not in cls.model_fields}
        return {**line, "figures": numbers}

    def holds(self, label: str) -> bool:
        return label in self.label if isinstance(self.label, tuple) else label == self.label

    def says(self, label: str) -> bool:
        return label in self.predicted if isinstance(self.predicted, tuple) else label == self.predicted

    def of_truth(self, label: str) -> float:
        """The probability of what is true of a label: that it holds, or that it does not."""
        chance = self.probabilities.get(label, 0.0)
        return chance if self.holds(label) else 1 - chance


class Bin(_Read):
    """Answers whose probability lies in a tenth that ends at `up_to`."""

    up_to: float
    n: float
    probability: float
    """Mean."""
    right: float
    """Share."""


class Subgroup(_Read):
    """The plan's metric over the test cases of one group; of few patients nothing but its name."""

    by: str
    group: str
    cases: int | None = None
    patients: int | None = None
    value: float | None = None
    low: float | None = None
    high: float | None = None


class Details(_Read):
    """What `RunScored.details` refers to."""

    why: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()
    worst: tuple[str, ...] = ()
    left_out: int = 0
    calibration: tuple[Bin, ...] = ()
    """Of a diagnosis."""
    multi_label: bool = False
    """Of a diagnosis in which several labels may hold of a sample."""
    subgroups: tuple[Subgroup, ...] = ()
    cases: tuple[Case, ...] = ()


@dataclass(frozen=True)
class Picture:
    """Of a test case, as a PNG; without one `problem` says why."""

    png: bytes = b""
    width: int = 0
    height: int = 0
    problem: str = ""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Pictures:
    found: Mapping[str, Picture] = field(default_factory=dict)
    """By sample_id."""
    colours: Mapping[str, str] = field(default_factory=dict)
    """Structure -> `#rrggbb`."""
    missing: str = ""
    """Why there are none at all, in a sentence."""


@dataclass(frozen=True)
class Facts:
    state: RunState
    events: tuple[Event, ...]
    details: Details = field(default_factory=Details)
    progress: tuple[JobProgress, ...] = ()
    """Of the job that `training_job` names, as it was told."""
    shares: tuple[Share, ...] = ()
    pictures: Pictures | None = None
    """None where nobody asked for any."""
    warnings: tuple[str, ...] = ()
    """Of the dataset's profile, as it is registered now."""
    missing: tuple[str, ...] = field(default=())
    """What ought to be there and could not be read, in sentences."""

    @classmethod
    def of(cls, events: Sequence[tuple[int, Event]], **more: object) -> "Facts":
        """`more` are the other fields."""
        state = fold(events[0][1].run_id, events)
        return cls(state=state, events=tuple(event for _, event in events), **more)  # type: ignore[arg-type]

    @property
    def segmentation(self) -> bool:
        return self.state.planned is not None and self.state.planned.plan.task in SEGMENTATIONS

    @property
    def level(self) -> Level:
        if self.state.finished:
            return self.state.finished.level
        return self.state.scored.level if self.state.scored else "none"

    @property
    def package(self) -> Ref | None:
        return self.state.package

    @property
    def noted(self) -> Mapping[str, Any]:
        """What the job that made the package wrote of itself."""
        job = self.state.jobs_done.get(training_job(self.state, self.events) or "")
        return job.metrics if job else {}

    @property
    def tiers(self) -> tuple[Mapping[str, Any], ...]:
        """What was tried before the training began, in order: `tier`, `passed`, `seconds`, `text`."""
        listed = self.noted.get("tiers")
        return tuple(one for one in listed if isinstance(one, Mapping)) if isinstance(listed, list) else ()

    @property
    def built(self) -> dict[str, str]:
        """What was trained, as label and text: by what the training noted of itself, as far as its code is ours."""
        module = self.state.assembled.module if self.state.assembled else None
        if module is None:
            return {}
        job = self.state.jobs_done.get(training_job(self.state, self.events) or "")
        own, one = job.own_code if job else (), built(module, job)
        told = {
            "Template": module.template,
            "Network": f"{one.network}, input {one.shape}",
            "Loss": one.loss,
            "Augmentation": one.augmentation,
            "Within its reach": f"weights of the shelf: {', '.join(job.shelf)}" if job and job.shelf else "",
            "Own code": f"{', '.join(own)}: network, loss and augmentation are its author's words" if own else "",
        }
        return {label: text for label, text in told.items() if text}

    @property
    def made_by(self) -> dict[str, str]:
        """The plain figures among what is noted, as label and text."""
        noted = self.noted
        return {
            name.replace("_", " ").capitalize(): f"{value:,}" if isinstance(value, int) else str(value)
            for name in ("epochs", "best_epoch", "parameters", "device")
            if isinstance(value := noted.get(name), str | int | float)
        }

    @property
    def unanswered(self) -> tuple[Case, ...]:
        return tuple(case for case in self.details.cases if case.failed)


def training_job(state: RunState, events: Sequence[Event]) -> str | None:
    """The job that made the delivered package, else the newest training; None before the first began."""
    package = state.trained.package if state.trained else None
    for event in reversed(events):
        if isinstance(event, JobFinished) and event.job == "train" and package in event.outputs.values():
            return event.job_id
    told = (event for event in reversed(events) if isinstance(event, JobStarted | JobFinished))
    return next((event.job_id for event in told if event.job == "train"), None)
