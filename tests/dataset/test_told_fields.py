"""What tables, headers and the order of patterns say of files before they become cases; rows deep in a file."""

import json
from pathlib import Path
from typing import Any

import pytest
from resolve_files import carried_out, dicom, picture, segmentation, text, volume

from services.tool_runner.probes.resolve_rules import in_words
from shared.dataset.rules.resolve import Resolution, RulesError
from shared.dataset.tables.cells import TableError
from shared.dataset.tables.inner import inner_records

LABEL: dict[str, Any] = {"source": {"table": "t", "column": "label"}}


def labels(done: Resolution) -> dict[str, object]:
    return {case.key: case.label for case in done.cases}


def test_each_image_of_a_study_is_a_row(tmp_path: Path) -> None:
    """As an OCT machine exports it: one XML file a visit, whose series say the eye."""
    for name in ("a", "b", "c"):
        picture(tmp_path / f"{name}.png")
    image = "<Image><Kind>{}</Kind><Data><URL>\\\\server\\{}.png</URL></Data></Image>"
    right = f"<Series><Eye>R</Eye>{image.format('LOCALIZER', 'a')}{image.format('OCT', 'b')}</Series>"
    left = f"<Series><Eye>L</Eye>{image.format('OCT', 'c')}</Series>"
    text(tmp_path / "v.xml", f"<X><P><Name>K1</Name><Study><Day>3</Day>{right}{left}</Study></P></X>")
    table = {"file": "*.xml", "each": "P/Study/Series/Image", "key": "Data/URL", "names": "path"}
    done = carried_out(
        tmp_path, images="{n}.png", tables={"t": table}, patient={"table": "t", "column": "P/Name"},
        label={"source": {"table": "t", "column": "Series/Eye"}},
        exclude=[{"source": {"table": "t", "column": "Kind"}, "values": ["localizer"], "reason": "no slice"}],
    )  # fmt: skip
    assert labels(done) == {"b.png": "R", "c.png": "L"} and {case.patient for case in done.cases} == {"K1"}
    text(tmp_path / "v.json", json.dumps({"study": 7, "series": [{"eye": "R", "images": [{"n": 1}, {"n": 2}]}]}))
    assert inner_records(tmp_path / "v.json", "series/images") == [
        {"study": "7", "series/eye": "R", "n": "1"}, {"study": "7", "series/eye": "R", "n": "2"},
    ]  # fmt: skip
    with pytest.raises(TableError, match=r"has no element P/Study/Serie.*did you mean 'Series'"):
        inner_records(tmp_path / "v.xml", "P/Study/Serie")
    with pytest.raises(ValueError, match="`each` makes rows"):
        carried_out(tmp_path, images="{n}.png", tables={"t": {"file": "v.xml", "each": "P"}}, label=LABEL)


def test_what_was_digitised_again_takes_the_place_of_the_first(tmp_path: Path) -> None:
    for name in ("old/1", "old/2", "new/2"):
        picture(tmp_path / f"{name}.png")
    images: dict[str, Any] = {"files": ["new/{n}.png", "old/{n}.png"], "take": "first"}
    asked: dict[str, Any] = {"case": ["n"], "label": {"source": {"field": "n"}}}
    done = carried_out(tmp_path, images=[images], **asked)
    assert [case.images[0][0].files for case in done.cases] == [("old/1.png",), ("new/2.png",)]
    assert list(done.left_out.values()) == [["old/2.png"]] and done.coverage.lost == 1
    both = carried_out(tmp_path, images=[{**images, "take": "all"}], **asked)
    assert [case.key for case in both.cases] == ["1"]  # two pictures are no case unless rules say what they are
    assert any("take: first" in reason for reason in both.left_out)


def test_single_files_are_excluded_and_views_have_an_order(tmp_path: Path) -> None:
    views = ("LL", "PA"), ("PA", "Skew", "LL"), ("PA",), ("PA", "LL", "LL")
    for exam, some in enumerate(views):
        for number, view in enumerate(some):
            more = {"ImageComments": "rejected: moved"} if (exam, number) == (3, 1) else {}
            dicom(tmp_path / f"{exam}_{number}.dcm", f"p{exam}", f"{exam}{number}", ViewPosition=view, **more)
    angle = {"header": "ViewPosition", "otherwise": {"value": "none"}, "called": {"PA": "front", "LL": "side"}}
    asked: dict[str, Any] = {"images": "{exam}_{n}.dcm", "fields": {"angle": angle}, "case": ["exam"],
                             "several": "views", "views": {"field": "angle", "order": ["front", "side"]},
                             "label": {"source": {"field": "exam"}}}  # fmt: skip
    note = {"source": {"header": "ImageComments", "part": "^(rejected)"}, "of": "file", "reason": "rejected"}
    done = carried_out(tmp_path, exclude=[note], **asked)
    assert [[view[0].files[0] for view in case.images] for case in done.cases] == [
        ["0_1.dcm", "0_0.dcm"], ["1_0.dcm", "1_2.dcm"], ["3_0.dcm", "3_2.dcm"],
    ]  # fmt: skip
    assert done.left_out["excluded by the rules: rejected"] == ["3_1.dcm"]
    assert done.coverage.lossless == {"no_image": 1}  # the skew view of a case that is there; a whole case is no such
    assert done.coverage.views == {"2": 3} and "views: 3 cases of 2" in in_words(done.coverage)
    with pytest.raises(ValueError, match="set `several: views`"):
        carried_out(tmp_path, **{**asked, "several": "slices"})
    whole = carried_out(tmp_path, exclude=[{**note, "of": "case"}], **asked)
    assert [case.key for case in whole.cases] == ["0", "1"]


def test_numbers_beyond_a_bound_are_not_used(tmp_path: Path) -> None:
    for number in (1, 2, 3, 4):
        picture(tmp_path / f"{number}.png")
    text(tmp_path / "t.csv", 'id,days,label\n1,12,a\n2,181,b\n3,"180,5",b\n4,,a\n')
    tables = {"t": {"file": "t.csv", "key": "id"}}
    apart = {"source": {"table": "t", "column": "days"}, "above": 180, "reason": "too far apart"}
    done = carried_out(tmp_path, images="{n}.png", tables=tables, label=LABEL, exclude=[apart])
    assert labels(done) == {"1.png": "a", "4.png": "a"}
    with pytest.raises(ValueError, match="takes one of `values`"):
        carried_out(tmp_path, images="{n}.png", tables=tables, label=LABEL, exclude=[{**apart, "values": ["1"]}])


def test_the_latest_object_of_a_series_counts_and_names_may_have_a_pattern(tmp_path: Path) -> None:
    for number in (1, 2):
        dicom(tmp_path / f"s{number}/1.dcm", f"p{number}", f"s{number}")
    segmentation(tmp_path / "seg/1a.dcm", "s1", "Meta 1", "Liver")
    segmentation(tmp_path / "seg/1b.dcm", "s1", "Meta 1", "Meta 2")
    segmentation(tmp_path / "seg/2.dcm", "s2", "Liver")
    from pydicom import dcmread

    for name, day in (("1a", "20200101"), ("1b", "20200301"), ("2", "20200101")):
        dated = dcmread(tmp_path / f"seg/{name}.dcm")
        dated.ContentDate = day
        dated.save_as(tmp_path / f"seg/{name}.dcm")
    mask: dict[str, Any] = {"kind": "dicom_seg", "files": "seg/*.dcm", "named": {"metastasis": ["meta *"]},
                            "only": ["metastasis"], "missing": "empty"}  # fmt: skip
    asked: dict[str, Any] = {"task": "anomaly_detection", "dimensions": 3, "images": "s{n}/*.dcm", "case": "series"}
    done = carried_out(tmp_path, masks=[{**mask, "latest": "ContentDate"}], **asked)
    assert [[one.files for one in case.masks] for case in done.cases] == [[("seg/1b.dcm",)], []]
    both = carried_out(tmp_path, masks=[mask], **asked)
    assert both.coverage.added_up == 1 and "in 1 cases several masks mark one structure" in in_words(both.coverage)
    with pytest.raises(RulesError, match="DICOM has no header 'Day'"):
        carried_out(tmp_path, masks=[{**mask, "latest": "Day"}], **asked)


def test_volumes_of_several_lesions_are_no_slices_of_a_series(tmp_path: Path) -> None:
    for number in (1, 2, 3):
        dicom(tmp_path / f"exam/{number}.dcm", "p", "s", number)
    volume(tmp_path / "m/exam_1.nii.gz", 1)
    volume(tmp_path / "m/exam_2.nii.gz", 1)
    mask = {"files": "m/{e}_{lesion}.nii.gz", "structure": "lesion"}
    done = carried_out(tmp_path, "anomaly_detection", 3, images="{e}/{n}.dcm", case="series", masks=[mask])
    assert [one.files for one in done.cases[0].masks] == [("m/exam_1.nii.gz",), ("m/exam_2.nii.gz",)]
