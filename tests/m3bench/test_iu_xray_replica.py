"""The IU-Xray replica: both tables of the original or one merged, views, gaps, placeholders."""

import csv
import json
import re
from collections import Counter, defaultdict
from pathlib import Path

import pytest
from PIL import Image

from m3bench.replicas import make

REPORTS = "uid,MeSH,Problems,image,indication,comparison,findings,impression"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("iu") / "IU-Xray"
    make("iu-xray", folder, patients=100, layout="distributed", workers=1)
    return folder


def table(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as handle:
        return list(csv.DictReader(handle))


def test_distributed_layout_is_the_two_tables_and_doubly_named_pictures(root: Path) -> None:
    assert sorted(path.name for path in root.iterdir()) == ["images", "indiana_projections.csv", "indiana_reports.csv"]
    assert (root / "indiana_reports.csv").read_text().splitlines()[0] == REPORTS
    assert (root / "indiana_projections.csv").read_text().splitlines()[0] == "uid,filename,projection"
    shown = table(root / "indiana_projections.csv")
    assert all(re.fullmatch(rf"{row['uid']}_IM-\d{{4}}-\d001\.dcm\.png|.*-1002\.dcm\.png", r["filename"])
               for row, r in zip(shown, shown, strict=True))  # fmt: skip
    assert {row["projection"] for row in shown} == {"Frontal", "Lateral"}
    files = {path.name for path in (root / "images/images_normalized").iterdir()}
    assert len({row["filename"] for row in shown} - files) == 1 and not files - {row["filename"] for row in shown}
    with Image.open(root / "images/images_normalized" / sorted(files)[0]) as image:
        assert image.mode == "L" and image.size == (96, 96)


def test_studies_have_one_to_three_views_and_ids_with_gaps(root: Path) -> None:
    views = Counter(row["uid"] for row in table(root / "indiana_projections.csv"))
    assert Counter(views.values()) == {2: 88, 1: 10, 3: 2}
    uids = [int(row["uid"]) for row in table(root / "indiana_reports.csv")]
    assert uids == sorted(uids) and len(uids) == 100 and uids[-1] - uids[0] > 99
    assert set(views) == {str(uid) for uid in uids}


def test_texts_have_gaps_and_placeholders_and_follow_from_the_findings(root: Path) -> None:
    rows = table(root / "indiana_reports.csv")
    truth = json.loads(root.with_name("IU-Xray.truth.json").read_text())
    assert sum(not row["findings"] for row in rows) == 10
    assert sum(not row["findings"] and not row["impression"] for row in rows) == 2
    assert any("XXXX" in row["findings"] for row in rows) and any("x-XXXX" in row["impression"] for row in rows)
    facts = {str(study["uid"]): study["facts"] for study in truth["studies"]}
    denied = re.compile(r"\b(?:no|no evidence of|negative for) pneumothorax", re.IGNORECASE)
    said = defaultdict(set)
    for row in rows:
        names = {name for name, _, _ in facts[row["uid"]]}
        assert (row["MeSH"] == "normal") == (not names)
        if row["findings"]:
            said["Pneumothorax" in names].add(bool(denied.search(row["findings"])))
            said["Cardiomegaly" in names].add("heart is" not in row["findings"])
        for name, side, zone in facts[row["uid"]]:
            if row["findings"] and side:
                assert {-1: "right", 1: "left"}[side] in row["findings"].lower()
            if row["findings"] and name in ("Nodule", "Mass", "Fracture"):
                assert ("upper", "mid", "lower")[zone] in row["findings"]
    assert said == {True: {False}, False: {True}}
    assert truth["trivial"]["rouge_l"] < truth["ideal"]["rouge_l"] < 1


def test_paper_layout_is_one_table_with_a_row_an_image(root: Path, tmp_path: Path) -> None:
    make("iu-xray", tmp_path / "I", patients=100, workers=1)
    assert sorted(path.name for path in (tmp_path / "I").iterdir()) == ["images", "indiana_samples.csv"]
    rows = table(tmp_path / "I" / "indiana_samples.csv")
    assert list(rows[0]) == ["uid", "filename", "projection", *REPORTS.split(",")[1:]]
    reports = {row["uid"]: row for row in table(root / "indiana_reports.csv")}
    assert [row["filename"] for row in rows] == [row["filename"] for row in table(root / "indiana_projections.csv")]
    assert all(row["findings"] == reports[row["uid"]]["findings"] for row in rows)
