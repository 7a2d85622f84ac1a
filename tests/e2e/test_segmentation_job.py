"""Organs segmented from one sentence, with cases among them that cannot be used."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nibabel
import numpy as np
import pytest

from m3bench import replicas
from m3bench.cards import paths
from services.command.package import predict_alone
from services.gateway.summary import left_out_of, summary
from shared.contracts.events import decode_event
from shared.contracts.state import RunState, fold
from shared.store import Store
from tests.e2e.conftest import Running
from tests.e2e.fetching import fetch
from tests.telemetry.edges import check_edges

pytestmark = pytest.mark.timeout(1200)

SENTENCE = "Segment the abdominal organs in contrast CT."
CARD = next(path for path in paths() if path.stem == "btcv")
BAD = {
    "img0101": "cannot be read",
    "img0102": "without a mask",
    "img0103": "voxels where the image has",
    "img0104": "fourth axis",
    "label0105": "not whole",
    "img0106": "NaN",
}
"""File that is damaged on purpose -> a word of the reason for which it is left out."""


@pytest.fixture(scope="module")
def scans(running: Running) -> Path:
    """The BTCV replica in its real layout, below the system's data root, and six cases that cannot be used."""
    folder = running.replica.parent / "abdomens"
    replicas.make("btcv", folder, size="tiny", seed=11, workers=1)
    _add_bad_cases(folder / "Training")
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    return folder


@pytest.fixture(scope="module")
def job(running: Running, scans: Path) -> Iterator[dict[str, Any]]:
    running.gateway.add_dataset(CARD.read_text(), scans)
    run_id = running.ask(SENTENCE, train_seconds=50)
    items = running.follow(run_id)
    events = [decode_event(item.data.encode()) for item in items if item.kind[0].isupper()]
    yield {"run_id": run_id, "events": events, "state": fold(run_id, enumerate(events, 1))}
    running.gateway.add_dataset(CARD.read_text(), here=False)


def test_what_cannot_be_used_is_left_out_with_the_remedy(running: Running, job: dict[str, Any]) -> None:
    state: RunState = job["state"]
    assert state.locked, state.finished
    reasons = left_out_of(state)
    for word in BAD.values():
        assert any(word in reason for reason in reasons), (word, reasons)
    # A reason says what to do about it.
    assert all(":" in reason or ";" in reason for reason in reasons), reasons
    assert sum(sum(side.values()) for side in state.locked.counts.values()) == 14
    assert {key for key in running.split(state).keys if any(file[-4:] in key for file in BAD)} == set()


def test_its_edges_are_those_of_the_stages(running: Running, job: dict[str, Any]) -> None:
    check_edges(running.spans, job["run_id"])


def test_a_sentence_becomes_a_segmentation_model(job: dict[str, Any]) -> None:
    state: RunState = job["state"]
    assert state.finished is not None and state.finished.end == "succeeded", state.finished
    assert state.planned and state.planned.plan.task == "organ_segmentation"
    assert state.scored and state.scored.metric and state.scored.metric.name == "dice"
    # Six of twenty scans cannot be used: more than may be lost without a word.
    assert {gate.name for gate in state.scored.gates if not gate.passed} == {"cases_left_out"}
    assert state.scored.level == "valid"
    assert {gate.name for gate in state.scored.gates} >= {"geometry_kept", "labels_in_map"}
    assert {control.name for control in state.scored.controls} >= {"mean_mask", "constant", "permutation"}
    assert state.locked and len(state.locked.facts.label_names) == 13 == len(state.scored.per_class)
    assert sorted(state.locked.facts.label_values.values()) == list(range(1, 14))
    assert state.spent.turns <= 20
    told = summary(list(enumerate(job["events"], 1)), 110)
    assert "dice" in told and "liver" in told.lower()


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
    split, store = running.split(state), Store.connect(running.system.settings)
    files: dict[bool, set[bytes]] = {True: set(), False: set()}
    for row, case in zip(split.rows, split.stored, strict=True):
        files[row.split == "test"] |= {store.get_bytes(ref) for ref in (*case.images, case.mask) if ref}
    runner = running.system.home.root / "runner"
    areas = [*(runner / "ws" / job["run_id"]).glob("build*"), runner / "views"]
    seen = {path.read_bytes() for area in areas for path in area.rglob("*.nii.gz") if path.is_file()}
    assert files[True] and not files[True] & seen
    assert files[False] <= seen, "the search finds what is there"


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
    broken = other().astype(np.float32)
    broken[0, 0, 0] = np.nan
    save(106, broken, values)
