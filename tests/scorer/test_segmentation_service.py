"""A segmentation from DatasetPrepared to RunScored, on a real bus and a real object store."""

import asyncio
import gzip
import json
from collections.abc import AsyncIterator

import nibabel as nib
import numpy as np
import pytest
from case_tables import NIFTI, case, ref, table
from mask_files import answered, ball, canonical, nifti
from scorer_world import World, running, scored

from shared.bus import Bus
from shared.contracts.cases import CaseTable
from shared.contracts.data import CaseList, DatasetLocked, IndexRow, ViewManifest
from shared.contracts.runs import WorkReturned
from shared.settings import Settings
from shared.store import Store

VALUES = {"liver": 6, "spleen": 28}
SHAPE = (16, 12, 8)


def cases(store: Store) -> CaseTable:
    """Masks of one patient each; organs lie in other places in every patient."""
    rng, found = np.random.default_rng(7), []
    for number in range(20):
        mask = ball(SHAPE, rng.uniform(3, (13, 9, 5)), 2.5, 6)
        mask = ball(SHAPE, rng.uniform(2, (14, 10, 6)), 1.8, 28, mask)
        stored = store.put_bytes("cases", canonical(mask), NIFTI)
        found.append(case(number, images=(ref(number, NIFTI),), mask=stored, values=(6, 28)))
    return table(found, task="organ_segmentation", dimensions=3, label_values=VALUES)


def truth_of(world: World, row: IndexRow) -> np.ndarray:
    assert world.split is not None
    mask = next(one.mask for one in world.split.stored if one.sample_id == row.sample_id)
    assert mask is not None
    return np.asarray(nib.Nifti1Image.from_bytes(gzip.decompress(world.store.get_bytes(mask))).dataobj)


@pytest.fixture
async def world(settings: Settings, bus: Bus) -> AsyncIterator[World]:
    def good(row: IndexRow, number: int) -> object:
        """Right but for a slice of the volume."""
        mask = truth_of(found, row).copy()
        mask[:2] = 0
        return answered(found.store, nifti(mask))

    async with running(settings, bus, cases, good, "Dice") as found:
        yield found


def dice(world: World, row: IndexRow) -> float:
    truth = truth_of(world, row)
    answer = truth.copy()
    answer[:2] = 0
    each = [
        2 * ((truth == v) & (answer == v)).sum() / ((truth == v).sum() + (answer == v).sum()) for v in VALUES.values()
    ]
    return float(np.mean(each))


async def test_from_prepared_to_useful_and_no_mask_of_test_in_sight(world: World) -> None:
    result = await scored(world)
    locked = await world.wait(DatasetLocked)
    assert isinstance(locked, DatasetLocked)
    assert locked.facts.label_names == ("liver", "spleen") and locked.facts.label_values == VALUES

    test, seen = await world.test(), await world.get(locked.view)
    view = ViewManifest.model_validate_json(seen)
    assert view.facts == locked.facts and all(one.mask for one in view.stored)
    for one in (await world.sealed()).stored:
        assert (one.mask.sha256.encode() in seen) == (one.sample_id in {row.sample_id for row in view.rows})
    listed = CaseList.model_validate_json(await world.get(world.jobs[1].inputs["samples"]))
    assert {one.sample_id for one in listed.samples} == {row.sample_id for row in test} | listed.altered.keys()
    assert sorted(listed.altered.values()) == ["blanked"] * 3 + ["noise"] * 3  # a mask would not move along
    assert all(one.mask is None for one in listed.samples)

    assert result.metric is not None and result.metric.name == "dice"
    assert result.metric.value == pytest.approx(np.mean([dice(world, row) for row in test]))
    assert result.metric.low <= result.metric.value <= result.metric.high
    assert (result.metric.n, result.metric.patients) == (6, 6)
    assert set(result.per_class) == {"liver", "spleen"} and result.per_class["liver"]["n"] == 6
    assert {one.name for one in result.controls} == {"mean_mask", "constant", "permutation"}
    assert result.permutation_p is not None and result.permutation_p < 0.01
    gates = {gate.name: gate.passed for gate in result.gates}
    assert all(gates.values())
    assert {"predictions_readable", "all_cases_predicted", "geometry_kept", "labels_in_map", "values_whole"} <= set(
        gates
    )
    assert result.level == "useful"
    assert not any(row.sample_id in result.model_dump_json() for row in test)

    details = json.loads(await world.get(result.details))
    assert [line["sample_id"] for line in details["cases"]] == [row.sample_id for row in test]
    assert [line["dice"] for line in details["cases"]] == pytest.approx([dice(world, row) for row in test])
    assert set(details["worst"]) <= {row.sample_id for row in test}


async def test_what_a_package_leaves_behind_ends_as_ran_and_the_next_run_is_scored(world: World) -> None:
    good = world.answers
    hostile = [
        b"\x1f\x8b" + b"\0" * 50,
        nifti(np.zeros(SHAPE, np.uint8), np.diag([1.0, 2.0, 3.0, 1.0])),
        nifti(np.full(SHAPE, 0.5, np.float32)),
        nifti(np.full(SHAPE, 29, np.uint8)),
    ]

    def bad(row: IndexRow, number: int) -> object:
        if number < len(hostile):
            return answered(world.store, hostile[number])
        return {"error": "<b>out of memory"} if number == len(hostile) else good(row, number)

    world.answers = bad
    result = await scored(world)
    failed = {gate.name for gate in result.gates if not gate.passed}
    assert failed == {
        "predictions_readable",
        "geometry_kept",
        "values_whole",
        "labels_in_map",
        "all_cases_predicted",
    }
    assert result.level == "ran"
    test = await world.test()
    assert result.metric is not None
    assert result.metric.value == pytest.approx(sum(dice(world, row) for row in test[5:]) / 6)
    world.answers = good
    await world.train("again")
    state = await world.until(lambda state: state.scored is not None)
    assert state.scored is not None and state.scored.level == "useful" and state.scored.scorings == 2


async def test_a_truth_that_cannot_be_read_is_scored_as_ran(world: World) -> None:
    broken = await asyncio.to_thread(world.store.put_bytes, "cases", b"none", NIFTI)
    cases = [one.model_copy(update={"mask": broken}) for one in world.table.cases]
    world.table = world.table.model_copy(update={"cases": tuple(cases)})
    world.answers = lambda row, number: {"error": "none"}
    result = await scored(world)
    assert "truth_readable" in {gate.name for gate in result.gates if not gate.passed} and result.level == "ran"


async def test_a_plan_with_the_metric_of_another_task_goes_back(world: World) -> None:
    await world.begin(metric="accuracy")
    await world.prepare()
    returned = await world.wait(WorkReturned)
    assert isinstance(returned, WorkReturned)
    assert (returned.target, returned.evidence) == (
        "task_manager",
        {"metric": "accuracy"},
    ) and "dice" in returned.reason
