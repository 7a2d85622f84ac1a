"""Which rows of a table count, what tells files apart that their paths do not, and what masks are called."""

import json
from pathlib import Path
from typing import Any

import pytest
from resolve_files import carried_out, dicom, picture, seg_nrrd, segmentation, text, volume

from shared.dataset.rules.reading import read_rules
from shared.dataset.rules.resolve import Resolution, RulesError, resolve
from shared.dataset.tables.dates import formatted, orders
from shared.imaging.nrrd_names import segments

NAMED: dict[str, Any] = {"source": {"table": "t", "column": "label"}}


def told(root: Path, content: str, label: dict[str, Any] | None = None, **table: Any) -> Resolution:
    for number in (1, 2, 3):
        picture(root / f"{number}.png", number)
    text(root / "t.csv", content)
    tables = {"t": {"file": "t.csv", "key": "id", **table}}
    return carried_out(root, images="{n}.png", tables=tables, label=label or NAMED)


def labels(done: Resolution) -> dict[str, object]:
    return {case.key: case.label for case in done.cases}


def test_the_latest_row_counts_by_date_or_number(tmp_path: Path) -> None:
    rows = "id,day,label\n1,09-08-2014,a\n1,01-12-2013,b\n2,03-01-2015,b\n3,31-12-2014,a\n3,02-01-2015,b\n"
    assert labels(told(tmp_path, rows, latest="day")) == {"1.png": "a", "2.png": "b", "3.png": "b"}
    numbered = "id,version,label\n1,9,a\n1,10,b\n2,1,b\n3,,b\n3,1,a\n"
    assert labels(told(tmp_path, numbered, latest="version")) == {"1.png": "b", "2.png": "b", "3.png": "a"}
    wrong = {"02/03/2014": "nothing tells days and months apart", "soon\n2,13/02/2015": "neither a date nor a number"}
    for days, fault in wrong.items():
        with pytest.raises(RulesError, match=f"latest, column 'day': .*{fault}"):
            told(tmp_path, f"id,label,day\n1,a,{days.replace('2,', '2,b,')}\n1,b,01/02/2015\n", latest="day")


def test_days_follow_each_other_however_they_are_written() -> None:
    assert orders(["2020-01-08", "20200109", "2020-01-08 10:30", ""])[3] is None
    first, second, third, _ = orders(["2020-01-08", "20200109", "2020-01-08 10:30", ""])
    assert first is not None and second is not None and third is not None and first < third < second
    assert orders(["12/31/19", "01/02/20"]) == [(2019, 12, 31), (2020, 1, 2)]
    assert formatted(["27/08/2020", "5/9/2020"], "%y%m%d") == {"27/08/2020": "200827", "5/9/2020": "200905"}
    with pytest.raises(ValueError, match="is no date"):
        orders(["2020-13-01"])


def test_preferred_rows_count_where_there_are_some(tmp_path: Path) -> None:
    rows = "id,by,label\n1,biopsy,a\n1,Specimen,b\n2,biopsy,a\n3,cytology,b\n3,cytology,b\n"
    preferred = {"by": ["specimen", "biopsy"]}
    assert labels(told(tmp_path, rows, prefer=preferred)) == {"1.png": "b", "2.png": "a", "3.png": "b"}


def test_readers_have_to_agree_in_the_names_of_classes(tmp_path: Path) -> None:
    source = {"table": "t", "column": "final", "otherwise": {"table": "t", "column": "A", "agree": ["B"]}}
    label = {"source": source, "classes": {"nev": "naevus", "NV": "naevus", "mel": "melanoma", "MM": "melanoma"}}
    done = told(tmp_path, "id,A,B,final\n1,nev,NV,\n2,nev,MM,\n3,mel,NV,MM\n", label)
    assert labels(done) == {"1.png": "naevus", "3.png": "melanoma"} and not done.coverage.conflicts
    rows = {"source": {"table": "t", "column": "label", "agree": ["label"]}}
    done = told(tmp_path, "id,label\n1,a\n1,a\n2,a\n2,b\n3,b\n", rows)
    assert labels(done) == {"1.png": "a", "3.png": "b"} and not done.coverage.conflicts


def test_columns_of_another_table_stand_in(tmp_path: Path) -> None:
    text(tmp_path / "again.csv", "id,x2,y2\n2,0,1\n3,,\n")
    text(tmp_path / "t.csv", "id,x,y\n1,1,0\n2,1,1\n3,0,0\n")
    for number in (1, 2, 3):
        picture(tmp_path / f"{number}.png", number)
    label = {"table": "again", "columns": {"x2": "X", "y2": "Y"}, "several": True,
             "otherwise": {"table": "t", "columns": {"x": "X", "y": "Y"}}}  # fmt: skip
    named = {name: {"file": f"{name}.csv", "key": "id"} for name in ("again", "t")}
    done = carried_out(tmp_path, images="{n}.png", tables=named, label=label)
    assert labels(done) == {"1.png": ("X",), "2.png": ("Y",), "3.png": ()}
    with pytest.raises(ValueError, match="`otherwise` of `label` is for `columns`"):
        carried_out(tmp_path, images="{n}.png", tables=named, label={**NAMED, "otherwise": label})


def test_a_number_that_two_machines_count_with_goes_by_the_machine(tmp_path: Path) -> None:
    for name in ("go/0509", "te/000509", "te/000510"):
        picture(tmp_path / f"{name}.png")
    text(tmp_path / "t.csv", "id,machine,label\nV0509,1,a\n509,2,b\n510,2,b\n")
    rows = {
        "file": "t.csv",
        "key": "id",
        "names": "number",
        "rows": {"machine": "by"},
        "called": {"1": "go", "2": "te"},
    }
    done = carried_out(tmp_path, images="{by}/{number}.png", tables={"t": rows}, label=NAMED)
    assert labels(done) == {"go/0509.png": "a", "te/000509.png": "b", "te/000510.png": "b"}
    assert not done.coverage.conflicts and not done.left_out


def test_what_is_used_may_be_named_in_place_of_what_is_not(tmp_path: Path) -> None:
    for number, kernel in enumerate(("B70f", "B31f", "LUNG", None)):
        more = {"ConvolutionKernel": kernel} if kernel else {}
        dicom(tmp_path / f"{number}.dcm", f"p{number}", f"s{number}", **more)
    sharp = {"source": {"header": "ConvolutionKernel"}, "unless": ["B70f", "lung"], "reason": "soft"}
    done = carried_out(tmp_path, images="{n}.dcm", label={"source": {"field": "n"}}, exclude=[sharp])
    assert sorted(labels(done)) == ["0.dcm", "2.dcm"]
    assert done.left_out == {"excluded by the rules: soft": ["1.dcm", "3.dcm"]}


def test_headers_that_makers_write_in_one_of_two_are_a_field(tmp_path: Path) -> None:
    for number, side in enumerate(("ImageLaterality", "Laterality", "Laterality", None)):
        more = {side: "LR"[number % 2]} if side else {}
        dicom(tmp_path / f"a/{number}.dcm", "p", f"s{number}", ViewPosition="CC", **more)
    text(tmp_path / "t.csv", "id,side,label\na,E,x\na,D,y\n")
    side = {"header": "ImageLaterality|Laterality"}
    rows = {"file": "t.csv", "key": "id", "names": "exam", "rows": {"side": "side"}, "called": {"E": "L", "D": "R"}}
    asked: dict[str, Any] = {"images": "{exam}/{n}.dcm", "case": ["exam", "side"], "several": "views", "label": NAMED}
    done = carried_out(tmp_path, fields={"side": side}, tables={"t": rows}, **asked)
    assert [(case.key, len(case.images), case.label) for case in done.cases] == [("a/L", 2, "x"), ("a/R", 1, "y")]
    assert list(done.left_out.values()) == [["a/3.dcm"]]
    with pytest.raises(RulesError, match="DICOM has no header 'Side'"):
        carried_out(tmp_path, fields={"side": {"header": "ImageLaterality|Side"}}, tables={"t": rows}, **asked)


def test_a_table_joins_the_channels(tmp_path: Path) -> None:
    """CT is called by the examination, PET by person and day."""
    for name in ("ct/11", "ct/12", "pet/L1_200827", "pet/L2_200905"):
        volume(tmp_path / f"{name}.nii", 1)
    text(tmp_path / "t.csv", "exam,person,day,label\n11,L1,27/08/2020,a\n12,L2,5/9/2020,b\n")
    tables = {
        "ct": {"file": "t.csv", "key": "exam", "names": "no"},
        "pet": {"file": "t.csv", "key": "{person}_{day:%y%m%d}", "names": "{who}_{when}"},
        "t": {"file": "t.csv", "key": "exam", "names": "exam"},
    }
    exam = {"table": "ct", "column": "exam", "otherwise": {"table": "pet", "column": "exam"}}
    images = [{"channel": "CT", "files": "ct/{no}.nii"}, {"channel": "PET", "files": "pet/{who}_{when}.nii"}]
    done = carried_out(tmp_path, dimensions=3, images=images, fields={"exam": exam}, case=["exam"], tables=tables,
                       patient={"table": "t", "column": "person"}, label=NAMED)  # fmt: skip
    assert [[part.files[0] for part in case.images[0]] for case in done.cases] == [
        ["ct/11.nii", "pet/L1_200827.nii"], ["ct/12.nii", "pet/L2_200905.nii"],
    ]  # fmt: skip
    assert [(case.patient, case.label) for case in done.cases] == [("L1", "a"), ("L2", "b")]


def test_segments_of_slicer_go_by_their_names_not_their_numbers(tmp_path: Path) -> None:
    for number, names in enumerate(({1: "Bladder", 2: "uterus"}, {1: "Uterus", 3: "blaas"}, {1: "cyst", 2: "bladder"})):
        volume(tmp_path / f"{number}.nii", 1)
        seg_nrrd(tmp_path / f"{number}.seg.nrrd", names)
    mask = {"files": "{n}.seg.nrrd", "named": {"bladder": ["blaas"], "uterus": []}, "only": ["bladder", "uterus"]}
    done = carried_out(tmp_path, "organ_segmentation", 3, images="{n}.nii", masks=[mask])
    assert done.coverage.label_values == {"bladder": 1, "uterus": 2}
    assert [case.masks[0].values for case in done.cases] == [
        {"nonzero": 0, "1": 1, "2": 2}, {"nonzero": 0, "1": 2, "3": 1}, {"nonzero": 0, "2": 1},
    ]  # fmt: skip
    numbered = {**mask, "values": {"bladder": 1, "uterus": 2}}
    same = carried_out(tmp_path, "organ_segmentation", 3, images="{n}.nii", masks=[numbered])
    assert [case.masks[0].values for case in same.cases] == [case.masks[0].values for case in done.cases]
    unknown = {"files": "{n}.seg.nrrd", "values": {"rectum": 1}}
    other = carried_out(tmp_path, "organ_segmentation", 3, images="{n}.nii", masks=[unknown])
    assert other.cases[0].masks[0].values == {"1": 1}
    seg_nrrd(tmp_path / "0.seg.nrrd", {1: "bladder", 2: "uterus"}, layers=2)
    assert segments(tmp_path / "0.seg.nrrd") == {(0, 1): "bladder", (1, 2): "uterus"}


def test_objects_call_a_structure_in_their_own_way(tmp_path: Path) -> None:
    for number, name in enumerate(("Liver", "Leber", "spleen")):
        dicom(tmp_path / f"s{number}/1.dcm", f"p{number}", f"s{number}")
        segmentation(tmp_path / f"seg/{number}.dcm", f"s{number}", name)
    mask = {"kind": "dicom_seg", "files": "seg/*.dcm", "named": {"liver": ["leber"]}}
    done = carried_out(tmp_path, "organ_segmentation", 3, images="s{n}/*.dcm", case="series", masks=[mask])
    assert done.coverage.counts == {"liver": 2, "spleen": 1}


def test_masks_that_are_excluded_are_not_used_and_one_of_two_rules_uses_is_not_lone(tmp_path: Path) -> None:
    for number in (1, 2):
        volume(tmp_path / f"{number}.nii", 1)
        volume(tmp_path / f"m/{number}_A.nii", 1)
        volume(tmp_path / f"m/{number}_B.nii", 1)
    mask = {"files": ["m/{n}_{reader}.nii"], "structure": "x"}
    done = carried_out(tmp_path, "organ_segmentation", 3, images="{n}.nii", masks=[mask],
                       exclude=[{"files": "m/*_B.nii", "reason": "trainee"}])  # fmt: skip
    assert [[one.files for one in case.masks] for case in done.cases] == [[("m/1_A.nii",)], [("m/2_A.nii",)]]
    text(tmp_path / "t.csv", "id,reader\n1,1_A\n2,2_B\n")
    tables = {"t": {"file": "t.csv", "key": "id"}}
    by_table = {**mask, "table": "t", "column": "reader"}
    parted = [
        {**by_table, "files": "m/{n}_A.nii", "missing": "empty"},
        {**by_table, "files": "m/{n}_B.nii", "missing": "empty"},
    ]
    done = carried_out(tmp_path, "organ_segmentation", 3, images="{n}.nii", tables=tables, masks=parted)
    assert [names for reason, names in done.left_out.items() if "mask without" in reason] == [
        ["m/2_A.nii", "m/1_B.nii"]
    ]


def test_a_case_that_lacks_several_things_counts_once(tmp_path: Path) -> None:
    for number in (1, 2, 3):
        picture(tmp_path / f"{number}.png", number)
    text(tmp_path / "t.csv", "id,who,label\n1,p,a\n2,,b\n")
    who = {"table": "t", "column": "who"}
    done = carried_out(
        tmp_path, images="{n}.png", tables={"t": {"file": "t.csv", "key": "id"}}, label=NAMED, patient=who
    )
    found = {reason.partition(":")[0]: names for reason, names in done.left_out.items()}
    assert found == {"case without a patient": ["2.png"], "case without a class": ["3.png"]}
    assert (done.coverage.lost, done.coverage.lossless) == (1, {"untargeted": 1})


def test_a_field_called_case_is_the_field_and_a_wrong_weave_is_told(tmp_path: Path) -> None:
    picture(tmp_path / "P1_x.png")
    picture(tmp_path / "P2_x.png")
    text(tmp_path / "t.csv", "id,label\nP1,a\nP2,b\nP7,b\n")
    table = {"file": "t.csv", "key": "id", "names": "case"}
    done = carried_out(tmp_path, images="{case}_x.png", tables={"t": table}, label=NAMED)
    assert labels(done) == {"P1_x.png": "a", "P2_x.png": "b"}
    with pytest.raises(RulesError, match="is no field of the images"):
        carried_out(tmp_path, images="{n}.png", tables={"t": {**table, "names": "{t.id}-{n}"}}, label=NAMED)


def test_both_sides_of_keys_that_do_not_match_are_told(tmp_path: Path) -> None:
    done = told(tmp_path, "id,label\n1,a\n7,b\n2,b\n", names="stem")
    assert done.coverage.unnamed == {"t (by stem)": ("3",)}


def test_structures_of_listed_cases_have_names(tmp_path: Path) -> None:
    for number in (1, 2):
        picture(tmp_path / f"{number}.png", number)
    shape = {"value": 1, "kind": "box", "numbers": [0, 0, 2, 2]}
    lines = (
        json.dumps({"key": str(n), "images": [[{"files": [f"{n}.png"]}]], "patient": f"p{n}",
                    "masks": [{"kind": "polygons", "shapes": [shape]}]}) for n in (1, 2)
    )  # fmt: skip
    text(tmp_path / "work/cases.jsonl", "\n".join(lines))
    asked = "task: organ_segmentation\ndimensions: 2\nlisted: cases.jsonl\nmasks: [{values: {cavity: 1}}]\n"
    done = resolve(read_rules(asked), tmp_path, workspace=tmp_path / "work")
    assert done.coverage.label_values == {"cavity": 1}


def test_what_a_place_in_the_rules_takes_is_told() -> None:
    with pytest.raises(RulesError, match=r"label.source.colum: .*\(there are agree, array, called, column, "):
        read_rules("task: diagnosis\ndimensions: 2\nimages: [{files: a}]\nlabel: {source: {table: t, colum: x}}")


def test_segments_that_overlap_lie_in_layers(tmp_path: Path) -> None:
    """As Slicer writes them: of one layer each before it wrote values, and with names that it gave itself."""
    import numpy as np

    from shared.imaging.masks import read_label_map

    head = "NRRD0004\ntype: unsigned char\ndimension: 4\nspace: left-posterior-superior\nsizes: 3 4 3 2\n"
    head += "space directions: none (1,0,0) (0,1,0) (0,0,1)\nkinds: list domain domain domain\nencoding: raw\n"
    head += "space origin: (0,0,0)\n"
    layers = np.zeros((2, 3, 4, 3), np.uint8)  # z, y, x, layer
    layers[0, 0, 0, 0] = layers[0, 0, 0, 1] = layers[1, 2, 3, 2] = 1
    layers[0, 1, 1, 0] = 2
    old = {"0_Name": "disc", "1_Name": "canal", "2_Name": "body"}
    entry = "TerminologyEntry:list~SCT^123037004^Structure~SCT^51282000^Vertebra~^^~Anatomic codes~^^~^^|"
    new = {"0_Name": "Segment_1", "0_Tags": entry, "0_Layer": "1", "0_LabelValue": "1",
           "1_Name": "disc", "1_Layer": "0", "1_LabelValue": "2"}  # fmt: skip
    for name, told in (("1", old), ("2", new)):
        volume(tmp_path / f"{name}.nii", 1)
        keys = "".join(f"Segment{key}:={text}\n" for key, text in told.items())
        (tmp_path / f"{name}.seg.nrrd").write_bytes((head + keys + "\n").encode() + layers.tobytes())
    assert segments(tmp_path / "1.seg.nrrd") == {(0, 1): "disc", (1, 1): "canal", (2, 1): "body"}
    assert segments(tmp_path / "2.seg.nrrd") == {(1, 1): "Vertebra", (0, 2): "disc"}
    mask = {"files": "{n}.seg.nrrd", "named": {"body": ["Vertebra"], "canal": [], "disc": []}}
    done = carried_out(tmp_path, "organ_segmentation", 3, images="{n}.nii", masks=[mask])
    assert [[(one.index, one.values) for one in case.masks] for case in done.cases] == [
        [(0, {"1": 3}), (1, {"1": 2}), (2, {"1": 1})], [(0, {"2": 3}), (1, {"1": 1})],
    ]  # fmt: skip
    assert done.coverage.counts == {"body": 2, "canal": 1, "disc": 2}
    labels, _ = read_label_map(tmp_path / "1.seg.nrrd", index=2)
    assert labels.shape == (4, 3, 2) and labels[3, 2, 1] == 1 and labels.sum() == 1


def test_what_a_file_names_beside_the_rules_has_a_value_of_its_own(tmp_path: Path) -> None:
    volume(tmp_path / "1.nii", 1)
    seg_nrrd(tmp_path / "1.seg.nrrd", {1: "sacrum", 2: "canal"})
    mask = {"files": "{n}.seg.nrrd", "values": {"canal": 7}}
    done = carried_out(tmp_path, "organ_segmentation", 3, images="{n}.nii", masks=[mask])
    assert done.coverage.label_values == {"canal": 7, "sacrum": 8}


def test_numbers_of_a_logbook_lie_between_two_columns(tmp_path: Path) -> None:
    for name in ("d1/IMG_01", "d1/IMG_02", "d1/IMG_05", "d2/IMG_01"):
        picture(tmp_path / f"{name}.png")
    text(tmp_path / "t.csv", "day,first,last,label\nd1,1,2,a\nd1,4,6,b\nd2,1,,b\n")
    table = {"file": "t.csv", "key": "day", "names": "day", "between": {"number": ["first", "last"]}}
    done = carried_out(tmp_path, images="{day}/IMG_{number}.png", tables={"t": table}, label=NAMED)
    assert list(labels(done).values()) == ["a", "a", "b", "b"] and not done.coverage.conflicts


def test_values_that_are_called_otherwise(tmp_path: Path) -> None:
    done = told(tmp_path, "id,label\n1,L\n2,R\n3,X\n", {"source": {**NAMED["source"], "called": {"l": "R", "R": "L"}}})
    assert labels(done) == {"1.png": "R", "2.png": "L", "3.png": "X"}


def test_notes_are_no_views_and_what_they_reject_is_left_out(tmp_path: Path) -> None:
    from pydicom import Dataset, Sequence, dcmread

    def note(name: str, code: str, rejected: str) -> None:
        concept, image, item = Dataset(), Dataset(), Dataset()
        concept.CodeValue, concept.CodingSchemeDesignator = code, "DCM"
        image.ReferencedSOPInstanceUID = dcmread(tmp_path / rejected).SOPInstanceUID
        item.ReferencedSOPSequence = Sequence([image])
        more = {"ConceptNameCodeSequence": Sequence([concept]), "ContentSequence": Sequence([item])}
        dicom(tmp_path / name, "p", name, Modality="KO", **more)

    for name in ("1_a", "1_b", "2_a"):
        dicom(tmp_path / f"{name}.dcm", "p", name)
    note("1_c.dcm", "113001", "1_b.dcm")  # rejected for quality
    note("2_b.dcm", "113000", "2_a.dcm")  # of interest
    asked: dict[str, Any] = {"images": "{exam}_{n}.dcm", "label": {"source": {"field": "exam"}}}
    done = carried_out(tmp_path, case=["exam"], several="views", **asked)
    assert [case.images[0][0].files for case in done.cases] == [("1_a.dcm",), ("2_a.dcm",)]
    assert sorted(done.left_out.values()) == [["1_b.dcm"], ["1_c.dcm", "2_b.dcm"]] and not done.coverage.lost


def test_turkish_is_told_from_other_letters(tmp_path: Path) -> None:
    from shared.dataset.tables.separated import encoding_of

    for content, encoding in (
        ("İlk görüntü, sağ, ışık, şiş", "cp1254"),
        ("ciężka wada płuc, średnica, używać", "cp1250"),
        ("nádor ledviny přiléhá k játrům, šest měsíců, muž", "cp1250"),
        ("það er íslenska á æð", "cp1252"),
        ("Größe", "cp1252"),
    ):
        (tmp_path / "t.csv").write_bytes(content.encode(encoding))
        assert encoding_of(tmp_path / "t.csv") == encoding


def test_what_a_list_names_is_excluded_and_its_rows_are_not_lost(tmp_path: Path) -> None:
    for number in (1, 2, 3, 4):
        picture(tmp_path / f"{number:03d}.png", number)
    text(tmp_path / "withdrawn.txt", "# by mail of 3 May\n002.png\n004.png (blurred)\n")
    text(tmp_path / "t.csv", "id,label\n1,a\n2,b\n3,b\n4,a\n")
    named = {"t": {"file": "t.csv", "key": "id"}, "gone": {"file": "withdrawn.txt", "key": "column_1", "names": "name"}}
    asked = {"images": "{n}.png", "tables": named, "label": {"source": {"table": "t", "column": "label"}}}
    withdrawn = {"source": {"table": "gone", "column": "column_1"}, "reason": "withdrawn"}
    done = carried_out(tmp_path, exclude=[withdrawn], **asked)
    assert labels(done) == {"001.png": "a", "003.png": "b"}
    assert done.left_out == {"excluded by the rules: withdrawn": ["002.png", "004.png"]}

    done = carried_out(tmp_path, exclude=[{"files": "004.png", "reason": "dark"}], **asked)
    assert done.left_out == {"excluded by the rules: dark": ["004.png"]}  # once, as the image
    assert (done.coverage.lost, done.coverage.lossless) == (1, {})


def test_people_are_told_apart_by_several_parts_of_a_path(tmp_path: Path) -> None:
    for name in ("C1/07_a", "C1/07_b", "C2/07_a"):
        picture(tmp_path / f"{name}.png")
    rules = {"images": "C{centre}/{person}_{eye}.png", "label": {"source": {"field": "eye"}}}
    done = carried_out(tmp_path, patient={"field": "{centre}-{person}"}, **rules)
    assert [case.patient for case in done.cases] == ["1-07", "1-07", "2-07"]
    with pytest.raises(RulesError, match="no case has one value of the field 'center'"):
        carried_out(tmp_path, patient={"field": "{center}-{person}"}, **rules)
