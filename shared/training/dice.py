"""Dice of masks, by the rules of the scorer: a structure that neither mask nor prediction has is left out, one that
only one of them has counts 0; a case without any in either is left out of the mean. `dice_healthy` has the cases whose
mask has no structure: 1 for one in which nothing is predicted, else 0."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from shared.training import told


@dataclass(frozen=True)
class CaseScore:
    dice: tuple[float | None, ...]
    """By structure; None where it is left out."""
    empty: bool
    """Whether the truth has no structure at all."""
    case: str = ""
    patient: str = ""
    false: Mapping[str, Any] = field(default_factory=dict)
    """Of `told.false_parts`."""


def score_case(found: np.ndarray, truth: np.ndarray, structures: int) -> CaseScore:
    """Both arrays hold class numbers, 0 background."""
    length = structures + 1
    same = np.bincount(truth[found == truth].ravel(), minlength=length)
    wanted = np.bincount(truth.ravel(), minlength=length)
    sizes = np.bincount(found.ravel(), minlength=length) + wanted
    dice = tuple(float(2 * same[k] / sizes[k]) if sizes[k] else None for k in range(1, length))
    return CaseScore(dice, not wanted[1:].any())


def of_row(score: CaseScore, row: Mapping[str, Any], false: Mapping[str, Any]) -> CaseScore:
    return replace(score, case=str(row["sample_id"]), patient=str(row["patient"]), false=false)


def of_cases(scores: Sequence[CaseScore]) -> dict[str, Any]:
    """What metrics.json says of the cases (`told.of_cases`): a healthy one by `healthy`, any other by its mean Dice."""
    cases = [{"id": one.case, "figure": healthy(one) if one.empty else mean(one.dice), **one.false} for one in scores]

    def figure(numbers: Sequence[int], _: Sequence[str]) -> float | None:
        return mean([mean(scores[number].dice) for number in numbers])

    return told.of_cases(cases, [one.patient for one in scores], figure)


def summary(scores: Sequence[CaseScore], names: Sequence[str]) -> dict[str, float | None]:
    """`dice`: mean over the structures of a case, then over cases; `dice <name>`: mean over cases; where there are
    healthy cases, `dice_healthy` and `dice_lesion`, the means over these and over the others."""
    found = {"dice": mean([mean(score.dice) for score in scores])}
    if any(score.empty for score in scores):
        found["dice_lesion"] = mean([mean(score.dice) for score in scores if not score.empty])
        found["dice_healthy"] = mean([healthy(score) for score in scores if score.empty])
    return found | {f"dice {name}": mean([score.dice[k] for score in scores]) for k, name in enumerate(names)}


def of_all_cases(scores: Sequence[CaseScore]) -> float | None:
    """Mean over all cases, the healthy ones by `dice_healthy`."""
    return mean([healthy(score) if score.empty else mean(score.dice) for score in scores])


def healthy(score: CaseScore) -> float:
    """A case without structures: 1 where nothing is found, else 0."""
    return 0.0 if any(value is not None for value in score.dice) else 1.0


def mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None
