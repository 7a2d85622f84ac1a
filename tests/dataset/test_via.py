"""Regions that were drawn with VGG Image Annotator, whose projects tell pictures by name and size in bytes."""

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from resolve_files import carried_out, picture

from shared.dataset.propose import propose
from shared.dataset.rules.resolve import RulesError
from shared.dataset.shapes.via import is_via, read_via

BOX = {"name": "rect", "x": 0, "y": 0, "width": 2, "height": 1}
POLYGON = {"name": "polygon", "all_points_x": [0, 2, 2], "all_points_y": [0, 0, 2]}


def project(path: Path, rows: list[tuple[str, int, dict[str, Any], dict[str, Any]]], state: str = "done") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as text:
        lines = csv.writer(text)
        first = "filename file_size file_attributes region_count region_id region_shape_attributes region_attributes"
        lines.writerow(first.split())
        for name, size, shape, said in rows:
            told = [json.dumps({"state": state}), 1, 0, json.dumps(shape), json.dumps(said)]
            lines.writerow([name, size, *told])


def test_pictures_of_one_name_go_by_their_size(tmp_path: Path) -> None:
    sizes = {}
    for day in (1, 2):
        for number in (1, 2, 3):
            file = tmp_path / f"day{day}/IMG_{number}.png"
            picture(file, *range(day * number))
            file.write_bytes(file.read_bytes() + b"x" * (10 * day + number))
            sizes[day, number] = file.stat().st_size
    rows = [
        ("IMG_1.png", sizes[1, 1], POLYGON, {"what": "Nodule"}),
        ("IMG_1.png", sizes[1, 1], BOX, {"what": "lobe"}),
        ("IMG_1.png", sizes[2, 1], BOX, {"what": "nodul"}),
        ("IMG_2.png", sizes[1, 2], {}, {}),
        ("IMG_3.png", sizes[1, 3], BOX, {"what": "lobe"}),
    ]
    project(tmp_path / "resident.csv", rows)
    project(tmp_path / "chief.csv", [("IMG_1.png", sizes[2, 1], POLYGON, {"what": "nodule"})])
    assert is_via(tmp_path / "chief.csv") and [one.judged for one in read_via(tmp_path / "resident.csv")] == [
        True, True, False, True,
    ]  # fmt: skip
    mask = {"kind": "via", "files": ["chief.csv", "resident.csv"], "take": "first", "named": {"nodule": ["nodul"]},
            "only": ["nodule"]}  # fmt: skip
    asked: dict[str, Any] = {"task": "anomaly_detection", "images": "{day}/{n}.png"}
    done = carried_out(tmp_path, masks=[mask], **asked)
    kinds = {case.key: [shape.kind for one in case.masks for shape in one.shapes] for case in done.cases}
    assert kinds == {"day1/IMG_1.png": ["polygon"], "day1/IMG_3.png": [], "day2/IMG_1.png": ["polygon"]}
    empty = carried_out(tmp_path, masks=[{**mask, "missing": "empty"}], **asked)
    assert {case.key for case in empty.cases} == {*kinds, "day1/IMG_2.png"}  # what no project lists nobody saw

    seen = {"file": "resident.csv", "key": "{filename} {file_size}", "names": "name and bytes"}
    judged = {"source": {"table": "seen", "column": "region_count"}, "unless": ["1"], "reason": "not listed"}
    listed = carried_out(
        tmp_path, masks=[{**mask, "missing": "empty"}], tables={"seen": seen}, exclude=[judged], **asked
    )
    assert len(listed.cases) == 4 and listed.left_out["excluded by the rules: not listed"] == [
        "day2/IMG_2.png", "day2/IMG_3.png",
    ]  # fmt: skip


def test_projects_in_json_and_regions_that_have_no_area(tmp_path: Path) -> None:
    regions = [{"shape_attributes": {"name": "ellipse", "cx": 2, "cy": 2, "rx": 2, "ry": 1, "theta": 0},
                "region_attributes": {"kind": {"cyst": True, "solid": False}}},
               {"shape_attributes": {"name": "point", "cx": 1, "cy": 1}, "region_attributes": {}}]  # fmt: skip
    entry = {"filename": "1.png", "size": -1, "regions": regions, "file_attributes": {}}
    path = tmp_path / "via.json"
    path.write_text(json.dumps({"_via_settings": {}, "_via_img_metadata": {"1.png-1": entry}}))
    (one,) = read_via(path)
    assert (
        is_via(path)
        and one.bytes is None
        and [(mark.structure, mark.kind) for mark in one.marks] == [("cyst", "polygon")]
    )
    entry["regions"] = {"0": {"shape_attributes": {"name": "star"}, "region_attributes": {}}}
    path.write_text(json.dumps({"1.png-1": entry}))
    assert "region of kind star: not supported yet" in read_via(path)[0].faults[0]
    picture(tmp_path / "1.png", 1)
    (tmp_path / "t.csv").write_text("filename,file_size\n1.png,3\n")
    with pytest.raises(RulesError, match="no export of VGG Image Annotator"):
        carried_out(tmp_path, "anomaly_detection", images="{n}.png", masks=[{"kind": "via", "files": "t.csv"}])


def test_the_search_finds_them(tmp_path: Path) -> None:
    rows = []
    for number in range(12):
        file = tmp_path / f"images/P{number:02d}.png"
        picture(file, *range(number))
        rows.append((file.name, file.stat().st_size, POLYGON, {"kind": "lesion"}))
    project(tmp_path / "via_export.csv", rows)
    best = propose(tmp_path, "anomaly_detection", dimensions=2)[0]
    assert best.rules["masks"][0]["kind"] == "via" and best.coverage.cases == 12
    assert best.coverage.label_names == ("lesion",)
