"""The scorer on a real bus and a real object store. The test plays the other roles and the runner."""

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import numpy as np
import pytest
from looking_alike import body, cropped, jpeg, png
from scorer_world import PACKAGE, World, bucket_of, running, scored

from services.scorer.lock.copies import find_copies
from services.tool_runner.packs import pack_samples
from shared.bus import Bus
from shared.contracts.data import DatasetLocked, IndexMeta, IndexRow, ViewManifest
from shared.contracts.runs import AcceptableRange, RoleFailed, WorkReturned
from shared.contracts.scoring import RunScored
from shared.settings import Settings
from shared.store import Store

LABELS = ("normal", "covid")
META = IndexMeta(
    task="diagnosis",
    dimensions=2,
    label_names=LABELS,
    grouping="stated",
    grouping_from="the folder of a scan",
    split_from="made",
)


def good(row: IndexRow, number: int) -> object:
    p = 0.9 - 0.01 * number
    return {"probabilities": {name: p if name == row.label else 1 - p for name in LABELS}}


def constant(row: IndexRow, number: int) -> object:
    return {"probabilities": {"normal": 0.6, "covid": 0.4}}


def dataset(folder: Path) -> list[IndexRow]:
    """Images of equal size and random content, one a patient, except for patients with two."""
    rng = np.random.default_rng(5)
    rows = []
    for number, split in enumerate(["train"] * 16 + ["val"] * 6 + ["test"] * 30):
        name = f"s{1000 + number}"
        path = folder / "scans" / name / "image.png"
        path.parent.mkdir(parents=True)
        path.write_bytes(rng.bytes(3000))
        rows.append(
            IndexRow(
                sample_id=f"{split}/{name}",
                patient=f"pat{2000 + number}",
                study=f"study{3000 + number}",
                label=LABELS[number % 2],
                files=(f"scans/{name}/image.png",),
                attributes={"slope": number / 10},
                split=split,
            )
        )
    return rows


@pytest.fixture
async def world(settings: Settings, bus: Bus, tmp_path: Path) -> AsyncIterator[World]:
    folder = tmp_path / "dataset"
    folder.mkdir()
    async with running(settings, bus, folder, dataset(folder), META, good, "auc_macro") as world:
        yield world


async def test_from_prepared_to_useful_and_nothing_of_test_in_the_view(world: World) -> None:
    acceptable = AcceptableRange(metric="auc_macro", floor=0.7, alarm=0.99, source="card")
    result = await scored(world, acceptable=acceptable, metric="AUC")
    locked = await world.wait(DatasetLocked)
    assert (locked.locks, locked.patients) == (1, {"train": 16, "val": 6, "test": 30})
    assert {name for name, count in locked.leakage.checks.items() if count} == {"look_not_compared"}

    seen = await asyncio.to_thread(world.store.get_bytes, locked.view)
    test = [row for row in world.rows if row.split == "test"]
    for data in (seen.decode(), locked.model_dump_json()):
        for row in test:
            for name in (row.sample_id, row.patient, row.study, row.files[0], row.model_dump_json()):
                assert name not in data
    view = ViewManifest.model_validate_json(seen)
    assert view.rows == tuple(row for row in world.rows if row.split != "test")
    assert {pack.pack.bucket for pack in view.packs} == {"data"}
    assert view.handoff.oddities == ("[sealed] has no date", "pat2001 has no date")

    predict = world.jobs[1]
    assert predict.inputs["package"] == PACKAGE
    assert {predict.inputs["samples"].bucket, predict.inputs["attributes"].bucket} == {"sealed"}
    told = await asyncio.to_thread(world.store.get_bytes, predict.inputs["attributes"])
    assert json.loads(told) == [{"sample_id": row.sample_id, "attributes": row.attributes} for row in test]

    assert result.level == "useful"
    assert (result.metric.name, result.metric.value, result.metric.n) == ("auc_macro", 1.0, 30)
    assert {one.name for one in result.others} == {"balanced_accuracy", "accuracy", "f1_macro", "brier", "ece"}
    assert {one.name for one in result.controls} == {"majority", "constant", "permutation"}
    assert result.permutation_p is not None and result.permutation_p < 0.01
    assert (result.locks, result.scorings) == (1, 1)
    gates = {gate.name: gate for gate in result.gates}
    assert all(gate.passed for gate in gates.values())
    assert "above the alarm bar" in gates["alarm"].evidence and "same_patient 0" in gates["alarm"].evidence
    table = json.loads(await asyncio.to_thread(world.store.get_bytes, result.details))["cases"]
    assert [line["sample_id"] for line in table] == [row.sample_id for row in test]


async def test_handling_every_event_again_adds_nothing(world: World) -> None:
    await scored(world)
    before = await world.kinds()
    for _ in range(2):
        for _, event in await world.bus.events(world.run_id):
            await world.scorer.handle(event)
    assert await world.kinds() == before
    assert before.count("DatasetLocked") == before.count("RunScored") == 1
    assert [job.kind for job in world.jobs] == ["pack", "predict"]


async def test_a_constant_answer_is_valid_and_not_useful(world: World) -> None:
    world.answers = constant
    result = await scored(world)
    assert result.level == "valid"
    assert (result.metric.value, result.permutation_p) == (0.5, 1.0)


@pytest.mark.parametrize(
    ("outcome", "raw", "gate"),
    [
        ("ok", b'{"cases": {"x": {"probabilities": {"normal": NaN}}}}', "predictions_readable"),
        ("ok", b'{"cases": {}}', "all_cases_predicted"),
        ("ok", b"\x80\x04pickle", "predictions_readable"),
        ("timeout", None, "predictions_made"),
        ("failed", None, "predictions_made"),
        ("cancelled", None, "predictions_made"),
    ],
)
async def test_hostile_predictions_and_failed_jobs_end_as_ran(
    world: World, outcome: str, raw: bytes | None, gate: str
) -> None:
    world.outcome, world.raw = outcome, raw
    result = await scored(world)
    assert result.level == "ran"
    assert next(one.name for one in result.gates if not one.passed) == gate
    assert result.metric is None


async def test_an_exact_copy_is_returned_twice_and_then_ends_the_run(world: World) -> None:
    test = next(row for row in world.rows if row.split == "test")
    source = world.folder / "scans" / "s1000" / "image.png"
    (world.folder / test.files[0]).write_bytes(source.read_bytes())
    await world.begin()
    for salt in ("1", "2", "3"):
        await world.prepare(salt)
        await world.until(lambda state: state.prepared is None or not state.live)
    events = [event for _, event in await world.bus.events(world.run_id)]
    returned = [event for event in events if isinstance(event, WorkReturned)]
    assert len(returned) == 2
    assert returned[0].target == "data_engineer"
    assert set(returned[0].evidence["gates"]) == {"no_same_content"}
    assert returned[0].evidence["leakage"]["pairs"] == [["same_content", "train/s1000", test.sample_id]]
    failed = [event for event in events if isinstance(event, RoleFailed)]
    assert [(event.end, event.gate) for event in failed] == [("failed_gate", "no_same_content")]


def alike(world: World, split: str) -> None:
    """Every sample becomes a picture; the first of train and the first of `split` are one, saved twice."""
    for number, row in enumerate(world.rows):
        (world.folder / row.files[0]).write_bytes(png(body(number, (64, 64))))
    copy = next(row for row in world.rows if row.split == split)
    (world.folder / copy.files[0]).write_bytes(jpeg(cropped(body(0, (64, 64)), 0.05), 80))


async def test_a_near_duplicate_is_returned_once_and_then_holds_down_the_level(world: World) -> None:
    alike(world, "test")
    test = next(row for row in world.rows if row.split == "test").sample_id
    await world.begin()
    await world.prepare("1")
    returned = await world.wait(WorkReturned)
    assert isinstance(returned, WorkReturned)
    assert (returned.sender, returned.target) == ("scorer", "data_engineer")
    assert returned.evidence["merge"] == [["train/s1000", test]]
    leakage = returned.evidence["leakage"]
    assert leakage["pairs"] == [["near_duplicate", "train/s1000", test]] and leakage["notes"]
    assert f"train/s1000 and {test}" in returned.reason
    # Handed in again as it was: it is locked, the report says so, and nothing that is built on it counts.
    await world.prepare("2")
    locked = await world.wait(DatasetLocked)
    assert isinstance(locked, DatasetLocked)
    assert locked.leakage.checks["near_duplicate"] == 1
    assert locked.leakage.pairs == (("near_duplicate", "train/s1000", "[sealed]"),)
    await world.train()
    result = await world.wait(RunScored)
    assert isinstance(result, RunScored)
    assert result.level == "ran"
    assert [gate.name for gate in result.gates if not gate.passed] == ["no_near_duplicates"]
    assert result.metric is not None


async def test_near_duplicates_in_a_split_of_the_dataset_are_told_and_fail_nothing(world: World) -> None:
    alike(world, "test")
    world.meta = META.model_copy(update={"split_from": "dataset"})
    result = await scored(world)
    locked = await world.wait(DatasetLocked)
    assert isinstance(locked, DatasetLocked)
    assert locked.leakage.checks["near_duplicate_in_given_split"] == 1
    assert "near-duplicates cross the split that came with the dataset" in locked.leakage.notes[-1]
    assert result.level == "useful"


async def test_locks_and_scorings_are_counted_and_an_old_preparation_moves_nothing(world: World) -> None:
    await scored(world)
    first = (await world.bus.state(world.run_id)).prepared
    second = await world.prepare("2")
    state = await world.until(lambda state: state.locked is not None)
    assert (state.prepared.event_id, state.locks) == (second.event_id, 2)
    await world.scorer.handle(first)
    await world.train("2")
    state = await world.until(lambda state: state.scored is not None)
    assert (state.scored.locks, state.scored.scorings) == (2, 2)
    assert (await world.kinds()).count("DatasetLocked") == 2


async def test_what_the_scorer_cannot_score_is_said_before_anything_is_trained(world: World) -> None:
    await world.begin(metric="dice")
    await world.prepare()
    returned = await world.wait(WorkReturned)
    assert returned.target == "task_manager"
    assert "balanced_accuracy" in returned.reason


def test_copies_are_found_under_other_names_of_any_length(settings: Settings, tmp_path: Path) -> None:
    store = Store.connect(settings)
    store.ensure_buckets()
    rows = dataset(tmp_path)
    odd = f"scans/s1002/{'ü' * 60}/{'long' * 30}.png"
    (tmp_path / odd).parent.mkdir()
    for path in (odd, rows[30].files[0]):
        (tmp_path / path).write_bytes(b"copy" * 2125)
    rows[2] = rows[2].model_copy(update={"files": (odd,)})
    packs = pack_samples(tmp_path, rows, store, bucket_of)
    found = find_copies(store, rows, packs)
    assert found.pairs == (("train/s1002", rows[30].sample_id),)
    assert found.compared and found.no_look == len(rows)  # random bytes are no images
    blind = find_copies(store, rows, packs.model_copy(update={"looks": None}))
    assert not blind.compared and blind.no_look == len(rows)


async def test_an_error_that_stays_ends_the_run_with_its_reason(world: World) -> None:
    world.outcome = "silent"
    await world.begin()
    await world.prepare()
    locked = await world.wait(DatasetLocked)
    trained = await world.train()
    await world.scorer.dead(trained, RuntimeError("no such object"))
    failed = await world.wait(RoleFailed)
    assert failed.end == "crashed"
    assert "no such object" in failed.reason
    await world.scorer.dead(locked, RuntimeError("again"))
    assert (await world.kinds()).count("RoleFailed") == 1


def test_the_scorer_imports_no_framework() -> None:
    code = "import sys, services.scorer.__main__; print({'torch', 'sklearn', 'monai'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
