"""What downloads of public datasets showed: keys by chance, sequences by folders, listed codes, chosen series."""

import random
from pathlib import Path

import nibabel
import numpy as np
from propose_files import RANDOM, dicom_series, mask_volume, picture, table, text, volume

from shared.contracts.cases import Proposal
from shared.dataset.propose import propose


def test_a_laboratory_value_is_no_key_and_a_length_of_stay_no_patient(tmp_path: Path) -> None:
    """Whole values among measured ones are numbers in names, too; a number of each row does not come in any order."""
    draw, rows = random.Random(3), []
    for number in range(1, 49):
        rows.append({
            "Length_of_Stay": draw.randint(1, 8), "CRP": draw.choice([draw.randint(1, 60), 8.7, 12.4, 3.5]),
            "Diagnosis": draw.choice(["appendicitis", "no appendicitis"]), "US_Number": number,
        })  # fmt: skip
        for view in range(1, 2 + number % 4 if number % 5 else 0):
            picture(tmp_path / f"US_Pictures/{number}.{view} App.jpg")
    draw.shuffle(rows)
    table(tmp_path / "app_data.csv", rows)
    best = propose(tmp_path, "diagnosis", target="does the child have appendicitis or not")[0]
    assert best.rules["tables"]["app_data"]["key"] == "US_Number"
    held = {row["US_Number"]: row["Diagnosis"] for row in rows if int(str(row["US_Number"])) % 5}
    assert best.coverage.patients == len(held) and best.coverage.counts.keys() == set(held.values())


def _sequences(root: Path, number: int) -> None:
    """Three sequences of a patient, of which FLAIR has a finer grid than the mask."""
    visit = root / f"sub-{number:03}/ses-1"
    name = f"sub-{number:03}_ses-1"
    for kind in ("adc", "dwi"):
        volume(visit / f"dwi/{name}_{kind}.nii.gz")
    flair = visit / f"anat/{name}_FLAIR.nii.gz"
    flair.parent.mkdir(parents=True)
    voxels = RANDOM.integers(-500, 900, (16, 14, 12)).astype(np.int16)
    nibabel.save(nibabel.Nifti1Image(voxels, np.diag([0.5, 0.5, 1.0, 1.0])), flair)
    mask_volume(root / f"derivatives/sub-{number:03}/ses-1/{name}_msk.nii.gz", (1,) * (number % 3 > 0))


def test_sequences_in_folders_of_their_kind_are_channels_and_the_masks_grid_is_first(tmp_path: Path) -> None:
    for number in range(12):
        _sequences(tmp_path, number)
    best = propose(tmp_path, "anomaly_detection", target="stroke lesions on DWI, ADC and FLAIR together")[0]
    named = [one["channel"] for one in best.rules["images"]]
    assert sorted(named) == ["FLAIR", "adc", "dwi"] and named[0] != "FLAIR"
    assert best.coverage.cases == 12


def test_of_structural_and_functional_images_those_that_the_request_names(tmp_path: Path) -> None:
    rows = []
    for number in range(20):
        rows.append({"participant_id": f"sub-{number:02}", "group": ("PD", "HC")[number % 2], "age": 40 + number})
        for visit in (1, 2) if number % 3 else (1,):
            there = tmp_path / f"sub-{number:02}/ses-{visit}"
            volume(there / f"anat/sub-{number:02}_ses-{visit}_T1w.nii.gz")
            volume(there / f"func/sub-{number:02}_ses-{visit}_task-rest_run-1_bold.nii.gz", (8, 7, 6, 3))
    table(tmp_path / "participants.tsv", rows, "\t")
    best = propose(tmp_path, "diagnosis", target="from the structural T1-weighted MRI: Parkinson or control")[0]
    assert [one["files"][0].endswith("T1w.nii.gz") for one in best.rules["images"]] == [True]
    assert (best.coverage.cases, best.coverage.patients) == (33, 20)


def test_pictures_that_one_report_lists_are_views_whatever_their_names_are(tmp_path: Path) -> None:
    for number in range(2, 26):
        shown = []
        for view in range(1 + number % 3):
            name = f"CXR{number}{'_1' * (number % 2)}_IM-0{number:03}-{view + 1}001"
            shown.append(f'<parentImage id="{name}"/>')
            picture(tmp_path / f"png/{name}.png")
        said = f"The lungs are clear, examination {number} without effusion or pneumothorax in any view."
        report = f'<r><uId id="CXR{number}"/><FINDINGS>{said}</FINDINGS>{"".join(shown)}</r>'
        text(tmp_path / f"reports/{number}.xml", report)
    best = propose(tmp_path, "report_generation", target="write the findings of the chest radiographs")[0]
    assert best.rules["several"] == "views" and best.coverage.cases == 24


def test_a_column_lists_codes_of_classes_with_blanks_between_them(tmp_path: Path) -> None:
    rows = []
    for number in range(40):
        picture(tmp_path / f"films/a{number * 37 % 101:03}.png")
        codes = ("3 ", "10 15 ", "9 21 ", "11 ")[number % 4]
        rows.append({"image": f"a{number * 37 % 101:03}", "Target": codes})
    table(tmp_path / "train.csv", rows)
    best = propose(tmp_path, "diagnosis", target="which body parts are shown, also several")[0]
    assert best.coverage.counts == dict.fromkeys(("3", "9", "10", "11", "15", "21"), 10)


def _studies(root: Path) -> Proposal:
    series = []
    reports = []
    for number in range(10):
        study = root / f"DICOM/{number * 7919 % 9973:04}/MR{number:04}"
        for place, said in enumerate(("pd_tse_fs_sag", "t1_tse_cor", "SAG_PD_FATSAT")[: 2 + number % 2]):
            made = dicom_series(study / f"{place:03}_{said}", f"P{number}", 4, study=f"1.2.3.{number}")
            last = place == (2 if number % 2 else 0)
            uid = made[0].SeriesInstanceUID
            series.append({"AccessionNumber": f"MR{number:04}", "SeriesInstanceUID": uid, "Selected": "x" * last})
        said = f"MRI of the knee, number {number}: menisci of normal shape, ligaments intact, no joint effusion."
        reports.append({"AccessionNumber": f"MR{number:04}", "ReportText": said})
    table(root / "series.csv", series, ";")
    table(root / "reports.csv", reports, ";")
    return propose(root, "report_generation", target="write the report of a knee MRI")[0]


def test_of_several_series_the_one_with_a_mark_in_a_list_is_meant(tmp_path: Path) -> None:
    best = _studies(tmp_path)
    assert best.coverage.cases == 10
    assert best.rules["exclude"][0]["unless"] == ["x"]


def test_what_readers_agreed_upon_is_offered_and_names_of_series_are_no_classes(tmp_path: Path) -> None:
    rows = []
    for number in range(24):
        name = ("Plain", "5mm", "Thin Plain")[number % 3]
        dicom_series(tmp_path / f"CT{number:02}/CT {name}", f"CT-{number:02}", 4)
        for reader in ("R1", "R2", "R3"):
            found = {f"sign {letter}": int((number + len(reader)) % 5 == 0) for letter in "abcdef"}
            rows.append({"name": f"CT-{number:02}", "reader": reader, **found, "Consensus-ICH": number % 2})
    table(tmp_path / "reads.csv", rows)
    best = propose(tmp_path, "diagnosis", target="is there any bleeding, by the agreed reading")[0]
    assert best.rules["label"]["source"] == {"table": "reads", "column": "Consensus-ICH"}


def test_a_level_of_a_patient_is_no_patient(tmp_path: Path) -> None:
    rows = []
    for number in range(30):
        for eye in "lr":
            picture(tmp_path / f"Images/{number}/{number}_{eye}1.jpg")
            rows.append({"image_id": f"{number}_{eye}1", "DR_grade": number % 4, "patient_DR_Level": number % 5})
    table(tmp_path / "labels.csv", rows)
    best = propose(tmp_path, "diagnosis", target="grade of retinopathy")[0]
    assert best.coverage.patients == 30
