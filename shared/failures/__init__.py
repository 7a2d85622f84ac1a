"""Which known failure the end of a training is.

Asked by the runner, which tells the agent, and by the Model Trainer's playbook, which knows the names. What a training
prints is a stranger's text: of it only numbers and plain names get into the two lines.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from shared.failures.catalogue import DIRECTIONS, SIGNS

EVALUATIONS = 3
"""In a row without any Dice, after which it is no slow start any more."""
NOTHING = 1e-4


@dataclass(frozen=True)
class Known:
    name: str
    cause: str

    @property
    def direction(self) -> str:
        return DIRECTIONS[self.name]

    def __str__(self) -> str:
        return f"{self.name}: {self.cause}\n{self.direction}"


@dataclass(frozen=True)
class Ended:
    """How a training ended. `outcome` is a job's; `reason` is why the sandbox ended it, else empty."""

    outcome: str
    exit_code: int | None = None
    output: str = ""
    """The end of stdout and stderr."""
    reason: str = ""
    progress: Sequence[Mapping[str, Any]] = ()
    """Lines of progress.jsonl, this job's only."""
    metrics: Mapping[str, Any] = field(default_factory=dict)
    """metrics.json, if the job wrote one."""


def diagnose(end: Ended) -> Known | None:
    """The known failure that this end is, or None; a job that ended ok may have failed, too."""
    if end.outcome in ("cancelled", "lost"):
        return None
    if end.outcome == "ok":
        return _dice(end)
    return _by_the_sandbox(end) or _by_its_words(end.output) or _by_its_code(end.exit_code) or _loss(end) or _dice(end)


def named(summary: str) -> Known | None:
    """The failure that a summary begins with, as `Known` writes it."""
    name, _, cause = summary.partition("\n")[0].partition(": ")
    return Known(name, cause) if name in DIRECTIONS and cause else None


def _by_the_sandbox(end: Ended) -> Known | None:
    if end.outcome == "memory":
        return Known("memory", f"the training was ended for its memory ({end.reason or 'at the limit'})")
    if end.outcome == "timeout":
        return Known("time", f"the training did not end in its time ({end.reason or 'the limit was reached'})")
    if "left on the disk" in end.reason:
        return Known("disk", f"the training was ended: {end.reason.partition(' on the disk')[0]} on its disk")
    if "processes and threads" in end.reason:
        return Known("processes", f"the training was ended: {end.reason}")
    return None


def _by_its_words(output: str) -> Known | None:
    for sign in SIGNS:
        for pattern in sign.patterns:
            if found := re.search(pattern, output, re.MULTILINE):
                return Known(sign.name, sign.cause.format(*found.groups()))
    return None


def _by_its_code(code: int | None) -> Known | None:
    """128 + n is a death by signal n, as shells and the sandbox say it; Python says -n."""
    if code in (137, -9):
        return Known("memory", "the training was killed from outside, most likely for its memory")
    if code in (135, -7):
        return Known("shm", "a bus error: /dev/shm is too small for what processes pass through it")
    return None


def _loss(end: Ended) -> Known | None:
    losses = [line["loss"] for line in end.progress if isinstance(line.get("loss"), float)]
    return None if not losses or math.isfinite(losses[-1]) else Known("nan", f"the loss became {losses[-1]}")


def _dice(end: Ended) -> Known | None:
    """By the delivered weights where there are any, else by the last evaluations."""
    delivered = _figure(end.metrics)
    if delivered is not None:
        found, when = [delivered], "at the end"
    else:
        found = [value for value in map(_figure, end.progress) if value is not None][-EVALUATIONS:]
        when = f"in the last {EVALUATIONS} evaluations"
        if len(found) < EVALUATIONS:
            return None
    if max(found) > NOTHING:
        return None
    return Known("dice_zero", f"Dice on the validation images is 0 {when}: no structure is found")


def _figure(told: Mapping[str, Any]) -> float | None:
    value = told.get("metric")
    is_dice = str(told.get("metric_name", "")).startswith("dice")
    return float(value) if is_dice and isinstance(value, int | float) and 0 <= value <= 1 else None
