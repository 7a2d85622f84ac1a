"""Worlds as hospitals and publishers hand them over: exports, tables by side, rows that are not to be used."""

from functools import partial
from pathlib import Path

import openpyxl
from propose_files import dicom_series, picture, table
from propose_worlds import World
from pydicom.uid import CTImageStorage, SecondaryCaptureImageStorage, XRayRadiationDoseSRStorage, generate_uid


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


WORLDS = {
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
