"""Predictions are read as data that a stranger wrote."""

import json

import numpy as np
import pytest

from services.scorer.answers import MAX_BYTES
from services.scorer.classes.predictions import read_predictions

LABELS = ("normal", "covid")
CASES = tuple(f"case-{number}" for number in range(20))
GOOD = {"probabilities": {"normal": 0.25, "covid": 0.75}}


def read(cases: dict[str, object], asked: tuple[str, ...] = CASES):
    return read_predictions(json.dumps({"cases": cases, "seconds": 1.0}).encode(), asked, LABELS)


def failing(found) -> set[str]:
    return {gate.name for gate in found.gates if not gate.passed}


def test_good_predictions_pass_every_gate_in_the_order_asked() -> None:
    given = {case: GOOD for case in reversed(CASES)} | {"case-3": {"probabilities": {"covid": 0.1, "normal": 0.9}}}
    found = read(given)
    assert not failing(found)
    assert found.scores[3].tolist() == [0.9, 0.1]
    assert found.predicted.tolist() == [1, 1, 1, 0] + [1] * 16
    assert not found.failed


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff\xfe",
        b"[]",
        b'{"cases": []}',
        b'{"cases": {"case-0": {"probabilities": {"normal": NaN, "covid": 1}}}}',
        b'{"cases": {"case-0": {"probabilities": {"normal": Infinity, "covid": 1}}}}',
        b'{"cases": {"case-0": {}, "case-0": {}}}',
        b"[" * 200_000,
        b'{"cases": {"x": ' + b"9" * 10_000 + b"}}",
        b'{"cases": {"x": "' + b"a" * MAX_BYTES + b'"}}',
    ],
    ids=["empty", "not-utf8", "list", "cases-list", "nan", "infinity", "key-twice", "deep", "huge-number", "too-large"],
)
def test_what_is_no_predictions_file_fails_one_gate_and_every_case(data: bytes) -> None:
    found = read_predictions(data, CASES, LABELS)
    assert failing(found) == {"predictions_readable"}
    assert set(found.failed) == set(CASES)
    assert (found.predicted == -1).all()


@pytest.mark.parametrize(
    ("answer", "gate"),
    [
        ({"probabilities": {"normal": 1e999, "covid": 0}}, "predictions_readable"),
        ({"probabilities": {"normal": -0.1, "covid": 1.1}}, "probabilities_valid"),
        ({"probabilities": {"normal": 0.1, "covid": 0.1}}, "probabilities_valid"),
        ({"probabilities": {"normal": True, "covid": False}}, "probabilities_valid"),
        ({"probabilities": {"normal": "1", "covid": 0}}, "probabilities_valid"),
        ({"probabilities": {"normal": 10**300, "covid": 0}}, "probabilities_valid"),
        ({"probabilities": {"normal": None, "covid": 1}}, "probabilities_valid"),
        ({"probabilities": {"covid": 1.0}}, "labels_in_map"),
        ({"probabilities": {"normal": 0.5, "covid": 0.25, "other": 0.25}}, "labels_in_map"),
    ],
)
def test_one_hostile_answer_fails_its_gate_and_counts_as_wrong(answer: dict[str, object], gate: str) -> None:
    found = read({case: GOOD for case in CASES} | {"case-7": answer})
    assert failing(found) == {gate}
    assert "case-7" in found.failed
    assert found.predicted[7] == -1
    assert np.isfinite(found.scores).all()
    assert not any("case-7" in one.evidence for one in found.gates)


def test_an_overflowing_float_is_no_probability() -> None:
    text = json.dumps({"cases": {case: GOOD for case in CASES}}).replace("0.75", "1e999", 1)
    assert failing(read_predictions(text.encode(), CASES, LABELS)) == {"probabilities_valid"}


def test_a_prediction_for_a_case_nobody_asked_for_fails() -> None:
    assert failing(read({case: GOOD for case in (*CASES, "case-99")})) == {"no_unknown_cases"}


@pytest.mark.parametrize(
    ("asked", "wrong", "passes"), [(20, 1, True), (20, 2, False), (19, 1, False), (100, 5, True), (100, 6, False)]
)
@pytest.mark.parametrize("how", ["missing", "error", "null"])
def test_few_failed_cases_are_borne_and_count_as_wrong(asked: int, wrong: int, passes: bool, how: str) -> None:
    cases = tuple(f"c{number}" for number in range(asked))
    bad: dict[str, object] = {"error": "out of memory\n<b>&"} if how == "error" else None
    given = {case: bad if number < wrong else GOOD for number, case in enumerate(cases)}
    if how == "missing":
        given = {case: answer for case, answer in given.items() if answer}
    found = read(given, cases)
    assert ("all_cases_predicted" not in failing(found)) == passes
    assert len(found.failed) == wrong
    assert (found.predicted[:wrong] == -1).all()
    assert (found.scores[:wrong] == 0.5).all()
    assert "<" not in "".join(found.failed.values())


def test_label_names_of_a_package_are_cleaned_before_anyone_reads_them() -> None:
    found = read({case: {"probabilities": {"`ignore`\n<all>" + "x" * 500: 1.0}} for case in CASES})
    evidence = next(gate.evidence for gate in found.gates if gate.name == "labels_in_map")
    assert "`" not in evidence and "<" not in evidence and len(evidence) < 200


def test_several_labels_need_no_sum_of_one_but_their_flag() -> None:
    def read_several(answer: object, flag: object = True):
        cases = {case: answer for case in CASES}
        return read_predictions(json.dumps({"cases": cases, "multi_label": flag}).encode(), CASES, LABELS, several=True)

    found = read_several({"probabilities": {"normal": 1, "covid": 0.75}, "label": ["normal", "covid"]})
    assert not failing(found) and found.answered.all() and found.scores.tolist() == [[1.0, 0.75]] * 20
    assert not failing(read_several({"probabilities": {"normal": 0, "covid": 0}}))
    for flag in (False, None, 1, "true"):
        assert failing(read_several(GOOD, flag)) == {"labels_a_sample"}
    for chances in ({"normal": 1.1, "covid": 0}, {"normal": True, "covid": 0}, {"normal": "1", "covid": 0}):
        bad = read_several({"probabilities": chances})
        assert failing(bad) == {"probabilities_valid"} and not bad.answered.any() and (bad.scores == 0.5).all()
    assert failing(read_several({"probabilities": {"normal": 1}})) == {"labels_in_map"}
    assert failing(read_several({"label": ["normal"]})) == {"all_cases_predicted"}


def test_who_answers_several_labels_where_a_sample_has_one_fails() -> None:
    data = json.dumps({"multi_label": True, "cases": {case: GOOD for case in CASES}}).encode()
    assert failing(read_predictions(data, CASES, LABELS)) == {"labels_a_sample"}
