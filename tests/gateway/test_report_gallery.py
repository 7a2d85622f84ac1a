"""Which cases a report shows, and what it says of each."""

import re
from dataclasses import replace
from typing import Any

from services.gateway.report.chosen import chosen, merit
from services.gateway.report.facts import Case, Details, Facts, Picture, Pictures
from services.gateway.report.page import page
from services.gateway.report.text import text
from tests.gateway import reported


def words(told: str) -> str:
    return " ".join(re.sub("<[^>]+>", " ", told).split())


def test_some_of_the_worst_some_of_the_best_and_some_by_chance() -> None:
    facts = reported.diagnosis()
    found = chosen(facts)
    assert [one.why for one in found] == ["worst"] * 3 + ["best"] * 2 + ["random"] * 3
    assert len({one.number for one in found}) == 8
    assert all(facts.details.cases[one.number - 1] is one.case for one in found)
    merits = sorted(merit(facts, case) or 0.0 for case in facts.details.cases)
    assert [one.merit for one in found[:3]] == merits[:3] and found[0].case.failed == "unreadable header"
    assert [one.merit for one in found[3:5]] == merits[:-3:-1]
    assert found == chosen(reported.diagnosis()), "the same score shows the same cases"
    scored = facts.state.scored
    assert scored is not None
    other = replace(facts, state=facts.state.model_copy(update={"scored": scored.model_copy(update={"event_id": "x"})}))
    assert chosen(other)[:5] == found[:5] and chosen(other)[5:] != found[5:]


def test_few_cases_are_shown_once_each_and_those_that_do_not_count_by_chance_only() -> None:
    facts = reported.segmentation()
    cases = tuple(Case(sample_id=f"s{place}", dice=dice) for place, dice in enumerate((0.5, None, 0.9, 0.1)))
    for many, expected in (
        (0, {}),
        (1, {"s0": "worst"}),
        (2, {"s0": "worst", "s1": "random"}),
        (4, {"s3": "worst", "s2": "best", "s0": "worst", "s1": "random"}),
    ):
        shown = chosen(replace(facts, details=Details(cases=cases[:many])))
        found = {one.case.sample_id: one.why for one in shown}
        # The third of four is the lot's: it takes either of the two that are left.
        assert found == expected or (many == 4 and set(found) == set(expected) and found["s1"] == "random"), found
    assert chosen(Facts.of(reported.events()[:-2])) == (), "without a score nobody looks at test cases"


def test_each_tile_has_its_figures() -> None:
    told = words(page(reported.seen(reported.diagnosis())))
    assert "Case 30 worst probability of the truth 0.000; no usable answer: unreadable header" in told
    assert "No picture: EOFError: a window" in told and told.count("(truth)") == 7
    first = chosen(reported.segmentation())[0]
    facts = reported.seen(reported.segmentation())
    told = page(facts)
    assert f"Case {first.number}" in words(told) and f"dice {first.merit:.3f}" in words(told)
    shown = [one.case for one in chosen(facts) if one.case.structures]
    for case in shown:
        lowest = min(dice for dice in case.structures.values() if dice is not None)
        assert f"{lowest:.3f}</li>" in told
    assert told.count('<i style="background:#000001"></i>spleen') == len(shown)


def test_the_text_names_them_and_needs_no_pictures() -> None:
    facts = reported.diagnosis()
    told = text(facts, width=200)
    worst = chosen(facts)[1]
    row = rf"^{worst.number} +worst +{worst.merit:.3f} +{worst.case.sample_id} +{worst.case.patient}$"
    assert re.search(row, told, re.MULTILINE), told
    assert "pictures" not in told


def test_a_page_without_pictures_says_why() -> None:
    facts = replace(reported.diagnosis(), pictures=Pictures(missing="No runner <b>came</b>."))
    told = page(facts)
    assert "There are no pictures of test cases. No runner &lt;b&gt;came&lt;/b&gt;." in told and "<img" not in told
    assert "30 test cases, 1 without a usable answer." in told
    assert "no pictures" not in page(reported.diagnosis()), "who asked for none is told nothing"


def test_reports_stand_beside_their_reference() -> None:
    table: list[dict[str, Any]] = [
        {"sample_id": "s0", "patient": "p", "bleu_1": 0.25, "reference": "Clear lungs.", "report": reported.HOSTILE}
    ]
    cases = tuple(map(Case.model_validate, table))
    assert cases[0].figures == {"bleu_1": 0.25}
    facts = reported.diagnosis()
    state = facts.state
    assert state.planned and state.scored and state.scored.metric
    plan = state.planned.plan.model_copy(update={"task": "report_generation"})
    metric = state.scored.metric.model_copy(update={"name": "bleu_1"})
    facts = replace(
        facts,
        state=state.model_copy(
            update={
                "planned": state.planned.model_copy(update={"plan": plan}),
                "scored": state.scored.model_copy(update={"metric": metric}),
            }
        ),
        details=Details(cases=cases),
        pictures=Pictures({"s0": Picture(b"\x89PNG", 9, 9)}),
    )
    told = page(facts)
    assert "Case 1 worst bleu_1 0.250" in words(told)
    assert "<b>Reference</b><br>Clear lungs." in told and "<b>Report of the model</b><br>&lt;script&gt;" in told
    assert "answered wrong" not in told
