import json
from pathlib import Path

import pytest
from pydicom.uid import SecondaryCaptureImageStorage
from resolve_files import carried_out, dicom, files, picture, segmentation, text, volume

from services.tool_runner.probes.resolve_rules import in_words
from shared.dataset.files.listing import list_files
from shared.dataset.rules.by_headers import no_image
from shared.dataset.rules.gather import NO_RULE, OTHER_KIND
from shared.dataset.rules.resolve import Resolution, RulesError

CLASS = {"source": {"field": "class"}}


def test_class_folders(tmp_path: Path) -> None:
    for name in ("Normal/a1.png", "Normal/a2.png", "Pneumonia/b1.PNG", "notes/readme.txt"):
        picture(tmp_path / name) if name.lower().endswith("png") else text(tmp_path / name, "x")
    done = carried_out(tmp_path, images="{class}/*.png", label=CLASS)
    assert [(case.key, case.label, case.patient) for case in done.cases] == [
        ("Normal/a1.png", "Normal", "Normal/a1.png"),
        ("Normal/a2.png", "Normal", "Normal/a2.png"),
        ("Pneumonia/b1.PNG", "Pneumonia", "Pneumonia/b1.PNG"),
    ]
    seen = done.coverage
    assert seen.counts == {"Normal": 2, "Pneumonia": 1} and seen.label_names == ("Normal", "Pneumonia")
    assert (seen.cases, seen.files, seen.used, seen.patients, seen.grouping) == (3, 3, 3, 3, "inferred")
    assert not seen.problems and not seen.conflicts and not done.left_out
    assert seen.examples[0]["label"] == "Normal"


def test_class_and_patient_in_names(tmp_path: Path) -> None:
    for name in ("p1_cat_1", "p1_cat_2", "p2_dog_1"):
        picture(tmp_path / f"{name}.png")
    done = carried_out(
        tmp_path, images="{patient}_{class}_{n}.png", label=CLASS, patient={"field": "patient"}
    )  # fmt: skip
    assert [(case.patient, case.label) for case in done.cases] == [("p1", "cat"), ("p1", "cat"), ("p2", "dog")]
    assert done.coverage.grouping == "derived" and "{patient}" in done.coverage.grouping_from


def test_folders_of_slices_in_natural_order(tmp_path: Path) -> None:
    for name in ("CP/1/10/1.png", "CP/1/10/10.png", "CP/1/10/2.png", "NCP/2/11/1.jpg", "NCP/2/12/1.png"):
        picture(tmp_path / name)
    done = carried_out(
        tmp_path, dimensions=3,
        images=[{"files": ["{class}/{patient}/{scan}/*.png", "{class}/{patient}/{scan}/*.jpg"]}],
        case="folder", label=CLASS, patient={"field": "patient"},
    )  # fmt: skip
    assert files(done)["CP/1/10"] == ["CP/1/10/1.png", "CP/1/10/2.png", "CP/1/10/10.png"]
    assert [case.patient for case in done.cases] == ["1", "2", "2"]
    by_fields = carried_out(
        tmp_path, dimensions=3, images="{class}/{patient}/{scan}/*.*", case=["class", "patient"], label=CLASS
    )
    assert list(files(by_fields)) == ["CP/1", "NCP/2"]


def test_several_channels_are_joined(tmp_path: Path) -> None:
    for patient in ("001", "002", "003"):
        for channel in ("t1", "flair"):
            if (patient, channel) != ("003", "flair"):
                volume(tmp_path / f"BraTS_{patient}/BraTS_{patient}_{channel}.nii.gz")
        volume(tmp_path / f"BraTS_{patient}/BraTS_{patient}_seg.nii.gz", 1, 4)
    done = carried_out(
        tmp_path, "anomaly_detection", 3,
        images=[{"files": f"{{case}}/{{case}}_{name}.nii.gz", "channel": name.upper()} for name in ("flair", "t1")],
        masks=[{"files": "{case}/{case}_seg.nii.gz", "values": {"core": 1, "enhancing": 4}}],
    )  # fmt: skip
    assert list(files(done)) == ["BraTS_001", "BraTS_002"] and done.coverage.channels == ("FLAIR", "T1")
    assert [part.files[0] for part in done.cases[0].images[0]] == [
        "BraTS_001/BraTS_001_flair.nii.gz", "BraTS_001/BraTS_001_t1.nii.gz",
    ]  # fmt: skip
    assert done.coverage.label_values == {"core": 1, "enhancing": 4} and done.coverage.used == 6
    assert [names for reason, names in done.left_out.items() if "all channels" in reason] == [["BraTS_003"]]


def test_another_channel_stands_in_for_one_that_is_missing(tmp_path: Path) -> None:
    for name in ("1_flair", "1_t1", "2_flair", "3_t1"):
        volume(tmp_path / f"{name}.nii.gz")
        volume(tmp_path / "seg" / f"{name[0]}.nii.gz", 1)
    masks = [{"files": "seg/{case}.nii.gz", "values": {"core": 1}}]

    def done(stand_in: str) -> Resolution:
        images = [{"files": "{case}_flair.nii.gz", "channel": "FLAIR"},
                  {"files": "{case}_t1.nii.gz", "channel": "T1", "stand_in": stand_in}]  # fmt: skip
        return carried_out(tmp_path, "anomaly_detection", 3, images=images, masks=masks)

    found = done("FLAIR")
    assert [[part.files[0] for part in case.images[0]] for case in found.cases] == [
        ["1_flair.nii.gz", "1_t1.nii.gz"], ["2_flair.nii.gz", "2_flair.nii.gz"],
    ]  # fmt: skip
    assert found.coverage.stood_in == {"FLAIR for T1": 1} and found.coverage.used == 5
    assert "stands in: FLAIR for T1 in 1 cases" in in_words(found.coverage)
    assert [names for reason, names in found.left_out.items() if "all channels" in reason] == [["3"]]
    for wrong in ("T1", "FLAIRE"):
        with pytest.raises(RulesError, match="is no other channel"):
            done(wrong)


def test_views_of_one_examination(tmp_path: Path) -> None:
    for name in ("CXR1_1_IM-0001-3001", "CXR1_1_IM-0001-4001", "CXR2_1_IM-2"):
        picture(tmp_path / f"images/{name}.png")
    text(tmp_path / "r.csv", "uid,findings\n1,Clear lungs.\n2,Effusion.\n")
    done = carried_out(
        tmp_path, "report_generation", images="images/CXR{uid}_1_*.png", case=["uid"], several="views",
        tables={"r": {"file": "r.csv", "key": "uid", "names": "uid"}},
        text={"sources": [{"table": "r", "column": "findings"}]}, patient={"field": "uid"},
    )  # fmt: skip
    assert [len(case.images) for case in done.cases] == [2, 1] and done.cases[0].text == "Clear lungs."


def test_series_by_headers(tmp_path: Path) -> None:
    for number in (10, 2, 1):
        dicom(tmp_path / f"p1/st/IM{number}", "P1", "s1", number)
        dicom(tmp_path / f"p2/mixed/a{number}.dcm", "P2", "s2", number)
    dicom(tmp_path / "p2/mixed/b1.dcm", "P2", "s3")
    segmentation(tmp_path / "p2/seg.dcm", "s2", "liver")
    (tmp_path / "p2/broken.dcm").write_bytes(b"\0" * 128 + b"DICM" + b"rubbish")
    text(tmp_path / "labels.tsv", "patient\tdiagnosis\nP1\tsick\nP2\twell\n")
    done = carried_out(
        tmp_path, dimensions=3, images="**", case="series", patient={"header": "PatientID"},
        tables={"t": {"file": "labels.tsv", "key": "patient", "names": "folder"}},
        label={"source": {"table": "t", "column": "diagnosis"}},
    )  # fmt: skip
    assert files(done) == {} and "no case" in done.coverage.problems[0]
    assert "folder" not in done.coverage.grouping_from and done.coverage.grouping == "stated"
    named = carried_out(
        tmp_path, dimensions=3, images="{p}/**", case="series", patient={"header": "PatientID"},
        tables={"t": {"file": "labels.tsv", "key": "patient"}},
        label={"source": {"table": "t", "column": "diagnosis"}},
    )  # fmt: skip
    assert files(named)["p1/st"] == ["p1/st/IM1", "p1/st/IM2", "p1/st/IM10"] and len(named.cases) == 3
    assert [(case.patient, case.label) for case in named.cases] == [("P1", "sick"), ("P2", "well"), ("P2", "well")]
    assert {len(names) for names in named.left_out.values()} == {1} and len(named.left_out) == 2
    assert "PatientID of the DICOM headers" in named.coverage.grouping_from


def test_series_that_are_no_images_are_left_out_with_a_reason(tmp_path: Path) -> None:
    capture = SecondaryCaptureImageStorage
    for patient in ("P1", "P2"):
        dicom(tmp_path / f"{patient}/a/1.dcm", patient, f"{patient}a")
        dicom(tmp_path / f"{patient}/b/1.dcm", patient, f"{patient}b", ImageType=["ORIGINAL", "PRIMARY", "LOCALIZER"])
        dicom(tmp_path / f"{patient}/c/1.dcm", patient, f"{patient}c", SeriesDescription="Dose Report")
        dicom(tmp_path / f"{patient}/d/1.dcm", patient, f"{patient}d", SOPClassUID=capture)
    dicom(tmp_path / "P3/d/1.dcm", "P3", "P3d", SOPClassUID=capture)
    for case in ("series", "folder"):
        done = carried_out(
            tmp_path, dimensions=3, images="{p}/{s}/{n}.dcm", case=case, label={"source": {"field": "p"}}
        )
        # An examination of screen shots only is all that there is of its patient.
        assert list(files(done)) == ["P1/a", "P2/a", "P3/d"], case
        assert {reason.partition(":")[0]: len(names) for reason, names in done.left_out.items()} == {
            "images by which a scan was planned (scout, localizer)": 2,
            "screen shots and reports beside the images of an examination": 4,
        }
        assert done.coverage.lossless == {"no_image": 6}


def test_films_for_processing_are_left_out_where_their_examination_has_them_for_presentation(tmp_path: Path) -> None:
    for n in range(6):
        dicom(
            tmp_path / f"{n}.dcm",
            f"P{n}",
            f"S{n}",
            StudyInstanceUID=f"1.{n}",
            PresentationIntentType="FOR PRESENTATION",
        )
        raw = {"StudyInstanceUID": f"1.{n + n // 5}", "PresentationIntentType": "FOR PROCESSING"}
        dicom(tmp_path / f"{n}r.dcm", f"P{n}", f"R{n}", **raw)
    done = carried_out(tmp_path, dimensions=2, images="{n}.dcm", label={"source": {"header": "PatientID"}})
    # Of the last examination there is no other film.
    assert list(files(done)) == [*(f"{n}.dcm" for n in range(6)), "5r.dcm"]
    assert done.coverage.lossless == {"no_image": 5}


def test_arrays_of_one_file_are_channels(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.npz").write_bytes(b"PK")
    done = carried_out(
        tmp_path,
        images=[{"files": "{class}.npz", "array": name, "channel": name} for name in ("t1", "t2")],
        label=CLASS,
    )
    assert [[part.array for part in case.images[0]] for case in done.cases] == [["t1", "t2"], ["t1", "t2"]]
    assert not done.coverage.conflicts


def test_excluded_refused_and_forgotten_files_are_counted(tmp_path: Path) -> None:
    for name in ("a/1.png", "b/1.png", "a/bad.png", "a/2.png", "extra.png"):
        picture(tmp_path / name)
    text(tmp_path / "a/scan.svs", "x")
    done = carried_out(
        tmp_path, images="{class}/1.png", label=CLASS, exclude=[{"files": "**/bad*", "reason": "blurred"}],
        leave_out={"b/1.png": "shows a phantom"},
    )  # fmt: skip
    assert list(files(done)) == ["a/1.png"]
    assert done.left_out["excluded by the rules: blurred"] == ["a/bad.png"]
    assert done.left_out["handed back: shows a phantom"] == ["b/1.png"]
    assert done.left_out[NO_RULE] == ["a/2.png"], "of the kind of those that are cases"
    assert done.left_out[OTHER_KIND] == ["extra.png"]
    assert done.coverage.left_out_examples["excluded by the rules: blurred"] == ("a/bad.png",)
    assert "one class" in done.coverage.problems[1] and "one patient" in done.coverage.problems[0]


def test_a_listing_may_be_given_and_order_does_not_matter(tmp_path: Path) -> None:
    for number in (10, 9, 1):
        picture(tmp_path / f"{'ab'[number % 2]}/{number}.png")
    from shared.contracts.rules import Rules
    from shared.dataset.rules.resolve import resolve

    rules = Rules.model_validate(
        {"task": "diagnosis", "dimensions": 2, "images": [{"files": "{class}/*.png"}], "label": CLASS}
    )
    one, other = resolve(rules, tmp_path, list_files(tmp_path)), resolve(rules, tmp_path)
    assert one == other and [case.key for case in one.cases] == ["a/10.png", "b/1.png", "b/9.png"]


@pytest.mark.parametrize(
    ("rules", "said"),
    [
        ({"images": "{class/*.png"}, "stands alone"),
        ({"images": "/data/{class}/*.png"}, "relative to the dataset"),
        ({"images": "{class}/*.png", "label": {"source": {"field": "clas"}}}, "did you mean 'class'"),
        ({"images": "{class}/*.png", "case": ["class", "patient"]}, "field 'patient'"),
        ({"images": "{class}/*.png", "patient": {"header": "PatientId"}}, "no header 'PatientId'"),
        ({"images": "{class}/*.png", "patient": {"field": "class", "part": "("}}, "no regular expression"),
        ({"images": "{class}/*.png", "patient": {"field": "class", "part": "x"}}, "0 groups"),
        ({"images": "{class}/*.png", "label": CLASS | {"only": ["A", "c"]}}, "names 'c', which no case has"),
        ({"images": [{"files": "a/{x}.png"}, {"files": "b/{y}.png"}]}, "share no field"),
        ({"images": [{"files": "a/{x}.png"}, {"files": "b/{x}.png"}], "case": "series"}, "one entry"),
    ],
)
def test_rules_that_cannot_be_carried_out_say_what_to_change(tmp_path: Path, rules: dict, said: str) -> None:  # type: ignore[type-arg]
    for name in ("a/1.png", "b/1.png"):
        picture(tmp_path / name)
    with pytest.raises(RulesError, match=said):
        carried_out(tmp_path, **{"label": CLASS, **rules})


def test_a_dataset_without_anything_is_told(tmp_path: Path) -> None:
    done = carried_out(tmp_path, images="{class}/*.png", label=CLASS)
    assert not done.cases and done.coverage.problems == (
        "no case: nothing fits all rules; see what was left out and why",
    )


def test_ten_thousand_files_and_a_table(tmp_path: Path) -> None:
    rows = []
    for number in range(10_000):
        path = tmp_path / f"images/{number % 20}/scan_{number:05d}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x")
        rows.append(f"scan-{number},P{number // 3},{'sick' if number % 3 else 'well'}")
    text(tmp_path / "labels.csv", "image,patient,label\n" + "\n".join(rows))
    done = carried_out(
        tmp_path, images="images/*/*.png", tables={"t": {"file": "labels.csv", "key": "image"}},
        label={"source": {"table": "t", "column": "label"}}, patient={"table": "t", "column": "patient"},
    )  # fmt: skip
    assert len(done.cases) == 10_000 and done.coverage.patients == 3334
    assert json.loads(done.coverage.model_dump_json())["counts"] == {"sick": 6666, "well": 3334}


@pytest.mark.parametrize(
    ("said", "scout"), [("Survey_BFFE", True), ("AX LOC", True), ("Skeletal survey", False), ("location 3 T2", False)]
)
def test_a_scout_is_told_by_its_name(said: str, scout: bool) -> None:
    assert (no_image({"SeriesDescription": said, "Modality": "MR"}) is not None) == scout


def test_all_classes_that_nobody_asked_for_count_as_expected(tmp_path: Path) -> None:
    """Though there are more of them than reasons that are kept."""
    for number in range(80):
        picture(tmp_path / f"d{number:02d}" / "0.png")
    label = {"source": {"field": "class"}, "only": ["d00", "d01"]}
    found = carried_out(tmp_path, images="{class}/{n}.png", label=label).coverage
    assert found.cases == 2 and found.lossless == {"untargeted": 78} and len(found.left_out) == 60
