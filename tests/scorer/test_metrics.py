"""Our vectorised metrics against scikit-learn on random draws, and the statistics of intervals and permutations."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.metrics import (
    accuracy_score,
    balanced_accuracy_score,
    cohen_kappa_score,
    f1_score,
    precision_score,
    recall_score,
    roc_auc_score,
)

from services.scorer.classes.controls import controls
from services.scorer.classes.metrics import METRICS, Cases, bootstrap, draw_values, per_class, permute, value
from services.scorer.names import canonical

NAMES = ("a", "b", "c", "d")


def random_cases(seed: int, n: int = 60, classes: int = 3, absent: int | None = None, ties: bool = False) -> Cases:
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, classes, n)
    if absent is not None:
        truth[truth == absent] = (absent + 1) % classes
    scores = rng.dirichlet(np.ones(classes), n) + 0.3 * np.eye(classes)[truth]
    scores /= scores.sum(axis=1, keepdims=True)
    if ties:
        scores = np.round(scores, 1)
    _, patients = np.unique(rng.integers(0, n // 2, n), return_inverse=True)
    return Cases(truth, scores, scores.argmax(axis=1), patients, NAMES[:classes])


def reference(metric: str, cases: Cases) -> float:
    present = np.unique(cases.truth)
    if metric == "auc_macro":
        if len(cases.classes) == 2:
            return roc_auc_score(cases.truth, cases.scores[:, 1])
        return np.mean([roc_auc_score(cases.truth == c, cases.scores[:, c]) for c in present])
    if metric == "balanced_accuracy":
        return balanced_accuracy_score(cases.truth, cases.predicted)
    if metric == "accuracy":
        return accuracy_score(cases.truth, cases.predicted)
    if metric == "quadratic_kappa":
        return cohen_kappa_score(cases.truth, cases.predicted, labels=range(len(cases.classes)), weights="quadratic")
    return f1_score(cases.truth, cases.predicted, labels=present, average="macro", zero_division=0)


@pytest.mark.filterwarnings("ignore:y_pred contains classes not in y_true")
@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize(
    ("classes", "absent", "ties"), [(2, None, False), (2, None, True), (3, None, True), (4, 2, True)]
)
def test_values_equal_scikit_learn(metric: str, classes: int, absent: int | None, ties: bool) -> None:
    for seed in range(10):
        cases = random_cases(seed, classes=classes, absent=absent, ties=ties)
        assert value(metric, cases) == pytest.approx(reference(metric, cases), abs=1e-12)


@pytest.mark.parametrize("metric", METRICS)
def test_a_weighted_draw_equals_the_repeated_cases(metric: str) -> None:
    cases = random_cases(3, n=40, ties=True)
    weights = np.random.default_rng(0).integers(1, 4, (5, 40))
    drawn = draw_values(metric, cases, cases.truth, weights.astype(float))
    for row, times in enumerate(weights):
        again = np.repeat(np.arange(40), times)
        repeated = Cases(
            cases.truth[again], cases.scores[again], cases.predicted[again], cases.patients[again], cases.classes
        )
        assert drawn[row] == pytest.approx(reference(metric, repeated), abs=1e-12)


def test_auc_is_scikit_learns_multiclass_average() -> None:
    cases = random_cases(1)
    assert value("auc_macro", cases) == pytest.approx(roc_auc_score(cases.truth, cases.scores, multi_class="ovr"))


def test_per_class_equals_scikit_learn_and_leaves_out_what_is_undefined() -> None:
    cases = random_cases(5, classes=4, absent=2, ties=True)
    table = per_class(cases)
    recalls = recall_score(cases.truth, cases.predicted, labels=range(4), average=None, zero_division=0)
    precisions = precision_score(cases.truth, cases.predicted, labels=range(4), average=None, zero_division=0)
    for number in (0, 1, 3):
        figures = table[NAMES[number]]
        assert figures["sensitivity"] == pytest.approx(recalls[number])
        assert figures["precision"] == pytest.approx(precisions[number])
        assert figures["specificity"] == pytest.approx(recall_score(cases.truth != number, cases.predicted != number))
        assert figures["auc"] == pytest.approx(roc_auc_score(cases.truth == number, cases.scores[:, number]))
        assert figures["n"] == np.sum(cases.truth == number)
    assert table["c"]["n"] == 0
    assert not {"auc", "sensitivity"} & set(table["c"])


def test_an_undefined_metric_is_none_and_not_nan() -> None:
    one_class = Cases(np.zeros(4, dtype=int), np.full((4, 3), 1 / 3), np.zeros(4, dtype=int), np.arange(4), NAMES[:3])
    assert value("auc_macro", one_class) is None
    assert bootstrap(one_class, "auc_macro", draws=50) is None
    assert value("accuracy", one_class) == 1.0


def test_a_case_without_an_answer_is_wrong() -> None:
    cases = Cases(np.array([0, 1]), np.full((2, 2), 0.5), np.array([-1, -1]), np.arange(2), NAMES[:2])
    assert [value(metric, cases) for metric in ("accuracy", "balanced_accuracy", "f1_macro")] == [0, 0, 0]
    assert value("quadratic_kappa", cases) == -1, "the farthest grade stands for it"


def test_the_interval_of_kappa_lies_on_a_scale_from_minus_one() -> None:
    graded = random_cases(2, n=80, classes=4)
    for cases in (graded, replace(graded, predicted=3 - graded.predicted)):
        kappa, interval = value("quadratic_kappa", cases), bootstrap(cases, "quadratic_kappa", 200)
        assert -1 < interval.low < kappa < interval.high < 1
    assert kappa < 0 and interval.high - interval.low < 0.7


def test_draws_that_lose_a_class_are_drawn_again_and_counted() -> None:
    truth = np.array([0] * 20 + [1])
    cases = Cases(truth, np.eye(2)[truth], truth, np.arange(21), NAMES[:2])
    interval = bootstrap(cases, "balanced_accuracy", draws=200)
    assert interval is not None
    assert interval.draws == 200
    assert interval.dropped > 30  # a single patient is left out of 36 % of the draws
    assert interval.high == 1 and interval.low == pytest.approx(0.05 ** (1 / (4 / (1 / 20 + 1))))


def test_the_interval_covers_the_true_value_and_grows_with_clusters() -> None:
    rng = np.random.default_rng(11)
    truths, right = 0.7, 0
    for seed in range(120):
        # Both cases of a patient are right or wrong together: 80 cases carry 40 cases' worth of knowledge.
        hit = np.repeat(rng.random(40) < truths, 2)
        truth = np.tile([0, 1], 40)
        predicted = np.where(hit, truth, 1 - truth)
        cases = Cases(truth, np.eye(2)[predicted], predicted, np.repeat(np.arange(40), 2), NAMES[:2])
        interval = bootstrap(cases, "accuracy", draws=300, seed=seed)
        assert interval is not None
        right += interval.low <= truths <= interval.high
    assert right >= 0.87 * 120  # taking each case for a patient covers 83 % and would fail


def test_bootstrap_repeats_itself() -> None:
    cases = random_cases(2)
    assert bootstrap(cases, "auc_macro", draws=100, seed=4) == bootstrap(cases, "auc_macro", draws=100, seed=4)


@pytest.mark.parametrize("sizes", ["equal", "unequal"])
def test_permutation_p_is_uniform_when_nothing_was_learned(sizes: str) -> None:
    rng = np.random.default_rng(21)
    found = []
    for seed in range(300):
        cluster = np.full(24, 2) if sizes == "equal" else rng.integers(1, 4, 24)
        patients = np.repeat(np.arange(24), cluster)
        truth = np.repeat(rng.permutation(np.tile([0, 1], 12)), cluster)
        # Scores are alike within a patient, which is what makes a permutation over cases too bold.
        score = np.repeat(rng.random(24), cluster) + 0.05 * rng.random(len(patients))
        cases = Cases(truth, np.stack([1 - score, score], axis=1), (score > 0.5).astype(int), patients, NAMES[:2])
        observed = value("auc_macro", cases)
        dealt = permute(cases, "auc_macro", draws=99, seed=seed)
        found.append((1 + np.sum(dealt >= observed)) / (1 + len(dealt)))
    assert 0.4 < np.mean(found) < 0.6
    for level in (0.05, 0.2, 0.5):
        assert abs(np.mean(np.array(found) <= level) - level) < 0.08


def test_a_permutation_keeps_the_cases_of_a_patient_together_and_in_order() -> None:
    # Each patient has a healthy and a sick case: whoever's answers one takes over, they fit as well as before.
    truth = np.tile([0, 1], 10)
    cases = Cases(truth, np.eye(2)[truth], truth, np.repeat(np.arange(10), 2), NAMES[:2])
    assert permute(cases, "accuracy", draws=50).tolist() == [1.0] * 50


def test_controls_name_what_a_model_that_learned_nothing_scores() -> None:
    cases = random_cases(8, n=90)
    share = np.bincount(cases.truth) / 90
    found, p = controls(cases, {"a": 5, "b": 9, "c": 1}, "accuracy", draws=200)
    figures = {control.name: control.value for control in found}
    assert figures["majority"] == pytest.approx(share[1])
    assert figures["constant"] == pytest.approx(share.max())
    answered = np.bincount(cases.predicted, minlength=3) / 90
    assert figures["permutation"] == pytest.approx(float(share @ answered), abs=0.01)
    assert p == pytest.approx(1 / 201)
    balanced, _ = controls(cases, {"b": 1}, "balanced_accuracy", draws=50)
    assert {round(control.value, 9) for control in balanced[:2]} == {round(1 / 3, 9)}


def test_a_constant_answer_has_p_1() -> None:
    cases = random_cases(9)
    same = Cases(cases.truth, np.full((60, 3), 1 / 3), np.zeros(60, dtype=int), cases.patients, cases.classes)
    found, p = controls(same, {"a": 1}, "auc_macro", draws=100)
    assert p == 1.0
    assert {control.value for control in found} == {0.5}


@pytest.mark.parametrize(
    ("said", "task", "known"),
    [
        ("AUC", "diagnosis", "auc_macro"),
        ("Balanced Accuracy", "diagnosis", "balanced_accuracy"),
        ("QWK", "diagnosis", "quadratic_kappa"),
        ("dice", "diagnosis", None),
        ("Dice-Score", "organ_segmentation", "dice"),
        ("accuracy", "anomaly_detection", None),
        ("accuracy", "report_generation", None),
        ("DSC", None, "dice"),
        ("f1", None, "f1_macro"),
        ("hausdorff", None, None),
    ],
)
def test_metric_names_belong_to_their_task(said: str, task: str | None, known: str | None) -> None:
    assert canonical(said, task) == known
