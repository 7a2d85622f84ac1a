"""Dice by hand, and the rules for what is empty."""

import numpy as np
import pytest

from services.scorer.masks.overlap import Overlaps, dice, interval, mean, per_structure, tally
from services.scorer.patients import dealt

NAN = float("nan")


def test_voxels_are_counted_slab_by_slab_whatever_the_layout(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    truth, answer = rng.integers(0, 4, (2, 9, 11, 13)).astype(np.uint8)
    expected = [[(truth == s).sum(), (answer == s).sum(), ((truth == s) & (answer == s)).sum()] for s in (1, 2, 3)]
    for size in (1 << 22, 100, 1):
        monkeypatch.setattr("services.scorer.masks.overlap._CHUNK", size)
        for order in "CF":
            assert np.array(tally(truth, np.asarray(answer, order=order), 3)).T.tolist() == expected


def test_dice_by_hand() -> None:
    # 2 * 3 / (4 + 5); nothing in common; only in the truth; only in the answer; in neither.
    found = dice([4, 4, 4, 0, 0], [5, 5, 0, 5, 0], [3, 0, 0, 0, 0])
    assert found[:4] == pytest.approx([6 / 9, 0, 0, 0])
    assert np.isnan(found[4])


def case(*structures: tuple[int, int, int]) -> np.ndarray:
    return np.array(structures)


CASES = np.stack(
    [
        case((10, 10, 10), (10, 10, 5)),  # 1 and 0.5
        case((10, 0, 0), (0, 0, 0)),  # missed, and one that is nowhere
        case((10, 10, 10), (0, 7, 0)),  # right, and one made up
        case((0, 0, 0), (0, 0, 0)),  # healthy, and called so
        case((0, 0, 0), (0, 3, 0)),  # healthy, something made up
        case((10, 0, 0), (10, 0, 0)),  # no answer
        case((0, 0, 0), (0, 0, 0)),  # no answer to a healthy one
    ]
)
ANSWERED = np.array([True] * 5 + [False] * 2)
FOUND = Overlaps(truth=CASES[..., 0], answer=CASES[..., 1], both=CASES[..., 2], answered=ANSWERED)
SCORES = [0.75, 0.0, 0.5, NAN, 0.0, 0.0, 0.0]


def test_the_rules_for_what_is_empty() -> None:
    np.testing.assert_allclose(FOUND.scores(), SCORES)
    assert float(mean(FOUND.scores())) == pytest.approx(1.25 / 6)


def test_figures_of_each_structure() -> None:
    table = per_structure(FOUND, ("liver", "tumour"))
    assert table["liver"] == {"dice": pytest.approx((1 + 0 + 1 + 0) / 4), "n": 4, "missed": 2, "invented": 0}
    assert table["tumour"] == {"dice": pytest.approx(0.5 / 4), "n": 4, "missed": 1, "invented": 2}
    nowhere = Overlaps(*np.zeros((3, 2, 1), dtype=int), answered=np.ones(2, dtype=bool))
    assert per_structure(nowhere, ("x",)) == {"x": {"n": 0, "missed": 0, "invented": 0}}
    assert np.isnan(mean(nowhere.scores()))


def test_the_interval_is_over_patients_and_draws_that_lost_all_cases_are_drawn_again() -> None:
    scores = np.array([0.9, 0.9, 0.1, NAN])
    found = interval(scores, np.array([0, 0, 1, 2]), 400, 0)
    assert found is not None and found.draws == 400 and found.dropped > 0
    assert 0 < found.low < 0.1 and 0.9 < found.high < 1, "two patients with a score tell next to nothing"
    by_case = interval(scores, np.arange(4), 400, 0)
    assert by_case is not None and by_case.high - by_case.low < found.high - found.low
    assert interval(np.array([NAN, NAN]), np.array([0, 1]), 50, 0) is None


def test_answers_are_dealt_by_patient_and_in_order() -> None:
    patients = np.array([0, 0, 1, 2, 2, 2])
    assert dealt(patients, np.array([[1, 2, 0]])).tolist() == [[2, 2, 3, 0, 1, 0]]
    assert dealt(patients, np.array([[0, 1, 2]])).tolist() == [[0, 1, 2, 3, 4, 5]]
