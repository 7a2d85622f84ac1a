"""Intervals where every answer is right, or none: the rule of three on the patients that there are."""

import numpy as np
import pytest

from services.scorer.classes.metrics import Cases, bootstrap
from services.scorer.patients import over_patients


def faultless(each: tuple[int, ...], scans: int = 2) -> Cases:
    """So many patients of each class, all answered right."""
    truth = np.repeat(np.repeat(np.arange(len(each)), each), scans)
    numbers = np.repeat(np.arange(sum(each)), scans)
    return Cases(truth, np.eye(len(each))[truth], truth, numbers, tuple("abc"[: len(each)]))


@pytest.mark.parametrize("metric", ["auc_macro", "balanced_accuracy", "accuracy", "f1_macro"])
@pytest.mark.parametrize("each", [(10, 10), (25, 25), (7, 7, 6)])
def test_a_faultless_score_is_no_point(metric: str, each: tuple[int, ...]) -> None:
    found = bootstrap(faultless(each), metric, 200)
    assert found is not None and found.high == 1
    assert found.low == pytest.approx(0.05 ** (1 / sum(each)), abs=0.005)


def test_a_rare_class_makes_it_wider_where_it_has_the_same_say() -> None:
    rare = faultless((3, 37))
    (wide, narrow) = (bootstrap(rare, metric, 200) for metric in ("balanced_accuracy", "accuracy"))
    assert wide is not None and narrow is not None
    assert wide.low == pytest.approx(0.05 ** (1 / (4 / (1 / 3 + 1 / 37)))) and wide.low < 0.8 < narrow.low


def test_both_ends_of_any_scale() -> None:
    patients = np.arange(20)
    for value, top, ends in ((0.0, 1.0, (0.0, 0.139)), (10.0, 10.0, (8.609, 10.0))):
        found = over_patients(patients, lambda weights, value=value: np.full(len(weights), value), 50, top=top)
        assert found is not None and (found.low, found.high) == pytest.approx(ends, abs=0.001)
