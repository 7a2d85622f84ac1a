"""Which test cases are looked at: some of the worst, some of the best, and some that nobody chose."""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from services.gateway.report.facts import Case, Facts
from shared.contracts.base import SEGMENTATIONS

Why = Literal["worst", "best", "random"]

_TURNS: tuple[Why, ...] = ("worst", "best", "random", "worst", "best", "random", "worst", "random")
"""Of few cases the first turns get one each."""
_ORDER: tuple[Why, ...] = ("worst", "best", "random")


@dataclass(frozen=True)
class Chosen:
    number: int
    """Place in the scorer's table, from 1: a name for a case that says nothing of the patient."""
    case: Case
    why: Why
    merit: float | None
    """See `merit`."""


def chosen(facts: Facts) -> tuple[Chosen, ...]:
    """At most eight, the worst first; the same for the same score."""
    scored, cases = facts.state.scored, facts.details.cases
    if scored is None:
        return ()
    merits = [merit(facts, case) for case in cases]
    ranked = sorted((place for place, one in enumerate(merits) if one is not None), key=lambda place: merits[place])  # type: ignore[arg-type, return-value]
    shuffled = list(range(len(cases)))
    random.Random(scored.event_id).shuffle(shuffled)
    left = {"worst": iter(ranked), "best": iter(ranked[::-1]), "random": iter(shuffled)}
    taken: dict[int, Why] = {}
    for why in _TURNS:
        place = _first(left[why], taken)
        if place is not None:
            taken[place] = why
    found = [Chosen(place + 1, cases[place], why, merits[place]) for place, why in taken.items()]
    return tuple(sorted(found, key=lambda one: _ORDER.index(one.why)))


def measure(facts: Facts) -> str:
    """What `merit` is, in words."""
    task = facts.state.planned.plan.task if facts.state.planned else "diagnosis"
    if task in SEGMENTATIONS:
        return "dice"
    if task == "diagnosis":
        least = "least probability of what is true of a label"
        return least if facts.details.multi_label else "probability of the truth"
    return facts.state.scored.metric.name if facts.state.scored and facts.state.scored.metric else "figure"


def merit(facts: Facts, case: Case) -> float | None:
    """How well a case was answered, more is better; None where it does not count (no structure to find)."""
    if facts.segmentation:
        return case.dice
    if case.failed:
        return 0.0
    if isinstance(case.label, tuple):
        return min((case.of_truth(label) for label in facts.details.labels), default=None)
    if case.label is not None:
        return case.probabilities.get(case.label, 0.0)
    return case.figures.get(measure(facts))


def _first(places: Iterator[int], taken: dict[int, Why]) -> int | None:
    return next((place for place in places if place not in taken), None)
