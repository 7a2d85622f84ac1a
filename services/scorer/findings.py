"""What the scoring of any task gives: the small interface between `scoring` and the modules of the tasks."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

import numpy as np
from pydantic import JsonValue

from services.scorer.names import LOWEST
from services.scorer.patients import Interval, Ints
from shared.contracts.data import DatasetFacts, IndexRow, SealedSplit, StoredCase
from shared.contracts.scoring import Control, Gate, Metric
from shared.store import Store

DRAWS = 1000


@dataclass(frozen=True)
class Findings:
    """Without any usable answer there are gates and a table of cases, and nothing else."""

    gates: tuple[Gate, ...]
    cases: tuple[JsonValue, ...]
    """One line a test case, with its name; stays out of events."""
    figures: tuple[Metric, ...] = ()
    per_class: dict[str, dict[str, float]] = field(default_factory=dict)
    controls: tuple[Control, ...] = ()
    permutation_p: float | None = None
    details: dict[str, JsonValue] = field(default_factory=dict)
    """What the task adds to the details."""
    part: Callable[[Ints], Metric | None] | None = field(default=None, compare=False)
    """The plan's metric over the test cases at these places alone; None where it has no value there."""


@dataclass(frozen=True)
class Asked:
    """What is to be scored: `answers` are the bytes of the predictions, or the gate that says why there are none."""

    sealed: SealedSplit
    metric: str
    answers: bytes | Gate
    store: Store
    compute: bool = True
    """False when the split is not what was locked: the answers are judged, but no figure is computed."""
    seed: int = 0

    @property
    def facts(self) -> DatasetFacts:
        return self.sealed.facts

    @cached_property
    def test(self) -> list[IndexRow]:
        return [row for row in self.sealed.rows if row.split == "test"]

    @cached_property
    def train(self) -> list[IndexRow]:
        return [row for row in self.sealed.rows if row.split == "train"]

    @cached_property
    def names(self) -> list[str]:
        return [row.sample_id for row in self.test]

    def stored(self, rows: Sequence[IndexRow]) -> list[StoredCase]:
        """Where the files of rows lie."""
        of = {case.sample_id: case for case in self.sealed.stored}
        return [of[row.sample_id] for row in rows]


class Measure(Protocol):
    """A task's way from answers to findings. Blocks; never raises for what a package wrote."""

    def __call__(self, asked: Asked, /) -> Findings: ...


def patient_numbers(rows: Sequence[IndexRow]) -> Ints:
    """0..P-1 for each row."""
    _, numbers = np.unique([row.patient for row in rows], return_inverse=True)
    return numbers.astype(np.int64)


def metric_of(name: str, value: float, interval: Interval | None, patients: Ints) -> Metric:
    """Without an interval nothing is known about the figure: it gets the widest one, which beats no control."""
    low, high = (interval.low, interval.high) if interval else (LOWEST.get(name, 0.0), 1.0)
    return Metric(name=name, value=value, low=low, high=high, n=len(patients), patients=len(np.unique(patients)))


def or_none(value: float) -> float | None:
    """NaN, which JSON does not have, as None."""
    return float(value) if np.isfinite(value) else None
