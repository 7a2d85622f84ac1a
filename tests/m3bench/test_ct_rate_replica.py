"""The CT-RATE replica: people, scans and reconstructions, reports with gaps, values that need the table."""

import csv
import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import nibabel
import numpy as np
import pytest

from m3bench.phantoms.chest_findings import LABELS
from m3bench.replicas import make
from m3bench.words.ct_words import labels_in
from tests.m3bench.opened import readable

LABEL_ORDER = (
    "Medical material,Arterial wall calcification,Cardiomegaly,Pericardial effusion,Coronary artery wall calcification,"
    "Hiatal hernia,Lymphadenopathy,Emphysema,Atelectasis,Lung nodule,Lung opacity,Pulmonary fibrotic sequela,"
    "Pleural effusion,Mosaic attenuation pattern,Peribronchial thickening,Consolidation,Bronchiectasis,"
    "Interlobular septal thickening"
)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("rate") / "CT-RATE"
    make("ct-rate", folder, patients=20, workers=1)
    return folder


@pytest.fixture(scope="module")
def truth(root: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(root.with_name("CT-RATE.truth.json").read_text())
    return found


def samples(root: Path, part: str) -> list[dict[str, str]]:
    found: list[dict[str, str]] = json.loads((root / f"reports_{part}.json").read_text())
    return found


def test_paper_layout_is_volumes_in_scans_in_cases_and_two_lists(root: Path, truth: dict[str, Any]) -> None:
    assert sorted(path.name for path in root.iterdir()) == ["reports_test.json", "reports_train.json", "volumes"]
    rows = samples(root, "train") + samples(root, "test")
    assert all(list(row) == ["image_path", "finding", "impression"] for row in rows)
    pattern = r"volumes/((?:train|valid)_\d+)/(\1_[a-h])/\2_[1-3]\.nii\.gz"
    assert all(re.fullmatch(pattern, row["image_path"]) for row in rows)
    files = {path.relative_to(root).as_posix() for path in root.rglob("*.nii.gz")}
    missing = {row["image_path"] for row in rows} - files
    assert missing == {quirk["path"] for quirk in truth["quirks"] if quirk["quirk"] == "missing_file"}
    assert len(missing) == 1 and not files - {row["image_path"] for row in rows}
    bad = [path for path in sorted(files) if readable(root / path)]
    assert bad == [quirk["path"] for quirk in truth["quirks"] if quirk["quirk"] == "truncated_file"]


def test_reconstructions_of_a_scan_share_the_report_and_some_texts_are_none(root: Path) -> None:
    told: dict[str, set[str]] = {}
    for row in samples(root, "train"):
        told.setdefault(row["image_path"].rsplit("/", 1)[0], set()).add(row["finding"])
    assert all(len(texts) == 1 for texts in told.values())
    texts = [next(iter(found)) for found in told.values()]
    assert texts.count("Not given.") == 1
    assert "nan" in {row["impression"] for row in samples(root, "train")}


def test_reports_say_exactly_the_planted_labels(root: Path, truth: dict[str, Any]) -> None:
    present = {scan["name"]: set(scan["sides"]) for scan in truth["scans"]}
    for row in samples(root, "train") + samples(root, "test"):
        if row["finding"] != "Not given.":
            assert labels_in(row["finding"]) == present[row["image_path"].split("/")[2]]
    where = {scan["name"]: (scan["sides"], scan["levels"]) for scan in truth["scans"]}
    told = [row for row in samples(root, "train") if "nodule" in row["finding"]]
    for row in told:
        sides, levels = where[row["image_path"].split("/")[2]]
        side = {-1: "right", 1: "left"}[sides["Lung nodule"]]
        level = ("upper", "middle", "lower")[levels["Lung nodule"]]
        assert re.search(rf"nodule with \w+ contours[\w ]* in the {side} lung {level} zone", row["finding"])
    assert len(told) > 3
    assert truth["trivial"]["rouge_l"] < truth["ideal"]["rouge_l"] < 1


def test_volumes_are_integers_of_the_phantom_with_two_kinds_of_offset(root: Path) -> None:
    lowest = Counter()  # type: Counter[int]
    for path in sorted(root.rglob("*_1.nii.gz")):
        if readable(path):
            continue
        image = nibabel.load(path)
        assert image.get_data_dtype() == np.int16 and image.shape[:2] == (48, 48) and 14 <= image.shape[2] <= 18
        assert image.header.get_slope_inter() == (None, None) or image.header.get_slope_inter() == (1.0, 0.0)
        assert nibabel.aff2axcodes(image.affine) == ("L", "P", "S")
        assert 0.6 <= image.header.get_zooms()[0] <= 0.9
        lowest[int(np.asarray(image.dataobj).min()) < -500] += 1
    assert len(lowest) == 2


def test_distributed_layout_has_the_tables_of_the_original(tmp_path: Path) -> None:
    truth = json.loads(make("ct-rate", tmp_path / "C", patients=8, layout="distributed", workers=1).read_text())
    base = tmp_path / "C" / "dataset"
    assert {path.name for path in base.iterdir()} == {
        "train", "valid", "radiology_text_reports", "multi_abnormality_labels", "metadata",
    }  # fmt: skip

    def table(name: str) -> list[dict[str, str]]:
        with (base / name).open(newline="") as handle:
            return list(csv.DictReader(handle))

    reports = table("radiology_text_reports/train_reports.csv")
    assert list(reports[0]) == [
        "VolumeName", "ClinicalInformation_EN", "Technique_EN", "Findings_EN", "Impressions_EN",
    ]  # fmt: skip
    assert any(row["Findings_EN"] == "Not given." for row in reports) and any(not r["Impressions_EN"] for r in reports)
    flags = table("multi_abnormality_labels/valid_predicted_labels.csv")
    assert list(flags[0]) == ["VolumeName", *LABEL_ORDER.split(",")] and tuple(LABEL_ORDER.split(",")) == LABELS
    present = {scan["name"]: set(scan["sides"]) for scan in truth["scans"]}
    for row in flags:
        assert {label for label in LABELS if row[label] == "1"} == present[row["VolumeName"].rsplit("_", 1)[0]]
    metadata = table("metadata/train_metadata.csv")
    assert sum(not row["ZSpacing"] for row in metadata) == 1
    assert re.fullmatch(r"\[0\.\d+, 0\.\d+\]", metadata[0]["XYSpacing"])
    assert {row["RescaleIntercept"] for row in metadata} == {"-1024", "0"}
    hidden = {quirk["path"] for quirk in truth["quirks"] if quirk["quirk"] in ("missing_file", "truncated_file")}
    for row in metadata[:6]:
        name = row["VolumeName"]
        person, scan = "_".join(name.split("_")[:2]), name.rsplit("_", 1)[0]
        path = base / "train" / person / scan / name
        if path.relative_to(tmp_path / "C").as_posix() not in hidden:
            stored = np.asarray(nibabel.load(path).dataobj).astype(float)
            units = stored * float(row["RescaleSlope"]) + float(row["RescaleIntercept"])
            assert -1030 < np.percentile(units, 1) < -900
