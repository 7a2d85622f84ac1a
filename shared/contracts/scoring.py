"""The independent score."""

from typing import Literal

from shared.contracts.base import Contract, Event, Ref
from shared.contracts.runs import Level

CHANCE = 0.05
"""Largest p of the permutation test with which a score is not put down to chance."""


class Metric(Contract):
    """A figure with its 95 % interval by bootstrap over patients."""

    name: str
    value: float
    low: float
    high: float
    n: int
    """Samples."""
    patients: int


class Control(Contract):
    """What a model that learned nothing would score."""

    name: str
    """`majority`, `permutation`, `constant`, ..."""
    value: float
    detail: str = ""


class Gate(Contract):
    name: str
    passed: bool
    evidence: str


class RunScored(Event):
    kind: Literal["RunScored"] = "RunScored"
    metric: Metric | None
    """The plan's metric; None when no usable answer came, or it is undefined on them."""
    others: tuple[Metric, ...] = ()
    per_class: dict[str, dict[str, float]] = {}
    controls: tuple[Control, ...]
    permutation_p: float | None = None
    gates: tuple[Gate, ...]
    level: Level
    why: tuple[str, ...] = ()
    """What the level follows from: of one below useful, what it lacks."""
    locks: int
    scorings: int
    """How often this run's test set has been scored, this time included."""
    rests_on: tuple[str, ...] = ()
    """What a reader has to know beside the figure, in sentences: how often the dataset was locked and scored, how much
    was left out, what could have been carried past the lock, and whether the figure is too good to be true."""
    details: Ref | None = None
    """Per-case table."""
