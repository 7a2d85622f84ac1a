"""Boxes and polygons in tables: as cells are read, as rules find them, and as they are drawn."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from resolve_files import carried_out, picture, text

from shared.dataset.profile.profile import profile
from shared.dataset.rules.resolve import Resolution, RulesError
from shared.dataset.shapes.decode_shapes import draw
from shared.dataset.shapes.regions import Four, boxes_of, mark_of_box, names_of, polygons_of
from shared.dataset.survey.box_columns import called
from shared.dataset.tables.tables import read_table
from shared.imaging.volume import BadImage

NUMBER = st.integers(-50, 4000) | st.floats(-50, 4000, allow_nan=False).map(lambda one: round(one, 3))
BOXES = st.lists(
    st.tuples(NUMBER, NUMBER, NUMBER, NUMBER).filter(lambda box: box not in ((0,) * 4, (-1,) * 4)), min_size=1
)


@given(BOXES)
def test_boxes_are_read_however_they_are_written(boxes: list[Four]) -> None:
    wanted = [tuple(map(float, box)) for box in boxes]
    as_text = "; ".join(" ".join(map(str, box)) for box in boxes)
    as_lines = "\n".join(json.dumps(box) for box in boxes)
    for cell in (json.dumps(boxes), str(boxes), as_text, as_lines):
        assert boxes_of([cell]) == wanted
    assert boxes_of(["\n".join(map(str, column)) for column in zip(*boxes, strict=True)]) == wanted


@pytest.mark.parametrize("cell", ["", "[]", "-1", "0 0 0 0", "[[0, 0, 0, 0]]"])
def test_cells_without_a_box(cell: str) -> None:
    assert boxes_of([cell]) == [] == boxes_of([""] * 4)


@pytest.mark.parametrize(
    "cells", [["1 2 3"], ["1 2 3 x"], ["1", "2", "", "4"], ["1\n2", "1\n2", "3", "4"], ["nan 1 2 3"]]
)
def test_what_is_no_box_is_refused(cells: list[str]) -> None:
    with pytest.raises(ValueError):
        boxes_of(cells)


def test_meanings_of_a_box() -> None:
    assert mark_of_box("a", (2, 3, 6, 8), "corners", False).numbers == (2, 3, 4, 5)
    assert mark_of_box("a", (2, 3, 2, 7), "inclusive", False).numbers == (2, 3, 1, 5)
    assert mark_of_box("a", (2, 3, 4, 5), "size", False).numbers == (2, 3, 4, 5)
    assert mark_of_box("a", (4, 5.5, 4, 5), "middle", False).numbers == (2, 3, 4, 5)
    assert mark_of_box("a", (0.25, 0.5, 0.75, 1), "corners", True).numbers == (0.5, 0.75, 0.5, 0.5)
    with pytest.raises(ValueError):
        mark_of_box("a", (6, 3, 2, 8), "corners", False)


@pytest.mark.parametrize(
    "cell",
    ["[[1, 2, 5, 2, 5, 7]]", "[1, 2, 5, 2, 5, 7]", "1 2 5 2 5 7", "1,2; 5,2; 5,7", "[(1, 2), (5, 2), (5, 7)]",
     "[1, 2]\n[5, 2]\n[5, 7]", "[[[1, 2], [5, 2], [5, 7]]]"],
)  # fmt: skip
def test_polygons_are_read_however_they_are_written(cell: str) -> None:
    assert polygons_of([cell]) == [(1, 2, 5, 2, 5, 7)] == polygons_of(["1 5 5", "2 2 7"])


def test_polygons_of_annotation_programs_in_cells() -> None:
    via = json.dumps({"name": "polygon", "all_points_x": [1, 5, 5], "all_points_y": [2, 2, 7]})
    svg = json.dumps([{"points": [{"x": 1, "y": 2}, {"x": 5, "y": 2}, {"x": 5, "y": 7}], "regionType": "freehand"}])
    assert polygons_of([via]) == polygons_of([svg]) == [(1, 2, 5, 2, 5, 7)]
    assert polygons_of([f"{svg}\n{via}"]) == [(1, 2, 5, 2, 5, 7)] * 2
    assert names_of('{"type": "mass"}', 1) == ["mass"]


def test_two_polygons_of_a_cell() -> None:
    two = [[[1, 2], [5, 2], [5, 7]], [[10, 2], [15, 2], [15, 7]]]
    assert polygons_of([json.dumps(two)]) == polygons_of(["\n".join(map(json.dumps, two))])
    assert polygons_of(["1 2 5 2 5 7; 10 2 15 2 15 7"]) == [(1, 2, 5, 2, 5, 7), (10, 2, 15, 2, 15, 7)]


@pytest.mark.parametrize(("cell", "count", "names"), [
    ("Mass", 2, ["Mass"] * 2), ("a\nb", 2, ["a", "b"]), ('["a", "b"]', 2, ["a", "b"]), ("['a']", 1, ["a"]),
    ("a|b", 2, ["a", "b"]), ("a, b", 2, ["a", "b"]), ("Nodule/Mass, left", 1, ["Nodule/Mass, left"]),
])  # fmt: skip
def test_names_of_regions(cell: str, count: int, names: list[str]) -> None:
    assert names_of(cell, count) == names


def test_another_number_of_names_is_refused() -> None:
    with pytest.raises(ValueError):
        names_of("a\nb\nc", 2)


@pytest.mark.parametrize(("names", "columns", "box"), [
    ("id x y width height Target", "x y width height", "size"),
    ("filename width height class xmin ymin xmax ymax", "xmin ymin xmax ymax", "corners"),
    ("XMin XMax YMin YMax", "XMin YMin XMax YMax", "corners"),
    ("f x0 y0 x1 y1", "x0 y0 x1 y1", "corners"), ("Y2 X2 Y1 X1", "X1 Y1 X2 Y2", "corners"),
    ("[x y w h]", "[x y w h]", "size"), ("cx cy w h", "cx cy w h", "middle"),
    ("top_left_x top_left_y bottom_right_x bottom_right_y", "top_left_x top_left_y bottom_right_x bottom_right_y",
     "corners"),
])  # fmt: skip
def test_columns_are_known_by_their_names(names: str, columns: str, box: str) -> None:
    (one,) = called(names.split())
    assert (one.columns, one.box) == (tuple(columns.split()), box)


def test_other_columns_are_no_box() -> None:
    assert called(["sex", "age", "weight", "height", "x", "y", "max", "index_1", "index_2"]) == []


def test_lists_of_lists_survive_in_a_json_table(tmp_path: Path) -> None:
    text(tmp_path / "t.json", json.dumps([{"a": [[1, 2.5], [3, 4]], "b": [], "c": [[]], "d": ["x", "y"], "e": [1, 2]}]))
    assert read_table(tmp_path / "t.json").rows == [{"a": "[1, 2.5]\n[3, 4]", "d": "x\ny", "e": "1\n2"}]


def found(root: Path, table: str, name: str = "t.csv", **rule: Any) -> Resolution:
    for one in "abc":
        picture(root / f"{one}.png")
    text(root / name, table)
    rule = {"kind": "boxes", "table": "t", "columns": ["x", "y", "w", "h"], "box": "size", **rule}
    tables = {"t": {"file": name, "key": "id"}}
    return carried_out(root, "anomaly_detection", images="{case}.png", tables=tables, masks=[rule])


def test_rows_without_a_box_are_healthy_and_larger_boxes_lie_below(tmp_path: Path) -> None:
    done = found(tmp_path, "id,x,y,w,h,k\na,1,1,1,1,small\na,0,0,4,3,large\nb,,,,,\n", class_column="k")
    assert [case.key for case in done.cases] == ["a.png", "b.png"] and done.cases[1].masks == ()
    assert done.coverage.counts == {"large": 1, "small": 1} and done.coverage.label_values == {"large": 1, "small": 2}
    drawn = draw(done.cases[0].masks[0], 4, 3)
    assert drawn.tolist() == [[1, 1, 1, 1], [1, 2, 1, 1], [1, 1, 1, 1]]
    assert [names for reason, names in done.left_out.items() if "without a mask" in reason] == [["c.png"]]
    assert len(found(tmp_path, "id,x,y,w,h\na,1,1,1,1\n", missing="empty").cases) == 3


def test_a_finding_without_a_box_is_not_healthy(tmp_path: Path) -> None:
    done = found(tmp_path, "id,x,y,w,h,k\na,1,1,1,1,mass\nb,,,,,mass\nc,,,,,normal\n", class_column="k")
    assert [case.key for case in done.cases] == ["a.png", "c.png"]
    assert any("'mass' without marking where" in reason for reason in done.left_out)


def test_numbers_of_classes_get_names(tmp_path: Path) -> None:
    table = "id,x,y,w,h,k\na,1,1,1,1,0\nb,1,1,1,1,1\nc,1,1,1,1,7\n"
    done = found(tmp_path, table, class_column="k", values={"mass": 0, "cyst": 1})
    assert done.coverage.counts == {"cyst": 1, "mass": 1} and done.cases[2].masks == ()


def test_wrong_boxes_leave_their_case_out(tmp_path: Path) -> None:
    done = found(tmp_path, "id,x,y,w,h\na,1,1,-1,1\nb,1,1,,1\nc,9,1,4,1\n")
    assert [case.key for case in done.cases] == ["c.png"]
    (names,) = (names for reason, names in done.left_out.items() if "annotation that is wrong" in reason)
    assert len(names) == 2
    with pytest.raises(BadImage, match="9 pixels outside"):
        draw(done.cases[0].masks[0], 4, 3)


def test_a_rule_says_what_it_needs(tmp_path: Path) -> None:
    with pytest.raises(RulesError, match="1 or 4 names in `columns`"):
        found(tmp_path, "id,x\na,1\n", columns=["x", "y"])
    with pytest.raises(RulesError, match="no column 'y'"):
        found(tmp_path, "id,x\na,1\n")


def test_polygons_are_drawn(tmp_path: Path) -> None:
    rows = [{"id": "a", "outline": [[[0, 0], [2, 0], [2, 3], [0, 3]]]}, {"id": "b", "outline": []}]
    done = found(tmp_path, json.dumps(rows), "t.json", kind="polygons", columns=["outline"], structure="lung")
    assert done.coverage.counts == {"lung": 1} and len(done.cases) == 2
    assert np.flatnonzero(draw(done.cases[0].masks[0], 4, 3).any(0)).tolist() == [0, 1]


def test_the_profile_counts_boxes_as_targets(tmp_path: Path) -> None:
    for number in range(6):
        picture(tmp_path / f"i{number}.png")
    text(
        tmp_path / "boxes.csv",
        "image,xmin,ymin,xmax,ymax\n" + "".join(f"i{n}.png,1,1,{n % 2 + 2},3\n" for n in range(6)),
    )
    seen = profile(tmp_path)
    assert seen.tasks["anomaly_detection"] == 1 and not seen.not_read
    assert seen.masks == ("boxes in xmin, ymin, xmax, ymax of boxes.csv",)
