"""Generated reports from DatasetPrepared to RunScored, on a real bus and a real object store."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import numpy as np
import pytest
from mask_files import png
from scorer_world import World, running, scored

from services.scorer.texts.figures import figures
from services.scorer.texts.tokens import words
from services.tool_runner.reports import report_result
from services.tool_runner.views import materialise_cases, materialise_view
from shared.bus import Bus
from shared.contracts.data import DatasetLocked, IndexMeta, IndexRow, PackList, ViewManifest
from shared.contracts.runs import WorkReturned
from shared.reporttext import MAX_CHARACTERS
from shared.settings import Settings

META = IndexMeta(
    task="report_generation",
    dimensions=2,
    grouping="stated",
    grouping_from="column uid of the table of reports",
    split_from="made",
)
SIDES, LOBES, FINDINGS = ("left", "right"), ("upper", "middle", "lower"), ("nodule", "consolidation", "effusion")
NORMAL = "The lungs are clear. No acute abnormality."


def report(number: int) -> str:
    """Each fourth one is normal; the others say what a picture shows."""
    if number % 4 == 0:
        return NORMAL
    side, lobe, finding = SIDES[number % 2], LOBES[number % 3], FINDINGS[number // 2 % 3]
    return f"There is a {finding} of {number + 3} mm in the {side} {lobe} lobe. The heart is normal in size."


def dataset(folder: Path) -> list[IndexRow]:
    """Pictures and their reports; every patient has two views of one study."""
    rng = np.random.default_rng(5)
    rows = []
    for number, split in enumerate(["train"] * 12 + ["val"] * 2 + ["test"] * 10):
        for view in ("frontal", "lateral"):
            name = f"{number}_{view}.png"
            (folder / name).write_bytes(png(rng.integers(0, 256, (32, 32), dtype=np.uint8)))
            rows.append(
                IndexRow(
                    sample_id=f"{split}/s{1000 + number}-{view}",
                    patient=f"pat{2000 + number}",
                    target=report(number),
                    files=(name,),
                    attributes={"view": view},
                    split=split,
                )
            )
    return rows


@pytest.fixture
async def world(settings: Settings, bus: Bus, tmp_path: Path) -> AsyncIterator[World]:
    folder = tmp_path / "dataset"
    folder.mkdir()

    def good(row: IndexRow, number: int) -> object:
        """As a package writes it, through what the runner makes of it: the finding, without the size of the heart."""
        wrote = {"report": str(row.target).replace(" The heart is normal in size.", " \x07\u202e")}
        return report_result("report_generation", {"case": wrote}, {"case": "id"})["cases"]["id"]

    async with running(settings, bus, folder, dataset(folder), META, good, "ROUGE-L") as found:
        yield found


async def test_from_prepared_to_useful_and_no_test_report_in_sight(world: World, tmp_path: Path) -> None:
    result = await scored(world)
    locked = await world.wait(DatasetLocked)
    assert isinstance(locked, DatasetLocked)
    # Noise has no look by which near-duplicates are told.
    assert {name for name, count in locked.leakage.checks.items() if count} <= {"look_not_compared"}
    # Of 24 patients 6 are normal, and two of those are among the ten of the test set.
    assert any("test reports stand in training too" in note for note in locked.leakage.notes)
    assert any("4 of 20 test reports" in note for note in locked.leakage.notes)

    test = [row for row in world.rows if row.split == "test"]
    told = (await asyncio.to_thread(world.store.get_bytes, locked.view)).decode()
    view = ViewManifest.model_validate_json(told)
    assert [row.target for row in view.rows] == [row.target for row in world.rows if row.split != "test"]
    secret = {str(row.target) for row in test} - {NORMAL}
    assert not any(text in told or text in locked.model_dump_json() for text in secret)
    folder = await materialise_view(locked.view, world.store, tmp_path / "home")
    assert {path.name for path in folder.rglob("*.*")} == {name for row in view.rows for name in row.files}

    # What the package is given: the pictures and their attributes.
    listed = PackList.model_validate_json(
        await asyncio.to_thread(world.store.get_bytes, world.jobs[1].inputs["samples"])
    )
    assert all(pack.target is None and pack.files == ("000.png",) for pack in listed.samples)
    attributes = {row.sample_id: row.attributes for row in test}
    await asyncio.to_thread(materialise_cases, listed, attributes, world.store, tmp_path / "cases")
    given = b"".join(path.read_bytes() for path in (tmp_path / "cases").rglob("*") if path.is_file())
    assert not any(text.encode() in given for text in secret)

    truth = [words(str(row.target)) for row in test]
    answers = [words(str(row.target).replace(" The heart is normal in size.", "")) for row in test]
    each = figures(truth)["rouge_l"].value(figures(truth)["rouge_l"].of(answers, truth))
    assert result.metric is not None and result.metric.name == "rouge_l"
    assert result.metric.value == pytest.approx(each.mean())
    assert (result.metric.n, result.metric.patients) == (20, 10)
    others = {one.name: one for one in result.others}
    assert set(others) == {"bleu_1", "bleu_2", "bleu_3", "bleu_4", "meteor", "cider_d"}
    assert all(one.low < one.value < one.high for one in (result.metric, *others.values()))
    assert others["cider_d"].value > 1 and result.per_class == {}
    controls = {one.name: one for one in result.controls}
    assert set(controls) == {"majority", "constant", "permutation"}
    assert "6 training rows" in controls["majority"].detail
    assert controls["majority"].value <= controls["constant"].value < result.metric.low
    assert result.permutation_p is not None and result.permutation_p < 0.01
    assert all(gate.passed for gate in result.gates), [gate for gate in result.gates if not gate.passed]
    assert result.level == "useful"
    assert not any(name in result.model_dump_json() for row in test for name in (row.sample_id, str(row.target)))

    details = json.loads(await asyncio.to_thread(world.store.get_bytes, result.details))
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
    assert failed["reports_are_texts"].startswith("3 of 20") and failed["all_cases_predicted"].startswith("2 of 20")
    assert result.level == "ran" and result.metric is not None
    # What has no usable answer counts with 0.
    test = [row for row in world.rows if row.split == "test"][5:]
    truth = [words(str(row.target)) for row in test]
    answers = [words(str(good(row, 0)["report"])) for row in test]  # type: ignore[index]
    rouge = figures(truth)["rouge_l"]
    assert result.metric.value == pytest.approx(rouge.value(rouge.of(answers, truth)).sum() / 20)

    world.raw = b'{"cases": [1'
    await world.train("again")
    state = await world.until(lambda state: state.scored is not None)
    assert state.scored is not None and state.scored.level == "ran" and state.scored.metric is None
    assert "predictions_readable" in {gate.name for gate in state.scored.gates if not gate.passed}


async def test_a_path_where_a_text_belongs_is_never_opened(world: World) -> None:
    secret = world.folder / "secret.txt"
    secret.write_text("The lungs are clear.")
    wrong = ("train/s1001-frontal", "test/s1014-frontal")
    paths = {"target": "secret.txt"}
    world.rows = [row.model_copy(update=paths) if row.sample_id in wrong else row for row in world.rows]
    await world.begin()
    await world.prepare()
    returned = await world.wait(WorkReturned)
    assert isinstance(returned, WorkReturned) and returned.target == "data_engineer"
    assert set(returned.evidence["gates"]) == {"reports_are_texts"}  # and the packs hold pictures alone
    assert all(name in returned.reason for name in wrong)
