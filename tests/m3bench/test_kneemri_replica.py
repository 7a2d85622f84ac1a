"""The KneeMRI replica: pickled volumes, a table of eleven columns, boxes around the ligament."""

import csv
import json
import pickle
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from m3bench.datasets.kneemri import HEADER
from m3bench.replicas import make


@pytest.fixture(scope="module")
def root(tiny: Callable[[str], Path]) -> Path:
    return tiny("kneemri")


def rows_of(root: Path) -> list[dict[str, str]]:
    with (root / "metadata.csv").open(newline="") as handle:
        return list(csv.DictReader(handle))


def test_one_folder_of_pickles_and_the_table(root: Path) -> None:
    assert sorted(path.name for path in root.iterdir()) == ["metadata.csv", "volumetric_data"]
    rows = rows_of(root)
    assert (root / "metadata.csv").read_text().splitlines()[0] == (
        "examId,seriesNo,aclDiagnosis,kneeLR,roiX,roiY,roiZ,roiHeight,roiWidth,roiDepth,volumeFilename"
    )
    assert tuple(rows[0]) == HEADER
    assert {row["volumeFilename"] for row in rows} == {path.name for path in (root / "volumetric_data").iterdir()}
    assert all(row["volumeFilename"] == f"{row['examId']}-{row['seriesNo']}.pck" for row in rows)
    assert Counter(row["aclDiagnosis"] for row in rows) == {"0": 90, "1": 22, "2": 8}
    assert {row["kneeLR"] for row in rows} == {"0", "1"}
    twice = Counter(row["examId"] for row in rows)
    assert sorted(twice.values())[-6:] == [1, 2, 2, 2, 2, 2]


def test_volumes_are_twelve_bits_with_slices_first_and_hold_their_box(root: Path) -> None:
    for row in rows_of(root):
        data = (root / "volumetric_data" / row["volumeFilename"]).read_bytes()
        assert b"cnumpy.core.multiarray\n" in data and b"numpy._core" not in data
        volume = pickle.loads(data)  # noqa: S301 - written by ourselves
        assert volume.dtype == np.uint16 and volume.ndim == 3 and volume.max() <= 4095
        assert 16 <= volume.shape[0] <= 24 and min(volume.shape[1:]) >= 56
        for axis, start, size in ((0, "roiZ", "roiDepth"), (1, "roiY", "roiHeight"), (2, "roiX", "roiWidth")):
            assert int(row[start]) >= 0 and int(row[start]) + int(row[size]) <= volume.shape[axis]


def test_the_table_tells_nothing_but_the_diagnosis(root: Path) -> None:
    rows = rows_of(root)
    for name in HEADER[3:10]:
        values = {label: [float(r[name]) for r in rows if r["aclDiagnosis"] == label] for label in ("0", "1")}
        spread = np.std([*values["0"], *values["1"]])
        assert abs(np.mean(values["0"]) - np.mean(values["1"])) < spread


def test_distributed_layout_spreads_the_files_over_archives(root: Path, tmp_path: Path) -> None:
    make("kneemri", tmp_path / "K", patients=20, layout="distributed", workers=1)
    assert sorted(path.name for path in (tmp_path / "K").iterdir()) == ["metadata.csv", "vol01", "vol02", "vol03"]
    names = {path.name for path in (tmp_path / "K").glob("vol*/*.pck")}
    assert names == {row["volumeFilename"] for row in rows_of(tmp_path / "K")} and len(names) == 20


def test_full_counts_are_those_of_the_real_set(tmp_path: Path) -> None:
    truth = json.loads(make("kneemri", tmp_path / "K", size="layout", workers=1).read_text())
    exams = Counter(volume["exam"] for volume in truth["volumes"])
    assert Counter(v["diagnosis"] for v in truth["volumes"]) == {0: 690, 1: 172, 2: 55}
    assert len(exams) == 909 and Counter(exams.values()) == {1: 902, 2: 6, 3: 1}
