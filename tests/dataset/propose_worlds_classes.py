"""Worlds of classification: where classes stand in the datasets that people publish."""

from pathlib import Path

import numpy as np
import openpyxl
from propose_files import dicom_series, picture, save_json, slices, table, text, volume
from propose_worlds import World


def class_folders(root: Path) -> None:
    for name in ("normal", "benign", "malignant"):
        for number in range(8):
            picture(root / "breast" / name / f"{name} ({number + 1}).png")


def class_folders_split(root: Path) -> None:
    for side, many in (("train", 10), ("val", 2), ("test", 4)):
        for name in ("NORMAL", "PNEUMONIA"):
            for number in range(many):
                start = "IM" if name == "NORMAL" else "person"
                picture(root / "chest_xray" / side / name / f"{start}-{side}-{number:04d}-0001.jpeg")


def patients_in_class_folders(root: Path) -> None:
    for name, first in (("AD", 0), ("CN", 30)):
        for number in range(8):
            for visit in ("2010-01-02", "2011-03-04")[: 1 + number % 2]:
                volume(root / name / f"{first + number:03d}_S_{number * 37 + 1000}" / f"mprage_{visit}.nii.gz")


def scans_in_patient_folders(root: Path) -> None:
    for name, first in (("CP", 100), ("NCP", 300), ("Normal", 700)):
        for patient in range(first, first + 6):
            for scan in range(1 + patient % 2):
                slices(root / name / str(patient) / str(3000 + patient * 2 + scan), 8)


def class_in_names(root: Path) -> None:
    for patient in range(8):
        for piece in range(3):
            name = "benign" if patient % 2 else "malignant"
            picture(root / "slides" / f"{name}_P{patient + 14:02d}_{piece}.png")


def public_film_names(root: Path) -> None:
    for patient in range(1, 13):
        for follow in range(1 + patient % 3):
            name = "Effusion" if patient % 2 else "No Finding"
            picture(root / name / f"{patient:08d}_{follow:03d}.png")


def names_in_table(root: Path) -> None:
    rows = []
    for number in range(20):
        picture(root / "images" / f"ISIC_{24306 + number:07d}.jpg")
        rows.append(
            {
                "lesion_id": f"HAM_{118 + number // 2:07d}",
                "image_id": f"ISIC_{24306 + number:07d}",
                "dx": ("nv", "mel", "bkl", "bcc")[number // 2 % 4],
                "dx_type": ("histo", "consensus", "confocal")[number % 3],
                "age": 40 + number,
                "sex": ("male", "female")[number % 2],
                "localization": ("back", "face", "ear", "trunk", "foot")[number % 5],
            }
        )
    table(root / "metadata.csv", rows)


def paths_in_table(root: Path) -> None:
    rows = []
    for patient in range(10):
        for view in ("image1.png", "image2.png"):
            path = f"MURA/train/XR_HAND/patient{patient:05d}/study1/{view}"
            picture(root / path)
            rows.append({"path": path, "abnormal": patient % 2})
    table(root / "train_paths.csv", rows)


def coded_grades(root: Path) -> None:
    rows = []
    for number in range(24):
        code = f"{number * 7919 % 65536:04x}{number:08x}"
        picture(root / "train_images" / f"{code}.png")
        rows.append({"id_code": code, "diagnosis": number % 4})
    for number in range(6):
        picture(root / "test_images" / f"{number * 104729 % 65536:04x}{number + 99:08x}.png")
    table(root / "train.csv", rows)


def numbers_without_zeros(root: Path) -> None:
    rows = []
    for number in range(1, 21):
        volume(root / "scans" / f"case_{number:04d}.nii.gz")
        rows.append({"ID": number, "outcome": ("alive", "dead")[number % 2]})
    book = openpyxl.Workbook()
    book.active.append(list(rows[0]))
    for row in rows:
        book.active.append(list(row.values()))
    book.save(root / "clinical.xlsx")


def one_hot(root: Path) -> None:
    rows = []
    for number in range(18):
        picture(root / "ISIC_2018_Training_Input" / f"ISIC_{24306 + number:07d}.jpg")
        rows.append(
            {"image": f"ISIC_{24306 + number:07d}"}
            | {name: float(index == number % 3) for index, name in enumerate(("MEL", "NV", "BCC"))}
        )
    table(root / "GroundTruth.csv", rows)


def joined_labels(root: Path) -> None:
    rows = []
    findings = ("Cardiomegaly", "Effusion", "Mass|Effusion", "No Finding", "Mass", "Effusion|Cardiomegaly")
    for patient in range(1, 13):
        for follow in range(2):
            name = f"{patient:08d}_{follow:03d}.png"
            picture(root / f"images_{1 + patient // 7:03d}" / "images" / name)
            rows.append(
                {
                    "Image Index": name,
                    "Finding Labels": findings[(patient + follow) % 6],
                    "Follow-up #": follow,
                    "Patient ID": patient,
                    "Patient Age": 30 + patient,
                    "Patient Gender": "MF"[patient % 2],
                    "View Position": ("PA", "AP")[follow],
                }
            )
    table(root / "Data_Entry_2017.csv", rows)
    cut = 16
    text(root / "train_val_list.txt", "\n".join(str(row["Image Index"]) for row in rows[:cut]) + "\n")
    text(root / "test_list.txt", "\n".join(str(row["Image Index"]) for row in rows[cut:]) + "\n")


def participants(root: Path) -> None:
    rows = []
    for number in range(1, 17):
        name = f"sub-{number:02d}"
        volume(root / name / "anat" / f"{name}_T1w.nii.gz")
        rows.append(
            {
                "participant_id": name,
                "age": 20 + number,
                "sex": "MF"[number % 2],
                "group": ("control", "patient")[number // 2 % 2],
            }
        )
    table(root / "participants.tsv", rows, "\t")
    save_json(root / "dataset_description.json", {"Name": "A study", "BIDSVersion": "1.8.0"})


def series_with_sheet(root: Path) -> None:
    book = openpyxl.Workbook()
    book.active.append(["PatientID", "Gender", "Diagnosis"])
    for number in range(10):
        patient = f"LUNG1-{number + 1:03d}"
        for series in range(1 + number % 2):
            dicom_series(root / patient / "01-01-2014-StudyID" / f"{series}.000000-CT-{number}", patient, prefix="1-")
        book.active.append([patient, "MF"[number % 2], ("adenocarcinoma", "large cell")[number // 2 % 2]])
    book.save(root / "clinical.xlsx")


def flat_series(root: Path) -> None:
    rows = []
    for number in range(8):
        dicom_series(root / "dicom" / f"scan{number}", f"ANON{number // 2:04d}")
        rows.append({"scan": f"scan{number}", "label": ("covid", "normal")[number // 2 % 2]})
    table(root / "labels.csv", rows)


def arrays_with_table(root: Path) -> None:
    rows = []
    (root / "npz").mkdir(parents=True)
    for number in range(14):
        np.savez(root / "npz" / f"exam-{number:03d}.npz", image=np.random.default_rng(number).random((5, 6, 7)))
        rows.append({"exam": f"exam-{number:03d}", "aclDiagnosis": number % 3})
    table(root / "metadata.csv", rows)


def slices_with_table(root: Path) -> None:
    rows = []
    for number in range(12):
        slices(root / "scans" / f"scan_{number:03d}", 8, "{}.png")
        rows.append({"scan_id": f"scan_{number:03d}", "patient_id": f"p{number // 2}", "class": "AB"[number // 2 % 2]})
    table(root / "labels.csv", rows)


def two_diagnoses(root: Path) -> None:
    rows = []
    for number in range(18):
        picture(root / "images" / f"img{number:03d}.png")
        rows.append(
            {
                "filename": f"img{number:03d}.png",
                "radiologist_label": ("benign", "malignant")[number % 2],
                "pathology_label": ("benign", "malignant")[number // 2 % 2],
                "scanner": ("GE", "Siemens")[number % 2],
            }
        )
    table(root / "labels.csv", rows)


def split_in_table(root: Path) -> None:
    rows = []
    for number in range(20):
        picture(root / "img" / f"{number}.png")
        rows.append(
            {
                "file": f"{number}.png",
                "label": ("cat a", "cat b")[number % 2],
                "patient_id": number // 2,
                "split": "train" if number < 14 else "test",
            }
        )
    table(root / "all.csv", rows)


def descriptions(root: Path) -> None:
    """A JSON without suffix for each picture; of two nobody knows the class."""
    for number in range(26):
        name = f"S{number:03d}_{('li', 're')[number // 2 % 2]}"
        picture(root / "pictures" / f"{name}.{('jpg', 'png')[number % 3 % 2]}")
        kind = ("benign", "malignant")[number % 2] if number > 1 else ("indeterminate", "unknown")[number]
        content = {"meta": {"clinical": {"kind": kind, "patient_id": f"P{number % 13}"}, "site": "back"}}
        save_json(root / "descriptions" / name, content)


def findings_beside(root: Path) -> None:
    """Three findings in a JSON beside each picture, any of which may be meant, and its side in the name."""
    for number in range(24):
        path = root / f"Q{number % 4}" / f"K{number % 12:02d}_{('li', 're')[number // 3 % 2]}_{number:02d}.png"
        picture(path)
        marks = [("nein", "ja")[number // step % 2] for step in (1, 5, 7)]
        found = dict(zip(("Arthrose", "Erguss", "Fraktur"), marks, strict=True))
        save_json(path.with_suffix(".json"), {"Patient": {"Nummer": f"N-{number % 12}"}, "Befund": found})


def deliveries(root: Path) -> None:
    """Two deliveries in folders of their own, and a list of classes in another language, each written in many ways."""
    ways = (("normal", "Normal", " NORMAL", "o.B."), ("gutartig", "Gutartig "), ("bösartig", "BÖSARTIG"))
    rows = []
    for number in range(48):
        file = f"{('Archive 2020', 'Late delivery')[number % 4 == 0]}/MA{1000 + number:04d}_01.png"
        picture(root / file)
        own = ways[number % 3]
        rows.append({"file": Path(file).name, "patient": f"{number // 2}", "finding": own[number // 3 % len(own)]})
    table(root / "list.csv", rows)


def codes_of_three_houses(root: Path) -> None:
    """The code of a row begins names in one house, lacks its hyphen in another, and is a folder in the third."""
    rows = []
    for number in range(36):
        house = ("Ancona", "Bari", "Trieste")[number % 3]
        code = f"{('AN', 'BA', 'TS')[number % 3]}-{number:03d}"
        rows.append({"Cod.": code, "Centro": house, "Esito": ("colloide", "adenoma", "n.d.")[number // 3 % 12 // 5]})
        for view in range(1 + number % 4 // 2):
            name = (f"{code}_{view}.png", f"{code}/img{view:04d}.jpg", f"TS{number:03d}_{('long', 'trasv')[view]}.png")
            picture(root / house / name[number % 3])
    table(root / "elenco.csv", rows, separator=";")


WORLDS = {
    "codes of three houses": World(
        codes_of_three_houses, "diagnosis", 44, 30, {"target": "colloid nodule or adenoma of the thyroid"}
    ),
    "deliveries": World(
        deliveries,
        "diagnosis",
        48,
        24,
        {"only": ["normal", "benign", "malignant"], "target": "normal, benign or malignant"},
        counts={"bösartig": 16, "gutartig": 16, "normal": 16},
    ),
    "descriptions": World(descriptions, "diagnosis", 24, 13, counts={"benign": 12, "malignant": 12}),
    "findings beside": World(findings_beside, "diagnosis", 24, 12, key="label", choices=3),
    "class folders": World(
        class_folders, "diagnosis", 24, 24, counts={"normal": 8, "benign": 8, "malignant": 8}, dimensions=2
    ),
    "class folders below a split": World(
        class_folders_split,
        "diagnosis",
        32,
        32,
        counts={"NORMAL": 16, "PNEUMONIA": 16},
        splits={"train": 20, "val": 4, "test": 8},
    ),
    "patient folders in class folders": World(
        patients_in_class_folders, "diagnosis", 24, 16, counts={"AD": 12, "CN": 12}, dimensions=3
    ),
    "scan folders in patient folders": World(
        scans_in_patient_folders, "diagnosis", 27, 18, counts={"CP": 9, "NCP": 9, "Normal": 9}, dimensions=3
    ),
    "class and patient in names": World(class_in_names, "diagnosis", 24, 8, counts={"benign": 12, "malignant": 12}),
    "films named by patient": World(public_film_names, "diagnosis", 24, 12),
    "stems in a table": World(
        names_in_table, "diagnosis", 20, 10, {"target": "skin lesion diagnosis"}, names=("bcc", "bkl", "mel", "nv")
    ),
    "paths in a table": World(paths_in_table, "diagnosis", 20, 10, counts={"0": 10, "1": 10}),
    "coded grades": World(coded_grades, "diagnosis", 24, 24, names=("0", "1", "2", "3"), dimensions=2),
    "numbers without zeros": World(
        numbers_without_zeros, "diagnosis", 20, 20, counts={"alive": 10, "dead": 10}, dimensions=3
    ),
    "one-hot columns": World(one_hot, "diagnosis", 18, 18, counts={"MEL": 6, "NV": 6, "BCC": 6}),
    "joined labels": World(joined_labels, "diagnosis", 24, 12, names=("Cardiomegaly", "Effusion", "Mass")),
    "participants": World(
        participants, "diagnosis", 16, 16, {"target": "patients against controls"}, counts={"control": 8, "patient": 8}
    ),
    "DICOM series with a sheet": World(
        series_with_sheet, "diagnosis", 15, 10, names=("adenocarcinoma", "large cell"), dimensions=3
    ),
    "DICOM folders with a table": World(flat_series, "diagnosis", 8, 4, counts={"covid": 4, "normal": 4}, dimensions=3),
    "arrays with a table": World(arrays_with_table, "diagnosis", 14, 14, names=("0", "1", "2"), dimensions=3),
    "folders of slices with a table": World(
        slices_with_table, "diagnosis", 12, 6, counts={"A": 6, "B": 6}, dimensions=3
    ),
    "two diagnoses": World(two_diagnoses, "diagnosis", 18, 18, key="label", choices=2),
    "two diagnoses, one asked for": World(
        two_diagnoses, "diagnosis", 18, 18, {"target": "pathology of the lesion"}, counts={"benign": 10, "malignant": 8}
    ),
    "two diagnoses, answered": World(
        two_diagnoses,
        "diagnosis",
        18,
        18,
        {"answers": {"label": "pathology_label in labels.csv"}},
        counts={"benign": 10, "malignant": 8},
    ),
    "split in a table": World(
        split_in_table, "diagnosis", 20, 10, counts={"cat a": 10, "cat b": 10}, splits={"train": 14, "test": 6}
    ),
}
