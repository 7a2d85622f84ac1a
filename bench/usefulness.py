"""How often the scorer calls a model useful whose worth is known: answers by chance, and answers of a known AUC.

    python -m bench.usefulness [TEST_SETS]

A test set has one case a patient and equally many of each class; the score of the right class is a normal deviate moved
by `shift`, so that two classes have an AUC of 0.50, 0.84 and 0.96. Exit code 1 when answers by chance are useful more
often than the 2.5 % that the lower end of a 95 % interval leaves, by more than chance moves such a share.
"""

import sys

import numpy as np

from services.scorer.classes.controls import controls
from services.scorer.classes.metrics import Cases, bootstrap, value
from services.scorer.levels import decide
from shared.contracts.scoring import Metric

DRAWS = 400
BAR = 0.025
SHIFTS = (0.0, 1.0, 1.75)


def main() -> int:
    sets = int(sys.argv[1]) if len(sys.argv) > 1 else 500
    print(f"{'metric':20}{'classes':>8}{'patients':>9}" + "".join(f"{f'shift {shift:g}':>12}" for shift in SHIFTS))
    missed, chance = 0, 2 * np.sqrt(BAR * (1 - BAR) / sets)
    for metric in ("auc_macro", "balanced_accuracy"):
        for classes in (2, 3):
            for patients in (12, 20, 40):
                rng = np.random.default_rng(1)
                shares = [
                    np.mean([_useful(rng, metric, classes, patients, shift) for _ in range(sets)]) for shift in SHIFTS
                ]
                print(f"{metric:20}{classes:8}{patients:9}" + "".join(f"{share:12.1%}" for share in shares), flush=True)
                missed += shares[0] > BAR + chance
    print(f"{missed} kinds of answers by chance are useful more often than {BAR:.1%}")
    return 1 if missed else 0


def _useful(rng: np.random.Generator, metric: str, classes: int, patients: int, shift: float) -> bool:
    truth = rng.permutation(np.arange(patients) % classes)
    scores = rng.normal(size=(patients, classes))
    scores[np.arange(patients), truth] += shift
    odds = np.exp(scores)
    names = tuple("abc"[:classes])
    cases = Cases(truth, odds / odds.sum(axis=1, keepdims=True), scores.argmax(axis=1), np.arange(patients), names)
    seed = int(rng.integers(2**31))
    against, p = controls(cases, {"a": 1}, metric, DRAWS, seed)
    figure, bounds = value(metric, cases), bootstrap(cases, metric, DRAWS, seed)
    if figure is None or bounds is None:
        return False
    headline = Metric(name=metric, value=figure, low=bounds.low, high=bounds.high, n=patients, patients=patients)
    return decide((), headline, (), against, None, p).level == "useful"


if __name__ == "__main__":
    sys.exit(main())
