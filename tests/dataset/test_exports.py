"""Exports of programs: gzipped tables, HL7 messages, CVAT, REDCap, and trees whose names hold more than the number that
a table knows."""

import csv
import gzip
import io
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from propose_files import dicom_series, mask_volume, picture, table, text, volume

from shared.contracts.cases import Proposal
from shared.contracts.rules import Rules
from shared.dataset.propose import propose
from shared.dataset.rules.resolve import resolve


def found(root: Path, best: Proposal) -> dict[str, tuple[object, str]]:
    """Key of each case -> label or text, and patient."""
    done = resolve(Rules.model_validate(best.rules), root)
    return {case.key: (case.text if case.label is None else case.label, case.patient) for case in done.cases}


def gzipped(path: Path, rows: Sequence[Mapping[str, object]], mark: str = ",") -> None:
    out = io.StringIO(newline="")
    made = csv.DictWriter(out, list(rows[0]), delimiter=mark)
    made.writeheader()
    made.writerows(rows)
    path.write_bytes(gzip.compress(out.getvalue().encode()))


@pytest.mark.parametrize("suffix", [".csv.gz", ".tsv.gz"])
@pytest.mark.parametrize("quoted", [True, False])
def test_a_gzipped_table_with_lists_comes_before_numbers_of_folders(tmp_path: Path, suffix: str, quoted: bool) -> None:
    rows = []
    for number in range(36):
        part = (0, 3, 17, 38)[number % 4]
        picture(tmp_path / str(part) / f"{number * 7919:08d}.png")
        signs = [sign for sign, every in (("nodule", 2), ("pleural effusion", 3)) if number % every == 0] or ["normal"]
        told = str(signs) if quoted else f"[{', '.join(signs)}]"
        rows.append({"": number, "ImageID": f"{number * 7919:08d}.png", "PatientID": 900 + number // 2, "Labels": told})
    gzipped(tmp_path / f"labels{suffix}", rows, "\t" if "tsv" in suffix else ",")
    best = propose(tmp_path, "diagnosis", target="which findings a film shows, several may hold")[0]
    assert best.key == "" and best.coverage.counts == {"nodule": 18, "normal": 12, "pleural effusion": 12}
    assert best.coverage.patients == 18


def test_reports_name_the_session_that_stands_inside_of_folders(tmp_path: Path) -> None:
    rows = []
    for number in range(24):
        who, when, film = f"S0{3041 + 17 * (number // 2)}", f"E0{6130 + 23 * number}", number % 4 == 3
        stem = f"sub-{who}/ses-{when}/mod-{'rx' if film else 'ct'}/sub-{who}_ses-{when}_run-1"
        if film:
            picture(tmp_path / f"{stem}_dx.png")
        else:
            volume(tmp_path / f"{stem}_ct.nii.gz")
        said = f"The {'film' if film else 'scan'} number {number} shows no effusion and a nodule of {number} mm."
        rows.append({"person": who, "study": when, "Report": said})
    table(tmp_path / "reports.tsv", rows[::-1])
    best = propose(tmp_path, "report_generation", dimensions=3, target="the report of a CT")[0]
    told = found(tmp_path, best)
    assert best.coverage.cases == 18 and all(f"-{who}/" in key for key, (_, who) in told.items())
    assert all(rows[number]["Report"] == next(said for key, (said, _) in told.items() if rows[number]["study"] in key)
               for number in range(24) if number % 4 != 3)  # fmt: skip


def test_classes_are_told_by_a_code_in_the_middle_of_names(tmp_path: Path) -> None:
    rows = []
    for number in range(20):
        for view in ("ap", "lat"):
            picture(tmp_path / "films" / f"site{number % 3}-K{number * 7 + 11:04d}_{view}.png")
        rows.append({"code": f"K{number * 7 + 11:04d}", "fracture": ("no", "yes")[number // 2 % 2]})
    table(tmp_path / "readings.csv", rows)
    best = propose(tmp_path, "diagnosis", target="is there a fracture")[0]
    assert best.coverage.cases == 40 and best.coverage.counts == {"no": 20, "yes": 20}


def message(number: int, order: str, patient: int, lines: Sequence[str], state: str = "F") -> str:
    return "\r".join([
        f"MSH|^~\\&|RIS|H|OUT|H|2022||ORU^R01|{number}|P|2.3.1", f"PID|1||{patient}^^^H^MR||X^Y||19500101|F",
        f"OBR|1|{number + 7}|{order}|XR^WRIST|||2022{'|' * 18}{state}",
        *(f"OBX|{at + 1}|TX|18782-3^Report||{line}||||||{state}" for at, line in enumerate(lines)), ""])  # fmt: skip


def said_of(number: int) -> list[str]:
    return [f"Film {number}.", "", f"A fracture of {number} mm \\T\\ no callus is seen.\\.br\\Old cast."]


def read_of(number: int) -> str:
    return f"Film {number}.\n\nA fracture of {number} mm & no callus is seen.\nOld cast."


@pytest.mark.parametrize("one_file", [False, True])
def test_messages_tell_themselves_whose_report_they_hold(tmp_path: Path, one_file: bool) -> None:
    sent = []
    for number in range(18):
        order = f"RX22{number % 4 + 1:02d}{3117 + 41 * number}"
        for view in range(1 + number % 2):
            picture(tmp_path / "images" / f"2022{number % 4 + 1:02d}" / order / f"{order}_{view}.jpg")
        if number % 5 == 0:  # first the assistant's, then the consultant's
            sent.append(message(8100 + number, order, 500 + number // 2, ["A first impression of it only."], "P"))
        sent.append(message(8200 + number, order, 500 + number // 2, said_of(number)))
    if one_file:
        text(tmp_path / "sent.txt", "\r\n".join(sent))
    else:
        for at, one in enumerate(sent):
            text(tmp_path / "hl7" / f"2022{at % 4 + 1:02d}" / f"ORU_{880120 + 3 * at}.hl7", one)
    best = propose(tmp_path, "report_generation", target="drafts the report")[0]
    told = found(tmp_path, best)
    assert sorted(said for said, _ in told.values()) == sorted(map(read_of, range(18)))
    assert best.coverage.patients == 9


def test_messages_name_the_accession_of_dicom_headers(tmp_path: Path) -> None:
    for number in range(8):
        folder = tmp_path / "dicom" / f"{number:02d}"
        for data in dicom_series(folder, f"P{number}", 4):
            data.AccessionNumber = f"CT{7000 + number * 13}"
            data.save_as(folder / f"{int(data.InstanceNumber):03d}.dcm", enforce_file_format=True)
        one = message(number, f"CT{7000 + number * 13}", number, said_of(number))
        text(tmp_path / "oru" / f"{900 - number}.hl7", one)
    best = propose(tmp_path, "report_generation")[0]
    assert sorted(said for said, _ in found(tmp_path, best).values()) == sorted(map(read_of, range(8)))


def test_records_whose_names_are_numbers_of_their_own_are_joined_by_what_they_say(tmp_path: Path) -> None:
    for number in range(12):
        picture(tmp_path / "films" / f"A{4000 + 13 * number}.png")
        said = f"Film {number} shows a shadow of {number} mm in the left lung."
        text(tmp_path / "reports" / f"{77 + number * 5}.json",
             f'{{"accession": "A{4000 + 13 * number}", "report": {{"text": "{said}"}}}}')  # fmt: skip
    best = propose(tmp_path, "report_generation")[0]
    assert best.coverage.cases == 12 and best.key == ""


def cvat(images: Sequence[str]) -> str:
    label = "<label><name>nodule</name><type>polygon</type></label>"
    meta = f"<version>1.1</version><meta><task><labels>{label}</labels></task></meta>"
    return f"<annotations>{meta}{''.join(images)}</annotations>"


def marked(name: str, inside: str) -> str:
    return f'<image id="0" name="{name}" width="24" height="20">{inside}</image>'


OUTLINE = '<polygon label="nodule" points="3.00,3.00;12.00,3.00;12.00,9.50" z_order="0"></polygon>'


@pytest.mark.parametrize("tags", [True, False])
def test_pictures_of_cvat_that_nobody_read(tmp_path: Path, tags: bool) -> None:
    """With tags for what is free the others were not read; without them a person has to say what no mark means."""
    for part in (1, 2):
        images = []
        for number in range(12):
            name = f"batch_{part}/T{part}{number:02d}.png"
            picture(tmp_path / "images" / name)
            free = number % 4 == 1
            inside = OUTLINE if number % 4 > 1 else '<tag label="no_nodule"></tag>' if free and tags else ""
            images.append(marked(name, inside))
        text(tmp_path / f"task_{part}" / "annotations.xml", cvat(images))
    picture(tmp_path / "images" / "batch_1" / "T199.png")  # never uploaded
    asked = propose(tmp_path, "anomaly_detection", target="outline nodules")
    best = asked[0]
    assert best.coverage.label_values == {"nodule": 1}
    if tags:
        assert best.key == "" and best.coverage.cases == 18
    else:
        choices = {one.choice.rpartition(", ")[2]: one.coverage.cases for one in asked if one.key == "mask"}
        assert choices == {"without pictures that have no mark": 12, "where no mark means that nothing is there": 24}


def test_tags_of_cvat_are_classes(tmp_path: Path) -> None:
    images = []
    for number in range(20):
        picture(tmp_path / "images" / f"f{number:02d}.png")
        tag = "" if number == 7 else f'<tag label="{("benign", "malignant")[number % 2]}"></tag>'
        images.append(marked(f"f{number:02d}.png", tag))
    text(tmp_path / "annotations.xml", cvat(images))
    best = propose(tmp_path, "diagnosis", target="benign or malignant")[0]
    assert best.coverage.counts == {"benign": 10, "malignant": 9} and best.key == ""


EVENTS = {"baseline_arm_1": "BL", "month_24_arm_1": "M24"}


def redcap(root: Path, sides: Mapping[str, str], folders: bool = False) -> dict[str, str]:
    """A row an event, a column a side; what the fields mean stands in a dictionary. Name of a picture -> its class."""
    rows, truth = [], {}
    for number in range(16):
        for event, visit in EVENTS.items() if number % 3 == 0 else [("baseline_arm_1", "BL")]:
            grades = {side: (number + at + (visit == "M24")) % 3 for at, side in enumerate(sides)}
            for side, named in sides.items():
                place = (
                    f"{visit}/KOA{1003 + 4 * number}_{named}.png"
                    if folders
                    else f"KOA{1003 + 4 * number}_{visit}_{named}.png"
                )
                picture(root / "images" / place)
                truth[f"images/{place}"] = ("none", "mild", "severe")[grades[side]]
            rows.append({"record_id": 1003 + 4 * number, "redcap_event_name": event, "sex": number % 2,
                         "mutation": number % 2 if visit == "BL" else "",
                         **{f"pain_{side}": number * 7 % 5 for side in sides},
                         **{f"xr_kl_{side}": grades[side] for side in sides},
                         "radiograph_reading_complete": 2 * (number % 5 > 0)})  # fmt: skip
    table(root / "Cohort_DATA_2023-05-11.csv", rows)
    choices = "0, none | 1, mild | 2, severe"
    table(root / "Cohort_DataDictionary_2023-05-11.csv", [
        {"Variable / Field Name": name, "Form Name": "form", "Field Label": label, "Choices, Calculations": codes}
        for name, label, codes in (
            ("record_id", "Record ID", ""), ("sex", "Sex", "0, male | 1, female"),
            ("mutation", "Mutation", "0, none | 1, present"),
            *((f"pain_{side}", f"WOMAC pain of the {side} side", "") for side in sides),
            *((f"xr_kl_{side}", f"Kellgren-Lawrence grade, {side} side", choices) for side in sides))])  # fmt: skip
    return truth


@pytest.mark.parametrize(
    ("sides", "folders"),
    [({"r": "R", "l": "L"}, False), ({"right": "R", "left": "L"}, True), ({"od": "right", "os": "left"}, False)],
)
def test_a_row_an_event_and_a_column_a_side(tmp_path: Path, sides: dict[str, str], folders: bool) -> None:
    truth = redcap(tmp_path, sides, folders)
    best = propose(tmp_path, "diagnosis", target="the Kellgren-Lawrence grade of a knee radiograph")[0]
    told = found(tmp_path, best)
    assert {key: label for key, (label, _) in told.items()} == truth and best.key == ""
    assert best.coverage.patients == 16


def test_what_only_the_first_event_asks_counts_for_all_pictures(tmp_path: Path) -> None:
    redcap(tmp_path, {"r": "R", "l": "L"})
    best = propose(tmp_path, "diagnosis", target="tell the mutation of the patient")[0]
    assert best.coverage.cases == 44 and best.coverage.label_names == ("none", "present")
    assert all(label == ("none", "present")[(int(key[10:14]) - 1003) // 4 % 2]
               for key, (label, _) in found(tmp_path, best).items())  # fmt: skip


def test_a_row_a_side_and_visit(tmp_path: Path) -> None:
    rows, truth = [], {}
    for number in range(14):
        for visit in (1, 2) if number % 2 else (1,):
            for side, named in (("OD", "R"), ("OS", "L")):
                name = f"eyes/P{number:03d}_V{visit}_{named}.png"
                picture(tmp_path / name)
                truth[name] = ("clear", "oedema")[(number // 2 + visit + (side == "OD")) % 2]
                rows.append({"patient": f"P{number:03d}", "eye": side, "visit": visit, "macula": truth[name]})
    table(tmp_path / "findings.csv", rows)
    best = propose(tmp_path, "diagnosis", target="the macula")[0]
    assert {key: label for key, (label, _) in found(tmp_path, best).items()} == truth
    assert best.coverage.patients == 14


def test_a_day_behind_a_code_is_a_visit_of_one_person(tmp_path: Path) -> None:
    for number in range(24):
        person = max(number, 1)  # one comes twice
        code, day = f"{'ABCDE'[person % 5]}K{400 + 7 * person:04d}", f"2020{number % 12 + 1:02d}{number + 1:02d}"
        place = tmp_path / "ct" / f"{code}_{day}"
        volume(place / f"{code}_ct.nii{'' if number % 6 == 5 else '.gz'}")
        mask_volume(place / f"{code}_seg_{'final' if number % 4 else 'v1'}.nii.gz")
    best = propose(tmp_path, "organ_segmentation")[0]
    assert (best.coverage.cases, best.coverage.patients) == (24, 23)


def test_columns_of_findings_for_each_side(tmp_path: Path) -> None:
    rows, truth = [], {}
    for number in range(16):
        row: dict[str, object] = {"mrn": 700100 + number * 3, "age": 40 + number}
        for side, named in (("left", "L"), ("right", "R")):
            name = f"knees/{row['mrn']}/{named}/ap_{number:02d}.png"
            picture(tmp_path / name)
            held = {sign: (number + (side == "left")) % every == 0 for sign, every in (("spur", 2), ("cyst", 3))}
            row |= {f"{sign}_{side}": int(one) for sign, one in held.items()}
            truth[name] = tuple(sorted(sign for sign, one in held.items() if one))
        rows.append(row)
    table(tmp_path / "reading.csv", rows)
    best = propose(tmp_path, "diagnosis", target="which of spurs and cysts a knee has")[0]
    assert {key: label for key, (label, _) in found(tmp_path, best).items()} == truth
    assert best.coverage.patients == 16 and best.coverage.label_names == ("cyst", "spur")
