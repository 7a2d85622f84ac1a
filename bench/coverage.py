"""What the scorer's 95 % intervals cover where the true value is known: 500 test sets of each kind, drawn and scored.

Patients have two scans that share half of their deviation. Exit code 1 when the interval of any kind covers the truth
in less than 93 % or more than 97 % of its test sets, by more than chance moves such a share. Two minutes or so.

    python -m bench.coverage [TEST_SETS]

`above` and `below` are the shares in which the truth lay above and below the interval, `width` is its mean width,
`all right` how often no answer was wrong. Of the kinds marked *, at the end of the scale, only the 93 % are judged: few
patients give few different scores, so the share moves in steps.
"""

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from scipy.stats import norm

from services.scorer.classes import labels
from services.scorer.classes.metrics import Cases, bootstrap
from services.scorer.patients import Floats, Interval, over_patients

BAR = (0.93, 0.97)
DRAWS = 400
"""Resamples of a test set: enough for a standard error, and a tenth of the scorer's time."""
SIZES = (20, 50, 200)


@dataclass(frozen=True)
class Kind:
    name: str
    truth: float
    score: Callable[[np.random.Generator, int, int], Interval | None]
    """Draws a test set of so many patients and scores it with a seed."""
    end: bool = False
    """Whether it is so near the end of the scale that often every answer is right."""


def main() -> int:
    sets = int(sys.argv[1]) if len(sys.argv) > 1 else 500
    print(f"{'':24}{'patients':>9}{'covered':>9}{'above':>8}{'below':>8}{'width':>8}{'all right':>11}{'seconds':>9}")
    missed = 0
    for kind in kinds():
        for patients in SIZES:
            began = time.perf_counter()
            found = covered(kind, patients, sets)
            print(
                f"{kind.name + (' *' if kind.end else ''):24}{patients:9d}{found[0]:9.1%}"
                f"{found[1]:8.1%}{found[2]:8.1%}{found[3]:8.3f}{found[4]:11.1%}{time.perf_counter() - began:9.1f}"
            )
            chance = 2 * np.sqrt(0.95 * 0.05 / sets)
            missed += not BAR[0] - chance <= found[0] <= (1 if kind.end else BAR[1] + chance)
    print(f"{missed} outside of {BAR[0]:.0%} to {BAR[1]:.0%} by more than chance")
    return 1 if missed else 0


def kinds() -> tuple[Kind, ...]:
    def auc(apart: float, classes: int) -> Kind:
        value = float(norm.cdf(apart / np.sqrt(2)))
        return Kind(f"AUC {value:.2f}, {classes} classes", value, _diagnosis("auc_macro", apart, classes))

    far = auc(2.9, 2)
    sure = Kind("accuracy 0.97", 0.97, _accuracy)
    return (
        auc(1.0, 2),
        auc(2.0, 2),
        auc(1.0, 3),
        auc(2.0, 3),
        Kind("AUC 0.76, 4 labels", float(norm.cdf(1.0 / np.sqrt(2))), _labels(1.0)),
        Kind("AUC 0.92, 4 labels", float(norm.cdf(2.0 / np.sqrt(2))), _labels(2.0)),
        Kind("balanced accuracy 0.69", float(norm.cdf(0.5)), _diagnosis("balanced_accuracy", 1.0, 2)),
        Kind("balanced accuracy 0.89", float(norm.cdf(1.25)), _diagnosis("balanced_accuracy", 2.5, 2)),
        Kind("Dice 0.80", 0.8, _dice),
        *(replace(kind, end=True) for kind in (far, sure)),
    )


def covered(kind: Kind, patients: int, sets: int, seed: int = 0) -> tuple[float, float, float, float, float]:
    """Shares of the test sets with the truth inside, above and below; mean width; share that ends at 1."""
    rng = np.random.default_rng((seed, patients))
    ends = []
    for number in range(sets):
        found = kind.score(rng, patients, number)
        assert found is not None
        ends.append((found.low, found.high))
    low, high = np.array(ends).T
    # The last digits of a sum are no miss.
    above, below = float(np.mean(kind.truth > high + 1e-9)), float(np.mean(kind.truth < low - 1e-9))
    return 1 - above - below, above, below, float(np.mean(high - low)), float(np.mean(high == 1))


def cases(rng: np.random.Generator, patients: int, apart: float, classes: int) -> Cases:
    """Two scans a patient; normal scores, that of the true class `apart` higher, so each AUC is Phi(apart / sqrt 2)."""
    truth = np.repeat(np.arange(patients) % classes, 2)
    of_patient = np.repeat(rng.normal(0, np.sqrt(0.5), (patients, classes)), 2, axis=0)
    scores = of_patient + rng.normal(0, np.sqrt(0.5), of_patient.shape)
    scores[np.arange(len(truth)), truth] += apart
    # Of two classes the second alone is scored; the bar in the middle makes both errors alike.
    predicted = scores.argmax(axis=1) if classes > 2 else (scores[:, 1] > apart / 2).astype(np.int64)
    return Cases(truth, scores, predicted, np.repeat(np.arange(patients), 2), tuple("abc"[:classes]))


def _diagnosis(metric: str, apart: float, classes: int) -> Callable[[np.random.Generator, int, int], Interval | None]:
    return lambda rng, patients, seed: bootstrap(cases(rng, patients, apart, classes), metric, DRAWS, seed)


def _accuracy(rng: np.random.Generator, patients: int, seed: int) -> Interval | None:
    """One scan a patient, right with a chance of 0.97."""
    right = rng.random(patients) < 0.97
    found = Cases(
        np.zeros(patients, np.int64),
        np.zeros((patients, 2)),
        (~right).astype(np.int64),
        np.arange(patients),
        ("a", "b"),
    )
    return bootstrap(found, "accuracy", DRAWS, seed)


def _labels(apart: float) -> Callable[[np.random.Generator, int, int], Interval | None]:
    """Two scans a patient; of a half, a third, a fourth and a fifth of the patients a label holds, whatever the others
    do, and its score is `apart` higher then. The labels of a scan share a part of their deviation."""

    def score(rng: np.random.Generator, patients: int, seed: int) -> Interval | None:
        held = np.stack([rng.permutation(patients) < round(patients / of) for of in (2, 3, 4, 5)], axis=1)
        truth = np.repeat(held, 2, axis=0)
        shared = np.repeat(rng.normal(0, np.sqrt(0.2), (patients, 1)), 2, axis=0)
        own = np.repeat(rng.normal(0, np.sqrt(0.3), (patients, 4)), 2, axis=0)
        scores = shared + own + rng.normal(0, np.sqrt(0.5), truth.shape) + apart * truth
        numbers = np.repeat(np.arange(patients), 2)
        found = labels.LabelCases(truth, scores, np.ones(len(truth), dtype=np.bool_), numbers, tuple("abcd"))
        return labels.bootstrap(found, "auc_macro", DRAWS, seed)

    return score


def _dice(rng: np.random.Generator, patients: int, seed: int) -> Interval | None:
    """One scan a patient; Dice from a skewed distribution with the mean 0.8."""
    scores: Floats = rng.beta(8, 2, patients)

    def mean(weights: Floats) -> Floats:
        return np.asarray((weights @ scores) / weights.sum(axis=1))

    return over_patients(np.arange(patients), mean, DRAWS, seed)


if __name__ == "__main__":
    sys.exit(main())
