"""A segmentation from DatasetPrepared to RunScored, on a real bus and a real object store."""

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator
from pathlib import Path

import numpy as np
import pytest
from mask_files import OBLIQUE, ball, nifti
from scorer_world import World, bucket_of, running, scored

from services.scorer.lock.copies import find_copies
from services.tool_runner.packs import pack_samples
from services.tool_runner.views import materialise_cases, materialise_view
from shared.bus import Bus
from shared.contracts.data import DatasetLocked, IndexMeta, IndexRow, PackList, ViewManifest
from shared.contracts.runs import WorkReturned
from shared.settings import Settings
from shared.store import Store

VALUES = {"liver": 6, "spleen": 28}
META = IndexMeta(
    task="organ_segmentation",
    dimensions=3,
    label_names=tuple(VALUES),
    label_values=VALUES,
    grouping="stated",
    grouping_from="the folder of a scan",
    split_from="made",
)
SHAPE = (16, 12, 8)


def dataset(folder: Path) -> list[IndexRow]:
    """Scans and masks of one patient each; organs lie in other places in every patient."""
    rng = np.random.default_rng(7)
    rows = []
    for number, split in enumerate(["train"] * 5 + ["val"] * 2 + ["test"] * 8):
        mask = ball(SHAPE, rng.uniform(3, (13, 9, 5)), 2.5, 6)
        mask = ball(SHAPE, rng.uniform(2, (14, 10, 6)), 1.8, 28, mask)
        scan = (100 * (mask > 0) + rng.integers(0, 9, SHAPE)).astype(np.int16)
        (folder / f"scan{number}.nii.gz").write_bytes(nifti(scan))
        (folder / f"organs{number}.nii.gz").write_bytes(nifti(mask))
        rows.append(
            IndexRow(
                sample_id=f"{split}/s{1000 + number}",
                patient=f"pat{2000 + number}",
                target=f"organs{number}.nii.gz",
                files=(f"scan{number}.nii.gz",),
                split=split,
            )
        )
    return rows


def truth_of(world: World, row: IndexRow) -> np.ndarray:
    import nibabel as nib

    return np.asarray(nib.load(world.folder / str(row.target)).dataobj)


def stored(world: World, mask: bytes) -> dict[str, object]:
    return {"mask": world.store.put_bytes("packages", mask).model_dump(mode="json"), "suffix": ".nii.gz"}


@pytest.fixture
async def world(settings: Settings, bus: Bus, tmp_path: Path) -> AsyncIterator[World]:
    folder = tmp_path / "dataset"
    folder.mkdir()

    def good(row: IndexRow, number: int) -> object:
        """Right but for a slice of the volume."""
        mask = truth_of(found, row).copy()
        mask[:2] = 0
        return stored(found, nifti(mask))

    async with running(settings, bus, folder, dataset(folder), META, good, "Dice") as found:
        yield found


def dice(world: World, row: IndexRow) -> float:
    truth = truth_of(world, row)
    answer = truth.copy()
    answer[:2] = 0
    each = [
        2 * ((truth == v) & (answer == v)).sum() / ((truth == v).sum() + (answer == v).sum()) for v in VALUES.values()
    ]
    return float(np.mean(each))


async def test_from_prepared_to_useful_and_no_mask_of_test_in_sight(world: World, tmp_path: Path) -> None:
    result = await scored(world)
    locked = await world.wait(DatasetLocked)
    assert isinstance(locked, DatasetLocked)
    assert locked.label_names == ("liver", "spleen") and locked.label_values == VALUES
    assert set(locked.leakage.checks.values()) == {0}

    test = [row for row in world.rows if row.split == "test"]
    masks = [(world.folder / str(row.target)).read_bytes() for row in test]
    told = (await asyncio.to_thread(world.store.get_bytes, locked.view)).decode()
    view = ViewManifest.model_validate_json(told)
    assert view.label_values == VALUES
    for row, mask in zip(test, masks, strict=True):
        for secret in (row.sample_id, row.patient, row.target, row.files[0], hashlib.sha256(mask).hexdigest()):
            assert secret not in told and secret not in locked.model_dump_json()

    # What later roles see, and what the package is given, holds the bytes of no test mask.
    folder = await materialise_view(locked.view, world.store, tmp_path / "home")
    seen = {path.name for path in folder.rglob("*") if path.is_file()}
    assert seen == {name for row in world.rows if row.split != "test" for name in (*row.files, str(row.target))}
    predict = world.jobs[1]
    listed = PackList.model_validate_json(await asyncio.to_thread(world.store.get_bytes, predict.inputs["samples"]))
    assert all(pack.target is None and pack.files == ("000.nii.gz",) for pack in listed.samples)
    await asyncio.to_thread(materialise_cases, listed, {}, world.store, tmp_path / "cases")
    for place in (folder, tmp_path / "cases"):
        content = b"".join(path.read_bytes() for path in place.rglob("*") if path.is_file())
        assert not any(mask in content for mask in masks)

    assert result.metric is not None and result.metric.name == "dice"
    assert result.metric.value == pytest.approx(np.mean([dice(world, row) for row in test]))
    assert result.metric.low <= result.metric.value <= result.metric.high
    assert (result.metric.n, result.metric.patients) == (8, 8)
    assert set(result.per_class) == {"liver", "spleen"} and result.per_class["liver"]["n"] == 8
    assert {one.name for one in result.controls} == {"mean_mask", "constant", "permutation"}
    assert result.permutation_p is not None and result.permutation_p < 0.01
    gates = {gate.name: gate.passed for gate in result.gates}
    assert all(gates.values())
    assert {"predictions_readable", "all_cases_predicted", "geometry_kept", "labels_in_map", "values_whole"} <= set(
        gates
    )
    assert result.level == "useful"
    assert not any(row.sample_id in result.model_dump_json() for row in test)

    details = json.loads(await asyncio.to_thread(world.store.get_bytes, result.details))
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
            return stored(world, hostile[number])
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
    test = [row for row in world.rows if row.split == "test"]
    assert result.metric is not None
    assert result.metric.value == pytest.approx(sum(dice(world, row) for row in test[5:]) / 8)
    world.answers = good
    await world.train("again")
    state = await world.until(lambda state: state.scored is not None)
    assert state.scored is not None and state.scored.level == "useful" and state.scored.scorings == 2


async def test_a_mask_that_cannot_be_read_is_returned_before_anything_is_trained(world: World) -> None:
    test = next(row for row in world.rows if row.split == "test")
    (world.folder / str(test.target)).write_bytes(nifti(np.full(SHAPE, 0.5, np.float32), OBLIQUE))
    await world.begin()
    await world.prepare()
    returned = await world.wait(WorkReturned)
    assert isinstance(returned, WorkReturned) and returned.target == "data_engineer"
    assert set(returned.evidence["gates"]) == {"masks_readable"}
    assert test.sample_id in returned.reason


async def test_a_plan_with_the_metric_of_another_task_goes_back(world: World) -> None:
    await world.begin(metric="accuracy")
    await world.prepare()
    returned = await world.wait(WorkReturned)
    assert isinstance(returned, WorkReturned)
    assert (returned.target, returned.evidence) == (
        "task_manager",
        {"metric": "accuracy"},
    ) and "dice" in returned.reason


async def test_an_index_for_another_task_goes_back(world: World) -> None:
    await world.begin(task="anomaly_detection")
    await world.prepare()
    returned = await world.wait(WorkReturned)
    assert isinstance(returned, WorkReturned)
    assert returned.target == "data_engineer" and "anomaly_detection" in returned.reason


def test_copies_of_images_are_found_although_masks_travel_with_some(settings: Settings, tmp_path: Path) -> None:
    store = Store.connect(settings)
    store.ensure_buckets()
    rows = dataset(tmp_path)
    # The same mask on both sides is no copy of an image: two empty masks are alike.
    (tmp_path / "organs7.nii.gz").write_bytes((tmp_path / "organs0.nii.gz").read_bytes())
    packs = pack_samples(tmp_path, rows, store, bucket_of, True)
    assert find_copies(store, rows, packs).pairs == ()
    for copied in (7, 5):
        (tmp_path / f"scan{copied}.nii.gz").write_bytes((tmp_path / "scan1.nii.gz").read_bytes())
    packs = pack_samples(tmp_path, rows, store, bucket_of, True)
    assert set(find_copies(store, rows, packs).pairs) == {
        ("train/s1001", "test/s1007"),
        ("val/s1005", "test/s1007"),
        ("train/s1001", "val/s1005"),
    }
