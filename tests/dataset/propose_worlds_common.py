"""Worlds as clinics and archives hand them over: exports of a PACS, names of several kinds, strays beside images."""

from pathlib import Path

import openpyxl
from propose_files import dicom_series, mask_picture, mask_volume, palette_picture, picture, table, text, volume
from propose_worlds import World


def logo_beside_classes(root: Path) -> None:
    for name, many in (("cyst", 12), ("stone", 11), ("tumor", 10)):
        for number in range(many):
            picture(root / name / f"{name}_{number:03d}.{'png' if number % 3 else 'PNG'}")
    picture(root / "overview.png")
    for number in range(2):
        picture(root / "docs" / "figures" / f"fig{number}.png")


def decimal_commas(root: Path) -> None:
    rows = ["Patientennummer;Datei;Durchmesser;Diagnose"]
    for number in range(24):
        picture(root / "fotos" / f"foto_{number:02d}.jpg")
        rows.append(f"{700 + number // 2};foto_{number:02d}.jpg;{number},5;{('Melanom', 'Nävus')[number // 2 % 2]}")
    (root / "liste.csv").write_bytes("\n".join(rows).encode("cp1252"))


def scattered_series(root: Path) -> None:
    """Slices of all patients in one folder, numbered in no order."""
    made = []
    for number in range(12):
        folder = root / f"made{number}"
        dicom_series(folder, f"N{number:03d}", 5)
        made += sorted(folder.iterdir())
    (root / "all").mkdir()
    for number, path in enumerate(made):
        path.rename(root / "all" / f"I{number * 37 % 101:05d}")
    for number in range(12):
        (root / f"made{number}").rmdir()
    table(root / "diagnoses.csv", [{"PatientID": f"N{n:03d}", "diagnosis": ("ILD", "none")[n % 2]} for n in range(12)])


def phases(root: Path) -> None:
    rows = []
    for number in range(10):
        for place, name in enumerate(("NATIVE 2.0", "NEPHROGRAPHIC 2.0", "Topogram")):
            folder = root / f"KID{number:03d}" / f"S{place + 1}"
            for data in dicom_series(folder, f"KID{number:03d}", 5):
                data.SeriesDescription = name
                data.save_as(folder / f"{int(data.InstanceNumber):03d}.dcm", enforce_file_format=True)
        rows.append({"case": f"KID{number:03d}", "malignant": number % 2})
    table(root / "outcome.csv", rows)


def names_of_two_kinds(root: Path) -> None:
    for number in range(9):
        for turn in range(1 + number % 3):
            picture(root / "ill" / f"pat{number + 20}-{('ap', 'pa')[turn % 2]}-{number * 3 + turn}.png")
    for number in range(12):
        picture(root / "well" / f"CTRL_{number:04d}_01.png")


def numbers_in_no_language(root: Path) -> None:
    rows = []
    for number in range(30):
        picture(root / "obr" / f"{number:04d}.png")
        rows.append({"plik": f"{number:04d}.png", "karta": f"K{100 + number // 3}", "wizyta": f"W{500 + number // 2}",
                     "abnormal": ("yes", "no")[number // 6 % 2]})  # fmt: skip
    table(root / "spis.csv", rows)


def sequences_of_a_case(root: Path) -> None:
    rows = []
    for number in range(12):
        for name in ("t1", "t2", "adc", "flair"):
            if (number, name) != (3, "adc"):
                volume(root / "data" / f"PX{number:02d}" / f"PX{number:02d}_{name}.nii.gz")
        mask_volume(root / "data" / f"PX{number:02d}" / f"PX{number:02d}_label.nii.gz")
        rows.append({"id": f"PX{number:02d}", "grade": ("low", "high")[number % 2]})
    table(root / "data" / "grades.csv", rows)


def nothing_found(root: Path) -> None:
    rows = []
    for number in range(24):
        picture(root / "x" / f"{number:04d}.png")
        nothing, fracture = number % 3 == 0, number % 3 == 1
        rows.append({"image": f"{number:04d}.png", "No Finding": int(nothing), "Fracture": int(fracture),
                     "Nodule": int(number % 3 == 2 or number == 1)})  # fmt: skip
    table(root / "marks.csv", rows)


def two_outcomes(root: Path) -> None:
    rows = []
    for number in range(20):
        volume(root / "ct" / f"V{number:02d}.nii.gz")
        rows.append({"id": f"V{number:02d}", "recurrence": number % 2, "alive": number // 2 % 2})
    table(root / "followup.csv", rows)


def accession_views(root: Path) -> None:
    book = openpyxl.Workbook()
    book.active.append(["Accession", "Report text"])
    for number in range(9):
        accession = f"{20190000 + number}"
        for view in range(1 + number % 2):
            folder = root / "tmp"
            data = dicom_series(folder, f"P{number // 2}", 1)[0]
            data.Modality, data.AccessionNumber = "DX", accession
            (root / "export").mkdir(exist_ok=True)
            data.save_as(root / "export" / f"{(number * 7919 + view * 31) % 9973:04d}.dcm", enforce_file_format=True)
            (folder / "001.dcm").unlink()
        book.active.append(
            [accession, f"The heart is of size {number}. No effusion is seen on either side of the chest."]
        )
    (root / "tmp").rmdir()
    book.save(root / "reports.xlsx")


def short_impressions(root: Path) -> None:
    findings = ("The lungs are clear and the heart is small.", "There is a large effusion on the left side.",
                "A nodule is seen in the right upper lobe.")  # fmt: skip
    rows = []
    for number in range(15):
        volume(root / "vol" / f"S{number:02d}.nii.gz")
        rows.append({"name": f"S{number:02d}.nii.gz", "Findings": findings[number % 3],
                     "Impression": ("Normal.", "Effusion.", "Nodule.")[number % 3]})  # fmt: skip
    table(root / "reports.csv", rows)


def two_readers(root: Path) -> None:
    for number in range(10):
        volume(root / f"case_{number:02d}" / "scan.nii.gz")
        for reader in ("a1", "a2"):
            mask_volume(root / f"case_{number:02d}" / f"spleen_{reader}.nii.gz")


def mask_for_each_cell(root: Path) -> None:
    for number in range(8):
        name = f"{number * 48271 % 65521:05x}{number:03x}cafe"
        picture(root / "train" / name / "image" / f"{name}.png")
        for cell in range(3):
            mask_picture(root / "train" / name / "masks" / f"{(number * 3 + cell) * 69621 % 99991:06x}.png")


def more_than_one_mask(root: Path) -> None:
    for kind in ("cystic", "solid"):
        for number in range(8):
            picture(root / "us" / kind / f"{kind} [{number + 1}].png")
            mask_picture(root / "us" / kind / f"{kind} [{number + 1}]_mask.png")
            if number == 2:
                mask_picture(root / "us" / kind / f"{kind} [{number + 1}]_mask_1.png")


def healthy_without_masks(root: Path) -> None:
    for number in range(16):
        picture(root / "scans" / "normal" / f"{number:03d}.png")
    for number in range(10):
        picture(root / "scans" / "crack" / f"{number:03d}.png")
        mask_picture(root / "annotations" / "masks" / "crack" / f"{number:03d}.png")


def void_border(root: Path) -> None:
    rows = [
        {"value": 1, "name": "cup", "r": 128, "g": 0, "b": 0},
        {"value": 2, "name": "disc", "r": 0, "g": 128, "b": 0},
    ]
    for number in range(12):
        picture(root / "img" / f"{number:03d}.png")
        palette_picture(root / "colour_masks" / f"{number:03d}.png", ((128, 0, 0), (0, 128, 0), (224, 224, 192)))
    table(root / "colours.csv", rows)


def raw_and_derived(root: Path) -> None:
    rows = []
    for number in range(12):
        name = f"sub-A{number:02d}x1"
        volume(root / name / "anat" / f"{name}_T1w.nii.gz")
        mask_volume(root / "derivatives" / "lesions" / name / "anat" / f"{name}_label-lesion_mask.nii.gz")
        if number % 4 == 0:
            volume(root / "derivatives" / "prep" / name / "anat" / f"{name}_desc-brain_T1w.nii.gz")
        rows.append({"participant_id": name, "age": 50 + number})
    table(root / "participants.tsv", rows, "\t")


def half_a_last_line(root: Path) -> None:
    lines = []
    for number in range(12):
        picture(root / "p" / f"a{number:02d}.png")
        said = f"The liver measures {number + 9} cm and there is no focal lesion."
        lines.append(f'{{"image": "p/a{number:02d}.png", "patient": "q{number // 2}", "report": "{said}"}}')
    text(root / "all.jsonl", "\n".join(lines) + '\n{"image": "p/a1')


def masks_of_both_sides(root: Path) -> None:
    for number in range(10):
        for side in ("OD", "OS"):
            picture(root / "photos" / f"k{number:02d}_{side}.png")
            mask_picture(root / "masks" / f"k{number:02d}_{side}_m.png", (1, 2))


def a_row_names_two_films(root: Path) -> None:
    rows = []
    for number in range(12):
        for side in ("left", "right"):
            for view in ("ap", "lat"):
                picture(root / "knees" / f"{number:03d}" / f"{side}-{view}.png")
            rows.append({"patient": f"{number:03d}", "side": side, "ap_film": f"{number:03d}/{side}-ap.png",
                         "lat_film": f"{number:03d}/{side}-lat.png",
                         "diagnosis": ("sound", "torn")[(number + len(side)) % 2]})  # fmt: skip
    table(root / "knees.csv", rows)


def a_table_for_each_subject(root: Path) -> None:
    for number in range(8):
        name, rows = f"sub-{number + 1:02d}", []
        for visit in ("01", "02"):
            start = f"{name}_ses-{visit}"
            volume(root / name / f"ses-{visit}" / "anat" / f"{start}_T1w.nii.gz")
            if number % 4 == 0:
                volume(root / name / f"ses-{visit}" / "dwi" / f"{start}_dir-AP_dwi.nii.gz")
            rows.append({"session_id": f"ses-{visit}", "relapse": ("yes", "no")[(number + int(visit)) % 2]})
        table(root / name / f"{name}_sessions.tsv", rows, "\t")


WORLDS = {
    "a logo beside class folders": World(
        logo_beside_classes, "diagnosis", 33, 33, counts={"cyst": 12, "stone": 11, "tumor": 10}
    ),
    "decimal commas": World(decimal_commas, "diagnosis", 24, 12, {"target": "Melanom"}, names=("Melanom", "Nävus")),
    "series scattered in a folder": World(
        scattered_series, "diagnosis", 12, 12, counts={"ILD": 6, "none": 6}, dimensions=3
    ),
    "a phase that is named": World(phases, "diagnosis", 10, 10, {"target": "malignant? use nephrographic phase"}),
    "a phase that is not named": World(
        phases, "diagnosis", 10, 10, {"target": "is it malignant"}, key="image", choices=2
    ),
    "names of two kinds": World(names_of_two_kinds, "diagnosis", 30, 21, counts={"ill": 18, "well": 12}),
    "numbers in no known language": World(numbers_in_no_language, "diagnosis", 30, 10, key="patient", choices=2),
    "sequences of a case": World(
        sequences_of_a_case, "diagnosis", 11, 11, channels=("adc", "flair", "t1", "t2"), counts={"high": 5, "low": 6}
    ),
    "no finding": World(nothing_found, "diagnosis", 24, 24, names=("Fracture", "Nodule")),
    "two outcomes": World(two_outcomes, "diagnosis", 20, 20, {"target": "prognosis"}, key="label", choices=2),
    "views of an accession": World(accession_views, "report_generation", 9, 5),
    "short impressions": World(short_impressions, "report_generation", 15, 15),
    "half a last line": World(half_a_last_line, "report_generation", 12, 6),
    "two readers": World(two_readers, "organ_segmentation", 10, 10, key="mask", choices=2),
    "a mask for each cell": World(mask_for_each_cell, "organ_segmentation", 8, 8, names=("structure",)),
    "now and then a second mask": World(more_than_one_mask, "anomaly_detection", 16, 16),
    "healthy ones without masks": World(healthy_without_masks, "anomaly_detection", 26, 26),
    "void border": World(void_border, "organ_segmentation", 12, 12, names=("cup", "disc")),
    "masks of both sides": World(
        masks_of_both_sides,
        "organ_segmentation",
        20,
        10,
        names=("structure 1", "structure 2"),
        rules={"masks": [{"files": ["masks/k{patient}_{kind}_m.png"]}]},
    ),
    "a row names two films": World(a_row_names_two_films, "diagnosis", 24, 12, counts={"sound": 12, "torn": 12}),
    "a table for each subject": World(a_table_for_each_subject, "diagnosis", 16, 8, counts={"no": 8, "yes": 8}),
    "raw and derived": World(raw_and_derived, "anomaly_detection", 12, 12),
}
