"""The CT-Kidney replica: class folders of JPEG, no patient ids, copies, a table whose paths lead nowhere."""

import csv
import hashlib
import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from m3bench.replicas import make

NAMES = ("Cyst", "Normal", "Stone", "Tumor")


@pytest.fixture(scope="module")
def root(tiny: Callable[[str], Path]) -> Path:
    return tiny("ct-kidney")


def test_four_folders_of_numbered_pictures(root: Path) -> None:
    assert sorted(path.name for path in root.iterdir()) == [*NAMES, "kidneyData.csv"]
    counts = {}
    for name in NAMES:
        files = [path.name for path in (root / name).iterdir()]
        numbers = [int(re.fullmatch(rf"{name}- \((\d+)\)\.jpg", file)[1]) for file in files]  # type: ignore[index]
        assert sorted(numbers) == list(range(1, len(files) + 1))
        counts[name] = len(files)
    assert counts["Normal"] > counts["Cyst"] > counts["Tumor"] > counts["Stone"]
    assert 2.5 < counts["Normal"] / counts["Stone"] < 5


def test_pictures_are_grey_in_three_channels_and_of_many_sizes(root: Path) -> None:
    sizes = set()
    for path in sorted(root.glob("*/*.jpg"))[::9]:
        with Image.open(path) as image:
            assert image.mode == "RGB" and image.format == "JPEG"
            pixels = np.asarray(image).astype(int)
            sizes.add(image.size)
        assert np.ptp(pixels, axis=2).max() <= 4
    assert len(sizes) > 10


def test_table_has_paths_that_do_not_exist(root: Path) -> None:
    with (root / "kidneyData.csv").open(newline="") as handle:
        rows = list(csv.DictReader(handle))
    assert list(rows[0]) == ["", "image_id", "path", "diag", "target", "Class"]
    assert [int(row[""]) for row in rows] == list(range(len(rows)))
    assert {(row["Class"], row["target"]) for row in rows} == {(name, str(n)) for n, name in enumerate(NAMES)}
    assert {f"{row['Class']}/{row['image_id']}.jpg" for row in rows} == {
        path.relative_to(root).as_posix() for path in root.glob("*/*.jpg")
    }
    assert not any(Path(row["path"]).exists() for row in rows) and "," in rows[0]["path"]


def test_neighbours_are_nearly_alike_and_some_files_are_copies(root: Path) -> None:
    truth = json.loads(root.with_name(f"{root.name}.truth.json").read_text())
    same: dict[str, list[str]] = defaultdict(list)
    for path in sorted(root.glob("*/*.jpg")):
        same[hashlib.sha256(path.read_bytes()).hexdigest()].append(path.relative_to(root).as_posix())
    copies = [sorted(paths) for paths in same.values() if len(paths) > 1]
    planted = [sorted((q["path"], q["of"])) for q in truth["quirks"] if q["quirk"] == "copied_file"]
    assert sorted(copies) == sorted(planted) and len(copies) == 8
    assert Counter(paths[0].split("/")[0] for paths in copies) == dict.fromkeys(NAMES, 2)

    studies = [study for study in truth["studies"] if study["label"] == "Cyst"]
    likeness = {True: [], False: []}  # type: dict[bool, list[float]]
    for one, other in pairwise(studies):
        own = [_thumb(root / f"Cyst/Cyst- ({one['first'] + step}).jpg") for step in (0, 1)]
        likeness[True].append(float(np.corrcoef(own[0], own[1])[0, 1]))
        next_one = _thumb(root / f"Cyst/Cyst- ({other['first']}).jpg")
        likeness[False].append(float(np.corrcoef(own[0], next_one)[0, 1]))
    assert np.median(likeness[True]) > 0.97 > np.median(likeness[False])


def _thumb(path: Path) -> np.ndarray:
    with Image.open(path) as image:
        return np.asarray(image.convert("L").resize((48, 48)), dtype=np.float32).ravel()


def test_distributed_layout_has_the_doubled_folder(tmp_path: Path) -> None:
    make("ct-kidney", tmp_path / "K", patients=4, layout="distributed", workers=1)
    doubled = tmp_path / "K" / "CT-KIDNEY-DATASET-Normal-Cyst-Tumor-Stone" / "CT-KIDNEY-DATASET-Normal-Cyst-Tumor-Stone"
    assert sorted(path.name for path in doubled.iterdir()) == list(NAMES)
    assert (doubled.parent / "kidneyData.csv").is_file()
