"""Calibration, the controls at work, and whether intervals hold what they promise. All of it pure."""

import json

import numpy as np
import pytest
from case_tables import sealed_of
from sklearn.metrics import roc_auc_score

from bench.coverage import covered, kinds
from services.scorer.classes import calibration
from services.scorer.classes.diagnosis import BY_PATIENT, measure
from services.scorer.classes.metrics import Cases
from services.scorer.findings import Asked, Findings
from services.scorer.levels import Verdict, decide
from services.scorer.patients import over_patients
from shared.contracts.data import IndexRow

LABELS = ("well", "ill")


def scored(probabilities: np.ndarray, truth: np.ndarray, patients: np.ndarray, metric: str = "auc_macro") -> Findings:
    """What the scoring of a diagnosis finds for the probabilities of "ill"."""
    rows = [
        IndexRow(
            sample_id=f"s{n}", patient=f"p{patients[n]}", label=LABELS[truth[n]], files=(f"{n}.png",), split="test"
        )
        for n in range(len(truth))
    ]
    rows += [
        IndexRow(sample_id=f"t{n}", patient=f"q{n}", label=LABELS[n % 2], files=("t",), split="train") for n in range(9)
    ]
    cases = {f"s{n}": {"probabilities": {"well": 1 - p, "ill": p}} for n, p in enumerate(probabilities.tolist())}
    answers = json.dumps({"cases": cases}).encode()
    return measure(Asked(sealed_of(rows, names=LABELS), metric, answers, store=None))  # type: ignore[arg-type]


def verdict(found: Findings, metric: str) -> Verdict:
    headline = next(one for one in found.figures if one.name == metric)
    return decide(found.gates, headline, found.figures, found.controls, None, found.permutation_p)


PATIENTS = np.repeat(np.arange(60), 2)
TRUTH = np.repeat(np.arange(60) % 3 == 0, 2).astype(int)
GOOD = np.clip(0.5 + 0.3 * (2 * TRUTH - 1) + np.random.default_rng(2).normal(0, 0.15, 120), 0.01, 0.99)


@pytest.mark.parametrize("metric", ["auc_macro", "balanced_accuracy", "accuracy"])
def test_controls_catch_what_learned_nothing_and_say_which_did(metric: str) -> None:
    rng = np.random.default_rng(7)
    nothing = {
        "ignores its input": np.repeat(rng.uniform(0, 1, 60), 2),
        "predicts a constant": np.full(120, 0.3),
        "shuffled answers": GOOD.reshape(60, 2)[rng.permutation(60)].reshape(-1),
    }
    assert verdict(scored(GOOD, TRUTH, PATIENTS, metric), metric).level == "useful"
    for name, probabilities in nothing.items():
        found = scored(probabilities, TRUTH, PATIENTS, metric)
        judged = verdict(found, metric)
        assert judged.level == "valid", name
        strongest = max(found.controls, key=lambda control: control.value)
        assert f"not above the {strongest.name} control" in judged.why[0]
        assert found.permutation_p is not None and found.permutation_p > 0.05, name
    constant = scored(nothing["predicts a constant"], TRUTH, PATIENTS, metric)
    assert constant.permutation_p == 1.0


def test_beside_the_samples_stand_the_patients_where_theirs_agree() -> None:
    found = {one.name: one for one in scored(GOOD, TRUTH, PATIENTS).figures}[BY_PATIENT]
    means = GOOD.reshape(60, 2).mean(axis=1)
    assert found.value == pytest.approx(roc_auc_score(TRUTH[::2], means))
    assert (found.n, found.patients) == (60, 60) and found.low <= found.value <= found.high
    differing = TRUTH.copy()
    differing[0] = 1 - differing[0]
    for truth, patients in ((differing, PATIENTS), (TRUTH, np.arange(120))):
        assert BY_PATIENT not in {one.name for one in scored(GOOD, truth, patients).figures}


def test_the_same_predictions_scored_twice_give_the_same_numbers() -> None:
    assert scored(GOOD, TRUTH, PATIENTS) == scored(GOOD, TRUTH, PATIENTS)


@pytest.mark.parametrize("name", ["AUC 0.92, 2 classes", "Dice 0.80"])
def test_the_interval_covers_the_true_value_with_twenty_patients(name: str) -> None:
    """Of 500 test sets; percentiles of the draws would cover 87 and 92 %."""
    kind = next(one for one in kinds() if one.name == name)
    assert 0.93 <= covered(kind, patients=20, sets=500)[0] <= 0.97


@pytest.mark.parametrize("top", [1.0, 2.0, np.inf])
def test_an_interval_keeps_to_the_scale_of_its_figure(top: float) -> None:
    each = np.linspace(0.3, 0.9, 8) * min(top, 40)

    def mean(weights: np.ndarray) -> np.ndarray:
        return (weights @ each) / weights.sum(axis=1)

    found = over_patients(np.arange(8), mean, top=top)
    assert found is not None and 0 < found.low < each.mean() < found.high < top
    # On the scale of odds, or of logarithms without a top, it reaches equally far to both sides.
    odds = [end / (1 - end / top) for end in (found.low, each.mean(), found.high)]
    assert odds[0] * odds[2] == pytest.approx(odds[1] ** 2)
    assert found.high - found.low > 2 * 1.96 * each.std() / np.sqrt(8)


def test_a_figure_at_the_end_of_a_scale_without_a_top_has_a_point_for_an_interval() -> None:
    found = over_patients(np.arange(5), lambda weights: np.zeros(len(weights)), top=np.inf)
    assert found is not None and (found.low, found.high) == (0, 0)


def cases_of(probabilities: list[float], truth: list[int]) -> Cases:
    p = np.array(probabilities)
    scores = np.stack([1 - p, p], axis=1)
    return Cases(np.array(truth), scores, scores.argmax(axis=1), np.arange(len(p)), LABELS)


def test_calibration_by_hand() -> None:
    # Largest probabilities 0.9 (right), 0.85 (wrong), 0.7 (right), 0.6 (wrong).
    cases = cases_of([0.9, 0.85, 0.3, 0.6], [1, 0, 0, 0])
    ones = np.ones((1, 4))
    # (0.8, 0.9]: one of two right at 0.875; (0.6, 0.7]: right at 0.7; (0.5, 0.6]: wrong at 0.6.
    assert calibration.draw_values("ece", cases, ones)[0] == pytest.approx((2 * 0.375 + 0.3 + 0.6) / 4)
    assert [one["up_to"] for one in calibration.bins(cases)] == [0.6, 0.7, 0.9]
    brier = 2 * (0.1**2 + 0.85**2 + 0.3**2 + 0.6**2) / 4
    assert calibration.draw_values("brier", cases, ones)[0] == pytest.approx(brier)
    twice = calibration.draw_values("ece", cases, np.array([[2.0, 0, 1, 1]]))
    assert twice[0] == pytest.approx((2 * 0.1 + 0.3 + 0.6) / 4)


def test_calibration_at_its_ends_and_of_a_model_that_says_what_it_knows() -> None:
    assert calibration.draw_values("ece", cases_of([1, 0, 1], [1, 0, 1]), np.ones((1, 3)))[0] == 0
    assert calibration.draw_values("brier", cases_of([1, 0], [0, 1]), np.ones((1, 2)))[0] == 2
    rng = np.random.default_rng(0)
    p = rng.uniform(0, 1, 20000)
    truth = (rng.uniform(0, 1, 20000) < p).astype(int)
    honest, boastful = cases_of(list(p), list(truth)), cases_of(list((p > 0.5) * 0.98 + 0.01), list(truth))
    ones = np.ones((1, 20000))
    assert calibration.draw_values("ece", honest, ones)[0] < 0.02
    assert calibration.draw_values("ece", boastful, ones)[0] == pytest.approx(0.99 - 0.75, abs=0.02)


def test_calibration_is_reported_with_its_interval_and_bins() -> None:
    found = scored(GOOD, TRUTH, PATIENTS)
    figures = {one.name: one for one in found.figures}
    for name in calibration.NAMES:
        assert 0 < figures[name].low < figures[name].value < figures[name].high < 1
    assert sum(one["n"] for one in found.details["calibration"]) == 120  # type: ignore[index,union-attr]
