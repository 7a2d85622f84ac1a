"""Generated reports from DatasetPrepared to RunScored, on a real bus and a real object store."""

import asyncio
import json
from collections.abc import AsyncIterator

import pytest
from case_tables import case, ref, table
from scorer_world import World, running, scored

from services.scorer.texts.figures import figures
from services.scorer.texts.tokens import words
from services.tool_runner.reports import report_result
from shared.bus import Bus
from shared.contracts.cases import CaseTable
from shared.contracts.data import CaseList, DatasetLocked, IndexRow, ViewManifest
from shared.contracts.runs import WorkReturned
from shared.reporttext import MAX_CHARACTERS
from shared.settings import Settings
from shared.store import Store

SIDES, LOBES, FINDINGS = ("left", "right"), ("upper", "middle", "lower"), ("nodule", "consolidation", "effusion")
NORMAL = "The lungs are clear. No acute abnormality."


def report(number: int) -> str:
    """Each fourth one is normal; the others say what a picture shows."""
    if number % 4 == 0:
        return NORMAL
    side, lobe, finding = SIDES[number % 2], LOBES[number % 3], FINDINGS[number // 2 % 3]
    return f"There is a {finding} of {number + 3} mm in the {side} {lobe} lobe. The heart is normal in size."


def cases(store: Store) -> CaseTable:
    """Every patient has two views of one examination."""
    found = [
        case(2 * number + view, patient=f"name{number}", images=(ref((number, view)),), text=report(number))
        for number in range(60)
        for view in range(2)
    ]
    return table(found, task="report_generation")


@pytest.fixture
async def world(settings: Settings, bus: Bus) -> AsyncIterator[World]:
    def good(row: IndexRow, number: int) -> object:
        """As a package writes it, through what the runner makes of it: nearly all of the report."""
        wrote = {"report": str(row.target).replace(" in size.", " \x07\u202e")}
        return report_result("report_generation", {"case": wrote}, {"case": "id"})["cases"]["id"]

    async with running(settings, bus, cases, good, "ROUGE-L") as found:
        yield found


async def test_from_prepared_to_useful_and_no_test_report_in_sight(world: World) -> None:
    result = await scored(world)
    locked = await world.wait(DatasetLocked)
    assert isinstance(locked, DatasetLocked)
    assert {name for name, count in locked.leakage.checks.items() if count} == {"look_not_compared"}
    assert any("of 28 test reports stand in training too" in note for note in locked.leakage.notes)

    test, told = await world.test(), (await world.get(locked.view)).decode()
    view = ViewManifest.model_validate_json(told)
    assert len(view.rows) == 92 and len(test) == 28
    secret = {str(row.target) for row in test} - {str(row.target) for row in view.rows}
    assert secret and not any(text in told or text in locked.model_dump_json() for text in secret)
    listed = await world.get(world.jobs[1].inputs["samples"])
    asked = CaseList.model_validate_json(listed)
    assert len(asked.samples) == 56 and len(asked.altered) == 28
    assert not any(text.encode() in listed for text in secret)

    truth = [words(str(row.target)) for row in test]
    answers = [words(str(row.target).replace(" in size.", "")) for row in test]
    each = figures(truth)["rouge_l"].value(figures(truth)["rouge_l"].of(answers, truth))
    assert result.metric is not None and result.metric.name == "rouge_l"
    assert result.metric.value == pytest.approx(each.mean())
    assert (result.metric.n, result.metric.patients) == (28, 14)
    others = {one.name: one for one in result.others}
    assert set(others) == {"bleu_1", "bleu_2", "bleu_3", "bleu_4", "meteor", "cider_d"}
    assert all(one.low < one.value < one.high for one in (result.metric, *others.values()))
    assert others["cider_d"].value > 1 and result.per_class == {}
    controls = {one.name: one for one in result.controls}
    assert set(controls) == {"majority", "constant", "permutation"}
    assert "training rows have" in controls["majority"].detail
    assert controls["majority"].value <= controls["constant"].value < result.metric.low
    assert result.permutation_p is not None and result.permutation_p < 0.01
    assert all(gate.passed for gate in result.gates), [gate for gate in result.gates if not gate.passed]
    assert result.level == "useful"
    assert not any(name in result.model_dump_json() for row in test for name in (row.sample_id, str(row.target)))

    details = json.loads(await world.get(result.details))
    assert [line["sample_id"] for line in details["cases"]] == [row.sample_id for row in test]
    assert [line["reference"] for line in details["cases"]] == [row.target for row in test]
    assert [line["rouge_l"] for line in details["cases"]] == pytest.approx(each.tolist())
    assert not any(sign in line["report"] for line in details["cases"] for sign in "\x07\u202e")
    assert details["control_texts"]["majority"] == " ".join(words(NORMAL))
    worst = sorted(range(len(test)), key=lambda case: each[case])[:5]
    assert details["worst"] == [test[case].sample_id for case in worst]


async def test_a_model_that_writes_the_same_of_every_image_is_not_useful(world: World) -> None:
    world.answers = lambda row, number: {"report": report(1)}
    result = await scored(world, metric="BLEU-4")
    assert result.metric is not None and result.metric.name == "bleu_4" and result.level == "valid"
    assert result.permutation_p == 1.0
    details = json.loads(await asyncio.to_thread(world.store.get_bytes, result.details))
    assert details["different_answers"] == 1
    # The answers of others are as good as its own: the permutation says so whatever the value is.
    permutation = next(one for one in result.controls if one.name == "permutation")
    assert permutation.value == pytest.approx(result.metric.value) and permutation.value >= result.metric.low

    # Reports that were written for other patients look right, and say nothing of the images.
    world.answers = lambda row, number: {"report": report(number)}
    await world.train("again")
    state = await world.until(lambda state: state.scored is not None)
    assert state.scored is not None and state.scored.level == "valid" and state.scored.scorings == 2


async def test_hostile_answers_end_as_ran_with_their_reasons(world: World) -> None:
    good = world.answers
    hostile: list[object] = [
        {"report": "x" * (MAX_CHARACTERS + 1)},
        {"report": " . \x00 "},
        {"report": ["no", "text"]},
        {"error": "<b>out of memory"},
        "no object",
    ]
    world.answers = lambda row, number: hostile[number] if number < len(hostile) else good(row, number)
    result = await scored(world)
    failed = {gate.name: gate.evidence for gate in result.gates if not gate.passed}
    assert set(failed) == {"reports_are_texts", "all_cases_predicted"}
    assert failed["reports_are_texts"].startswith("3 of 28") and failed["all_cases_predicted"].startswith("2 of 28")
    assert result.level == "ran" and result.metric is not None
    # What has no usable answer counts with 0.
    test = (await world.test())[5:]
    truth = [words(str(row.target)) for row in test]
    answers = [words(str(good(row, 0)["report"])) for row in test]  # type: ignore[index]
    rouge = figures(truth)["rouge_l"]
    assert result.metric.value == pytest.approx(rouge.value(rouge.of(answers, truth)).sum() / 28)

    world.raw = b'{"cases": [1'
    await world.train("again")
    state = await world.until(lambda state: state.scored is not None)
    assert state.scored is not None and state.scored.level == "ran" and state.scored.metric is None
    assert "predictions_readable" in {gate.name for gate in state.scored.gates if not gate.passed}


async def test_a_path_where_a_text_belongs_is_never_opened(world: World) -> None:
    wrong = [one.model_copy(update={"text": "secret.txt"}) if one.key == "key7" else one for one in world.table.cases]
    world.table = world.table.model_copy(update={"cases": tuple(wrong)})
    await world.begin()
    await world.prepare()
    returned = await world.wait(WorkReturned)
    assert isinstance(returned, WorkReturned) and returned.target == "data_engineer"
    assert set(returned.evidence["gates"]) == {"reports_are_texts"} and "key7" in returned.reason
