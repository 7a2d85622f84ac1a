"""The ADNI replica: tensors or DICOM series, a search table, and rows that must not be used."""

import csv
import json
import re
import shutil
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pydicom
import pytest
import torch
from PIL import Image

from m3bench.datasets.adni import HEADER, LOCALIZER, TABLE
from m3bench.replicas import make
from m3bench.show import montage


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("adni") / "ADNI_Dataset"
    make("adni", folder, patients=8, workers=1)
    return folder


def rows_of(root: Path) -> list[dict[str, str]]:
    with (root / TABLE).open(newline="") as handle:
        return list(csv.DictReader(handle))


def test_paper_layout_is_one_folder_of_tensors_and_one_table(root: Path) -> None:
    assert sorted(path.name for path in root.iterdir()) == ["ADNI1_Complete_3Yr_1.5T_11_21_2025.csv", "ADNI_PT"]
    head = (root / TABLE).read_text().splitlines()[0]
    assert head == (
        '"Image Data ID","Subject","Group","Sex","Age","Visit","Modality","Description","Type","Acq Date","Format",'
        '"Downloaded"'
    )
    assert tuple(rows_of(root)[0]) == HEADER
    for row in rows_of(root):
        assert re.fullmatch(r"\d{3}_S_\d{4}", row["Subject"]) and re.fullmatch(
            r"\d{1,2}/\d{1,2}/\d{4}", row["Acq Date"]
        )
        assert row["Group"] in {"AD", "CN", "MCI", "EMCI", "LMCI", "SMC"} and row["Modality"] == "MRI"


def test_tensors_load_without_code_and_differ_in_dtype(root: Path) -> None:
    found = [torch.load(path, weights_only=True) for path in (root / "ADNI_PT").iterdir()]
    kinds = Counter(tensor.dtype for tensor in found)
    assert set(kinds) == {torch.float32, torch.float16, torch.int16} and kinds.most_common(1)[0][0] == torch.float32
    assert Counter(tuple(tensor.shape) for tensor in found) == {(32, 40, 32): len(found) - 2, (3, 40, 32): 2}
    scales = [float(tensor.float().max()) for tensor in found]
    assert min(scales) < 5 and max(scales) > 1000


def test_rows_and_files_do_not_match_one_to_one(root: Path) -> None:
    truth = json.loads(root.with_name("ADNI_Dataset.truth.json").read_text())
    rows = rows_of(root)
    listed = {row["Image Data ID"] for row in rows}
    files = {path.stem for path in (root / "ADNI_PT").iterdir()}
    bare = {name for name in listed if name.isdigit()}
    assert len(bare) == 2 and {f"I{name}" for name in bare} <= files
    known = {f"I{name}" if name in bare else name for name in listed}
    assert len(known - files) == 3 and len(files - known) == 2
    assert sum(row["Description"] == LOCALIZER for row in rows) == 2
    assert Counter(quirk["quirk"] for quirk in truth["quirks"])["row_without_file"] == 3
    assert 0.85 < truth["ideal"]["balanced_accuracy"] < 1


def test_people_come_again_and_one_diagnosis_changes(root: Path) -> None:
    people = defaultdict(list)
    for row in rows_of(root):
        people[row["Subject"]].append(row)
    visits = Counter(len(rows) for rows in people.values())
    assert visits[1] and visits[2] and max(visits) >= 4
    changed = [
        sorted({row["Group"] for row in rows}) for rows in people.values() if len({r["Group"] for r in rows}) > 1
    ]
    assert changed == [["AD", "MCI"]]


def test_distributed_layout_has_a_folder_for_each_image(root: Path, tmp_path: Path) -> None:
    make("adni", tmp_path / "A", patients=4, layout="distributed", workers=1)
    images: dict[str, list[Path]] = defaultdict(list)
    for path in (tmp_path / "A" / "ADNI").glob("*/*/*/*/*"):
        images[path.parent.name].append(path)
    truth: dict[str, Any] = json.loads((tmp_path / "A.truth.json").read_text())
    assert set(images) == {scan["image_id"] for scan in truth["scans"] if scan["stored"]}
    assert {paths[0].suffix for paths in images.values()} == {".dcm", ".nii"}
    paths = next(paths for paths in images.values() if len(paths) > 10)
    slices = sorted((pydicom.dcmread(path) for path in paths), key=lambda item: int(item.InstanceNumber))
    assert len({item.SeriesInstanceUID for item in slices}) == 1
    assert len({item.SOPInstanceUID for item in slices}) == len(slices)
    assert slices[0].Modality == "MR" and slices[0].pixel_array.dtype == np.uint16
    assert slices[0].PatientID == paths[0].parts[-5]
    along = [float(item.ImagePositionPatient[0]) for item in slices]
    assert np.allclose(np.diff(along), -1.2)
    by_name = [int(pydicom.dcmread(path).InstanceNumber) for path in sorted(paths)]
    assert by_name != sorted(by_name)
    # A series of files is one volume to look at.
    only = tmp_path / "one"
    shutil.copytree(paths[0].parent, only / "series")
    assert montage(only, tmp_path / "one.png") == 1
    with Image.open(tmp_path / "one.png") as picture:
        assert np.asarray(picture)[1:-8, 1:-8, 0].std() > 20
