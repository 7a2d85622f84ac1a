"""Diagnosis metrics over samples, and their intervals by bootstrap over patients.

Every metric is computed for many draws at once: a draw is a row of case weights (how often a case was drawn), the plain
value is the draw in which all weights are 1. Rules for classes without cases:

- averages go over the classes that the truth of the whole test set holds; a class it lacks has no part in them, but
  answering with it still costs the class it was taken from;
- with two classes in the label map `auc_macro` is the AUC of the second one's score, as is usual; with more it is the
  mean of one class against the rest;
- a draw that lost one of these classes has no `auc_macro`, `balanced_accuracy` or `f1_macro`: it is replaced by another
  draw and counted, never averaged over fewer classes;
- what is undefined is NaN inside this module and absent (None, or no key) outside it.

One kind of interval for every metric of every task (`over_patients`): the t-interval with the bootstrap's standard
error (T. C. Hesterberg, What teachers should know about the bootstrap, American Statistician 69, 2015), on the logit
scale as is advised for the AUC (G. Qin and L. Hotilovac, Statistical Methods in Medical Research 17, 2008), on the log
scale for what has no upper end. `python -m bench.coverage` measures what it covers. What stays weak:

- where all draws agree - every answer right, for one - the interval is a point, however few the patients. Below some 20
  patients that happens often to good models; only the controls then hold the level down;
- it stands on the patients that there are: a class with four of them is seen through those four.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from services.scorer import names

Floats: TypeAlias = npt.NDArray[np.float64]
Ints: TypeAlias = npt.NDArray[np.int64]

METRICS = names.METRICS["diagnosis"]
METHOD = "t-interval on the logit scale, standard error by bootstrap over patients"
_CELLS = 2_000_000
"""Draws times cases held at once, so that memory stays flat."""


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

    @property
    def patient_count(self) -> int:
        return int(self.patients.max()) + 1 if len(self) else 0


@dataclass(frozen=True)
class Interval:
    """`draws` were used, `dropped` had no value and were drawn again."""

    low: float
    high: float
    draws: int
    dropped: int


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
            return _auc(cases.scores[:, 1], weights * (truth == 1), weights * (truth != 1))
        each = [_auc(cases.scores[:, c], weights * (truth == c), weights * (truth != c)) for c in present]
        return np.asarray(np.mean(each, axis=0))
    if metric == "accuracy":
        return np.asarray((weights * (truth == cases.predicted)).sum(axis=1) / weights.sum(axis=1))
    if metric not in METRICS:
        raise ValueError(f"no metric is called {metric!r}; there are {', '.join(METRICS)}")
    each = []
    for c in present:
        hits = (weights * ((truth == c) & (cases.predicted == c))).sum(axis=1)
        actual = (weights * (truth == c)).sum(axis=1)
        if metric == "balanced_accuracy":
            each.append(_ratio(hits, actual))
        else:
            answered = (weights * (cases.predicted == c)).sum(axis=1)
            each.append(np.where(actual > 0, _ratio(2 * hits, actual + answered), np.nan))
    return np.asarray(np.mean(each, axis=0))


def per_class(cases: Cases) -> dict[str, dict[str, float]]:
    """Class -> n, auc, sensitivity, specificity, precision; what is undefined has no key."""
    table = {}
    for number, name in enumerate(cases.classes):
        actual, answered = cases.truth == number, cases.predicted == number
        auc = _auc(cases.scores[:, number], actual[None, :].astype(float), (~actual)[None, :].astype(float))
        figures = {
            "auc": float(auc[0]),
            "sensitivity": float(_ratio(np.sum(actual & answered), np.sum(actual))),
            "specificity": float(_ratio(np.sum(~actual & ~answered), np.sum(~actual))),
            "precision": float(_ratio(np.sum(actual & answered), np.sum(answered))),
        }
        table[name] = {"n": float(actual.sum())} | {k: v for k, v in figures.items() if np.isfinite(v)}
    return table


def bootstrap(cases: Cases, metric: str, draws: int = 1000, seed: int = 0) -> Interval | None:
    """95 % interval over patients; None when the metric is undefined, or for fewer than a twentieth of the draws."""
    return over_patients(cases.patients, lambda weights: draw_values(metric, cases, cases.truth, weights), draws, seed)


def over_patients(
    patients: Ints, values: Callable[[Floats], Floats], draws: int = 1000, seed: int = 0, top: float = 1.0
) -> Interval | None:
    """95 % interval of anything that `values` computes from case weights: (draws, cases) -> (draws,), from 0 to `top`.

    Patients are drawn with replacement, and all cases of a drawn patient come along. None without a value, or with one
    in fewer than a twentieth of the draws.
    """
    observed = float(values(np.ones((1, len(patients))))[0])
    if not np.isfinite(observed):
        return None
    count = int(patients.max()) + 1
    rng = np.random.default_rng(seed)
    kept: list[Floats] = []
    found = tried = 0
    while found < draws and tried < 20 * draws:
        size = max(1, min(draws, _CELLS // len(patients)))
        counts = rng.multinomial(count, np.full(count, 1 / count), size=size)
        drawn = values(counts[:, patients].astype(float))
        kept.append(drawn[np.isfinite(drawn)])
        found += len(kept[-1])
        tried += size
    if found < draws:
        return None
    low, high = _ends(observed, np.concatenate(kept)[:draws], count, top)
    return Interval(low=low, high=high, draws=draws, dropped=tried - found)


def _ends(observed: float, figures: Floats, count: int, top: float) -> tuple[float, float]:
    from scipy.special import stdtrit

    if not 0 < observed < top:  # at an end of the scale, where the logit has no value
        low, high = np.percentile(figures, (2.5, 97.5))
        return min(float(low), observed), max(float(high), observed)
    left = 1 - observed / top
    reach = float(stdtrit(max(count - 1, 1), 0.975)) * float(figures.std(ddof=1)) / (observed * left)
    # From the odds x / (1 - x / top), which without a top are x itself; no end is beyond what a float holds.
    odds = observed / left * np.exp(np.clip([-reach, reach], -300, 300))
    low, high = 1 / (1 / odds + 1 / top)
    return float(low), float(high)


def permute(cases: Cases, metric: str, draws: int = 1000, seed: int = 0) -> Floats:
    """The metric after the answers were dealt out to other patients at random; draws without a value are left out.

    A patient takes over another's cases in order, from the first again where it has more, so that answers stay
    clustered as they were. Exact where all patients have equally many cases.
    """
    rng = np.random.default_rng(seed)
    patients = cases.patient_count
    ones = np.ones((1, len(cases)))
    kept = []
    done = 0
    while done < draws:
        size = max(1, min(draws - done, _CELLS // len(cases)))
        orders = rng.permuted(np.tile(np.arange(patients), (size, 1)), axis=1)
        drawn = draw_values(metric, cases, cases.truth[dealt(cases.patients, orders)], ones)
        kept.append(drawn[np.isfinite(drawn)])
        done += size
    return np.concatenate(kept)


def dealt(patients: Ints, orders: Ints) -> Ints:
    """Whose answer each case takes over when patient p takes over those of `orders[:, p]`: (draws, cases).

    In order, from the other patient's first case again where p has more.
    """
    by_patient = np.argsort(patients, kind="stable")
    sizes = np.bincount(patients)
    starts = np.cumsum(sizes) - sizes
    place = np.empty(len(patients), dtype=np.int64)
    place[by_patient] = np.arange(len(patients)) - np.repeat(starts, sizes)
    taken = orders[:, patients]
    return np.asarray(by_patient[starts[taken] + place % sizes[taken]])


def _auc(scores: Floats, positive: Floats, negative: Floats) -> Floats:
    """Share of (positive, negative) pairs in the right order, ties counting half; weights are (draws, n)."""
    order = np.argsort(scores, kind="stable")
    ranked = scores[order]
    first, last = np.searchsorted(ranked, ranked, "left"), np.searchsorted(ranked, ranked, "right")
    below = np.zeros((len(negative), len(scores) + 1))
    np.cumsum(negative[:, order], axis=1, out=below[:, 1:])
    wins = (positive[:, order] * (below[:, first] + below[:, last])).sum(axis=1) / 2
    return _ratio(wins, positive.sum(axis=1) * negative.sum(axis=1))


def _ratio(part: npt.ArrayLike, whole: npt.ArrayLike) -> Floats:
    part, whole = np.asarray(part, dtype=float), np.asarray(whole, dtype=float)
    shares: Floats = np.full(np.broadcast(part, whole).shape, np.nan)
    np.divide(part, whole, out=shares, where=whole > 0)
    return shares
