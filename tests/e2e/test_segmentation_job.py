"""Organs segmented from one sentence; one training scan has voxels that no training can use, so the work goes back."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nibabel
import numpy as np
import pytest

from m3bench import replicas
from m3bench.cards import paths
from services.gateway.package import predict_alone
from services.gateway.summary import summary
from shared.contracts.data import DatasetPrepared
from shared.contracts.events import decode_event
from shared.contracts.runs import WorkReturned
from shared.contracts.state import RunState, fold
from shared.store import Store
from tests.e2e.conftest import Running
from tests.e2e.fetching import fetch

pytestmark = pytest.mark.timeout(1200)

SENTENCE = "Segment the abdominal organs in contrast CT."
CARD = next(path for path in paths() if path.stem == "btcv")
BAD = {
    "img0101": "truncated",
    "img0102": "mask",
    "img0103": "grid",
    "img0104": "4D",
    "label0105": "whole numbers",
}
"""File that is damaged on purpose -> a word of the reason for which it is left out."""


@pytest.fixture(scope="module")
def scans(running: Running) -> Path:
    """The BTCV replica in its real layout, below the system's data root, and five cases that cannot be used."""
    folder = running.replica.parent / "abdomens"
    replicas.make("btcv", folder, size="tiny", seed=11, workers=1)
    _add_bad_cases(folder / "Training")
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    return folder


@pytest.fixture(scope="module")
def first_look(running: Running, scans: Path) -> Iterator[DatasetPrepared]:
    """What the Data Engineer makes of it; the run is over then."""
    running.gateway.add_dataset(CARD.read_text(), scans)
    run_id = running.ask(SENTENCE)
    prepared = None
    for item in running.gateway.follow(run_id):
        if item.kind == "DatasetPrepared":
            prepared = DatasetPrepared.model_validate_json(item.data)
            running.gateway.cancel(run_id, "enough")
        assert item.kind != "RunFinished" or prepared is not None, item.data
    assert prepared is not None
    yield prepared
    running.gateway.add_dataset(CARD.read_text(), here=False)


@pytest.fixture(scope="module")
def job(running: Running, scans: Path, first_look: DatasetPrepared) -> dict[str, Any]:
    """The whole run, with two scans that the training is going to see damaged where only a training looks."""
    rows = _rows(running, first_look)
    training = sorted(row["files"][0] for row in rows if row["split"] == "train")
    for name in training[:2]:
        _put_nan(scans / name)
    run_id = running.ask(SENTENCE, train_seconds=80)
    items = running.follow(run_id)
    events = [decode_event(item.data.encode()) for item in items if item.kind[0].isupper()]
    return {"run_id": run_id, "events": events, "state": fold(run_id, enumerate(events, 1)), "damaged": training[:2]}


def test_what_cannot_be_used_is_left_out_by_name_with_the_remedy(first_look: DatasetPrepared) -> None:
    told = {name: reason for reason, names in first_look.meta.excluded.items() for name in names}
    for file, word in BAD.items():
        case = file.removeprefix("img").removeprefix("label")
        reasons = [reason for name, reason in told.items() if case in name]
        assert reasons and any(word in reason for reason in reasons), (file, told)
        # A reason says what to do about it.
        assert all(":" in reason or ";" in reason for reason in reasons), reasons
    warned = " ".join(first_look.warnings)
    assert "left out" in warned or "excluded" in warned, first_look.warnings
    assert sum(sum(side.values()) for side in first_look.counts.values()) == 14


def test_a_sentence_becomes_a_segmentation_model(job: dict[str, Any]) -> None:
    state: RunState = job["state"]
    assert state.finished is not None and state.finished.end == "succeeded", state.finished
    assert state.planned and state.planned.plan.task == "organ_segmentation"
    assert state.scored and state.scored.metric and state.scored.metric.name == "dice"
    assert all(gate.passed for gate in state.scored.gates)
    assert {gate.name for gate in state.scored.gates} >= {"geometry_kept", "labels_in_map"}
    assert {control.name for control in state.scored.controls} >= {"mean_mask", "constant", "permutation"}
    assert state.prepared and state.prepared.meta.label_values == {
        name: value for value, name in enumerate(state.prepared.meta.label_names, 1)
    }
    assert len(state.prepared.meta.label_names) == 13 == len(state.scored.per_class)
    assert state.spent.turns <= 20
    told = summary(list(enumerate(job["events"], 1)), 110)
    assert "dice" in told and "liver" in told.lower()


def test_scans_that_cannot_be_trained_on_come_back_and_are_left_out(running: Running, job: dict[str, Any]) -> None:
    state: RunState = job["state"]
    returned = [event for event in job["events"] if isinstance(event, WorkReturned)]
    assert [(event.sender, event.target) for event in returned] == [(returned[0].sender, "data_engineer")]
    assert returned[0].sender in ("module_architect", "model_trainer")
    assert state.locks == 2
    samples = returned[0].evidence["samples"]
    assert isinstance(samples, dict) and len(samples) == 2
    assert all("NaN" in str(wrong) for wrong in samples.values())
    first, second = (event for event in job["events"] if event.kind == "DatasetPrepared")
    before, after = ({row["sample_id"]: row["split"] for row in _rows(running, event)} for event in (first, second))
    assert before.keys() - after.keys() == samples.keys()
    assert all(after[name] == before[name] for name in after), "nobody changes sides"
    assert any(reason.startswith("handed back") for reason in second.meta.excluded)


def test_the_package_keeps_the_grid_of_a_new_scan(running: Running, job: dict[str, Any], tmp_path: Path) -> None:
    fetch(running, job["run_id"], tmp_path / "model")
    replicas.make("btcv", tmp_path / "new", size="tiny", seed=12, patients=4, workers=1)
    scan = next((tmp_path / "new" / "Training" / "img").glob("img*.nii.gz"))
    given = nibabel.load(scan)
    # Tilted, as a scanner's gantry may be.
    tilt = np.eye(4)
    tilt[:2, :2] = [[np.cos(0.2), -np.sin(0.2)], [np.sin(0.2), np.cos(0.2)]]
    nibabel.save(nibabel.Nifti1Image(np.asarray(given.dataobj), tilt @ given.affine), tmp_path / "tilted.nii.gz")
    case, isolation = predict_alone(
        tmp_path / "model" / "package", tmp_path / "tilted.nii.gz", tmp_path / "out", running.system.settings.runner_uid
    )
    mask = nibabel.load(case["mask"])
    assert isolation and mask.shape == given.shape
    np.testing.assert_allclose(mask.affine, tilt @ given.affine, atol=1e-3)
    values = set(np.unique(np.asarray(mask.dataobj)).tolist())
    assert values <= set(range(14)) and len(values) > 3


def test_no_mask_of_the_test_set_was_within_reach(running: Running, job: dict[str, Any]) -> None:
    """Every file of the build workspaces and views against the bytes of every sealed mask and image."""
    state: RunState = job["state"]
    assert state.prepared
    rows = _rows(running, state.prepared)
    sealed = {
        (running.replica.parent / "abdomens" / name).read_bytes()
        for row in rows
        if row["split"] == "test"
        for name in (*row["files"], row["target"])
    }
    runner = running.system.home.root / "runner"
    areas = [*(runner / "ws" / job["run_id"]).glob("build*"), runner / "views"]
    seen = [path.read_bytes() for area in areas for path in area.rglob("*.nii.gz") if path.is_file()]
    assert sealed and seen
    assert not sealed & set(seen)
    train = next(row for row in rows if row["split"] == "train")
    assert (running.replica.parent / "abdomens" / train["target"]).read_bytes() in seen, (
        "the search finds what is there"
    )


def _rows(running: Running, prepared: DatasetPrepared) -> list[dict[str, Any]]:
    return [json.loads(line) for line in Store.connect(running.system.settings).get_bytes(prepared.index).splitlines()]


def _add_bad_cases(training: Path) -> None:
    """Copies of a good case with one fault each, named in BAD."""
    image, mask = training / "img" / "img0001.nii.gz", training / "label" / "label0001.nii.gz"
    scan, organs = nibabel.load(image), nibabel.load(mask)
    voxels, values = np.asarray(scan.dataobj), np.asarray(organs.dataobj)
    chance = np.random.default_rng(0)

    def save(number: int, its_voxels: Any, its_values: Any) -> None:
        for folder, stem, array, like in (("img", "img", its_voxels, scan), ("label", "label", its_values, organs)):
            if array is not None:
                path = training / folder / f"{stem}{number:04d}.nii.gz"
                nibabel.save(nibabel.Nifti1Image(array, like.affine), path)

    def other() -> Any:
        """Not the same content as the case that it is made from."""
        return voxels + chance.integers(-3, 3, voxels.shape).astype(voxels.dtype)

    save(101, other(), values)
    whole = training / "img" / "img0101.nii.gz"
    whole.write_bytes(whole.read_bytes()[:-2000])
    save(102, other(), None)
    save(103, other(), values[:, :, 1:])
    save(104, np.stack([other(), other()], axis=-1), values)
    save(105, other(), values.astype(np.float32) * 0.5)


def _put_nan(path: Path) -> None:
    image = nibabel.load(path)
    voxels = np.asarray(image.dataobj, dtype=np.float32)
    voxels[0, 0, 0] = np.nan
    nibabel.save(nibabel.Nifti1Image(voxels, image.affine), path)
