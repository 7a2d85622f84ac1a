"""Figures of a diagnosis with one label a sample.

Every metric is computed for many draws at once: a draw is a row of case weights (how often a case was drawn), the plain
value is the draw in which all weights are 1. Rules for classes without cases:

- averages go over the classes that the truth of the whole test set holds; a class it lacks has no part in them, but
  answering with it still costs the class it was taken from;
- with two classes in the label map `auc_macro` is the AUC of the second one's score, as is usual; with more it is the
  mean of one class against the rest;
- a draw that lost one of these classes has no `auc_macro`, `balanced_accuracy` or `f1_macro`: it is replaced by another
  draw and counted, never averaged over fewer classes;
- `quadratic_kappa` is of classes that are grades, with their numbers in `classes` for grades: 1 less the mean square of
  how many grades the answers are off, as a share of what it is for answers that have nothing to do with the truth. No
  usable answer is the grade that is farthest off;
- what is undefined is NaN inside this module and absent (None, or no key) outside it.
"""

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from services.scorer import names
from services.scorer.patients import Floats, Interval, Ints, over_patients, permuted

METRICS = names.METRICS["diagnosis"]


@dataclass(frozen=True)
class Cases:
    """A scored test set; all arrays have one entry a case, in the same order."""

    truth: Ints
    """Class numbers."""
    scores: Floats
    """(cases, classes), finite."""
    predicted: Ints
    """Class numbers; -1 where there was no usable answer, which is wrong whatever the truth."""
    patients: Ints
    """Patient numbers 0..P-1, each of which occurs."""
    classes: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.truth)


def value(metric: str, cases: Cases) -> float | None:
    """The metric on the cases as they are; None when it is undefined for them."""
    if not len(cases):
        return None
    found = float(draw_values(metric, cases, cases.truth, np.ones((1, len(cases))))[0])
    return found if np.isfinite(found) else None


def draw_values(metric: str, cases: Cases, truth: Ints, weights: Floats) -> Floats:
    """One value a draw, NaN where undefined. `truth` is (n,) or (draws, n), `weights` (draws, n) or (1, n)."""
    present = np.unique(cases.truth)
    if metric == "auc_macro":
        if len(cases.classes) == 2:
            return auc(cases.scores[:, 1], weights * (truth == 1), weights * (truth != 1))
        each = [auc(cases.scores[:, c], weights * (truth == c), weights * (truth != c)) for c in present]
        return np.asarray(np.mean(each, axis=0))
    if metric == "accuracy":
        return np.asarray((weights * (truth == cases.predicted)).sum(axis=1) / weights.sum(axis=1))
    if metric == names.KAPPA:
        return _kappa(truth, cases.predicted, len(cases.classes), weights)
    if metric not in METRICS:
        raise ValueError(f"no metric is called {metric!r}; there are {', '.join(METRICS)}")
    each = []
    for c in present:
        hits = (weights * ((truth == c) & (cases.predicted == c))).sum(axis=1)
        actual = (weights * (truth == c)).sum(axis=1)
        if metric == "balanced_accuracy":
            each.append(ratio(hits, actual))
        else:
            answered = (weights * (cases.predicted == c)).sum(axis=1)
            each.append(np.where(actual > 0, ratio(2 * hits, actual + answered), np.nan))
    return np.asarray(np.mean(each, axis=0))


def _kappa(truth: Ints, predicted: Ints, grades: int, weights: Floats) -> Floats:
    """Quadratic weighted kappa (J. Cohen, Psychological Bulletin 70, 1968)."""
    farthest = np.where(2 * truth < grades - 1, grades - 1, 0)
    said = np.where(predicted < 0, farthest, predicted)

    def mean(of: Ints) -> Floats:
        return np.asarray((weights * of).sum(axis=-1) / weights.sum(axis=-1))

    by_chance = mean(truth**2) + mean(said**2) - 2 * mean(truth) * mean(said)
    return 1 - ratio(mean((truth - said) ** 2), by_chance)


def per_class(cases: Cases) -> dict[str, dict[str, float]]:
    """Class -> n, auc, sensitivity, specificity, precision; what is undefined has no key."""
    table = {}
    for number, name in enumerate(cases.classes):
        actual, answered = cases.truth == number, cases.predicted == number
        found = auc(cases.scores[:, number], actual[None, :].astype(float), (~actual)[None, :].astype(float))
        figures = {
            "auc": float(found[0]),
            "sensitivity": float(ratio(np.sum(actual & answered), np.sum(actual))),
            "specificity": float(ratio(np.sum(~actual & ~answered), np.sum(~actual))),
            "precision": float(ratio(np.sum(actual & answered), np.sum(answered))),
        }
        table[name] = {"n": float(actual.sum())} | {k: v for k, v in figures.items() if np.isfinite(v)}
    return table


def by_patient(cases: Cases) -> Cases | None:
    """Patients for cases, with the mean of their cases' probabilities. None where no patient has several cases, or
    those of one have different classes."""
    first = np.unique(cases.patients, return_index=True)[1]
    if len(first) == len(cases) or (cases.truth != cases.truth[first][cases.patients]).any():
        return None
    sums = np.zeros((len(first), len(cases.classes)))
    np.add.at(sums, cases.patients, cases.scores)
    scores = sums / np.bincount(cases.patients)[:, None]
    return Cases(cases.truth[first], scores, scores.argmax(axis=1), np.arange(len(first)), cases.classes)


def bootstrap(cases: Cases, metric: str, draws: int = 1000, seed: int = 0) -> Interval | None:
    """95 % interval over patients; None when the metric is undefined, or for fewer than a twentieth of the draws."""
    whole = metric in ("accuracy", names.KAPPA)
    each = [] if whole else [np.flatnonzero(cases.truth == c) for c in np.unique(cases.truth)]
    low = names.LOWEST.get(metric, 0.0)  # a scale from -1 to 1 is seen as one from 0 to 1, and back

    found = over_patients(
        cases.patients,
        lambda weights: (draw_values(metric, cases, cases.truth, weights) - low) / (1 - low),
        draws,
        seed,
        classes=each,
    )
    return found and replace(found, low=low + (1 - low) * found.low, high=low + (1 - low) * found.high)


def permute(cases: Cases, metric: str, draws: int = 1000, seed: int = 0) -> Floats:
    """The metric after the answers were dealt out to other patients at random; draws without a value are left out.

    A patient takes over another's cases in order, from the first again where it has more, so that answers stay
    clustered as they were. Exact where all patients have equally many cases.
    """
    ones = np.ones((1, len(cases)))
    return permuted(cases.patients, lambda taken: draw_values(metric, cases, cases.truth[taken], ones), draws, seed)


def auc(scores: Floats, positive: Floats, negative: Floats) -> Floats:
    """Share of (positive, negative) pairs in the right order, ties counting half; weights are (draws, n)."""
    order = np.argsort(scores, kind="stable")
    ranked = scores[order]
    first, last = np.searchsorted(ranked, ranked, "left"), np.searchsorted(ranked, ranked, "right")
    below = np.zeros((len(negative), len(scores) + 1))
    np.cumsum(negative[:, order], axis=1, out=below[:, 1:])
    wins = (positive[:, order] * (below[:, first] + below[:, last])).sum(axis=1) / 2
    return ratio(wins, positive.sum(axis=1) * negative.sum(axis=1))


def average_precision(scores: Floats, positive: Floats, negative: Floats) -> Floats:
    """Mean over the positive cases of the precision at their score, ties taken together; weights are (draws, n)."""
    order = np.argsort(-scores, kind="stable")
    ranked = -scores[order]
    # With a score all that share it are reached at once.
    last = np.searchsorted(ranked, ranked, "right") - 1
    held, lacked = positive[:, order], negative[:, order]
    hits, alarms = held.cumsum(axis=1)[:, last], lacked.cumsum(axis=1)[:, last]
    precision = np.nan_to_num(ratio(hits, hits + alarms))
    return ratio((held * precision).sum(axis=1), positive.sum(axis=1))


def ratio(part: npt.ArrayLike, whole: npt.ArrayLike) -> Floats:
    part, whole = np.asarray(part, dtype=float), np.asarray(whole, dtype=float)
    shares: Floats = np.full(np.broadcast(part, whole).shape, np.nan)
    np.divide(part, whole, out=shares, where=whole > 0)
    return shares
