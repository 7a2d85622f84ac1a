"""Figures of a diagnosis in which several labels may hold of a sample, and their intervals over patients.

Each label is a question of its own, yes or no, and the figures are means over the labels that some samples of the test
set have and others lack (the *judged* ones). Vectorised over draws as `metrics` is, with its rules: a draw that lost
one side of a judged label has no value and is drawn again; what is undefined is NaN here and absent outside.

`balanced_accuracy` is the mean of sensitivity and specificity, `f1_macro` counts probabilities of 0.5 and more as yes,
`accuracy` takes a sample for right only where all its labels are, also those that are not judged. A case without a
usable answer is wrong in each of its labels, and ranks with the probability 0.5.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from services.scorer import names
from services.scorer.classes.metrics import auc, average_precision, ratio
from services.scorer.patients import Floats, Interval, Ints, over_patients, permuted

Bools = npt.NDArray[np.bool_]

PRECISION = "average_precision_macro"
METRICS = (*(name for name in names.METRICS["diagnosis"] if name != names.KAPPA), PRECISION)
SURE = 0.5


@dataclass(frozen=True)
class LabelCases:
    """A scored test set; arrays have one entry a case, in the same order."""

    truth: Bools
    """(cases, labels)"""
    scores: Floats
    """(cases, labels), from 0 to 1."""
    answered: Bools
    """(cases,)"""
    patients: Ints
    """Patient numbers 0..P-1, each of which occurs."""
    labels: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.truth)

    @property
    def said(self) -> Bools:
        """(cases, labels) the labels that were answered with yes."""
        return np.asarray(self.scores >= SURE)

    @property
    def judged(self) -> Ints:
        """Numbers of the labels that some cases have and others lack."""
        return np.flatnonzero(self.truth.any(axis=0) & ~self.truth.all(axis=0))


def value(metric: str, cases: LabelCases) -> float | None:
    """The metric on the cases as they are; None when it is undefined for them."""
    if not len(cases):
        return None
    found = float(draw_values(metric, cases, cases.truth, np.ones((1, len(cases))))[0])
    return found if np.isfinite(found) else None


def draw_values(metric: str, cases: LabelCases, truth: Bools, weights: Floats) -> Floats:
    """One value a draw, NaN where undefined. `truth` is ([draws,] n, labels), `weights` (draws, n) or (1, n)."""
    if metric == "accuracy":
        right = (truth == cases.said).all(axis=-1) & cases.answered
        return np.asarray((weights * right).sum(axis=1) / weights.sum(axis=1))
    if metric not in METRICS:
        raise ValueError(f"no metric is called {metric!r}; there are {', '.join(METRICS)}")
    judged = cases.judged
    if not len(judged):
        return np.full(max(len(weights), 1 if truth.ndim == 2 else len(truth)), np.nan)
    return np.asarray(np.mean([_of_label(metric, cases, k, truth[..., k], weights) for k in judged], axis=0))


def _of_label(metric: str, cases: LabelCases, number: int, truth: Bools, weights: Floats) -> Floats:
    held, lacked = weights * truth, weights * ~truth
    if metric == "auc_macro":
        return auc(cases.scores[:, number], held, lacked)
    if metric == PRECISION:
        return average_precision(cases.scores[:, number], held, lacked)
    said, answered = cases.said[:, number], cases.answered
    hits = (held * (said & answered)).sum(axis=1)
    sensitivity = ratio(hits, held.sum(axis=1))
    if metric == "balanced_accuracy":
        return (sensitivity + ratio((lacked * (~said & answered)).sum(axis=1), lacked.sum(axis=1))) / 2
    alarms = (lacked * (said | ~answered)).sum(axis=1)
    return np.where(held.sum(axis=1) > 0, ratio(2 * hits, held.sum(axis=1) + hits + alarms), np.nan)


def per_label(cases: LabelCases) -> dict[str, dict[str, float]]:
    """Label -> n (cases that have it), auc, average_precision, sensitivity, specificity, f1; undefined: no key."""
    table, ones = {}, np.ones((1, len(cases)))
    for number, name in enumerate(cases.labels):
        truth, said = cases.truth[:, number], cases.said[:, number] & cases.answered
        figures = {"n": float(truth.sum())}
        if number in cases.judged:
            figures["auc"] = float(_of_label("auc_macro", cases, number, truth, ones)[0])
            figures["average_precision"] = float(_of_label(PRECISION, cases, number, truth, ones)[0])
        shares = {
            "sensitivity": ratio(np.sum(truth & said), np.sum(truth)),
            "specificity": ratio(np.sum(~truth & ~said & cases.answered), np.sum(~truth)),
            "f1": _of_label("f1_macro", cases, number, truth, ones)[0],
        }
        table[name] = figures | {key: float(share) for key, share in shares.items() if np.isfinite(share)}
    return table


def bootstrap(cases: LabelCases, metric: str, draws: int = 1000, seed: int = 0) -> Interval | None:
    """95 % interval over patients, as `metrics.bootstrap`."""
    held = [] if metric == "accuracy" else [cases.truth[:, number] for number in cases.judged]
    return over_patients(
        cases.patients,
        lambda weights: draw_values(metric, cases, cases.truth, weights),
        draws,
        seed,
        classes=[np.flatnonzero(side) for truth in held for side in (truth, ~truth)],
    )


def permute(cases: LabelCases, metric: str, draws: int = 1000, seed: int = 0) -> Floats:
    """The metric after the answers were dealt out to other patients at random, as `metrics.permute`."""
    ones = np.ones((1, len(cases)))
    return permuted(cases.patients, lambda taken: draw_values(metric, cases, cases.truth[taken], ones), draws, seed)


def always(cases: LabelCases, metric: str, scores: npt.ArrayLike) -> float:
    """What the same answer for every case scores; `scores` is (labels,) or one for all of them."""
    return value(metric, _same(cases, scores)) or 0.0


def best_constant(cases: LabelCases, metric: str) -> tuple[float, str]:
    """The best that one answer for all cases scores on this test set, and which that is."""
    if metric == "accuracy":
        (most, _), *_ = Counter(map(tuple, cases.truth.tolist())).most_common(1)
        held = [name for name, there in zip(cases.labels, most, strict=True) if there]
        return always(cases, metric, most), f"always {' and '.join(held) or 'no label'}"
    # A mean over labels is best where each label is: yes to all of them and no to all tell both for each.
    ones = np.ones((1, len(cases)))
    each = [
        max(_of_label(metric, _same(cases, answer), k, cases.truth[:, k], ones)[0] for answer in (0, 1))
        for k in cases.judged
    ]
    return float(np.mean(each)), "each label always or never, whichever is better"


def _same(cases: LabelCases, scores: npt.ArrayLike) -> LabelCases:
    answers = np.broadcast_to(np.asarray(scores, dtype=np.float64), cases.scores.shape)
    return replace(cases, scores=answers, answered=np.ones(len(cases), dtype=np.bool_))


def by_patient(cases: LabelCases) -> LabelCases | None:
    """Patients for cases, with the mean of their cases' probabilities. None where no patient has several cases, or
    those of one do not have the same labels."""
    first = np.unique(cases.patients, return_index=True)[1]
    if len(first) == len(cases) or (cases.truth != cases.truth[first][cases.patients]).any():
        return None
    sums = np.zeros((len(first), len(cases.labels)))
    np.add.at(sums, cases.patients, cases.scores)
    return LabelCases(
        truth=cases.truth[first],
        scores=sums / np.bincount(cases.patients)[:, None],
        answered=np.ones(len(first), dtype=np.bool_),
        patients=np.arange(len(first)),
        labels=cases.labels,
    )


def rules(cases: LabelCases) -> list[str]:
    """How the figures are to be read, in sentences."""
    judged = set(cases.judged.tolist())
    said = [
        "Several labels may hold of a sample: each is judged by itself, and means go over labels.",
        "accuracy counts a sample as right only where all its labels are; f1, sensitivity and specificity take "
        f"probabilities of {SURE} and more for yes.",
    ]
    for who, times in (("no", 0), ("every", len(cases))):
        out = [name for k, name in enumerate(cases.labels) if k not in judged and cases.truth[:, k].sum() == times]
        if out:
            said.append(f"Not in the means, because {who} test sample has it: {', '.join(out)}.")
    return said


def truth_of(held: Sequence[Sequence[str]], labels: Sequence[str]) -> Bools:
    """(cases, labels) from the labels of each case."""
    return np.array([[name in names for name in labels] for names in held], dtype=np.bool_).reshape(-1, len(labels))
