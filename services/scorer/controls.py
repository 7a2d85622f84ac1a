"""What something that learned nothing would score on the same test set."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from services.scorer.metrics import Cases, permute, value
from shared.contracts.scoring import Control


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
    found = [
        Control(
            name="majority",
            value=_constant(cases, metric, cases.classes.index(majority)),
            detail=f"always {majority}, the most frequent class in training",
        ),
        Control(name="constant", value=best_value, detail=f"always {best}, the best single answer for this test set"),
    ]
    dealt = permute(cases, metric, draws, seed)
    if not len(dealt):
        return tuple(found), None
    # A rounding error in the sum must not make an equal draw look smaller.
    p = float((1 + np.sum(dealt >= observed - 1e-12)) / (1 + len(dealt)))
    found.append(
        Control(
            name="permutation",
            value=float(np.percentile(dealt, 95)),
            detail=f"95th percentile over {len(dealt)} random exchanges of the answers between patients; p = {p:.4f}",
        )
    )
    return tuple(found), p


def strongest(found: Sequence[Control]) -> Control | None:
    return max(found, key=lambda control: control.value, default=None)


def _constant(cases: Cases, metric: str, number: int) -> float:
    same = replace(cases, scores=np.zeros_like(cases.scores), predicted=np.full(len(cases), number))
    return value(metric, same) or 0.0


def _best_constant(cases: Cases, metric: str) -> tuple[str, float]:
    each = {name: _constant(cases, metric, number) for number, name in enumerate(cases.classes)}
    best = max(each, key=lambda name: each[name])
    return best, each[best]
