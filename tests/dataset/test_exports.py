"""Exports of programs: gzipped tables, HL7 messages, CVAT, and trees whose names hold more than the number that
a table knows."""

import csv
import gzip
import io
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest
from propose_files import dicom_series, mask_volume, picture, table, text, volume

from shared.contracts.cases import Proposal
from shared.contracts.rules import Rules
from shared.dataset.propose import propose
from shared.dataset.rules.resolve import resolve
from shared.dataset.shapes.cvat import read_cvat
from shared.dataset.tables.tables import TableError, read_table


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


def test_lists_of_a_large_archive_have_many_findings(tmp_path: Path) -> None:
    rows = []
    for number in range(160):
        picture(tmp_path / str(number % 3) / f"{number * 7919:08d}.png")
        places = sorted({number % 80, (number * 7 + number // 80) % 80})
        signs = [f"finding {'ABCDEFGH'[place // 10]}{'abcdefghij'[place % 10]}" for place in places]
        rows.append({"ImageID": f"{number * 7919:08d}.png", "Method": ("by hand", "network")[number // 2 % 2],
                     "Labels": str(signs)})  # fmt: skip
    gzipped(tmp_path / "labels.csv.gz", rows)
    best = propose(tmp_path, "diagnosis", target="which findings a film shows")[0]
    assert best.key == "" and len(best.coverage.label_names) == 80 and best.coverage.cases == 160


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


def test_messages_of_an_order_each(tmp_path: Path) -> None:
    head = "\x0bMSH|^~\\&|RIS|H|OUT|H|20220102||ORU^R01^ORU_R01|77|P|2.5\rPID|1||4711^^^H^MR~99^^^S^SS||X||19500101|F\r"
    first = (
        "OBR|1||RX1|CT^CT HEAD^L\rOBX|1|CE|I^IMP||R93^No bleed \\S\\ mass^I10|||\rOBX|2|ED|PDF||^^PDF^Base64^JVBERi0\r"
    )
    second = "OBR|2||RX2\rOBX|1|FT|R||One.\\.sp\\Two \\X41\\.~Three|||||||F\rNTE|1||a note\rZZZ\r\x1c\r"
    path = tmp_path / "out.dat"
    path.write_bytes((head + first + second).encode())
    one, two = read_table(path).rows
    assert (one["OBR-3"], one["OBR-4.2"], one["text"]) == ("RX1", "CT HEAD", "No bleed ^ mass")
    assert (two["OBR-3"], two["text"]) == ("RX2", "One.\nTwo A.\nThree")
    assert one["PID-3 patient"] == two["PID-3 patient"] == "4711" and one["MSH-9.2"] == "R01"
    assert read_table(write(tmp_path / "broken.hl7", "MSH|")).rows in ([], [{}])


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


def write(path: Path, content: str) -> Path:
    text(path, content)
    return path


def test_shapes_of_cvat(tmp_path: Path) -> None:
    shapes = (
        '<box label="b" xtl="2" ytl="3" xbr="6.5" ybr="5" z_order="1"/>'
        '<box label="turned" xtl="2" ytl="4" xbr="6" ybr="6" rotation="90"/><points label="p" points="1,1"/>'
        '<ellipse label="e" cx="10" cy="8" rx="4" ry="2"/>'
        '<mask label="m" rle="1, 2, 3" left="20" top="4" width="3" height="2"/>'
    )
    wrong = '<mask label="m" rle="1, 2" left="20" top="4" width="3" height="2"/><polygon label="a" points="1,1;2,2"/>'
    images = [
        marked("1.png", shapes),
        marked("2.png", wrong),
        marked("3.png", ""),
        marked("4.png", '<tag label="excluded"/>'),
    ]
    first, second, third, fourth = read_cvat(write(tmp_path / "a.xml", cvat([*images[:3], marked("4.png", "")])))
    assert [mark.structure for mark in first.marks] == ["turned", "e", "m", "b"] and first.size == (24, 20)
    drawn = {mark.structure: mark for mark in first.marks}
    assert drawn["b"].numbers == (2.0, 3.0, 4.5, 2.0)
    assert sorted(round(one, 3) for one in drawn["turned"].numbers) == [3, 3, 3, 3, 5, 5, 7, 7]
    counts = [int(one) for one in drawn["m"].numbers]
    whole = np.repeat(np.arange(len(counts)) % 2, counts).reshape(24, 20).T
    assert np.argwhere(whole).tolist() == [[4, 21], [4, 22]]
    assert len(second.faults) == 2 and first.judged and not third.judged and not fourth.judged
    assert [one.name for one in read_cvat(write(tmp_path / "b.xml", cvat(images)))] == ["1.png", "2.png", "3.png"]
    with pytest.raises(TableError, match="no export of CVAT"):
        read_cvat(write(tmp_path / "c.xml", "<annotations><image/></annotations>"))


def cvat(images: Sequence[str]) -> str:
    label = "<label><name>nodule</name><type>polygon</type></label>"
    meta = f"<version>1.1</version><meta><task><labels>{label}</labels></task></meta>"
    return f"<annotations>{meta}{''.join(images)}</annotations>"


def marked(name: str, inside: str) -> str:
    return f'<image id="0" name="{name}" width="24" height="20">{inside}</image>'


OUTLINE = '<polygon label="nodule" points="3.00,3.00;12.00,3.00;12.00,9.50" z_order="0"></polygon>'


@pytest.mark.parametrize("said", ["tags", "a tag that takes out", "in a document", "nowhere"])
def test_pictures_of_cvat_that_nobody_read(tmp_path: Path, said: str) -> None:
    """With tags for what is free the others were not read; without them a document or a person says what no mark
    means."""
    tags = said == "tags"
    away = '<tag label="unusable"></tag>' if said == "a tag that takes out" else ""
    if said == "in a document":
        text(tmp_path / "README.md", "Two rounds of reading. A film\nwithout an outline shows no nodule.\n")
    for part in (1, 2):
        images = []
        for number in range(12):
            name = f"batch_{part}/T{part}{number:02d}.png"
            picture(tmp_path / "images" / name)
            free = number % 4 == 1
            inside = OUTLINE if number % 4 > 1 else '<tag label="no_nodule"></tag>' if free and tags else ""
            inside += away if number < 3 else ""
            images.append(marked(name, inside))
        text(tmp_path / f"task_{part}" / "annotations.xml", cvat(images))
    picture(tmp_path / "images" / "batch_1" / "T199.png")  # never uploaded
    asked = propose(tmp_path, "anomaly_detection", target="outline nodules")
    best = asked[0]
    assert best.coverage.label_values == {"nodule": 1}
    if tags or said == "in a document":
        assert best.key == "" and best.coverage.cases == (18 if tags else 24)
    else:
        choices = {one.choice.rpartition(", ")[2]: one.coverage.cases for one in asked if one.key == "mask"}
        marks, all_ = (12, 24) if said == "nowhere" else (10, 18)
        assert choices == {
            "without pictures that have no mark": marks,
            "where no mark means that nothing is there": all_,
        }


def test_tags_of_cvat_are_classes(tmp_path: Path) -> None:
    images = []
    for number in range(20):
        picture(tmp_path / "images" / f"f{number:02d}.png")
        tag = "" if number == 7 else f'<tag label="{("benign", "malignant")[number % 2]}"></tag>'
        images.append(marked(f"f{number:02d}.png", tag))
    text(tmp_path / "annotations.xml", cvat(images))
    best = propose(tmp_path, "diagnosis", target="benign or malignant")[0]
    assert best.coverage.counts == {"benign": 10, "malignant": 9} and best.key == ""


def test_a_day_behind_a_code_is_a_visit_of_one_person(tmp_path: Path) -> None:
    for number in range(24):
        person = max(number, 1)  # one comes twice
        code, day = f"{'ABCDE'[person % 5]}K{400 + 7 * person:04d}", f"2020{number % 12 + 1:02d}{number + 1:02d}"
        place = tmp_path / "ct" / f"{code}_{day}"
        volume(place / f"{code}_ct.nii{'' if number % 6 == 5 else '.gz'}")
        mask_volume(place / f"{code}_seg_{'final' if number % 4 else 'v1'}.nii.gz")
    best = propose(tmp_path, "organ_segmentation")[0]
    assert (best.coverage.cases, best.coverage.patients) == (24, 23)
