"""The HTML report: one file that loads and runs nothing, with figures that are those of the table of cases."""

import re
from html.parser import HTMLParser

import pytest

from services.gateway.report.diagnosis_figures import roc
from services.gateway.report.facts import Case, Facts
from services.gateway.report.page import drawings, page
from services.gateway.report.text import text
from shared.pages.svg import ticks
from tests.gateway import reported

_VOID = {"meta", "img", "br"}
_TAGS = {
    *("html", "head", "meta", "title", "style", "body", "h1", "h2", "section", "div", "p", "b"),
    *("span", "i", "ul", "li", "br", "img"),
    *("table", "thead", "tbody", "tr", "th", "td", "figure", "figcaption"),
    *("svg", "line", "polyline", "rect", "circle", "text"),
}


class _Reader(HTMLParser):
    """Fails on a tag that is not closed where it should be, or that we do not write."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.attributes: set[str] = set()
        self.words: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in _TAGS, tag
        if tag == "img":
            source = dict(attrs).pop("src") or ""
            assert re.fullmatch(r"data:image/png;base64,[A-Za-z0-9+/=]+", source)
            attrs = [(name, value) for name, value in attrs if name != "src"]
        self.attributes |= {name for name, _ in attrs}
        if tag not in _VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in _TAGS, tag
        self.attributes |= {name for name, _ in attrs}

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def read(told: str) -> _Reader:
    reader = _Reader()
    reader.feed(told)
    reader.close()
    assert reader.open == []
    assert not {"src", "href", "srcset", "action", "onclick", "onload", "onerror"} & reader.attributes
    return reader


@pytest.mark.parametrize(
    "facts",
    [
        *(reported.diagnosis(), reported.segmentation(), reported.diagnosis(gate_fails=True)),
        *(reported.seen(reported.diagnosis()), reported.seen(reported.segmentation())),
        reported.seen(reported.several_labels()),
    ],
)
def test_the_page_is_well_formed_and_loads_nothing(facts: Facts) -> None:
    told = page(facts)
    read(told)
    assert not re.search(r"https?:|//|url\(|@import|<script|<link", re.sub(r"base64,[^\"]+", "", told))


@pytest.mark.parametrize(
    "facts",
    [
        *(reported.diagnosis(), reported.segmentation(), reported.several_labels()),
        reported.seen(reported.diagnosis()),
    ],
)
def test_the_page_says_all_that_the_text_says(facts: Facts) -> None:
    words = " ".join("".join(f"{one} " for one in read(page(facts)).words).split())
    for line in text(facts, width=10_000).splitlines():
        for cell in re.split(r"\s{2,}", line):
            assert set(cell) <= {"-"} or " ".join(cell.split()) in words, cell


def test_names_of_strangers_stay_words() -> None:
    for masks in (False, True):
        made = reported.events(name=reported.HOSTILE, masks=masks, gate_fails=True)
        names = (reported.HOSTILE, "b", "c")
        cases = reported.mask_cases(names) if masks else reported.diagnosis_cases(names, prefix=reported.HOSTILE)
        scored = made[-2][1]
        table = {name: {"dice": 0.5, "n": 9.0, "auc": 0.5} for name in names}
        made[-2] = (made[-2][0], scored.model_copy(update={"per_class": table}))
        details = reported.diagnosis().details.model_copy(update={"labels": names, "cases": cases, "worst": ()})
        facts = Facts.of(made, details=details, progress=reported.progress(metric=reported.HOSTILE))
        reader = read(page(reported.seen(facts, reported.HOSTILE)))
        assert any("<script>alert(1)</script>" in words for words in reader.words)
        assert "\x1b" not in "".join(reader.words)


def test_a_diagnosis_is_drawn() -> None:
    found = {figure.title: figure for figure in drawings(reported.diagnosis())}
    assert list(found) == ["Confusion matrix", "ROC curves", "Reliability", "Training"]
    cases = reported.diagnosis_cases()
    right = {label: sum(case.label == case.predicted == label for case in cases) for label in reported.DIAGNOSES}
    for label, many in right.items():
        assert f"{label}: {many} of 10 right" in found["Confusion matrix"].caption
    assert found["Confusion matrix"].svg.count("<title>") == 3 * 4  # the fourth column has no answer
    assert "AUC 0.930" in found["ROC curves"].caption and "1 case without an answer" in found["ROC curves"].caption
    assert "up to 0.6: 4 cases, 0.500 right; up to 1.0: 26 cases, 0.850 right" in found["Reliability"].caption
    assert "Lower is better: ece 0.070." in found["Reliability"].caption


def test_the_training_is_drawn_without_its_closing_line() -> None:
    training = drawings(reported.diagnosis())[-1]
    assert "Training loss 1.2 at epoch 1, 0.1 at epoch 12." in training.caption
    assert "Validation auc_macro at most 0.867 at epoch 12, 0.867 at the end (epoch 12)." in training.caption
    assert "0.123" not in training.svg + training.caption
    assert training.svg.count("<polyline") == 2
    assert drawings(Facts.of(reported.events())) == []


def test_a_segmentation_is_drawn() -> None:
    bars = drawings(reported.segmentation())[0]
    assert bars.svg.count("<circle") == 9 * 3 and bars.svg.count("<rect") == 3
    assert "liver 0.610 (9 cases); spleen 0.710 (9 cases)" in bars.caption
    assert "Worst cases: held-out-9 0.000, held-out-4 " in bars.caption


def test_every_place_lies_inside_its_drawing() -> None:
    for facts in (reported.diagnosis(), reported.segmentation(), reported.several_labels()):
        for figure in drawings(facts):
            width, height = map(float, re.findall(r'viewBox="0 0 (\S+) (\S+)"', figure.svg)[0])
            for axis, bound in (("x", width), ("y", height)):
                places = re.findall(rf' c?{axis}[12]?="(-?[\d.]+)"', figure.svg)
                assert places and all(0 <= float(place) <= bound for place in places), figure.title


def test_every_beginning_of_a_run_is_a_page() -> None:
    told = reported.events()
    for length in range(1, len(told)):
        assert any("This report is partial" in words for words in read(page(Facts.of(told[:length]))).words)


def case(label: str, score: float) -> Case:
    return Case(sample_id="s", label=label, predicted="a", probabilities={"a": score, "b": 1 - score})


def test_a_roc_curve_is_exact() -> None:
    assert roc("a", [case("a", 0.9), case("b", 0.2)]) == [(0, 0), (0, 1), (1, 1)]
    assert roc("a", [case("a", 0.5), case("b", 0.5)]) == [(0, 0), (1, 1)]
    assert roc("a", [case("b", 0.9), case("a", 0.6), case("b", 0.1)]) == [(0, 0), (0.5, 0), (0.5, 1), (1, 1)]
    assert roc("a", [case("a", 0.9)]) == []


def test_ticks_are_round_and_inside() -> None:
    assert ticks(0, 1) == pytest.approx([0, 0.2, 0.4, 0.6, 0.8, 1])
    assert ticks(1, 12) == pytest.approx([2, 4, 6, 8, 10, 12])
    assert ticks(0.031, 0.034) == pytest.approx([0.031, 0.0315, 0.032, 0.0325, 0.033, 0.0335, 0.034])
    assert ticks(5, 5) == [5]
