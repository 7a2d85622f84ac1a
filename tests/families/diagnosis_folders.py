"""Diagnosis where folders or file names tell the class."""

import numpy as np

from .base import Build, family
from .pictures import chest_film, fundus, histology, skin, ultrasound
from .volumes import chest_ct


@family(
    "class_folders_grey",
    "diagnosis",
    2,
    "please build me a classifier for covid vs viral pneumonia vs normal on chest x-rays (AP films)",
    patients_known=False,
    notes="class folders with a space in a name, a README, a broken PNG, nothing tells patients apart",
)
def class_folders_grey(b: Build) -> None:
    b.text("README.md.txt", "COVID-19 RADIOGRAPHY\n\nThree classes of films. Source: several hospitals.\n")
    for folder, finding, n in (("COVID", "pneumonia", 14), ("Normal", None, 16), ("Viral Pneumonia", "effusion", 14)):
        for i in range(1, n + 1):
            image, _ = chest_film(b.rng, *([finding] if finding else []))
            b.case(b.picture(f"{folder}/{folder}-{i}.png", image), label=folder)
    b.broken("Viral Pneumonia/Viral Pneumonia-15.png")
    b.clutter("mac", "preview")


@family(
    "class_folders_colour",
    "diagnosis",
    2,
    "Skin lesion photos, need benign / malignant model asap",
    patients_known=False,
    notes="mixed suffixes .jpg .JPG .jpeg, sizes differ, Thumbs.db in the folders, a preview montage at the top",
)
def class_folders_colour(b: Build) -> None:
    for folder, kind in (("benign", "nevus"), ("malignant", "melanoma")):
        for i in range(18):
            size = b.pick((64, 64), (60, 80), (80, 60))
            name = f"{folder}/DSC{b.rng.integers(1000):03d}{i:02d}{b.pick('.jpg', '.JPG', '.jpeg')}"
            b.case(b.picture(name, skin(b.rng, kind, size)[0], format="JPEG", quality=92), label=folder, channels=3)
        b.clutter("windows", under=folder)
    b.clutter("preview")


@family(
    "class_folders_patients",
    "diagnosis",
    2,
    "tuberculosis yes/no from our x-ray archive, several films per patient, dont mix patients between train and test",
    notes="class / patient / films; the folder names begin with a code; one patient folder is empty",
)
def class_folders_patients(b: Build) -> None:
    number = 100
    for folder, finding in (("0_healthy", ()), ("1_tuberculosis", ("pneumonia",))):
        for _ in range(13):
            number += int(b.rng.integers(1, 5))
            patient = f"PAT{number:04d}"
            for film in range(1, int(b.rng.integers(1, 4)) + 1):
                path = f"{folder}/{patient}/film_{film}.png"
                b.case(b.picture(path, chest_film(b.rng, *finding)[0]), patient=patient, label=folder)
    b.at("1_tuberculosis/PAT0999/x").parent.mkdir(exist_ok=True)
    b.clutter("mac", under="0_healthy")


@family(
    "split_folders",
    "diagnosis",
    2,
    "classify paediatric chest radiographs as pneumonia or normal",
    notes="train/val/test above the classes; person number only in the file names (IM-0115 / person7); __MACOSX beside",
)
def split_folders(b: Build) -> None:
    number = 0
    for split, persons in (("train", 9), ("val", 3), ("test", 4)):
        for _ in range(persons):
            number += 1
            path = f"chest_xray/{split}/NORMAL/IM-{number:04d}-0001.jpeg"
            b.case(b.picture(path, chest_film(b.rng)[0]), patient=f"IM-{number:04d}", label="NORMAL", split=split)
            for i in range(int(b.rng.integers(1, 4))):
                kind = b.pick("bacteria", "virus")
                path = f"chest_xray/{split}/PNEUMONIA/person{number}_{kind}_{number * 5 + i}.jpeg"
                image, _ = chest_film(b.rng, "pneumonia")
                b.case(b.picture(path, image), patient=f"person{number}", label="PNEUMONIA", split=split)
    b.clutter("macosx", "mac", under="chest_xray")


@family(
    "class_in_name",
    "diagnosis",
    2,
    "breast ultrasound, tell normal, benign and malignant apart. The class is in the filename",
    patients_known=False,
    notes="one flat folder, class before the underscore; the number is only a counter in each class",
)
def class_in_name(b: Build) -> None:
    for kind in ("normal", "benign", "malignant"):
        for i in range(1, 15):
            b.case(b.picture(f"{kind}_{i:03d}.png", ultrasound(b.rng, kind)[0]), label=kind)
    b.clutter("windows")
    b.text("notes.txt", "export from workstation 3, resized\n")


@family(
    "fundus_both_eyes",
    "diagnosis",
    2,
    "grade diabetic retinopathy 0-3 from fundus pics",
    patients_known=True,
    notes="class folders are bare digits; names are 12_left / 12_right, so both eyes of a person must stay together",
)
def fundus_both_eyes(b: Build) -> None:
    for person in range(1, 25):
        grade = person % 4
        for eye in ("left", "right"):
            path = f"Fundus images/{grade}/{person}_{eye}.jpg"
            b.case(
                b.picture(path, fundus(b.rng, grade)[0], quality=92), patient=str(person), label=str(grade), channels=3
            )
    b.text("Fundus images/readme.rtf", "{\\rtf1 0 none 1 mild 2 moderate 3 severe}")


@family(
    "histology_tiles",
    "diagnosis",
    2,
    "Tumour vs normal tissue in H&E patches (colon)",
    notes="patient number and class both in the folder names (8863/0, 8863/1) and in the patch names; TIFF tiles",
)
def histology_tiles(b: Build) -> None:
    for patient in (8863, 8864, 8865, 8867, 8913, 8914, 8916, 8917, 9021, 9022):
        for kind in (0, 1):
            for i in range(2):
                path = f"{patient}/{kind}/{patient}_idx5_x{51 + 50 * i}_y{b.rng.integers(9000)}_class{kind}.tif"
                image, _ = histology(b.rng, bool(kind))
                b.case(b.picture(path, image), patient=str(patient), label=str(kind), channels=3)
    b.text("README", "folder: patient / class (0 = no tumour, 1 = tumour)\n")


@family(
    "slices_in_folders",
    "diagnosis",
    3,
    "CT scans of the thorax exported as png slices: covid or not? one folder = one scan",
    notes="a case is a folder of PNG slices; slice_10 comes after slice_9; depth differs; stray Thumbs.db inside",
)
def slices_in_folders(b: Build) -> None:
    for i in range(26):
        kind, folder = (("covid", "CT_COVID"), ("normal", "CT_NonCOVID"))[i % 2]
        volume, _ = chest_ct(b.rng, kind, (36, 30, int(b.rng.integers(11, 15))))
        shown = (np.clip((volume + 1000.0) / 1200, 0, 1) * 255).astype(np.uint8)
        where = f"{folder}/Patient ({i + 1})"
        files = [
            b.picture(f"{where}/slice_{z + 1}.png", np.ascontiguousarray(shown[:, :, z].T))
            for z in range(shown.shape[2])
        ]
        b.case(files, patient=f"Patient ({i + 1})", label=folder)
    b.clutter("windows", under="CT_COVID/Patient (1)")


@family(
    "volumes_in_class_folders",
    "diagnosis",
    3,
    "I would like to detect emphysema on chest CT (nifti), healthy controls are in the other folder",
    notes="some .nii, some .nii.gz; the same stem exists in both folders and is another person; one zero-byte file",
    patients_known=False,
)
def volumes_in_class_folders(b: Build) -> None:
    for folder, kind in (("Controls", "normal"), ("Emphysema cases", "emphysema")):
        for i in range(1, 14):
            path = f"{folder}/scan{i:02d}{'.nii' if i % 3 == 0 else '.nii.gz'}"
            b.case(b.nifti(path, chest_ct(b.rng, kind)[0]), label=folder)
    b.broken("Emphysema cases/scan14.nii.gz", b"")
    b.clutter("mac")
