"""The CC-CCII replica: real layout, planted traps, the same bytes for the same seed."""

import csv
import hashlib
import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from m3bench.cli import app
from m3bench.datasets.cc_ccii import LABELS, new_scan, render_scan
from m3bench.replicas import ReplicaError, make
from shared.training.checkpoints import fingerprint
from tests.m3bench.opened import is_hidden, readable


@pytest.fixture(scope="module")
def root(tiny: Callable[[str], Path]) -> Path:
    return tiny("cc-ccii")


@pytest.fixture(scope="module")
def truth(root: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(root.with_name(f"{root.name}.truth.json").read_text(encoding="utf-8"))
    return found


def scans_on_disk(root: Path) -> dict[str, list[str]]:
    scans = defaultdict(list)
    for path in sorted(root.glob("*/*/*/*")):
        if not is_hidden(path.name):
            scans[path.parent.relative_to(root).as_posix()].append(path.name)
    return scans


def test_layout_is_class_patient_scan_slice(root: Path) -> None:
    assert {entry.name for entry in root.iterdir() if not is_hidden(entry.name)} == {
        *LABELS, "unzip_filenames.csv", "lesions_slices.csv",
    }  # fmt: skip
    scans = scans_on_disk(root)
    per_class: dict[str, Counter[str]] = {label: Counter() for label in LABELS}
    for scan, files in scans.items():
        label, patient, number = scan.split("/")
        assert patient.isdigit() and number.isdigit()
        assert 12 <= len(files) <= 40
        per_class[label][patient] += 1
    for patients in per_class.values():
        assert len(patients) == 12
        assert set(patients.values()) >= {1, 2, 3}
    everyone = [patient for patients in per_class.values() for patient in patients]
    assert len(everyone) == len(set(everyone))
    assert len({scan.split("/")[2] for scan in scans}) == len(scans)


def test_slices_are_small_grey_pictures(root: Path) -> None:
    for scan, files in scans_on_disk(root).items():
        with Image.open(root / scan / files[0]) as image:
            assert image.size == (96, 96) and image.mode == "L"


def test_odd_names_and_formats_are_in_every_class_alike(root: Path) -> None:
    kinds = {
        "padded": r"\d{4}\.png", "unpadded": r"(0|[1-9]\d*)\.png", "jpg": r"IMG-0001-\d{5}\.jpg", "bmp": r"\d{4}\.bmp",
        "upper": r"\d{4}\.PNG",
    }  # fmt: skip
    found: dict[str, Counter[str]] = {label: Counter() for label in LABELS}
    for scan, files in scans_on_disk(root).items():
        (kind,) = (name for name, pattern in kinds.items() if all(re.fullmatch(pattern, file) for file in files))
        found[scan.split("/")[0]][kind] += 1
    odd = [{kind: n for kind, n in counts.items() if kind != "padded"} for counts in found.values()]
    assert odd[0] == odd[1] == odd[2] == {"unpadded": 2, "jpg": 1, "bmp": 1, "upper": 1}
    assert all(counts["padded"] > 10 for counts in found.values())


def test_tables_name_every_scan_and_the_slices_with_lesions(root: Path, truth: dict[str, Any]) -> None:
    with (root / "unzip_filenames.csv").open(newline="") as stream:
        table = list(csv.DictReader(stream))
    scans = scans_on_disk(root)
    assert {f"{row['label']}/{row['patient_id']}/{row['scan_id']}": int(row["n_slice"]) for row in table} == {
        scan: len(files) for scan, files in scans.items()
    }
    with (root / "lesions_slices.csv").open(newline="") as stream:
        lesions = list(csv.DictReader(stream))
    assert set(lesions[0]) == {"imgpath"}
    paths = {row["imgpath"] for row in lesions}
    assert all((root / path).is_file() for path in paths)
    assert {path.split("/")[0] for path in paths} == {"CP", "NCP"}
    with_lesions = Counter(path.rpartition("/")[0] for path in paths)
    assert set(with_lesions) == {scan for scan in scans if not scan.startswith("Normal")}
    shares = [with_lesions[scan] / len(scans[scan]) for scan in with_lesions]
    assert float(np.mean(shares)) < 0.8 and min(shares) < 0.4
    assert truth["trivial"]["auc_macro"] == 0.5


def test_one_slice_is_damaged_and_one_scan_stands_under_two_patients(root: Path, truth: dict[str, Any]) -> None:
    scans = scans_on_disk(root)
    broken = [f"{scan}/{file}" for scan, files in scans.items() for file in files if readable(root / scan / file)]
    assert broken == [quirk["path"] for quirk in truth["quirks"] if quirk["quirk"] == "corrupt_png"]
    assert len(broken) == 1

    digests = defaultdict(list)
    for scan, files in scans.items():
        digests[fingerprint(None, [root / scan / file for file in files])].append(scan)
    copies = [sorted(group) for group in digests.values() if len(group) > 1]
    assert copies == truth["duplicates"] and len(copies) == 1
    (one, other) = copies[0]
    assert one.split("/")[0] == other.split("/")[0]
    assert one.split("/")[1] != other.split("/")[1]


def test_clutter_is_there_and_the_truth_is_not_inside(root: Path) -> None:
    hidden = [path for path in root.rglob("*") if is_hidden(path.name)]
    assert {path.name == ".DS_Store" for path in hidden} == {True, False}
    assert not list(root.rglob("*truth*"))


def test_the_same_seed_gives_the_same_bytes_however_many_processes(tmp_path: Path) -> None:
    def digests(name: str, seed: int, workers: int) -> dict[str, str]:
        make("cc-ccii", tmp_path / name, seed=seed, patients=4, workers=workers)
        files = [path for path in (tmp_path / name).rglob("*") if path.is_file()]
        files.append(tmp_path / f"{name}.truth.json")
        return {
            path.relative_to(tmp_path).as_posix().removeprefix(name): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in files
        }

    first = digests("a", 1, workers=1)
    assert first == digests("b", 1, workers=2)
    assert first != digests("c", 2, workers=1)


def test_refusals_come_before_anything_is_written(tmp_path: Path) -> None:
    full = tmp_path / "full"
    full.mkdir()
    (full / "mine.txt").write_text("keep me")
    with pytest.raises(ReplicaError, match="not an empty folder"):
        make("cc-ccii", full)
    with pytest.raises(ReplicaError, match=r"there are: .*cc-ccii"):
        make("mnist", tmp_path / "new")
    with pytest.raises(ReplicaError, match="tiny, small"):
        make("cc-ccii", tmp_path / "new", size="huge")
    with pytest.raises(ReplicaError, match="at least 4 patients"):
        make("cc-ccii", tmp_path / "new", patients=2)
    assert [path.name for path in tmp_path.rglob("*")] == ["full", "mine.txt"]


def test_command_line(tmp_path: Path) -> None:
    target = tmp_path / "data"
    target.mkdir()
    done = CliRunner().invoke(app, ["make", "cc-ccii", str(target), "--seed", "3", "--patients", "4"])
    assert done.exit_code == 0 and "truth in" in done.output
    assert len(list(target.glob("Normal/*"))) == 4

    again = CliRunner().invoke(app, ["make", "cc-ccii", str(target)])
    assert again.exit_code == 2 and "not an empty folder" in again.output
    assert "cc-ccii" in CliRunner().invoke(app, ["list"]).output


def test_a_new_scan_is_of_nobody_in_the_dataset(root: Path, tmp_path: Path) -> None:
    new_scan(tmp_path / "case", "NCP", seed=5)

    files = sorted((tmp_path / "case").iterdir())
    assert files[0].name == "0000.png" and 12 <= len(files) <= 40
    known = {fingerprint(None, [root / scan / file for file in names]) for scan, names in scans_on_disk(root).items()}
    assert fingerprint(None, files) not in known
    with pytest.raises(FileExistsError):
        new_scan(tmp_path / "case", "NCP", seed=5)
    with pytest.raises(ValueError, match="CP, NCP, Normal"):
        new_scan(tmp_path / "other", "COVID", seed=5)


def test_scans_of_one_patient_differ_but_share_a_skin_of_their_own() -> None:
    one, two = (render_scan("CP", ("t", 1), scan) for scan in (1, 2))
    assert one.pixels.shape != two.pixels.shape or not np.array_equal(one.pixels, two.pixels)
    assert np.array_equal(one.pixels, render_scan("CP", ("t", 1), 1).pixels)
