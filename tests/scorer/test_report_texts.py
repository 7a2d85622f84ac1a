"""Reports as texts: which one the controls take, and answers read as a stranger's."""

import numpy as np
import pytest

from services.scorer.texts.controls import report_controls
from services.scorer.texts.figures import figures
from services.scorer.texts.reports import read_reports
from services.scorer.texts.tokens import words
from shared.reporttext import clean


def test_controls_take_the_usual_report_or_the_most_typical_one() -> None:
    truth = [words(f"a nodule of {n} mm in the left lobe") for n in range(6)]
    rouge = figures(truth)["rouge_l"]
    odd = [words(text) for text in ("fracture", "a mass of 3 mm in the left lobe", "a nodule of 9 mm in the lobe")]

    def controls(train: list[tuple[str, ...]]):
        found, p, said = report_controls("rouge_l", rouge, train, truth, truth, np.arange(6), 500, 0)
        assert p == pytest.approx(1 / 501)
        return {one.name: one for one in found}, said

    common, said = controls([*odd, words("Fracture!")])
    assert "2 training rows" in common["majority"].detail and said["majority"] == "fracture"
    assert common["majority"].value == 0 and common["constant"].value > 0.8
    assert said["constant"] == "a nodule of 9 mm in the lobe"
    differing, said = controls(odd)
    assert "most like 3 of them" in differing["majority"].detail and said["majority"] != "fracture"


def test_answers_are_read_as_a_strangers() -> None:
    read = read_reports(
        b'{"cases": {"a": {"report": "Clear\\u202e lungs\\u0000.\\n\\tOK"}, "c": {"report": 3}}}', ["a", "b"]
    )
    assert read.texts == ("Clear lungs .\n OK", "")
    assert dict(read.failed) == {"b": "no prediction"}
    assert {gate.name for gate in read.gates if not gate.passed} == {"all_cases_predicted", "no_unknown_cases"}
    for data in (b"", b"[]", b"\xff", b'{"cases": {"a": {"report": NaN}}}', b"[" * 100_000):
        read = read_reports(data, ["a"])
        assert [gate.passed for gate in read.gates] == [False] and read.texts == ("",)


def test_clean_keeps_the_text_and_nothing_that_hides() -> None:
    assert clean("a\r\nb \ud800\u200b c\t\tdé") == "a \nb c dé"
