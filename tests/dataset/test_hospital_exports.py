"""What exports of hospitals showed: two spellings of a structure, reports below a preamble, dose sheets among films,
numbers of people behind the kind of a tumour, phases of contrast, planes."""

from pathlib import Path

from propose_files import RANDOM, dicom_series, picture, table, volume
from resolve_files import carried_out, dicom, files, seg_nrrd, structure_set, uid

from shared.dataset.propose import propose
from shared.dataset.tables.blocks import blocks

CAPTURED = "1.2.840.10008.5.1.4.1.1.7"
"""SOP class of a secondary capture."""


def test_a_structure_that_planners_spell_in_two_ways_is_one(tmp_path: Path) -> None:
    names = [("SpinalCord", "Parotid_L"), ("SPINAL CORD", "Parotid L"), ("spinal_cord", "PAROTID-L")]
    for number in range(6):
        dicom(tmp_path / f"p{number}/CT.1.dcm", f"p{number}", f"s{number}")
        structure_set(tmp_path / f"p{number}/RS.1.dcm", f"s{number}", *names[number % 3])
    done = carried_out(
        tmp_path, "organ_segmentation", 3, images="{p}/CT.*.dcm", case="series",
        masks=[{"kind": "rtstruct", "files": ["{p}/RS.*.dcm"], "only": ["spinal cord", "ParotidL"]}],
    )  # fmt: skip
    assert len(done.coverage.label_names) == 2 and set(done.coverage.counts.values()) == {6}
    # Numbers next to each other stay apart: level 1_2 is no level 12.
    for number in range(2):
        structure_set(tmp_path / f"p{number}/RS.1.dcm", f"s{number}", "Level 1_2", "Level 12")
    told = {"kind": "rtstruct", "files": ["{p}/RS.*.dcm"]}
    found = carried_out(tmp_path, "organ_segmentation", 3, images="{p}/CT.*.dcm", case="series", masks=[told])
    assert {"Level 1_2", "Level 12"} < {*found.coverage.label_names}


def test_reports_between_rulers_have_no_part_of_the_preamble(tmp_path: Path) -> None:
    """Heads go on below the number; a signature and what closes the file are no text."""
    ruler, told = "-" * 40, []
    for number in range(8):
        told.append(
            f"Auftrag: A{10234 + 7 * number}\nPatient: {5510 + number // 2}\nDatum: 0{1 + number}.03.2023\n"
            f"Untersuchung: Thorax\n\nBefund:\nKein Erguss {number}.\n\nBeurteilung:\nUnauffällig.\n\n"
            f"Freigegeben am 0{2 + number}.03.2023 durch Dr. A. Meier"
        )
    text = "Auszug aus dem RIS\nAnzahl: 8\n\n" + "".join(f"{ruler}\n\n{one}\n\n" for one in told) + f"{ruler}\nEnde\n"
    found = blocks(text)
    assert [one["number"] for one in found] == [f"A{10234 + 7 * number}" for number in range(8)]
    assert [one["patient"] for one in found] == [str(5510 + number // 2) for number in range(8)]
    assert {one["text"] for one in found} == {
        f"Befund:\nKein Erguss {number}.\n\nBeurteilung:\nUnauffällig." for number in range(8)
    }
    # Sections of a report are no head, even where they stand first, with values in the line.
    told = [f"Nr. {5000 + n}\nFindings: no {n} mm nodule, nothing else at all\nImpression: none" for n in range(6)]
    assert blocks("\n\n".join(f"{one}\n\nThank you" for one in told))[0]["text"].startswith("Findings")


def test_a_dose_sheet_is_no_view_of_an_examination(tmp_path: Path) -> None:
    for exam in range(4):
        for number in range(1, 4):
            dicom(tmp_path / f"R{exam}/IM{number}", f"p{exam}", f"s{exam}{number}", number)
        more = {"SOPClassUID": CAPTURED, "SeriesDescription": "Dose Report"}
        dicom(tmp_path / f"R{exam}/IM4", f"p{exam}", f"s{exam}4", 4, **more)
    # Where all that there is was captured, it is what is meant.
    dicom(tmp_path / "R9/IM1", "p9", "s9", StudyInstanceUID=uid("other"), SOPClassUID=CAPTURED)
    done = carried_out(
        tmp_path, images="R{exam}/IM{number}", case=["exam"], several="views", label={"source": {"field": "exam"}}
    )
    assert files(done) == {
        **{str(exam): [f"R{exam}/IM{number}" for number in range(1, 4)] for exam in range(4)},
        "9": ["R9/IM1"],
    }


def test_numbers_of_people_behind_the_kind_of_a_tumour_tell_them(tmp_path: Path) -> None:
    """One slide lies under two kinds. Where numbers count anew behind each kind, they are other people."""
    numbers = [int(one) for one in RANDOM.choice(90000, 12, replace=False) + 10000]
    for at, number in enumerate([*numbers, numbers[8]]):
        side, kind = ("benign", "malignant")[at % 2 == 0], ("AD", "DC", "FB", "LC")[at % 4]
        for scale in (40, 100, 200):
            name = f"SOB_{side[0].upper()}_{kind}_14-{number}"
            picture(tmp_path / f"slides/{side}/{kind}/{name}/{scale}X/{name}-{scale}-{7 * at + scale:03}.png")
    best = propose(tmp_path / "slides", "diagnosis", target="benign or malignant tissue")[0]
    assert best.coverage.patients == 12 and best.coverage.counts.keys() == {"benign", "malignant"}
    for at in range(16):
        side, number = ("benign", "malignant")[at % 2], 1 + at // 2
        for view in range(3):
            picture(tmp_path / f"counted/{side}/case_{side[0]}_{number}/{view + 5 * at}.png")
    counted = propose(tmp_path / "counted", "diagnosis", target="benign or malignant")[0]
    assert counted.coverage.patients == 16


def test_the_phase_that_is_asked_for_is_taken_whatever_each_machine_calls_it(tmp_path: Path) -> None:
    """A list leads from the number of an examination, zeros lost, to the number of its mask."""
    rows = []
    for number in range(1, 15):
        exam, study = 8123 + 31 * number, f"1.2.3.{number}"
        called = [("Leber nativ", "Leber art. 3.0", "Leber pv"), ("ABD SIN CONTRASTE", "ABD ARTERIAL", "ABD PORTAL")]
        for place, described in enumerate(called[number % 2]):
            name = described.replace(" ", "_")
            folder = tmp_path / f"PACS/{exam:08}/{place + 2:03}_{name}"
            dicom_series(folder, f"N{number // 2}", prefix="IM", study=study, described=described)
        seg_nrrd(tmp_path / f"contours/Case_{number}.seg.nrrd", {1: "Tumor", 2: "Zyste"}, size=(8, 8, 6))
        rows.append({"Nr.": number, "Accession": exam, "Side": "LR"[number % 2]})
    table(tmp_path / "list.csv", rows)
    best = propose(tmp_path, "anomaly_detection", target="outline liver tumours on the portal venous phase")[0]
    assert best.coverage.cases == 14 and best.coverage.patients == 8
    assert best.rules["exclude"][0]["unless"] == ["ABD PORTAL", "Leber pv"]
    assert (best.rules["masks"][0]["table"], best.rules["masks"][0]["column"]) == ("list", "Nr.")
    assert best.coverage.label_names == ("Tumor", "Zyste")
    cysts = propose(tmp_path, "anomaly_detection", only=["Zyste"], target="outline cysts, portal venous phase")[0]
    assert cysts.coverage.label_names == ("Zyste",) and cysts.rules["masks"][0]["only"] == ["Zyste"]


def test_planes_of_an_examination_are_its_views(tmp_path: Path) -> None:
    rows = []
    for number in range(1, 25):
        for plane in ("axial", "coronal", "sagittal"):
            volume(tmp_path / f"knees/{plane}/{number:04}.nii.gz")
        rows.append({"exam": f"{number:04}", "torn": number % 3 == 0})
    table(tmp_path / "acl.csv", rows)
    best = propose(tmp_path, "diagnosis", target="whether the cruciate ligament is torn")[0]
    assert best.rules["several"] == "views" and best.coverage.cases == 24 and best.coverage.views == {"3": 24}
