import json
from pathlib import Path
from typing import Any

import openpyxl
import pytest
from resolve_files import carried_out, dicom, files, picture, text, volume

from shared.contracts.rules import Rules
from shared.dataset.intake.wrapping import places_count
from shared.dataset.rules.resolve import Resolution, RulesError


def table(
    root: Path, content: str, images: str = "{n}.png", key: str = "id", names: str = "auto", **rules: Any
) -> Resolution:
    text(root / "t.csv", content)
    rules = {"label": {"source": {"table": "t", "column": "label"}}} | rules
    return carried_out(root, images=images, tables={"t": {"file": "t.csv", "key": key, "names": names}}, **rules)


def labels(done: Resolution) -> dict[str, object]:
    return {case.key: case.label for case in done.cases}


@pytest.fixture
def four(tmp_path: Path) -> Path:
    for number in range(1, 5):
        picture(tmp_path / f"{number:03d}.png")
    return tmp_path


def test_a_sheet_of_labels_with_rows_and_images_that_lack_each_other(four: Path) -> None:
    done = table(four, "id,label\n1,a\n2,b\n3,\n9,a\n")
    assert labels(done) == {"001.png": "a", "002.png": "b"}
    reasons = {reason.partition(":")[0]: names for reason, names in done.left_out.items()}
    assert reasons == {
        "case without a class": ["003.png", "004.png"],
        "row of t.csv whose 'id' names no image": ["9"],
    }


def test_a_sheet_names_patients_of_dicom_headers(tmp_path: Path) -> None:
    for number in range(6):
        dicom(tmp_path / f"{number}.dcm", f"P0{number // 2}", f"s{number}", AccessionNumber=f"A{number // 2}")
    done = table(tmp_path, "id,label\np00,a\nP01,b\n", "{n}.dcm", names="header.PatientID")
    assert labels(done) == {"0.dcm": "a", "1.dcm": "a", "2.dcm": "b", "3.dcm": "b"}
    with pytest.raises(RulesError, match="no header"):
        table(tmp_path, "id,label\nP00,a\n", "{n}.dcm", names="header.Nobody")


def test_headers_hold_views_of_an_examination_together(tmp_path: Path) -> None:
    for number in range(5):
        more = {"AccessionNumber": f"A{number // 2}"} if number < 4 else {}
        dicom(tmp_path / f"{number}.dcm", "P", f"s{number}", **more)
    done = carried_out(tmp_path, images="{n}.dcm", case=["header.AccessionNumber"], several="views",
                       label={"source": {"value": "x"}})  # fmt: skip
    assert [(case.key, len(case.images)) for case in done.cases] == [("A0", 2), ("A1", 2)]
    assert any("headers lack" in reason for reason in done.left_out)


def test_classes_are_renamed_left_out_and_missed(four: Path) -> None:
    rule = {"source": {"table": "t", "column": "label"}, "classes": {"0": "healthy", "1": "sick", "2": None}}
    done = table(four, "id,label\n1,0.0\n2,1\n3,2\n4,x\n", label=rule)
    assert labels(done) == {"001.png": "healthy", "002.png": "sick"}
    assert any("'x' that the rules do not list" in reason for reason in done.left_out)
    assert any("'2' that the rules leave out" in reason for reason in done.left_out)
    only = table(four, "id,label\n1,0\n2,1\n3,1\n4,0\n", label=rule | {"only": ["Sick"]})
    assert set(labels(only)) == {"002.png", "003.png"} and "one class" in only.coverage.problems[-1]


def test_cases_that_a_column_excludes_are_left_out_for_that_reason_only(four: Path) -> None:
    exclude = [{"source": {"table": "t", "column": "Quality"}, "values": ["POOR", "0"], "reason": "quality is poor"}]
    done = table(four, "id,label,quality\n1,a,good\n2,,poor\n3,b,\n4,b,fair\n4,b,0.0\n", exclude=exclude)
    assert labels(done) == {"001.png": "a", "003.png": "b"}
    assert done.left_out == {"excluded by the rules: quality is poor": ["002.png", "004.png"]}
    both = table(
        four, "id,label,quality\n1,a,good\n2,b,poor\n3,b,good\n", exclude=exclude, leave_out={"002.png": "dark"}
    )
    assert both.left_out["handed back: dark"] == ["002.png"]
    for wrong in ({"files": "*", "values": ["1"]}, {"values": ["1"]}, {}):
        with pytest.raises(ValueError, match="needs either"):
            table(four, "id,label\n1,a\n", exclude=[{"reason": "x", **wrong}])
    with pytest.raises(RulesError, match="no column 'Quality'"):
        table(four, "id,label\n1,a\n", exclude=exclude)


def test_sites_with_tables_of_their_own(tmp_path: Path) -> None:
    for name in ("north/1.png", "north/2.png", "south/1.png", "south/2.png", "south/3.png"):
        picture(tmp_path / name)
    text(tmp_path / "north/list.csv", "id,grade\n1,0\n2,1\n")
    text(tmp_path / "south/reads.csv", "image;stage;read\n1;sick;first\n1;healthy;corrected\n2;sick;first\n3;;first\n")
    text(tmp_path / "same.csv", "known,number\nsouth_3,north_1\n")
    south = {"file": "{site}/reads.csv", "key": "image"}
    done = carried_out(
        tmp_path,
        images="{site}/{n}.png",
        tables={
            "north": {"file": "{site}/list.csv", "key": "id"},
            "south": south,
            "corrected": south | {"only": {"read": "Corrected"}},
            "same": {"file": "same.csv", "key": "known", "names": "{site}_{n}"},
            "all": {"file": "same.csv", "key": "number", "names": "{site}_{n}"},
        },
        label={
            "source": {
                "table": "corrected",
                "column": "stage",
                "otherwise": {"table": "south", "column": "stage", "otherwise": {"table": "north", "column": "grade"}},
            },
            "classes": {"0": "healthy", "1": "sick", "healthy": "healthy", "sick": "sick"},
        },
        patient={
            "table": "same",
            "column": "number",
            "otherwise": {"table": "all", "column": "number", "otherwise": {"field": "n"}},
        },
    )
    assert labels(done) == {
        "north/1.png": "healthy", "north/2.png": "sick", "south/1.png": "healthy", "south/2.png": "sick",
    }  # fmt: skip
    assert not done.coverage.conflicts and done.coverage.grouping == "derived"
    assert "column 'number' of same.csv, else" in done.coverage.grouping_from
    assert {case.key: case.patient for case in done.cases}["north/1.png"] == "north_1"
    with pytest.raises(RulesError, match="no row that counts has other in 'read'; there is corrected, first"):
        carried_out(tmp_path, images="{site}/{n}.png", tables={"t": south | {"only": {"read": "other"}}},
                    label={"source": {"table": "t", "column": "stage"}})  # fmt: skip
    with pytest.raises(ValueError, match="they need `key`"):
        carried_out(tmp_path, images="{site}/{n}.png",
                    tables={"t": {"file": "{site}/reads.csv", "only": {"read": "first"}}})  # fmt: skip


def test_equal_numbers_of_two_sites_are_two_people(tmp_path: Path) -> None:
    for name in ("north/1.png", "north/2.png", "south/1.png", "south/2.png"):
        picture(tmp_path / name)
    text(tmp_path / "north/list.csv", "image,who,label\n1,7,x\n2,8,y\n")
    text(tmp_path / "south/reads.csv", "image,who,label\n1,7,x\n2,7,y\n")
    tables = {name: {"file": f"{{site}}/{name}.csv", "key": "image"} for name in ("list", "reads")}
    sources = [{"table": name, "column": "who", "prefix": f"{name}-"} for name in tables]
    label = {"table": "list", "column": "label", "otherwise": {"table": "reads", "column": "label"}}
    done = carried_out(
        tmp_path,
        images="{site}/{n}.png",
        tables=tables,
        label={"source": label},
        patient=sources[0] | {"otherwise": sources[1]},
    )
    assert [case.patient for case in done.cases] == ["list-7", "list-8", "reads-7", "reads-7"]


def test_folders_do_not_count_where_one_of_the_sources_is_a_part_of_the_path() -> None:
    for otherwise, count in (({"field": "n"}, False), ({"header": "BodyPartExamined"}, True)):
        source = {"header": "Modality", "otherwise": otherwise}
        rules = {"task": "diagnosis", "dimensions": 2, "images": [{"files": "{n}.dcm"}], "label": {"source": source}}
        assert places_count(Rules.model_validate(rules)) is count


def test_two_labels_of_one_case_are_a_conflict(four: Path) -> None:
    done = table(four, "id,label\n1,a\n001,b\n2,b\n2,b\n3,A\n")
    # `001` is the image's own name, so `1` means another one.
    assert labels(done) == {"001.png": "b", "002.png": "b", "003.png": "A"} and ["1"] in done.left_out.values()
    torn = table(four, "id,label\n1,a\n1,b\n2,b\n3,a\n")
    assert "001.png has a and b" in torn.coverage.conflicts[0]


def test_spellings_of_one_class_are_one(four: Path) -> None:
    done = table(four, "id,label\n1,Normal\n2,normal\n3,NORMAL \n4,sick\n")
    assert done.coverage.counts == {"Normal": 3, "sick": 1}


def test_accents_make_no_class_of_their_own(four: Path) -> None:
    done = table(four, "id,label\n1,Neumonía\n2,NEUMONIA\n3,normal\n4,が\n")
    assert done.coverage.counts == {"Neumonía": 2, "normal": 1, "が": 1}
    assert table(four, "id,label\n1,が\n2,か\n3,か\n").coverage.counts == {"が": 1, "か": 2}


def test_one_hot_columns(four: Path) -> None:
    text(four / "t.csv", "id,N,M\n1,1,0\n2,0,1\n3,0,0\n4,1,1\n")
    rule: dict[str, Any] = {"table": "t", "columns": {"n": "nevus", "M": "melanoma"}}
    tables = {"t": {"file": "t.csv", "key": "id"}}
    one = carried_out(four, images="{n}.png", tables=tables, label=rule)
    assert labels(one) == {"001.png": "nevus", "002.png": "melanoma"} and len(one.left_out) == 2
    several = carried_out(four, images="{n}.png", tables=tables, label=rule | {"several": True})
    assert labels(several)["003.png"] == () and labels(several)["004.png"] == ("melanoma", "nevus")
    assert several.coverage.counts == {"melanoma": 2, "nevus": 2}


def test_marks_that_are_empty_or_unsure(four: Path) -> None:
    text(four / "t.csv", "id,N,M\n1,1.0,\n2,no,yes\n3,-1,0\n4,,\n")
    rule: dict[str, Any] = {"table": "t", "columns": {"N": "n", "M": "m"}, "several": True}
    tables = {"t": {"file": "t.csv", "key": "id"}}
    strict = carried_out(four, images="{n}.png", tables=tables, label=rule)
    assert labels(strict) == {"002.png": ("m",)}
    lenient = carried_out(four, images="{n}.png", tables=tables, label=rule | {"missing": "none"})
    assert labels(lenient) == {"001.png": ("n",), "002.png": ("m",), "004.png": ()}


def test_joined_labels(four: Path) -> None:
    rule: dict[str, Any] = {"source": {"table": "t", "column": "label"}, "separator": "|"}
    content = "id,label\n1,Mass|Nodule\n2, Nodule\n3,No Finding\n4,\n"
    done = table(four, content, label=rule)
    assert labels(done)["001.png"] == ("Mass", "Nodule") and "004.png" not in labels(done)
    classes = {"Mass": "Mass", "Nodule": "Nodule", "No Finding": None}
    done = table(four, content, label=rule | {"classes": classes, "only": ["nodule"], "missing": "none"})
    assert labels(done) == {"001.png": ("Nodule",), "002.png": ("Nodule",), "003.png": (), "004.png": ()}


def test_part_of_a_value(four: Path) -> None:
    rule = {"source": {"table": "t", "column": "label", "part": r"^(\w+)-"}}
    assert set(labels(table(four, "id,label\n1,cat-1\n2,dog-2\n3,dog\n", label=rule)).values()) == {"cat", "dog"}


def test_a_table_of_patients_and_one_of_scans(tmp_path: Path) -> None:
    for number in range(1, 5):
        volume(tmp_path / f"scans/I{number}.nii.gz")
    text(tmp_path / "scans.tsv", "image\tsubject\n1\ts1\n2\ts1\n3\ts2\n4\ts3\n")
    text(tmp_path / "people.csv", "subject_id;dx\nS1;AD\nS2;CN\n")
    done = carried_out(
        tmp_path, dimensions=3, images="scans/*.nii.gz",
        tables={"scans": {"file": "scans.tsv", "key": "image"},
                "people": {"file": "people.csv", "key": "subject_id", "names": "scans.subject"}},
        label={"source": {"table": "people", "column": "dx"}}, patient={"table": "scans", "column": "subject"},
    )  # fmt: skip
    assert list(labels(done).values()) == ["AD", "AD", "CN"] and done.coverage.patients == 2
    assert done.coverage.grouping == "stated" and "'subject' of scans.tsv" in done.coverage.grouping_from
    with pytest.raises(RulesError, match="circle"):
        carried_out(
            tmp_path, dimensions=3, images="scans/*.nii.gz", label={"source": {"table": "a", "column": "image"}},
            tables={"a": {"file": "scans.tsv", "key": "image", "names": "a.subject"}},
        )  # fmt: skip


def test_bids_participants(tmp_path: Path) -> None:
    for subject in ("01", "02", "10"):
        for session in ("1", "2"):
            volume(tmp_path / f"sub-{subject}/ses-{session}/anat/sub-{subject}_ses-{session}_T1w.nii.gz")
    text(tmp_path / "participants.tsv", "participant_id\tgroup\nsub-01\tpatient\nsub-02\tcontrol\nsub-10\tcontrol\n")
    done = carried_out(
        tmp_path, dimensions=3, images="sub-{subject}/ses-{session}/anat/sub-{subject}_ses-{session}_T1w.nii.gz",
        tables={"p": {"file": "participants.tsv", "key": "participant_id"}}, patient={"field": "subject"},
        label={"source": {"table": "p", "column": "group"}},
    )  # fmt: skip
    assert done.coverage.counts == {"control": 4, "patient": 2} and done.coverage.patients == 3


def test_a_given_split_of_folders_and_of_a_table(tmp_path: Path) -> None:
    for name in ("train/a/1.png", "train/b/2.png", "valid/a/3.png", "test/b/1.png", "other/b/5.png"):
        picture(tmp_path / name)
    rules: dict[str, Any] = {"images": "{side}/{class}/{p}.png", "label": {"source": {"field": "class"}},
                             "patient": {"field": "p"}}  # fmt: skip
    split = {"source": {"field": "side"}, "train": ["train"], "val": ["valid"], "test": ["test"]}
    done = carried_out(tmp_path, split=split, **rules)
    assert done.coverage.splits == {"test": 1, "train": 2, "val": 1}
    assert "puts 1 patients on several sides: 1 (test and train)" in done.coverage.conflicts[0]
    assert done.left_out == {"case that the dataset's split puts nowhere: add its value to `split`, or leave it out": [
        "other/b/5.png"]}  # fmt: skip
    text(tmp_path / "split.json", json.dumps({"train": ["2", "3"], "test": ["5"]}))
    by_table = carried_out(
        tmp_path, split={"source": {"table": "s", "column": "list"}, "train": ["train"], "test": ["test"]},
        tables={"s": {"file": "split.json", "key": "value", "names": "p"}}, **rules,
    )  # fmt: skip
    assert by_table.coverage.splits == {"test": 1, "train": 2}
    with pytest.raises(RulesError, match="names 'dev', which no case has"):
        carried_out(tmp_path, split=split | {"val": ["dev"]}, **rules)


def test_slope_and_intercept_of_a_table(four: Path) -> None:
    done = table(
        four, "id,label,slope,b\n1,a,1.0,-1024\n2,b,x,\n", slope={"table": "t", "column": "slope"},
        intercept={"table": "t", "column": "b"},
    )  # fmt: skip
    assert [(case.slope, case.intercept) for case in done.cases] == [(1.0, -1024.0), (None, None)]
    assert "slope of 1 cases is no number" in done.coverage.conflicts[0]


REPORT = "<r><id>1</id><t Label='FINDINGS'>Lungs are clear.</t><t Label='IMPRESSION'>Normal.</t></r>"


@pytest.mark.parametrize(
    ("name", "content", "sources"),
    [
        ("reports.csv", 'image,findings,impression\n001,"Lungs are clear.",Normal.\n002,n/a,\n',
         ["findings", "impression"]),
        ("reports.json", '[{"image": "001.png", "report": {"findings": "Lungs are clear.", "impression": "Normal."}}]',
         ["findings", "impression"]),
        ("reports.jsonl", '{"image": "001.png", "findings": "Lungs are clear.", "impression": "Normal."}',
         ["findings", "impression"]),
        ("r/001.xml", REPORT, ["FINDINGS", "t/IMPRESSION"]),
        ("r/001.txt", "FINDINGS: Lungs are clear.\nIMPRESSION: Normal.\n", ["findings", "impression"]),
        ("r/001.json", '{"findings": "Lungs are clear.", "impression": "Normal."}', ["findings", "impression"]),
    ],
)  # fmt: skip
def test_reports(four: Path, name: str, content: str, sources: list[str]) -> None:
    text(four / name, content)
    rule = {"file": "r/{n}" + Path(name).suffix} if "/" in name else {"file": name, "key": "image"}
    done = carried_out(
        four, "report_generation", images="{n}.png", tables={"r": rule},
        text={"sources": [{"table": "r", "column": column} for column in sources]},
    )  # fmt: skip
    assert [case.text for case in done.cases] == ["Lungs are clear.\n\nNormal."]
    assert [len(names) for reason, names in done.left_out.items() if "without a report" in reason] == [3]


def test_a_section_of_a_report(four: Path) -> None:
    text(four / "r/001.txt", "CLINICAL: cough. FINDINGS: Lungs are clear. IMPRESSION: Normal.")
    text(four / "r/002.txt", "Nothing to see.")
    text(four / "r/007.txt", "FINDINGS: x")
    done = carried_out(
        four, "report_generation", images="{n}.png", tables={"r": {"file": "r/{n}.txt"}},
        text={"sources": [{"table": "r", "column": "text"}], "section": "Finding"},
    )  # fmt: skip
    assert [case.text for case in done.cases] == ["Lungs are clear."]
    assert any("without the section" in reason for reason in done.left_out)
    assert ["r/007.txt"] in done.left_out.values()


def test_tables_in_every_folder_are_joined_by_field_and_key(tmp_path: Path) -> None:
    for folder in ("p1", "p2"):
        for name in ("1", "2"):
            picture(tmp_path / f"{folder}/{name}.png")
        text(tmp_path / f"{folder}/labels.csv", f"image,label\n1,a\n2,{folder}\n")
    done = carried_out(
        tmp_path, images="{p}/{n}.png", tables={"t": {"file": "{p}/labels.csv", "key": "image"}},
        label={"source": {"table": "t", "column": "label"}}, patient={"field": "p"},
    )  # fmt: skip
    assert list(labels(done).values()) == ["a", "p1", "a", "p2"]


def test_keys_of_several_columns(tmp_path: Path) -> None:
    for name in ("01/L_CC", "01/L_MLO", "01/R_CC", "2/L_CC"):
        picture(tmp_path / f"{name}.png")
    text(tmp_path / "t.csv", "patient,Side,label,cc,mlo\n1,L,a,L_CC.png,L_MLO.png\n1,R,b,R_CC.png,\n2,L,b,L_CC.png,\n")
    rules: dict[str, Any] = {"label": {"source": {"table": "t", "column": "label"}}, "case": ["p", "side"],
                             "images": "{p}/{side}_{view}.png", "several": "views"}  # fmt: skip
    done = carried_out(tmp_path, tables={"t": {"file": "t.csv", "key": "{patient}/{side}"}}, **rules)
    assert labels(done) == {"01/L": "a", "01/R": "b", "2/L": "b"}
    by_files = carried_out(
        tmp_path, tables={"t": {"file": "t.csv", "key": "{patient}/{cc}\n{patient}/{mlo}"}}, **rules
    )  # fmt: skip
    assert labels(by_files) == labels(done)
    with pytest.raises(RulesError, match="did you mean 'Side'"):
        carried_out(tmp_path, tables={"t": {"file": "t.csv", "key": "{patient}/{sides}"}}, **rules)


def test_a_key_that_fits_two_images_is_not_guessed(tmp_path: Path) -> None:
    for name in ("a/1.png", "b/1.png", "a/2.png"):
        picture(tmp_path / name)
    done = table(tmp_path, "id,label\n1,x\n2,y\n", images="*/*.png")
    assert labels(done) == {"a/2.png": "y"}
    assert "id '1' of t.csv fits several" in done.coverage.conflicts[0]


@pytest.mark.parametrize(
    ("tables", "column", "said"),
    [
        ({"file": "labels.csv", "key": "id"}, "label", r"no file 'labels.csv'; did you mean 'label.csv'"),
        ({"file": "label.csv", "key": "image"}, "label", r"key: there is no column 'image'; There are: id, label"),
        ({"file": "label.csv", "key": "id"}, "lable", r"did you mean 'label'"),
        ({"file": "label.csv", "key": "id", "names": "patient"}, "label", r"is no field of the images"),
        ({"file": "label.csv"}, "label", r"needs `key`"),
        ({"file": "old.xls", "key": "id"}, "label", r"save it as .xlsx"),
        ({"file": "{x}/label.csv"}, "label", r"no file"),
        ({"file": "label.{x}"}, "label", r"shares no field with `images`"),
    ],
)
def test_wrong_tables_are_told_with_what_there_is(four: Path, tables: dict[str, str], column: str, said: str) -> None:
    text(four / "label.csv", "id,label\n1,a\n")
    text(four / "old.xls", "x")
    with pytest.raises(RulesError, match=said):
        carried_out(four, images="{n}.png", tables={"t": tables}, label={"source": {"table": "t", "column": column}})


def test_patients_that_are_not_known_are_left_out(four: Path) -> None:
    done = table(four, "id,label,who\n1,a,P1\n2,b,p1\n3,a,\n4,b,P2\n", patient={"table": "t", "column": "who"})
    assert [case.patient for case in done.cases] == ["P1", "P1", "P2"] and list(files(done))[-1] == "004.png"
    assert any("without a patient" in reason for reason in done.left_out)


def test_sheets_of_a_workbook_are_one_table(four: Path) -> None:
    book = openpyxl.Workbook()
    for side, rows in (("train", [("1", "a"), ("2", "b")]), ("test", [("3", "a"), ("4", "c")]), ("notes", [])):
        sheet = book.create_sheet(f"{side}_2020")
        for row in (("id", "label"), *rows):
            sheet.append(row)
    book.save(four / "t.xlsx")
    rules: dict[str, Any] = {
        "images": "{n}.png",
        "label": {"source": {"table": "t", "column": "label"}},
        "split": {"source": {"table": "t", "column": "side"}, "train": ["train"], "test": ["test"]},
    }
    done = carried_out(four, tables={"t": {"file": "t.xlsx", "sheet": "{side}_2020", "key": "id"}}, **rules)
    assert labels(done) == {"001.png": "a", "002.png": "b", "003.png": "a", "004.png": "c"}
    assert done.coverage.splits == {"test": 2, "train": 2}
    with pytest.raises(RulesError, match="no sheet"):
        carried_out(four, tables={"t": {"file": "t.xlsx", "sheet": "{side}_2021", "key": "id"}}, **rules)
