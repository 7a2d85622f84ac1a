import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.dataset.shapes.annotations import decode_counts, read_coco, read_labelme, read_runs, read_voc, read_yolo
from shared.dataset.shapes.label_studio import read_label_studio
from shared.dataset.tables.tables import TableError


def compressed(counts: list[int]) -> str:
    """Counts as COCO's own tool writes them."""
    text = ""
    for place, count in enumerate(counts):
        value = count - (counts[place - 2] if place > 2 else 0)
        more = True
        while more:
            bits = value & 0x1F
            value >>= 5
            more = value != (-1 if bits & 0x10 else 0)
            text += chr((bits | (0x20 if more else 0)) + 48)
    return text


def coco(path: Path, *annotations: dict[str, Any]) -> Path:
    images = [{"id": 1, "file_name": "a/1.png", "width": 4, "height": 3}, {"id": 2, "file_name": "2.png"}]
    content = {"images": images, "categories": [{"id": 7, "name": "Mass"}], "annotations": list(annotations)}
    path.write_text(json.dumps(content))
    return path


@given(st.lists(st.integers(0, 100_000), max_size=20))
def test_counts_come_back_from_their_code(counts: list[int]) -> None:
    assert decode_counts(compressed(counts)) == counts


@pytest.mark.parametrize("text", ["\x00", "P" * 40, "`", "ä"])
def test_broken_counts_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="run-length code"):
        decode_counts(text)


def test_coco_boxes_polygons_and_runs(tmp_path: Path) -> None:
    mask = np.zeros((3, 4), int)
    mask[1:, 2] = 1
    flat = mask.ravel(order="F")
    counts = [7, 2, 3]
    assert np.array_equal(np.repeat([0, 1, 0], counts), flat)
    base = {"image_id": 1, "category_id": 7}
    path = coco(
        tmp_path / "c.json",
        base | {"bbox": [0, 1, 2, 2]},
        base | {"bbox": [0, 0, 1, 1], "segmentation": [[0, 0, 2, 0, 2, 2], [1, 1, 3, 1, 3, 3, 1, 3]]},
        base | {"segmentation": {"size": [3, 4], "counts": counts}},
        base | {"segmentation": {"size": [3, 4], "counts": compressed(counts)}},
    )
    first, second = read_coco(path)
    assert [mark.kind for mark in first.marks] == ["box", "polygon", "polygon", "coco_runs", "coco_runs"]
    assert first.marks[3].numbers == first.marks[4].numbers == (7, 2, 3)
    assert {mark.structure for mark in first.marks} == {"Mass"} and first.marks[0].number == 7
    assert first.name == "a/1.png" and first.size == (4, 3) and not first.faults
    assert second.size is None and not second.marks and not second.faults


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"bbox": [0, 0, -1, 2]}, "box of -1"),
        ({"bbox": [0, 0, 1]}, "cannot be drawn"),
        ({"category_id": 9, "bbox": [0, 0, 1, 1]}, "unknown category 9"),
        ({"segmentation": {"size": [3, 4], "counts": [7, 9]}}, "covers 16 of 12"),
        ({"segmentation": {"size": [4, 3], "counts": [12]}}, "3 x 4 pixels"),
        ({"segmentation": [[0, 0, 1, 1]]}, "polygon of 4 numbers"),
        ({}, "neither"),
    ],
)
def test_faults_of_coco_belong_to_their_picture(tmp_path: Path, wrong: dict[str, Any], said: str) -> None:
    first, second = read_coco(coco(tmp_path / "c.json", {"image_id": 1, "category_id": 7} | wrong))
    assert said in first.faults[0] and not second.faults


@pytest.mark.parametrize(
    ("text", "numbers"), [("1 3 10 5", (1, 3, 10, 5)), ("", ()), (" -1 ", ()), ("[1, 3]", (1, 3)), ("0 2", (0, 2))]
)
def test_run_length_codes(text: str, numbers: tuple[float, ...]) -> None:
    assert read_runs(text) == numbers


@pytest.mark.parametrize("text", ["1 2 3", "1 x", "1 -2", "1.5 2"])
def test_broken_run_length_codes(text: str) -> None:
    with pytest.raises(ValueError, match="run-length code"):
        read_runs(text)


def test_yolo(tmp_path: Path) -> None:
    path = tmp_path / "1.txt"
    good = ("0 0.5 0.5 0.2 0.1", "2 0 0 0.5 0 0.5 0.5", "")
    path.write_text("\n".join((*good, "1 0.5 0.5 1.5 0.1", "1 0.5 0.5 0 0.1", "x", "3 .1 .2 .3 .4 .9")))
    found = read_yolo(path)
    assert [(mark.number, mark.kind) for mark in found.marks] == [
        (0, "relative_box"), (2, "relative_polygon"), (3, "relative_box"),
    ]  # fmt: skip
    assert [fault.split()[1] for fault in found.faults] == ["4", "5", "6"]
    path.write_text("")
    assert not read_yolo(path).marks and not read_yolo(path).faults


def test_voc(tmp_path: Path) -> None:
    path = tmp_path / "1.xml"
    box = "<bndbox><xmin>{}</xmin><ymin>1</ymin><xmax>{}</xmax><ymax>3</ymax></bndbox>"
    path.write_text(
        "<annotation><filename>1.jpg</filename><size><width>20</width><height>10</height></size>"
        f"<object><name>mass</name>{box.format(2, 5)}</object><object><name>mass</name>{box.format(9, 5)}</object>"
        f"<object>{box.format(2, 5)}</object></annotation>"
    )
    found = read_voc(path)
    assert found.name == "1.jpg" and found.size == (20, 10) and len(found.faults) == 2
    assert [(mark.structure, mark.numbers) for mark in found.marks] == [("mass", (1, 0, 4, 3))]


def test_labelme(tmp_path: Path) -> None:
    shapes = [
        {"label": "lung", "points": [[0, 0], [4, 0], [4, 4]], "shape_type": "polygon"},
        {"label": "lung", "points": [[5, 6], [1, 2]], "shape_type": "rectangle"},
        {"label": "node", "points": [[5, 5], [5, 8]], "shape_type": "circle"},
        {"label": "line", "points": [[5, 5], [5, 8]], "shape_type": "line"},
        {"label": "bad", "points": [[1]]},
    ]
    path = tmp_path / "1.json"
    path.write_text(json.dumps({"shapes": shapes, "imagePath": "1.png", "imageWidth": 10, "imageHeight": 9}))
    found = read_labelme(path)
    assert [mark.kind for mark in found.marks] == ["polygon", "box", "polygon"] and len(found.faults) == 2
    assert found.marks[1].numbers == (1, 2, 4, 4) and found.size == (10, 9)
    ring = np.array(found.marks[2].numbers).reshape(-1, 2)
    assert np.allclose(np.hypot(*(ring - 5).T), 3)


@pytest.mark.parametrize(
    "shape",
    [
        {
            "classTitle": "lung",
            "points": {"exterior": [[0, 0], [4, 0], [4, 4]], "interior": [[[1, 1], [2, 1], [2, 2]]]},
        },
        {"label": "lung", "region": [{"x": 0, "y": 0}, {"x": 4, "y": 0}, {"x": 4, "y": 4}]},
        {"Name": "lung", "shape": {"all_points_x": [0, 4, 4], "all_points_y": [0, 0, 4]}},
    ],
)
def test_outlines_of_other_programs(tmp_path: Path, shape: dict[str, Any]) -> None:
    path = tmp_path / "1.json"
    path.write_text(json.dumps({"name": "film 1", "size": {"width": 9, "height": 9}, "items": [shape, shape]}))
    marks = read_labelme(path).marks
    assert [(mark.structure, mark.numbers) for mark in marks] == [("lung", (0, 0, 4, 0, 4, 4))] * 2
    path.write_text(json.dumps({"size": {"width": 9, "height": 9}, "items": []}))
    assert read_labelme(path).marks == []


@pytest.mark.parametrize("read", [read_coco, read_labelme, read_voc])
@pytest.mark.parametrize("text", ["", "{}", "[]", "<a>", "{", '{"images": 3, "shapes": 3}'])
def test_other_files_are_refused_in_words(tmp_path: Path, read: Any, text: str) -> None:
    path = tmp_path / "x.json"
    path.write_text(text)
    with pytest.raises(TableError, match=r"x\.json"):
        read(path)


def region(kind: str, value: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": kind, "original_width": 200, "original_height": 100, "value": value, **more}


def studio(path: Path, *results: list[dict[str, Any]], **more: Any) -> Path:
    """A task with one annotation for each of `results`."""
    given = [{"was_cancelled": False, "result": result} for result in results]
    path.write_text(json.dumps([{"file_upload": "0a1b2c3d-7-1.jpg", "annotations": given, **more}]))
    return path


def test_label_studio_marks_in_percent_with_several_labels_and_names_from_before_the_upload(tmp_path: Path) -> None:
    box = {"x": 10, "y": 20, "width": 30, "height": 40, "rotation": 0}
    (found,) = read_label_studio(studio(tmp_path / "p.json", [
        region("rectanglelabels", box | {"rectanglelabels": ["Lysis", "Old"]}),
        region("polygonlabels", {"points": [[0, 0], [50, 0], [50, 100]], "polygonlabels": ["Sella"]}),
        region("rectangle", box | {"rotation": 90}, id="x"), region("labels", {"labels": ["Turned"]}, id="x"),
        region("choices", {"choices": ["good"]}),
    ]))  # fmt: skip
    assert found.name == "7-1.jpg" and found.size == (200, 100) and not found.faults
    assert [mark.structure for mark in found.marks] == ["Lysis", "Old", "Sella", "Turned"]
    assert found.marks[0].kind == "relative_box" and found.marks[0].numbers == pytest.approx((0.25, 0.4, 0.3, 0.4))
    assert found.marks[2].kind == "relative_polygon" and found.marks[2].numbers == (0, 0, 0.5, 0, 0.5, 1)
    # 60 x 40 pixels, turned by a quarter about (20, 20): from x -20 to 20, y 20 to 80.
    turned = [
        (x * 200, y * 100) for x, y in zip(found.marks[3].numbers[::2], found.marks[3].numbers[1::2], strict=True)
    ]
    assert np.allclose(turned, [(20, 20), (20, 80), (-20, 80), (-20, 20)])


def test_label_studio_tells_clean_from_not_looked_at(tmp_path: Path) -> None:
    box = region("rectanglelabels", {"x": 0, "y": 0, "width": 9, "height": 9, "rectanglelabels": ["Lysis"]})
    tasks = [
        {"data": {"image": "/data/local-files/?d=films/A%201/1.png"}, "annotations": [{"result": [box]}]},
        {"data": {"image": "/data/upload/7/00ab1f3c-2.png"}, "annotations": [{"result": []}]},
        {"data": {"image": "/data/upload/7/00ab1f3d-3.png"}, "annotations": []},
        {"data": {"image": "4.png"}, "annotations": [{"was_cancelled": True, "result": []}]},
        {"data": {"image": "5.png"}, "annotations": [{"result": []}, {"ground_truth": True, "result": [box]}]},
        {"data": {"image": "6.png"}, "annotations": [{"result": []}, {"result": [box]}]},
        {"data": {"image": "7.png"}, "annotations": [{"result": [box | {"type": "brushlabels"}]}]},
    ]
    (tmp_path / "p.json").write_text(json.dumps(tasks))
    found = {one.name: one for one in read_label_studio(tmp_path / "p.json")}
    assert {name: len(one.marks) for name, one in found.items() if not one.faults} == {
        "films/A 1/1.png": 1, "2.png": 0, "5.png": 1,
    }  # fmt: skip
    assert "two annotations" in found["6.png"].faults[0] and "not supported yet" in found["7.png"].faults[0]
    (tmp_path / "q.json").write_text("[]")
    with pytest.raises(TableError, match="no export of Label Studio"):
        read_label_studio(tmp_path / "q.json")
