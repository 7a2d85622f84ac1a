"""Figures where several labels may hold, against scikit-learn on random draws; what learned nothing scores nothing."""

import numpy as np
import pytest
from sklearn.metrics import (
    average_precision_score,
    balanced_accuracy_score,
    brier_score_loss,
    f1_score,
    recall_score,
    roc_auc_score,
)

from services.scorer.classes import calibration, labels
from services.scorer.classes.controls import label_controls
from services.scorer.classes.labels import (
    METRICS,
    PRECISION,
    LabelCases,
    bootstrap,
    draw_values,
    per_label,
    permute,
    value,
)
from services.scorer.classes.metrics import Cases
from services.scorer.classes.metrics import by_patient as single_by_patient

NAMES = ("effusion", "mass", "nodule", "hernia")


def random_cases(seed: int, n: int = 60, rare: bool = False, ties: bool = False) -> LabelCases:
    """Labels of which one may hold of nobody (`rare`), and probabilities that know something of the others."""
    rng = np.random.default_rng(seed)
    truth = rng.random((n, 4)) < (0.5, 0.3, 0.15, 0.0 if rare else 0.4)
    truth[:2] = [[True] * 3 + [not rare], [False] * 4]
    scores = np.clip(rng.random((n, 4)) * 0.8 + 0.2 * truth, 0, 1)
    if ties:
        scores = np.round(scores, 1)
    _, patients = np.unique(rng.integers(0, n // 2, n), return_inverse=True)
    return LabelCases(truth, scores, np.ones(n, dtype=bool), patients, NAMES)


def reference(metric: str, cases: LabelCases) -> float:
    said = cases.scores >= 0.5
    if metric == "accuracy":
        return float(np.mean([list(a) == list(b) for a, b in zip(cases.truth, said, strict=True)]))
    of_label = {
        "auc_macro": lambda k: roc_auc_score(cases.truth[:, k], cases.scores[:, k]),
        PRECISION: lambda k: average_precision_score(cases.truth[:, k], cases.scores[:, k]),
        "f1_macro": lambda k: f1_score(cases.truth[:, k], said[:, k], zero_division=0),
        "balanced_accuracy": lambda k: balanced_accuracy_score(cases.truth[:, k], said[:, k]),
    }[metric]
    return float(np.mean([of_label(k) for k in range(4) if 0 < cases.truth[:, k].sum() < len(cases)]))


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize(("rare", "ties"), [(False, False), (True, False), (False, True)])
def test_values_equal_scikit_learn(metric: str, rare: bool, ties: bool) -> None:
    for seed in range(10):
        cases = random_cases(seed, rare=rare, ties=ties)
        assert value(metric, cases) == pytest.approx(reference(metric, cases), abs=1e-12)


@pytest.mark.parametrize("metric", METRICS)
def test_a_weighted_draw_equals_the_repeated_cases(metric: str) -> None:
    cases = random_cases(3, n=40, ties=True)
    weights = np.random.default_rng(0).integers(1, 4, (5, 40))
    drawn = draw_values(metric, cases, cases.truth, weights.astype(float))
    for row, times in enumerate(weights):
        again = np.repeat(np.arange(40), times)
        repeated = LabelCases(
            cases.truth[again], cases.scores[again], cases.answered[again], cases.patients[again], cases.labels
        )
        assert drawn[row] == pytest.approx(reference(metric, repeated), abs=1e-12)


def test_the_table_equals_scikit_learn_and_leaves_out_what_is_undefined() -> None:
    cases = random_cases(5, rare=True, ties=True)
    table, said = per_label(cases), cases.scores >= 0.5
    for k, name in enumerate(NAMES[:3]):
        truth = cases.truth[:, k]
        assert table[name] == pytest.approx(
            {
                "n": truth.sum(),
                "auc": roc_auc_score(truth, cases.scores[:, k]),
                "average_precision": average_precision_score(truth, cases.scores[:, k]),
                "sensitivity": recall_score(truth, said[:, k]),
                "specificity": recall_score(~truth, ~said[:, k]),
                "f1": f1_score(truth, said[:, k]),
            }
        )
    assert set(table["hernia"]) == {"n", "specificity"} and table["hernia"]["n"] == 0
    assert labels.rules(cases)[-1] == "Not in the means, because no test sample has it: hernia."


def test_a_case_without_an_answer_is_wrong_in_every_label() -> None:
    cases = random_cases(6)
    perfect = LabelCases(cases.truth, cases.truth.astype(float), cases.answered, cases.patients, NAMES)
    assert [value(metric, perfect) for metric in METRICS] == [1.0] * 5
    nothing = LabelCases(cases.truth, np.full((60, 4), 0.5), np.zeros(60, dtype=bool), cases.patients, NAMES)
    assert [value(metric, nothing) for metric in ("accuracy", "balanced_accuracy", "f1_macro")] == [0, 0, 0]
    assert value("auc_macro", nothing) == 0.5
    assert {row["sensitivity"] + row["specificity"] for row in per_label(nothing).values()} == {0.0}
    half = LabelCases(cases.truth, perfect.scores, np.arange(60) % 2 == 0, cases.patients, NAMES)
    assert value("accuracy", half) == 0.5 and value("balanced_accuracy", half) == pytest.approx(0.5, abs=0.1)


def test_without_a_label_that_varies_nothing_is_defined() -> None:
    same = LabelCases(
        np.ones((5, 2), dtype=bool), np.full((5, 2), 0.7), np.ones(5, dtype=bool), np.arange(5), NAMES[:2]
    )
    assert value("auc_macro", same) is None and bootstrap(same, "auc_macro", draws=20) is None
    assert value("accuracy", same) == 1.0
    assert label_controls(same, np.ones(2), "auc_macro", draws=20) == ((), None)


def test_draws_that_lose_a_label_are_drawn_again_and_counted() -> None:
    truth = np.zeros((21, 2), dtype=bool)
    truth[:10, 0], truth[20, 1] = True, True
    cases = LabelCases(truth, truth.astype(float), np.ones(21, dtype=bool), np.arange(21), NAMES[:2])
    interval = bootstrap(cases, "auc_macro", draws=200)
    assert interval is not None and interval.draws == 200
    assert interval.dropped > 30  # a single patient is left out of 36 % of the draws
    assert interval.high == 1 and interval.low == pytest.approx(0.05 ** (1 / (16 / (1 / 10 + 1 / 11 + 1 + 1 / 20))))


def test_the_interval_covers_the_true_value() -> None:
    """Two labels, each right or wrong for both cases of a patient, with 70 % of the patients right."""
    rng, right = np.random.default_rng(11), 0
    for seed in range(100):
        hit = np.repeat(rng.random((40, 2)) < 0.7, 2, axis=0)
        truth = np.tile([[True, False], [False, True]], (40, 1))
        scores = np.where(hit, truth, ~truth).astype(float)
        cases = LabelCases(truth, scores, np.ones(80, dtype=bool), np.repeat(np.arange(40), 2), NAMES[:2])
        interval = bootstrap(cases, "balanced_accuracy", draws=300, seed=seed)
        assert interval is not None
        right += interval.low <= 0.7 <= interval.high
    assert right >= 88  # each case for a patient of its own covers too little


def test_permutation_p_is_uniform_when_nothing_was_learned() -> None:
    rng, found = np.random.default_rng(21), []
    for seed in range(200):
        patients = np.repeat(np.arange(24), 2)
        truth = np.repeat(np.stack([rng.permutation(np.tile([True, False], 12)) for _ in range(2)], axis=1), 2, axis=0)
        scores = np.clip(np.repeat(rng.random((24, 2)), 2, axis=0) + 0.05 * rng.random((48, 2)), 0, 1)
        cases = LabelCases(truth, scores, np.ones(48, dtype=bool), patients, NAMES[:2])
        observed = value("auc_macro", cases)
        dealt = permute(cases, "auc_macro", draws=99, seed=seed)
        found.append((1 + np.sum(dealt >= observed)) / (1 + len(dealt)))
    assert 0.4 < np.mean(found) < 0.6
    for level in (0.05, 0.2, 0.5):
        assert abs(np.mean(np.array(found) <= level) - level) < 0.1


def test_controls_name_what_a_model_that_learned_nothing_scores() -> None:
    cases = random_cases(8, n=90)
    train = np.array([0.6, 0.3, 0.1, 0.4])
    found, p = label_controls(cases, train, "auc_macro", draws=200)
    figures = {control.name: control.value for control in found}
    assert (figures["prior"], figures["constant"]) == (0.5, 0.5)
    assert figures["permutation"] == pytest.approx(0.5, abs=0.02)
    assert p == pytest.approx(1 / 201)
    shares = cases.truth.mean(axis=0)
    found, _ = label_controls(cases, train, "f1_macro", draws=20)
    figures = {control.name: control.value for control in found}
    assert figures["constant"] == pytest.approx(np.mean(2 * shares / (1 + shares)))
    assert figures["prior"] == pytest.approx(2 * shares[0] / (1 + shares[0]) / 4)  # only effusion is common enough
    found, _ = label_controls(cases, train, "accuracy", draws=20)
    rows, times = np.unique(cases.truth, axis=0, return_counts=True)
    assert {one.name: one.value for one in found}["constant"] == pytest.approx(times.max() / 90)
    detail = {one.name: one.detail for one in found}["constant"]
    assert all((name in detail) == held for name, held in zip(NAMES, rows[times.argmax()], strict=True))


def test_a_constant_answer_has_p_1() -> None:
    cases = random_cases(9)
    same = LabelCases(cases.truth, np.tile([0.9, 0.4, 0.1, 0.3], (60, 1)), cases.answered, cases.patients, NAMES)
    found, p = label_controls(same, np.full(4, 0.5), "auc_macro", draws=100)
    assert p == 1.0 and {control.value for control in found} == {0.5}


def test_calibration_is_pooled_over_the_labels() -> None:
    cases = random_cases(4)
    ones = np.ones((1, 60))
    brier = np.mean([brier_score_loss(cases.truth[:, k], cases.scores[:, k]) for k in range(4)])
    assert calibration.label_draw_values("brier", cases, ones)[0] == pytest.approx(brier)
    bins = calibration.label_bins(cases)
    assert sum(one["n"] for one in bins) == 240
    ece = sum(one["n"] * abs(one["probability"] - one["right"]) for one in bins) / 240
    assert calibration.label_draw_values("ece", cases, ones)[0] == pytest.approx(ece)
    certain = LabelCases(cases.truth, cases.truth.astype(float), cases.answered, cases.patients, NAMES)
    assert calibration.label_draw_values("ece", certain, ones)[0] == 0.0


def test_figures_by_patient_take_the_mean_of_the_scans_where_these_agree() -> None:
    patients = np.array([0, 0, 1, 2, 2, 3])
    truth = np.array([[1, 0], [1, 0], [0, 1], [0, 0], [0, 0], [1, 1]], dtype=bool)
    scores = np.array([[0.9, 0.2], [0.1, 0.4], [0.6, 0.9], [0.3, 0.1], [0.5, 0.3], [0.7, 0.8]])
    cases = LabelCases(truth, scores, np.ones(6, dtype=bool), patients, NAMES[:2])
    people = labels.by_patient(cases)
    assert people is not None
    assert people.scores == pytest.approx(np.array([[0.5, 0.3], [0.6, 0.9], [0.4, 0.2], [0.7, 0.8]]))
    assert people.truth.tolist() == truth[[0, 2, 3, 5]].tolist()
    assert value("auc_macro", people) == np.mean([3 / 4, 1.0])
    truth[1, 1] = True  # a patient whose scans differ
    assert labels.by_patient(cases) is None
    single = Cases(
        np.array([0, 0, 1, 0, 0, 1]), np.stack([1 - scores[:, 1], scores[:, 1]], 1), truth[:, 0], patients, "xy"
    )
    people = single_by_patient(single)
    assert people is not None and people.truth.tolist() == [0, 1, 0, 1]
    assert people.scores[:, 1] == pytest.approx([0.3, 0.9, 0.2, 0.8])
    assert single_by_patient(Cases(single.truth, single.scores, single.predicted, np.arange(6), "xy")) is None
