"""What something that learned nothing would score on the same test set."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from services.scorer.classes import labels
from services.scorer.classes.labels import LabelCases
from services.scorer.classes.metrics import Cases, permute, value
from services.scorer.patients import Floats, by_chance
from shared.contracts.scoring import Control

HOW = "{} random exchanges of the answers between patients"


def controls(
    cases: Cases, train_counts: Mapping[str, int], metric: str, draws: int = 1000, seed: int = 0
) -> tuple[tuple[Control, ...], float | None]:
    """The controls in `metric`, and the p-value of the permutation test (None when the metric is undefined).

    `train_counts` is class -> training samples; the smallest p is 1 / (draws + 1).
    """
    observed = value(metric, cases)
    if observed is None:
        return (), None
    majority = max(cases.classes, key=lambda name: train_counts.get(name, 0))
    best, best_value = _best_constant(cases, metric)
    found = (
        Control(
            name="majority",
            value=_constant(cases, metric, cases.classes.index(majority)),
            detail=f"always {majority}, the most frequent class in training",
        ),
        Control(name="constant", value=best_value, detail=f"always {best}, the best single answer for this test set"),
    )
    dealt = permute(cases, metric, draws, seed)
    exchanged, p = by_chance(observed, dealt, HOW.format(len(dealt)))
    return (*found, *exchanged), p


def label_controls(
    cases: LabelCases, train: Floats, metric: str, draws: int = 1000, seed: int = 0
) -> tuple[tuple[Control, ...], float | None]:
    """The same where several labels may hold; `train` is the share of training samples that have each label."""
    observed = labels.value(metric, cases)
    if observed is None:
        return (), None
    best_value, best = labels.best_constant(cases, metric)
    found = (
        Control(
            name="prior",
            value=labels.always(cases, metric, train),
            detail="each label's frequency in training as its probability, whatever the image",
        ),
        Control(name="constant", value=best_value, detail=f"{best}, the best single answer for this test set"),
    )
    dealt = labels.permute(cases, metric, draws, seed)
    exchanged, p = by_chance(observed, dealt, HOW.format(len(dealt)))
    return (*found, *exchanged), p


def _constant(cases: Cases, metric: str, number: int) -> float:
    same = replace(cases, scores=np.zeros_like(cases.scores), predicted=np.full(len(cases), number))
    return value(metric, same) or 0.0


def _best_constant(cases: Cases, metric: str) -> tuple[str, float]:
    each = {name: _constant(cases, metric, number) for number, name in enumerate(cases.classes)}
    best = max(each, key=lambda name: each[name])
    return best, each[best]
