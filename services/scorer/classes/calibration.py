"""How far probabilities can be taken at their word.

- Brier score: mean over cases of the squared differences between the probabilities and the truth (1 for the class that
  it is, 0 for the others), summed over the classes: 0 is perfect, 2 the worst. With two classes it is twice the figure
  that counts one class only.
- Expected calibration error (ECE): cases in ten bins of equal width by their largest probability, (0, 0.1] to (0.9, 1];
  the mean over the bins, weighed by their cases, of how far the share of right answers is from the mean probability.
  Its interval lies high where there are few cases: chance alone parts the two.

Where several labels may hold each one is a question of its own: the Brier score is the mean over cases and labels of
the squared difference (0 to 1), and the ECE bins all probabilities of all labels and holds them against the share that
is true.

Lower is better for both. A case without a usable answer counts with equal probabilities, and as wrong.
"""

import numpy as np
import numpy.typing as npt

from services.scorer.classes.labels import LabelCases
from services.scorer.classes.metrics import Cases
from services.scorer.patients import Floats, Ints

BINS = 10
NAMES = ("brier", "ece")
TOP = {"brier": 2.0, "ece": 1.0}
"""The worst that each can be."""


def draw_values(name: str, cases: Cases, weights: Floats) -> Floats:
    """(draws,) from case weights (draws, n)."""
    if name == "brier":
        truth = np.eye(len(cases.classes))[cases.truth]
        each = ((cases.scores - truth) ** 2).sum(axis=1)
        return np.asarray((weights * each).sum(axis=1) / weights.sum(axis=1))
    off = (cases.predicted == cases.truth) - cases.scores.max(axis=1)
    members = np.eye(BINS)[_places(cases.scores.max(axis=1))]
    return np.asarray(np.abs((weights * off) @ members).sum(axis=1) / weights.sum(axis=1))


def label_draw_values(name: str, cases: LabelCases, weights: Floats) -> Floats:
    """The same where several labels may hold; at most 1."""
    off = cases.truth - cases.scores
    if name == "brier":
        return np.asarray((weights * (off**2).mean(axis=1)).sum(axis=1) / weights.sum(axis=1))
    places = _places(cases.scores)
    sums = np.stack([np.where(places == place, off, 0.0).sum(axis=1) for place in range(BINS)], axis=1)
    return np.asarray(np.abs(weights @ sums).sum(axis=1) / (weights.sum(axis=1) * len(cases.labels)))


def label_bins(cases: LabelCases) -> list[dict[str, float]]:
    """As `bins`, over all labels of all cases: n counts answers, `right` is the share of labels that hold."""
    return _table(cases.scores.reshape(-1), cases.truth.reshape(-1))


def bins(cases: Cases) -> list[dict[str, float]]:
    """The bins that hold cases: upper edge, cases, mean probability, share of right answers."""
    return _table(cases.scores.max(axis=1), cases.predicted == cases.truth)


def _table(sure: Floats, right: npt.NDArray[np.bool_]) -> list[dict[str, float]]:
    places = _places(sure)
    return [
        {
            "up_to": (place + 1) / BINS,
            "n": float((places == place).sum()),
            "probability": float(sure[places == place].mean()),
            "right": float(right[places == place].mean()),
        }
        for place in np.unique(places)
    ]


def _places(sure: Floats) -> Ints:
    # A probability that a rounding error put a hair above an edge belongs below it.
    return np.asarray(np.clip(np.ceil(sure * BINS - 1e-6) - 1, 0, BINS - 1), dtype=np.int64)
