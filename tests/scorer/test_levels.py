"""Gates, figures, controls and range to a level."""

import pytest

from services.scorer.levels import alarm, decide
from shared.contracts.data import LeakageReport
from shared.contracts.runs import AcceptableRange
from shared.contracts.scoring import Control, Gate, Metric

PASSED = (Gate(name="split_unchanged", passed=True, evidence="yes"),)
FAILED = (*PASSED, Gate(name="labels_in_map", passed=False, evidence="3 cases"))
CONTROLS = (Control(name="majority", value=0.5), Control(name="constant", value=0.6))


def figure(value: float, low: float, name: str = "auc_macro", n: int = 40) -> Metric:
    return Metric(name=name, value=value, low=low, high=1.0, n=n, patients=20)


def bar(metric: str, floor: float | None = None, top: float | None = None) -> AcceptableRange:
    return AcceptableRange(metric=metric, floor=floor, alarm=top, source="card")


@pytest.mark.parametrize(
    ("gates", "metric", "controls", "acceptable", "level"),
    [
        (PASSED, figure(0.9, 0.8), CONTROLS, None, "useful"),
        (FAILED, figure(0.9, 0.8), CONTROLS, None, "ran"),
        (PASSED, figure(0.9, 0.55), CONTROLS, None, "valid"),
        (PASSED, figure(0.9, 0.6), CONTROLS, None, "valid"),
        (PASSED, figure(0.9, 0.8), (), None, "valid"),
        (PASSED, figure(0.0, 0.0, n=0), CONTROLS, None, "valid"),
        (PASSED, figure(0.9, 0.8), CONTROLS, bar("auc", floor=0.85), "useful"),
        (PASSED, figure(0.9, 0.8), CONTROLS, bar("auc_macro", floor=0.95), "valid"),
        (PASSED, figure(0.9, 0.8), CONTROLS, bar("balanced_accuracy", floor=0.75), "valid"),
        (PASSED, figure(0.9, 0.8), CONTROLS, bar("balanced_accuracy", floor=0.65), "useful"),
        (PASSED, figure(0.9, 0.8), CONTROLS, bar("dice", floor=0.1), "valid"),
        (PASSED, figure(0.99, 0.9), CONTROLS, bar("auc_macro", top=0.95), "useful"),
    ],
)
def test_level(gates, metric, controls, acceptable, level) -> None:
    verdict = decide(gates, metric, (figure(0.7, 0.6, "balanced_accuracy"),), controls, acceptable, 0.001)
    assert verdict.level == level
    assert verdict.why


@pytest.mark.parametrize(("p", "level"), [(0.05, "useful"), (0.06, "valid"), (None, "valid")])
def test_what_exchanged_answers_may_reach_is_not_useful(p: float | None, level: str) -> None:
    verdict = decide(PASSED, figure(0.9, 0.8), (), CONTROLS, None, p)
    assert verdict.level == level
    assert level == "useful" or "permutation test" in verdict.why[0]


def test_above_the_alarm_the_leak_report_and_the_permutation_test_are_printed_and_nothing_fails() -> None:
    report = LeakageReport(checks={"same_patient": 0, "same_file": 0})
    gate = alarm(bar("auc_macro", top=0.95), figure(0.99, 0.9), (), report, 0.001)
    assert gate.passed
    assert "above the alarm bar" in gate.evidence
    assert "same_file 0, same_patient 0" in gate.evidence
    assert "0.0010" in gate.evidence
    assert "not above" in alarm(bar("auc_macro", top=0.995), figure(0.99, 0.9), (), report, 0.001).evidence


def test_without_a_bar_the_default_one_raises_the_alarm() -> None:
    report = LeakageReport(checks={"same_patient": 0})
    for acceptable in (None, bar("auc_macro", floor=0.5)):
        gate = alarm(acceptable, figure(1.0, 0.9), (), report, 0.001)
        assert gate.passed and "1.000 is above the alarm bar 0.990: suspect a leak" in gate.evidence
        assert "not above" in alarm(acceptable, figure(0.98, 0.9), (), report, 0.001).evidence


def test_a_score_made_without_walls_is_at_most_valid() -> None:
    gates = (*PASSED, Gate(name="isolated", passed=False, evidence="train ran at none"))
    verdict = decide(gates, figure(0.9, 0.8), (), CONTROLS, None, 0.001)
    assert verdict.level == "valid" and verdict.why == ("isolated: train ran at none",)
