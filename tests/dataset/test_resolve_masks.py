import json
from pathlib import Path
from typing import Any

import numpy as np
import pydicom
import pytest
from PIL import Image
from resolve_files import carried_out, dicom, files, picture, segmentation, structure_set, text, uid, volume

from shared.contracts.cases import MaskSpec
from shared.dataset.rules.gather import NO_RULE
from shared.dataset.rules.marks import LACKS_MASK, NO_MASK
from shared.dataset.rules.resolve import Resolution, RulesError

SEG = "anomaly_detection"


def masked(root: Path, masks: list[dict[str, Any]] | dict[str, Any], **rules: Any) -> Resolution:
    rules = {"images": "images/{case}.png"} | rules
    return carried_out(root, SEG, masks=masks if isinstance(masks, list) else [masks], **rules)


def specs(done: Resolution) -> dict[str, tuple[MaskSpec, ...]]:
    return {case.key.rpartition("/")[2]: case.masks for case in done.cases}


@pytest.fixture
def three(tmp_path: Path) -> Path:
    for name in "abc":
        picture(tmp_path / f"images/{name}.png")
    return tmp_path


def test_nnunet_with_values_of_its_own(tmp_path: Path) -> None:
    for case in ("liver_001", "liver_004"):
        volume(tmp_path / f"imagesTr/{case}_0000.nii.gz")
        volume(tmp_path / f"labelsTr/{case}.nii.gz", 1, 28)
    volume(tmp_path / "imagesTs/liver_002_0000.nii.gz")
    rule = {"files": "labelsTr/{case}.nii.gz", "values": {"background": 0, "liver": 1, "T13": 28}}
    done = carried_out(
        tmp_path, "organ_segmentation", 3, images="imagesT*/{case}_0000.nii.gz", masks=[rule]
    )  # fmt: skip
    assert done.coverage.label_values == {"liver": 1, "T13": 28} and done.coverage.label_names == ("liver", "T13")
    assert done.cases[0].masks == (
        MaskSpec(kind="file", files=("labelsTr/liver_001.nii.gz",), values={"1": 1, "28": 28}),
    )
    assert done.coverage.counts == {} and done.coverage.used == 4 and done.coverage.files == 5
    assert [names for reason, names in done.left_out.items() if "without a mask" in reason] == [
        ["imagesTs/liver_002_0000.nii.gz"]
    ]
    only = carried_out(
        tmp_path, "organ_segmentation", 3, images="imagesTr/{case}_0000.nii.gz", masks=[rule | {"only": ["t13"]}]
    )
    assert only.coverage.label_values == {"T13": 28} and only.cases[0].masks[0].values == {"nonzero": 0, "28": 28}


def test_values_that_nobody_names_are_looked_up(tmp_path: Path) -> None:
    for number in range(4):
        volume(tmp_path / f"img/img{number}.nii.gz")
        volume(tmp_path / f"label/label{number}.nii.gz", 1, 1 + number)
    rules: dict[str, Any] = {"images": "img/img{n}.nii.gz", "dimensions": 3}
    done = masked(tmp_path, {"files": "label/label{n}.nii.gz"}, **rules)
    assert done.coverage.label_values == {f"structure {value}": value for value in (1, 2, 3, 4)}
    assert set(done.cases[0].masks[0].values) == {"*"} and not done.coverage.problems
    only = masked(tmp_path, {"files": "label/label{n}.nii.gz", "only": ["structure 3"]}, **rules)
    assert only.coverage.label_values == {"structure 3": 3} and only.cases[0].masks[0].values == {"nonzero": 0, "3": 3}


def test_one_file_a_structure(tmp_path: Path) -> None:
    for case, names in {"s1": ("liver", "Spleen", "aorta"), "s2": ("liver", "spleen")}.items():
        volume(tmp_path / f"{case}/ct.nii.gz")
        for name in names:
            volume(tmp_path / f"{case}/segmentations/{name}.nii.gz", 1)
    rules: dict[str, Any] = {"images": "{case}/ct.nii.gz", "dimensions": 3}
    done = masked(tmp_path, {"files": "{case}/segmentations/{structure}.nii.gz"}, **rules)
    assert done.coverage.label_values == {"aorta": 1, "liver": 2, "Spleen": 3}
    assert done.coverage.counts == {"aorta": 1, "liver": 2, "Spleen": 2}
    assert {mask.files[0].rpartition("/")[2]: mask.values for mask in specs(done)["ct.nii.gz"]} == {
        "liver.nii.gz": {"nonzero": 2}, "spleen.nii.gz": {"nonzero": 3},
    }  # fmt: skip
    only = masked(
        tmp_path,
        {"files": "{case}/segmentations/{organ}.nii.gz", "structure": "the {organ}", "only": ["The Aorta"],
         "missing": "empty"},
        **rules,
    )  # fmt: skip
    assert only.coverage.label_values == {"the aorta": 1} and [len(case.masks) for case in only.cases] == [1, 0]


def test_several_rules_add_up(three: Path) -> None:
    for name in "ab":
        picture(three / f"lung/{name}.png", 255)
    picture(three / "lesion/a_m.png", 255)
    rules = [
        {"files": "lung/{case}.png", "structure": "lung"},
        {"files": "lesion/{case}_m.png", "structure": "lesion", "missing": "empty"},
    ]
    done = masked(three, rules)
    assert done.coverage.label_values == {"lesion": 1, "lung": 2}
    assert [[mask.values for mask in case.masks] for case in done.cases] == [
        [{"nonzero": 2}, {"nonzero": 1}], [{"nonzero": 2}],
    ]  # fmt: skip
    assert done.coverage.counts == {"lesion": 1, "lung": 2}


def test_masks_beside_their_images_are_no_images(tmp_path: Path) -> None:
    for number in (1, 2, 3):
        picture(tmp_path / f"benign/benign ({number}).png")
    for name in ("benign (1)_mask.png", "benign (1)_mask_1.png", "benign (2)_mask.png"):
        picture(tmp_path / f"benign/{name}", 255)
    done = masked(
        tmp_path,
        {"files": ["{k}/{case}_mask.png", "{k}/{case}_mask_*.png"], "structure": "lesion", "missing": "empty"},
        images="{k}/{case}.png",
    )  # fmt: skip
    assert {key: len(masks) for key, masks in specs(done).items()} == {
        "benign (1).png": 2, "benign (2).png": 1, "benign (3).png": 0,
    }  # fmt: skip
    with pytest.raises(RulesError, match="narrower"):
        masked(tmp_path, {"files": "{k}/{case}.png", "structure": "x"}, images="{k}/{case}.png")


def test_masks_of_slices_stand_in_the_order_of_the_slices(tmp_path: Path) -> None:
    for number in (1, 2, 10):
        picture(tmp_path / f"p1/image/{number}.png")
        picture(tmp_path / f"p1/mask/{number}.png", 1)
        picture(tmp_path / f"p2/image/{number}.png")
    picture(tmp_path / "p2/mask/2.png", 1)
    done = masked(
        tmp_path, {"files": "{p}/mask/{slice}.png", "structure": "x"}, images="{p}/image/{slice}.png", case=["p"],
        dimensions=3,
    )  # fmt: skip
    assert [mask.files for mask in done.cases[0].masks] == [("p1/mask/1.png", "p1/mask/2.png", "p1/mask/10.png")]
    assert [names for reason, names in done.left_out.items() if "some of its slices" in reason] == [["p2"]]


def test_a_palette(three: Path) -> None:
    for name in "abc":
        picture(three / f"masks/{name}.png")
    colors = {"#FF0000": "tumour", "00ff00": "stroma"}
    done = masked(three, {"kind": "palette", "files": "masks/{case}.png", "colors": colors})
    assert done.cases[0].masks[0].values == {"#ff0000": 2, "#00ff00": 1} and done.coverage.counts == {}
    only = masked(three, {"kind": "palette", "files": "masks/{case}.png", "colors": colors, "only": ["tumour"]})
    assert only.cases[0].masks[0].values == {"#ff0000": 1, "#00ff00": 0}
    assert only.coverage.label_values == {"tumour": 1}


def test_an_array_of_the_images_own_file(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / f"{name}.h5").write_bytes(b"x")
    done = masked(
        tmp_path, {"kind": "array", "array": "mask", "values": {"tumour": 2}},
        images=[{"files": "{case}.h5", "array": "image"}],
    )  # fmt: skip
    assert done.cases[0].masks == (MaskSpec(kind="array", files=("a.h5",), array="mask", values={"2": 2}),)


def test_run_length_codes_in_a_table(three: Path) -> None:
    text(three / "t.csv", "ImageId,EncodedPixels,cls\na.png,1 2,mass\na.png,5 1 7 2,node\nb.png,,\nc.png,1 2 3,mass\n")
    rules: dict[str, Any] = {"tables": {"t": {"file": "t.csv", "key": "ImageId"}}}
    done = masked(
        three, {"kind": "rle", "table": "t", "column": "encodedpixels", "class_column": "cls", "order": "rows"}, **rules
    )
    assert done.coverage.label_values == {"mass": 1, "node": 2} and list(specs(done)) == ["a.png", "b.png"]
    assert [shape.numbers for mask in specs(done)["a.png"] for shape in mask.shapes] == [(1, 2), (5, 1, 7, 2)]
    assert specs(done)["a.png"][0].order == "rows" and specs(done)["b.png"] == ()
    assert any("c.png" in names[0] for reason, names in done.left_out.items() if "annotation" in reason)


def coco(path: Path, *names: str) -> None:
    images = [{"id": n, "file_name": name, "width": 4, "height": 3} for n, name in enumerate(names)]
    marks = [{"image_id": 0, "category_id": 5, "bbox": [0, 0, 2, 2]}]
    text(path, json.dumps({"images": images, "annotations": marks, "categories": [{"id": 5, "name": "Mass"}]}))


def test_coco(three: Path) -> None:
    coco(three / "coco.json", "a.png", "b.png", "lost.png")
    done = masked(three, {"kind": "coco", "files": "coco.json"})
    assert done.coverage.label_values == {"Mass": 1} and list(specs(done)) == ["a.png", "b.png"]
    assert specs(done)["a.png"][0].size == (4, 3) and specs(done)["b.png"] == ()
    assert ["lost.png"] in done.left_out.values()
    assert done.coverage.counts == {"Mass": 1} and done.coverage.used == 2
    joined = masked(three, {"kind": "coco", "files": "coco.json", "structure": "any"})
    assert joined.coverage.label_values == {"any": 1} and joined.coverage.counts == {"any": 1}
    healthy = masked(three, {"kind": "coco", "files": "coco.json", "missing": "empty"})
    assert len(healthy.cases) == 3


def test_coco_files_of_sides_go_with_the_images_of_their_side(tmp_path: Path) -> None:
    for side in ("train", "val"):
        for name in ("1.jpg", "2.jpg"):
            picture(tmp_path / f"{side}/{name}")
    coco(tmp_path / "annotations/train.json", "1.jpg", "2.jpg")
    coco(tmp_path / "annotations/val.json", "2.jpg", "1.jpg")
    done = masked(tmp_path, {"kind": "coco", "files": "annotations/{side}.json"}, images="{side}/{n}.jpg")
    assert [case.key for case in done.cases if case.masks] == ["train/1.jpg", "val/2.jpg"]
    (tmp_path / "annotations/train.json").rename(tmp_path / "train/all.json")
    (tmp_path / "annotations/val.json").rename(tmp_path / "val/all.json")
    beside = masked(tmp_path, {"kind": "coco", "files": "*/all.json"}, images="*/{n}.jpg")
    assert [case.key for case in beside.cases if case.masks] == ["train/1.jpg", "val/2.jpg"]


def test_yolo_voc_and_labelme(three: Path) -> None:
    text(three / "labels/a.txt", "1 0.5 0.5 0.2 0.2\n0 0.1 0.1 0.1 0.1\n")
    text(three / "labels/b.txt", "")
    text(three / "labels/c.txt", "1 3 0.5 0.2 0.2\n")
    named = masked(three, {"kind": "yolo", "files": "labels/{case}.txt", "values": {"node": 0, "mass": 1}})
    assert named.coverage.label_values == {"mass": 1, "node": 2} and list(specs(named)) == ["a.png", "b.png"]
    assert [shape.value for shape in specs(named)["a.png"][0].shapes] == [1, 2]
    assert "c.png: line 1" in str(list(named.left_out.values()))
    plain = masked(three, {"kind": "yolo", "files": "labels/{case}.txt"})
    assert plain.coverage.label_values == {"structure 0": 1, "structure 1": 2}
    box = "<object><name>mass</name><bndbox><xmin>1</xmin><ymin>1</ymin><xmax>2</xmax><ymax>2</ymax></bndbox></object>"
    text(three / "voc/a.xml", f"<annotation>{box}</annotation>")
    done = masked(three, {"kind": "voc", "files": "voc/{case}.xml", "missing": "empty"})
    assert done.coverage.counts == {"mass": 1} and len(done.cases) == 3
    shape = {"label": "node", "points": [[0, 0], [2, 0], [2, 2]], "shape_type": "polygon"}
    text(three / "me/a.json", json.dumps({"shapes": [shape]}))
    done = masked(three, {"kind": "labelme", "files": "me/{case}.json"})
    assert done.coverage.label_values == {"node": 1} and list(specs(done)) == ["a.png"]


@pytest.mark.parametrize(("kind", "write"), [("dicom_seg", segmentation), ("rtstruct", structure_set)])
def test_dicom_objects_refer_to_their_series(tmp_path: Path, kind: str, write: Any) -> None:
    for patient in ("p1", "p2", "p3"):
        for number in (1, 2):
            dicom(tmp_path / f"{patient}/ct/{number}.dcm", patient, f"s{patient}", number)
    write(tmp_path / "marks/x1.dcm", "sp2", "Liver", "tumour")
    write(tmp_path / "marks/x2.dcm", "sp1", "liver")
    write(tmp_path / "marks/x3.dcm", "elsewhere", "liver")
    done = masked(tmp_path, {"kind": kind, "files": "marks/*.dcm"}, images="*/ct/*.dcm", case="series", dimensions=3)
    assert done.coverage.label_values == {"Liver": 1, "tumour": 2} and done.coverage.counts == {"Liver": 2, "tumour": 1}
    assert [(case.masks[0].files[0], case.masks[0].values) for case in done.cases] == [
        ("marks/x2.dcm", {"liver": 1}), ("marks/x1.dcm", {"Liver": 1, "tumour": 2}),
    ]  # fmt: skip
    assert len(files(done)) == 2 and ["marks/x3.dcm"] in done.left_out.values()


def test_a_structure_set_may_name_a_frame_of_reference_alone(tmp_path: Path) -> None:
    for patient in ("p1", "p2"):
        for number in (1, 2):
            frame = {"FrameOfReferenceUID": uid(f"frame {patient}")}
            dicom(tmp_path / f"{patient}/{number}.dcm", patient, f"s{patient}", number, **frame)
    roi, frame_of = pydicom.Dataset(), pydicom.Dataset()
    roi.ROINumber, roi.ROIName, frame_of.FrameOfReferenceUID = 1, "heart", uid("frame p2")
    more = {"StructureSetROISequence": [roi], "ReferencedFrameOfReferenceSequence": [frame_of]}
    dicom(tmp_path / "marks/x.dcm", "x", "marks", Modality="RTSTRUCT", **more)
    done = masked(
        tmp_path, {"kind": "rtstruct", "files": "marks/*.dcm"}, images="p*/*.dcm", case="series", dimensions=3
    )
    assert [case.key for case in done.cases] == ["p2"]


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ({"files": "masks/{x}.png"}, "shares no field"),
        ({"files": "mask/{case}.png"}, "no file fits"),
        ({"files": "masks/{case}.png", "values": {"a": 1, "b": 1}}, "each one once"),
        ({"files": "masks/{case}.png", "values": {"liver": 1}, "only": ["lever"]}, "did you mean 'liver'"),
        ({"files": "masks/{case}.png", "structure": "{organ}"}, "names a field"),
        ({"kind": "palette", "files": "masks/{case}.png"}, "needs `colors`"),
        ({"kind": "palette", "files": "masks/{case}.png", "colors": {"red": "x"}}, "#rrggbb"),
        ({"kind": "rle"}, "needs `table` and `column`"),
        ({"kind": "coco", "files": "x.json"}, "no file fits"),
        ({"kind": "coco", "files": "other.json"}, "no COCO file"),
        ({"kind": "dicom_seg", "files": "x.dcm"}, "no file fits"),
        ({"kind": "file"}, "needs `files`"),
    ],
)
def test_wrong_rules_for_masks_are_told(three: Path, rule: dict[str, Any], said: str) -> None:
    picture(three / "masks/a.png", 1)
    text(three / "other.json", "{}")
    with pytest.raises(RulesError, match=said):
        masked(three, rule)


def test_two_rules_without_names_cannot_be_told_apart(three: Path) -> None:
    picture(three / "one/a.png", 1)
    picture(three / "two/a.png", 1)
    with pytest.raises(RulesError, match="names of its own"):
        masked(three, [{"files": "one/{case}.png"}, {"files": "two/{case}.png"}])


def test_another_readers_masks_are_no_images_that_were_left_out(tmp_path: Path) -> None:
    """What no rule takes is told by its values, not by its folder's name."""
    grey = np.random.default_rng(0).integers(0, 256, (40, 40), np.uint8)
    drawn = np.zeros((40, 40), np.uint8)
    drawn[10:25, 12:30] = 255
    for number in range(4):
        for folder, pixels in (("images", grey), ("first", drawn), ("second", drawn), ("again", grey)):
            (tmp_path / folder).mkdir(exist_ok=True)
            Image.fromarray(pixels).save(tmp_path / folder / f"{number}.png")
    done = masked(tmp_path, {"files": "first/{case}.png", "structure": "lesion"})
    assert done.coverage.cases == 4 and done.coverage.lossless == {"no_image": 4}
    assert done.left_out[NO_RULE] == [f"again/{number}.png" for number in range(4)]


def test_the_consensus_counts_before_its_readers_and_words_tell_the_healthy(tmp_path: Path) -> None:
    for case in "abcdef":
        picture(tmp_path / f"images/{case}.png")
    for case, who in (("a", "one"), ("a", "two"), ("a", "both"), ("b", "two"), ("c", "one"), ("c", "two")):
        picture(tmp_path / f"masks/{case}_{who}.png", 255)
    text(tmp_path / "list.csv", "id,reading\na,BML\nd,No BML\ne,BML\nf,\n")
    rule = {
        "files": ["masks/{case}_both.png", "masks/{case}_one.png", "masks/{case}_two.png"],
        "structure": "lesion",
        "marked": {"table": "list", "column": "reading"},
        "unmarked": "no BML",
    }
    tables = {"list": {"file": "list.csv", "key": "id"}}
    exclude = [{"files": ["images/x*.png", "images/b.png"], "reason": "another knee"}]
    found = specs(masked(tmp_path, {**rule, "take": "first"}, tables=tables, exclude=exclude))
    files = {name: [file for one in some for file in one.files] for name, some in found.items()}
    assert files == {"a.png": ["masks/a_both.png"], "c.png": ["masks/c_one.png"], "d.png": []}
    every = specs(masked(tmp_path, rule, tables=tables))
    assert len(every["a.png"]) == 3 and len(every["b.png"]) == 1
    says = masked(tmp_path, rule, tables=tables).left_out
    assert says[LACKS_MASK] == ["images/e.png"] and says[NO_MASK] == ["images/f.png"]
    for wrong, what in (
        ({"take": "first", "files": "masks/{case}_both.png"}, "several"),
        ({"marked": None}, "unmarked"),
    ):
        with pytest.raises(ValueError, match=what):
            masked(tmp_path, {**rule, **wrong}, tables=tables)


def test_a_column_leads_to_masks_that_are_numbered_by_themselves(tmp_path: Path) -> None:
    for name in ("AB1", "CD2", "EF3", "GH4", "IJ5"):
        volume(tmp_path / f"ct/{name}_pv.nii.gz")
    for name in ("7", "roi012_x", "roi001_x", "3", "roi003_x", "roi099_x"):
        volume(tmp_path / f"drawn/{name}.nii.gz", 1)
    text(tmp_path / "list.csv", "code,no\nAB1,7\nCD2,12\nEF3,1\nGH4,3\nIJ5,55\n")
    rule = {"files": ["drawn/roi{no}_x.nii.gz", "drawn/{no}.nii.gz"], "structure": "lesion"}
    rules = {"images": "ct/{code}_pv.nii.gz", "tables": {"list": {"file": "list.csv", "key": "code", "names": "code"}}}
    with pytest.raises(
        RulesError, match=r"shares no field with `images`.*tells which mask is whose, give `table` and `column`"
    ):
        masked(tmp_path, rule, **rules)
    with pytest.raises(RulesError, match="need `table` and `column`"):
        masked(tmp_path, rule | {"table": "list"}, **rules)
    done = masked(tmp_path, rule | {"table": "list", "column": "no"}, **rules)
    assert {name: one[0].files for name, one in specs(done).items()} == {
        "AB1_pv.nii.gz": ("drawn/7.nii.gz",),
        "CD2_pv.nii.gz": ("drawn/roi012_x.nii.gz",),
        "EF3_pv.nii.gz": ("drawn/roi001_x.nii.gz",),
        "GH4_pv.nii.gz": ("drawn/3.nii.gz",),
    }
    left = {name for names in done.left_out.values() for name in names}
    assert left == {"ct/IJ5_pv.nii.gz", "drawn/roi003_x.nii.gz", "drawn/roi099_x.nii.gz"}


def test_masks_of_a_column_agree_in_the_fields_that_images_have_too(tmp_path: Path) -> None:
    for side in "ab":
        volume(tmp_path / f"ct/{side}/P1.nii.gz")
        for part in ("liver", "lesion"):
            volume(tmp_path / f"drawn/{side}/4_{part}.nii.gz", 1)
    text(tmp_path / "list.csv", "code,no\nP1,004\n")
    done = masked(
        tmp_path,
        {"files": "drawn/{side}/{no}_{structure}.nii.gz", "table": "list", "column": "no"},
        images="ct/{side}/{code}.nii.gz",
        tables={"list": {"file": "list.csv", "key": "code", "names": "code"}},
    )
    assert [[mask.files for mask in case.masks] for case in done.cases] == [
        [(f"drawn/{side}/4_lesion.nii.gz",), (f"drawn/{side}/4_liver.nii.gz",)] for side in "ab"
    ]


def test_cases_of_two_layouts_have_masks_by_the_fields_of_their_own(tmp_path: Path) -> None:
    """The first case lacks a field of the masks: all masks of a visit had gone to each person."""
    picture(tmp_path / "images/clinic/1/2019.png")
    for person in "ab":
        for visit in (1, 2):
            picture(tmp_path / f"images/uni/{person}/{visit}.png")
            picture(tmp_path / f"masks/{person}_{visit}.png")
    rule = {"files": "masks/{person}_{visit}.png", "structure": "lesion", "missing": "empty"}
    two = [{"files": ["images/clinic/{visit}/{date}.png", "images/uni/{person}/{visit}.png"]}]
    found = {
        case.key: [file for mask in case.masks for file in mask.files]
        for case in masked(tmp_path, rule, images=two).cases
    }
    assert found == {
        "images/clinic/1/2019.png": [],
        **{f"images/uni/{person}/{visit}.png": [f"masks/{person}_{visit}.png"] for person in "ab" for visit in (1, 2)},
    }
