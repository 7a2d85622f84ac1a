"""Worlds as hospitals and publishers hand them over: exports, tables by side, rows that are not to be used."""

from functools import partial
from pathlib import Path

import openpyxl
from propose_files import dicom_series, picture, table, text, volume
from propose_worlds import World
from pydicom.uid import (
    CTImageStorage,
    DigitalXRayImageStorageForPresentation,
    SecondaryCaptureImageStorage,
    XRayRadiationDoseSRStorage,
    generate_uid,
)


def refused_by_columns(root: Path) -> None:
    """Two columns say of five pictures that they are not to be used; one of a class keeps its `poor`."""
    rows = []
    for number in range(30):
        picture(root / "oct" / f"e{number:03d}.png")
        rows.append({"image": f"e{number:03d}", "patient_id": number // 2, "outcome": ("good", "poor")[number // 2 % 2],
                     "quality": "ungradable" if number in (3, 4, 20) else "fair" if number % 3 else "excellent",
                     "exclude": int(number in (4, 11, 12))})  # fmt: skip
    table(root / "readings.csv", rows)


def a_table_a_side(root: Path, folders: bool = False, paths: bool = False) -> None:
    """train.csv, valid.csv and test.csv with the same columns; pictures together or in a folder for each side."""
    for side, first, last in (("train", 0, 16), ("valid", 16, 20), ("test", 20, 28)):
        rows = []
        for number in range(first, last):
            folder = f"{side}/" if folders else "images/"
            picture(root / f"{folder}p{number // 2:03d}_{number % 2}.png")
            named = (
                f"Films-v1/{folder}p{number // 2:03d}_{number % 2}.png" if paths else f"p{number // 2:03d}_{number % 2}"
            )
            rows.append({"Path": named, "Sex": "FM"[number % 2], "Finding": ("Edema", "none")[number // 2 % 2]})
        table(root / f"{side}.csv", rows)


def pacs_export(root: Path, together: bool = False) -> None:
    """A CT of each patient beside its topogram, a screen shot and a dose report, in folders or all in one."""
    rows = []
    for patient in range(8):
        study, uid = root / "DICOM" / f"PAT{patient:03d}" / "ST0", generate_uid()
        for number, (many, said, kind, modality, sop) in enumerate(_SERIES):
            folder, prefix = (study, f"SE{number}_") if together else (study / f"SE{number}", "IM")
            for place, one in enumerate(dicom_series(folder, f"P{patient:03d}", many, prefix, uid), 1):
                one.SeriesDescription, one.ImageType, one.Modality, one.SOPClassUID = said, kind, modality, sop
                one.save_as(folder / f"{prefix}{place:03d}.dcm", enforce_file_format=True)
        rows.append({"PatientID": f"P{patient:03d}", "Diagnosis": ("benign", "malignant")[patient % 2]})
    table(root / "clinical.csv", rows)


_SERIES = (
    (2, "Topogram 0.6 T20f", ["ORIGINAL", "PRIMARY", "LOCALIZER"], "CT", CTImageStorage),
    (8, "Thorax 1.0 B70f", ["ORIGINAL", "PRIMARY", "AXIAL"], "CT", CTImageStorage),
    (1, "Saved views", ["DERIVED", "SECONDARY"], "CT", SecondaryCaptureImageStorage),
    (1, "Dose record", ["DERIVED", "SECONDARY"], "SR", XRayRadiationDoseSRStorage),
)


def a_sheet_a_side(root: Path) -> None:
    book = openpyxl.Workbook()
    book.remove(book.active)
    for side, first, last in (("Training", 0, 16), ("Test", 16, 24)):
        sheet = book.create_sheet(f"{side} set")
        sheet.append(["image", "diagnosis", "sex"])
        for number in range(first, last):
            picture(root / "img" / f"x{number:03d}.png")
            sheet.append([f"x{number:03d}", "abc"[number % 3], "FM"[number // 3 % 2]])
    book.save(root / "labels.xlsx")


def numbers_anew_on_each_side(root: Path) -> None:
    """Folders and tables with a letter and a word for each side; names begin anew in each."""
    for letter, word, many in (("a", "Training", 18), ("b", "Testing", 9)):
        rows = []
        for number in range(1, many + 1):
            picture(root / "1. Photographs" / f"{letter}. {word} part" / f"{number}.png")
            flags = {
                "DR": int(number % 6 == 1),
                "AMD": int(number % 6 == 3),
                "Cataract": 0,
                "ODC": int(number % 6 == 5),
            }
            rows.append({"ID": number, "Any_Disease": number % 2, **flags, **({"": ""} if letter == "a" else {})})
        table(root / "2. Tables" / f"{letter}. Eyes_{word}_Grades.csv", rows)


def a_table_without_suffix(root: Path) -> None:
    rows = []
    for number in range(24):
        picture(root / f"part_{1 + number // 12}" / f"D_{1000 + number * 7}.jpg")
        rows.append({"lesion_id": f"L{number // 2}", "image_id": f"D_{1000 + number * 7}", "dx": "ab"[number // 2 % 2]})
    table(root / "metadata", rows)


def a_row_number_like_a_number_in_names(root: Path) -> None:
    rows = []
    for number in range(30):
        name = f"2168{number * 104729:09d}_{number % 7:02d}-{number:03d}.png"
        picture(root / str(number % 3) / name)
        rows.append({"": number, "ImageID": name, "PatientID": 500 + number // 2, "Label": "ab"[number // 2 % 2]})
    table(root / "labels.csv", rows)


def letters_beside_two_views(root: Path) -> None:
    """Two letters of one patient each now and then: the number is in the letter's head only."""
    for number in range(16):
        folder = root / "Thorax" / f"{4711 + 17 * number:07d}"
        for view in ("pa", "lat"):
            picture(folder / f"{folder.name}_{view}.jpg")
        said = ("Herz normal groß, Lunge frei.", "Erguss rechts, wenig Belüftung basal.")[number % 2]
        letter = ("Klinik", f"Fall-Nr.: {folder.name}", f"Pat.-ID: {880 + number // 2}", "", "Thorax in 2 Ebenen", "",
                  "Fragestellung:", "Erguss?", "", "Befund:", f"{said} Aufnahme {number}.", "",
                  "Beurteilung:", f"Siehe oben, Nummer {number}.")  # fmt: skip
        text(folder / f"{folder.name}_brief.txt", "\n".join(letter))


def kinds_in_a_column(root: Path) -> None:
    rows = []
    for number in range(32):
        picture(root / "png" / f"{number * 7919:06x}.png")
        kind = ("frontal", "frontal", "lateral", "scanned document")[number % 4]
        rows.append(
            {"file": f"{number * 7919:06x}", "person_id": number // 4, "view": kind, "finding": "xy"[number // 4 % 2]}
        )
    rows[0]["finding"], rows[5]["finding"] = "todo", "unknown"
    table(root / "films.csv", rows)


def raw_and_derived(root: Path) -> None:
    rows = []
    for number in range(12):
        name = f"sub-{number:02d}"
        volume(root / name / "anat" / f"{name}_T1w.nii.gz")
        volume(root / "derivatives" / "prep" / name / "anat" / f"{name}_desc-preproc_T1w.nii.gz")
        rows.append(
            {"participant_id": name, "group": ("AD", "HC")[number % 2], "qc_t1w": "fail" if number == 4 else "pass"}
        )
    table(root / "participants.tsv", rows, "\t")


def request_numbers_with_slashes(root: Path) -> None:
    """Two examinations of every other patient; the request number, with slashes in the list, tells them apart."""
    rows = []
    for number in range(12):
        for place, one in enumerate(dicom_series(root / "DICOM" / f"A{number:03d}", f"P{number * 2 // 3:03d}"), 1):
            one.AccessionNumber = f"TC2020{number * 31:05d}"
            one.save_as(root / "DICOM" / f"A{number:03d}" / f"{place:03d}.dcm", enforce_file_format=True)
        said = ("Neumonía", "normal", "NEUMONIA", "Normal")[number % 4]
        rows.append({"Petición": f"TC/2020/{number * 31:05d}", "NHC": f"P{number * 2 // 3:03d}", "Diagnóstico": said})
    table(root / "lista.csv", rows)


def a_letter_before_numbers_of_people(root: Path) -> None:
    for number in range(40):
        for side in ("l", "r"):
            picture(root / ("benign", "malignant")[number % 2] / f"T-{number * 13:04d}_{side}.png")


def two_sequences_of_one_weighting(root: Path) -> None:
    rows = []
    for number in range(12):
        for kind in ("t1n", "t1c"):
            volume(root / f"G-{number:05d}" / f"G-{number:05d}-{kind}.nii.gz")
        rows.append({"subject": f"G-{number:05d}", "grade": ("low", "high")[number % 2]})
    table(root / "grades.csv", rows)


def a_table_a_hospital(root: Path) -> None:
    """Of one hospital with a column more; two readers of all pictures are no parts of one table."""
    rows: dict[str, list[dict[str, object]]] = {"north": [], "south": []}
    for number in range(36):
        picture(root / "films" / f"F{number * 31:05d}.png")
        site = ("north", "south")[number % 3 // 2]
        more = {"ward": "abc"[number % 3]} if site == "south" else {}
        rows[site].append({"film": f"F{number * 31:05d}", "person_id": number // 2, "age": 30 + number,
                           "diagnosis": ("healthy", "tuberculosis")[number // 2 % 2], **more})  # fmt: skip
    for site, some in rows.items():
        table(root / f"cases_{site}.csv", some)


def a_table_a_reader(root: Path) -> None:
    rows = []
    for number in range(24):
        picture(root / "films" / f"F{number * 31:05d}.png")
        rows.append({"film": f"F{number * 31:05d}", "age": 30 + number, "grade": number // 2 % 3})
    table(root / "grades_mueller.csv", rows)
    table(
        root / "grades_schmidt.csv",
        [row | {"grade": (int(row["grade"]) + (at % 5 == 0)) % 3} for at, row in enumerate(rows)],
    )


def reports_of_examinations(root: Path) -> None:
    """Each patient has an older film, too, of which the list with its blanks in the numbers says nothing."""
    rows = []
    for number in range(24):
        year, patient = ("2019", "2020")[number % 2], f"P{number // 2:05d}"
        name = f"A{year[2:]}{4700 + number * 13:06d}"
        made = dicom_series(root / year / name, patient, 1)[0]
        made.Modality, made.SOPClassUID, made.AccessionNumber = "DX", DigitalXRayImageStorageForPresentation, name
        made.save_as(root / year / name / "001.dcm", enforce_file_format=True)
        if year == "2020":
            said = f"Die Lunge ist frei belüftet, das Herz ist normal groß, Aufnahme {number}."
            rows.append({"Auftrag": f"{name[:3]} {name[3:]}", "PatientID": patient, "Befund": said})
    table(root / "befunde.csv", rows)


WORLDS = {
    "reports of examinations": World(
        reports_of_examinations, "report_generation", 12, 12, {"target": "write the Befund"}, dimensions=2
    ),
    "a table a hospital": World(a_table_a_hospital, "diagnosis", 36, 18, counts={"healthy": 18, "tuberculosis": 18}),
    "a table a reader": World(a_table_a_reader, "diagnosis", 24, 24, key="label", choices=2),
    "a letter before numbers of people": World(
        a_letter_before_numbers_of_people, "diagnosis", 80, 40, counts={"benign": 40, "malignant": 40}
    ),
    "two sequences of one weighting": World(
        two_sequences_of_one_weighting, "diagnosis", 12, 12, channels=("t1c", "t1n"), counts={"low": 6, "high": 6}
    ),
    "numbers anew on each side": World(
        numbers_anew_on_each_side,
        "diagnosis",
        27,
        27,
        {"target": "any disease or none"},
        counts={"0": 13, "1": 14},
        splits={"train": 18, "test": 9},
    ),
    "a table without suffix": World(a_table_without_suffix, "diagnosis", 24, 12, counts={"a": 12, "b": 12}),
    "a row number like a number in names": World(
        a_row_number_like_a_number_in_names, "diagnosis", 30, 15, counts={"a": 16, "b": 14}
    ),
    "letters beside two views": World(
        letters_beside_two_views,
        "report_generation",
        16,
        8,
        {"target": "write the Befund"},
    ),
    "kinds in a column": World(
        kinds_in_a_column,
        "diagnosis",
        14,
        8,
        {"target": "finding of frontal films, lateral ones are not wanted"},
        counts={"x": 7, "y": 7},
    ),
    "raw and derived": World(
        raw_and_derived,
        "diagnosis",
        11,
        11,
        counts={"AD": 5, "HC": 6},
        rules={"images": [{"files": ["{unit}/anat/{unit}_T1w.nii.gz"]}]},
    ),
    "request numbers with slashes": World(
        request_numbers_with_slashes, "diagnosis", 12, 8, counts={"Neumonía": 6, "normal": 6}
    ),
    "a sheet a side": World(
        a_sheet_a_side, "diagnosis", 24, 24, splits={"train": 16, "test": 8}, names=("a", "b", "c")
    ),
    "CT beside what is no image": World(
        pacs_export, "diagnosis", 8, 8, counts={"benign": 4, "malignant": 4}, rules={"case": "folder"}
    ),
    "CT in one folder with what is no image": World(
        partial(pacs_export, together=True), "diagnosis", 8, 8, counts={"benign": 4, "malignant": 4}
    ),
    "pictures that columns refuse": World(
        refused_by_columns, "diagnosis", 25, 15, {"target": "outcome"}, counts={"good": 13, "poor": 12}
    ),
    "a table a side": World(
        a_table_a_side, "diagnosis", 28, 14, splits={"train": 16, "val": 4, "test": 8}, names=("Edema", "none")
    ),
    "a table and a folder a side": World(
        partial(a_table_a_side, folders=True), "diagnosis", 28, 14, splits={"train": 16, "val": 4, "test": 8}
    ),
    "a table of paths a side": World(
        partial(a_table_a_side, paths=True), "diagnosis", 28, 14, splits={"train": 16, "val": 4, "test": 8}
    ),
    "a table of paths and a folder a side": World(
        partial(a_table_a_side, folders=True, paths=True),
        "diagnosis",
        28,
        14,
        splits={"train": 16, "val": 4, "test": 8},
    ),
}
