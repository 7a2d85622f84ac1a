"""The probe on a sound index, on planted faults, and on a replica with its traps; run as the runner runs it."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nibabel
import numpy as np
import pytest
from PIL import Image

import shared
from m3bench.replicas import make
from shared.trainkit.index import is_hidden, natural_key, write_index
from shared.trainkit.split import split_by_patient

ROOT = Path(shared.__file__).parent.parent
PROBE = ROOT / "services/tool_runner/probes/verify_index.py"
META: dict[str, Any] = {
    "task": "diagnosis",
    "dimensions": 3,
    "label_names": ["ill", "well"],
    "grouping": "stated",
    "grouping_from": "Folders are patients.",
    "split_from": "made",
}


@pytest.fixture(scope="module")
def kit(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sandbox's PYTHONPATH: nothing of ours but shared/__init__.py and shared/trainkit."""
    folder = tmp_path_factory.mktemp("kit")
    shutil.copytree(ROOT / "shared/trainkit", folder / "shared/trainkit", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "shared/__init__.py", folder / "shared/__init__.py")
    return folder


@pytest.fixture
def probe(kit: Path, tmp_path: Path) -> Callable[..., dict[str, Any]]:
    def run(data: Path | None = None, *options: str) -> dict[str, Any]:
        environment = {"PYTHONPATH": str(kit), "PATH": os.environ["PATH"], "M3_DATA": str(data or tmp_path / "data")}
        command = [sys.executable, str(PROBE), "--index", "index.jsonl", "--meta", "index_meta.json", *options]
        (tmp_path / "work").mkdir(exist_ok=True)
        done = subprocess.run(
            command, cwd=tmp_path / "work", env=environment, capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 0 and "Traceback" not in done.stderr, done.stderr
        facts: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return facts

    return run


@pytest.fixture
def rows(tmp_path: Path) -> list[dict[str, Any]]:
    """Twelve patients with one scan of three slices each, written below data/."""
    random = np.random.default_rng(0)
    found = []
    for number in range(12):
        label = ("ill", "well")[number % 2]
        files = [f"{label}/p{number}/{index}.png" for index in range(3)]
        for file in files:
            path = tmp_path / "data" / file
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(random.integers(0, 200, (20, 24), dtype=np.uint8)).save(path)
        row = {"sample_id": f"s{number}", "patient": f"p{number}", "label": label, "files": files}
        found.append({**row, "attributes": {"kvp": 100 + number % 3}})
    return [dict(row) for row in split_by_patient(found)]


def write(tmp_path: Path, rows: list[dict[str, Any]], **meta: Any) -> None:
    """By hand, because write_index would refuse some of the faults."""
    (tmp_path / "work").mkdir(exist_ok=True)
    (tmp_path / "work/index.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "work/index_meta.json").write_text(json.dumps({**META, **meta}))


def row_of(rows: list[dict[str, Any]], split: str, number: int = 0) -> dict[str, Any]:
    return [row for row in rows if row["split"] == split][number]


def test_a_sound_index(tmp_path: Path, rows: list[dict[str, Any]], probe: Callable[..., dict[str, Any]]) -> None:
    write(tmp_path, rows)
    facts = probe()

    assert facts["ok"] is True and facts["errors"] == []
    assert facts["rows"] == 12 and facts["checked_files"] == 36 and facts["sampled"] is False
    assert facts["labels"] == {"ill": 6, "well": 6}
    assert sum(facts["patients"].values()) == 12 == sum(sum(side.values()) for side in facts["counts"].values())
    assert facts["geometry"]["image_sizes"] == {"24x20": 36}
    assert facts["geometry"]["files_per_sample"] == {"min": 3, "median": 3, "max": 3}
    assert facts["geometry"]["extensions"] == {".png": 36}
    assert facts["geometry"]["intensity"]["min"] == 0 and facts["geometry"]["intensity"]["max"] == 199
    assert facts["label_in_attributes"] == [] and facts["digests_complete"] is True


def test_a_patient_on_both_sides(tmp_path: Path, rows: list[dict[str, Any]], probe: Any) -> None:
    row_of(rows, "test")["patient"] = row_of(rows, "train")["patient"]
    write(tmp_path, rows)
    facts = probe()

    assert facts["patients_on_both_sides"] == [row_of(rows, "train")["patient"]]
    assert not facts["ok"] and facts["errors"] == []


def test_copies_within_and_across_sides(tmp_path: Path, rows: list[dict[str, Any]], probe: Any) -> None:
    first, second, held_out = row_of(rows, "train"), row_of(rows, "train", 1), row_of(rows, "test")
    for twin in (second, held_out):
        for source, target in zip(first["files"], twin["files"], strict=True):
            shutil.copy(tmp_path / "data" / source, tmp_path / "data" / target)
    write(tmp_path, rows)
    facts = probe()

    ids = first["sample_id"], second["sample_id"], held_out["sample_id"]
    assert facts["duplicate_samples"] == sorted([sorted([ids[0], ids[1]]), sorted([ids[0], ids[2]])])
    assert facts["duplicates_across_splits"] == [sorted([ids[0], ids[2]])]
    assert not facts["ok"]


def test_missing_unreadable_and_outside_files(tmp_path: Path, rows: list[dict[str, Any]], probe: Any) -> None:
    one, two, three = (row_of(rows, "train", number) for number in range(3))
    (tmp_path / "data" / one["files"][0]).unlink()
    broken = tmp_path / "data" / two["files"][1]
    broken.write_bytes(broken.read_bytes()[:100])
    (tmp_path / "elsewhere.png").write_bytes(broken.read_bytes())
    link = tmp_path / "data" / three["files"][2]
    link.unlink()
    link.symlink_to(tmp_path / "elsewhere.png")
    row_of(rows, "train", 3)["files"] = ["../elsewhere.png"]
    write(tmp_path, rows)
    facts = probe()

    assert facts["missing_files"] == [one["files"][0]] and facts["missing_count"] == 1
    assert [entry["file"] for entry in facts["unreadable"]] == [two["files"][1]] and facts["unreadable_count"] == 1
    assert sorted(facts["files_outside"]) == sorted(["../elsewhere.png", three["files"][2]])
    assert not facts["ok"] and any("'../elsewhere.png'" in error for error in facts["errors"])


def test_labels_under_other_names(tmp_path: Path, rows: list[dict[str, Any]], probe: Any) -> None:
    for row in rows:
        row["attributes"] |= {"group": {"ill": 1, "well": 0}[row["label"]], "id": row["sample_id"], "site": 1}
    rows[0]["label"] = "unknown"
    rows[0]["attributes"].pop("group")
    write(tmp_path, rows)
    facts = probe()

    assert facts["label_in_attributes"] == ["group"]
    assert facts["labels_not_in_meta"] == ["unknown"]
    assert not facts["ok"]


def test_a_missing_class_and_an_empty_side(tmp_path: Path, rows: list[dict[str, Any]], probe: Any) -> None:
    write(tmp_path, [row for row in rows if row["split"] == "train" and row["label"] == "ill"])
    facts = probe()

    assert facts["errors"] == ["class 'well' has no sample in train"]
    assert facts["counts"]["test"] == {} and not facts["ok"]


@pytest.mark.parametrize(
    ("index", "meta", "message"),
    [
        ("{not json\n", json.dumps(META), "line 1 is not JSON"),
        ('{"sample_id": "a"}\n', json.dumps(META), "files must be a list"),
        ('{"sample_id": 1, "files": [3], "label": {}}\n[]\n', "[]", "is not a JSON object"),
        ("", json.dumps({**META, "task": "cooking"}), "task is 'cooking'"),
        ("", "{", "index_meta.json cannot be read"),
        ("", json.dumps({**META, "label_names": 5}), "label_names must be a list"),
    ],
)
def test_garbage_is_told_and_never_a_traceback(
    tmp_path: Path, rows: list[dict[str, Any]], probe: Any, index: str, meta: str, message: str
) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work/index.jsonl").write_text(index)
    (tmp_path / "work/index_meta.json").write_text(meta)
    facts = probe()

    assert facts["ok"] is False and any(message in error for error in facts["errors"])


def test_no_index_and_no_data(tmp_path: Path, rows: list[dict[str, Any]], probe: Any) -> None:
    assert "No such file" in probe()["errors"][0]
    assert "not mounted" in probe(tmp_path / "nowhere")["errors"][0]


def test_budgets_are_stated_when_they_run_out(tmp_path: Path, rows: list[dict[str, Any]], probe: Any) -> None:
    shutil.copy(tmp_path / "data" / rows[0]["files"][0], tmp_path / "data" / rows[1]["files"][0])
    for row in rows:
        row["files"] = row["files"][:1]
    write(tmp_path, rows)
    facts = probe(None, "--seconds", "0", "--digest-bytes", "10")

    assert facts["sampled"] is True and facts["checked_files"] < 12
    assert facts["digests_complete"] is False


def test_masks_are_looked_up_too(tmp_path: Path, rows: list[dict[str, Any]], probe: Any) -> None:
    for row in rows:
        row |= {"label": None, "target": row["files"].pop()}
    (tmp_path / "data" / rows[0]["target"]).unlink()
    write(tmp_path, rows, task="organ_segmentation", label_names=["liver"])

    assert probe()["missing_files"] == [rows[0]["target"]]


def test_masks_that_do_not_fit(tmp_path: Path, probe: Any) -> None:
    rows = []
    for number in range(10):
        scan = np.random.default_rng(number).normal(size=(6, 5, 4)).astype(np.float32)
        mask = np.zeros((6, 5, 4), np.uint8 if number else np.float64)
        mask[0], mask[1] = 1, 28 if number in (3, 8) else 0
        for folder, data in (("img", scan), ("label", mask)):
            path = tmp_path / "data" / folder / f"{number}.nii.gz"
            path.parent.mkdir(parents=True, exist_ok=True)
            nibabel.save(nibabel.Nifti1Image(data, np.diag([-0.7, 0.7, 2.5, 1])), path)
        files = {"files": [f"img/{number}.nii.gz"], "target": f"label/{number}.nii.gz"}
        split = "test" if number > 7 else "val" if number == 7 else "train"
        rows.append({"sample_id": str(number), "patient": f"p{number}", "label": None, "split": split, **files})
    meta = {"task": "organ_segmentation", "label_names": ["C1", "T13"], "label_values": {"C1": 1, "T13": 28}}
    write(tmp_path, rows, **meta)
    facts = probe()
    assert facts["ok"] is True and facts["mask_faults"] == [] and facts["masks_checked"] == 10, facts
    geometry = facts["geometry"]
    assert geometry["structures"] == {"C1": {"train": 7, "val": 1, "test": 2}, "T13": {"train": 1, "val": 0, "test": 1}}
    assert geometry["orientation"] == {"LAS": 10} and geometry["image_sizes"] == {"6x5x4": 10}
    assert geometry["spacing_mm"][2] == {"min": 2.5, "median": 2.5, "max": 2.5}
    assert geometry["intensity"]["images"] == 7 and geometry["intensity"]["min"] < -1

    rows[3]["split"] = "test"
    write(tmp_path, rows, **meta)
    assert probe()["errors"] == ["structure 'T13' is in no mask of train"]

    def damage(number: int, data: Any, affine: Any = None) -> None:
        affine = np.diag([-0.7, 0.7, 2.5, 1]) if affine is None else affine
        nibabel.save(nibabel.Nifti1Image(data, affine), tmp_path / f"data/label/{number}.nii.gz")

    damage(0, np.full((6, 5, 4), 1.5))
    damage(1, np.full((6, 5, 4), np.nan))
    damage(2, np.ones((6, 5, 3), np.uint8))
    damage(4, np.ones((6, 5, 4), np.uint8), np.diag([-0.7, 0.7, 2.6, 1]))
    damage(5, np.full((6, 5, 4), 7, np.uint8))
    damage(6, np.arange(120).reshape(6, 5, 4).astype(np.int16) * 9)
    damage(7, np.full((6, 5, 4), -1, np.int16))
    whole = (tmp_path / "data/label/8.nii.gz").read_bytes()
    (tmp_path / "data/label/8.nii.gz").write_bytes(whole[: len(whole) // 2])
    faults = probe()["mask_faults"]
    for number, said in enumerate(
        ("1.5, which is no whole number", "NaN", "shape is 6x5x3", "", "differs from the image's by up to 0.1 mm",
         "the values 7, which are not in label_values", "are not in label_values", "negative value -1", "cannot be"),
    ):  # fmt: skip
        assert not said or any(text.startswith(f"label/{number}.") and said in text for text in faults), (said, faults)
    assert len(faults) == 8


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({}, "needs label_values"),
        ({"liver": 0}, "0 is background"),
        ({"spleen": 1}, "must be the same structures"),
        ({"liver": 1.5}, "must map a structure to its whole number"),
    ],
)
def test_label_values_of_a_segmentation(
    tmp_path: Path, rows: list[dict[str, Any]], probe: Any, values: Any, message: str
) -> None:
    write(tmp_path, rows, task="organ_segmentation", label_names=["liver"], label_values=values)
    assert any(message in error for error in probe()["errors"])


def test_the_replicas_traps(tmp_path: Path, probe: Any) -> None:
    data = tmp_path / "CC-CCII"
    truth = json.loads(make("cc-ccii", data, patients=6, seed=2).read_text())
    rows = []
    for folder in sorted(data.glob("*/*/*")):
        label, patient, scan = folder.relative_to(data).parts
        names = sorted((entry.name for entry in folder.iterdir() if not is_hidden(entry.name)), key=natural_key)
        files = [f"{label}/{patient}/{scan}/{name}" for name in names]
        rows.append({"sample_id": f"{label}/{patient}/{scan}", "patient": patient, "label": label, "files": files})
    meta = {**META, "label_names": ["CP", "NCP", "Normal"]}
    write_index(tmp_path / "work", split_by_patient(rows), meta)
    facts = probe(data)

    damaged = [quirk["path"] for quirk in truth["quirks"] if quirk["quirk"] == "corrupt_png"]
    assert [entry["file"] for entry in facts["unreadable"]] == damaged
    assert facts["duplicate_samples"] == truth["duplicates"]

    good = [{**row, "files": [file for file in row["files"] if file not in damaged]} for row in rows]
    write_index(tmp_path / "work", split_by_patient(good, same=[tuple(pair) for pair in truth["duplicates"]]), meta)
    mended = probe(data)
    assert mended["ok"] is True, mended
    assert mended["duplicate_samples"] == truth["duplicates"] and mended["duplicates_across_splits"] == []
