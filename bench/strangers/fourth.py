"""8 further datasets, written down from how public sets and desks look before the search saw them; see `third`."""

import json

import numpy as np

from bench.strangers import draw
from bench.strangers.build import Families
from tests.families.base import Build

FAMILIES = Families()
family = FAMILIES.family


@family(
    "mura_studies", "diagnosis", 2,
    "Tell abnormal (positive) from normal (negative) bone films.",
    notes="train/valid, part of the body, patient, study1_positive; tables without header list pictures and studies.",
)  # fmt: skip
def mura(b: Build) -> None:
    for side, people in (("train", range(1, 25)), ("valid", range(11185, 11195))):
        pictures, studies = [], []
        for n in people:
            part = ("XR_ELBOW", "XR_WRIST", "XR_HAND")[n % 3]
            for study in range(1, 2 + (n % 5 == 0)):
                kind = "positive" if (n // 3 + study) % 2 else "negative"
                folder = f"MURA-v1.1/{side}/{part}/patient{n:05d}/study{study}_{kind}"
                for k in range(1, 2 + n % 2):
                    film = draw.chest(b.rng, ("nodule",) if kind == "positive" else ())
                    path = b.picture(f"{folder}/image{k}.png", draw.u8(film))
                    b.case(path, patient=f"{side}{n}", label=kind, split=side.replace("valid", "val"))
                    pictures.append([path])
                studies.append([folder + "/", int(kind == "positive")])
        b.csv(f"MURA-v1.1/{side}_image_paths.csv", None, pictures)
        b.csv(f"MURA-v1.1/{side}_labeled_studies.csv", None, studies)


@family(
    "drive_fields_of_view", "organ_segmentation", 2,
    "Segment the retinal vessels as in 1st_manual.",
    notes="TIFF pictures, GIF masks by another name; `mask` is the field of view; the test set has a second observer.",
    patients_known=False,
)  # fmt: skip
def drive(b: Build) -> None:
    for side, numbers in (("training", range(21, 37)), ("test", range(1, 13))):
        for n in numbers:
            vessels = draw.curve(b.rng, (64, 64), 0.9) | draw.curve(b.rng, (64, 64), 0.7)
            eye = draw.eye(b.rng, "").astype(float)
            eye[vessels] = (90, 20, 15)
            path = b.picture(f"DRIVE/{side}/images/{n:02d}_{side}.tif", draw.u8(eye))
            b.picture(f"DRIVE/{side}/mask/{n:02d}_{side}_mask.gif", draw.ball((64, 64), (32, 32), 30).astype(np.uint8) * 255)
            b.picture(f"DRIVE/{side}/1st_manual/{n:02d}_manual1.gif", vessels.astype(np.uint8) * 255)
            if side == "test":
                thin = vessels & np.roll(vessels, 1, 0)
                b.picture(f"DRIVE/{side}/2nd_manual/{n:02d}_manual2.gif", thin.astype(np.uint8) * 255)
            b.case(path, mask={"vessel": vessels}, split=side.replace("ing", ""))


@family(
    "lgg_slices_of_patients", "anomaly_detection", 2,
    "Segment the glioma in each slice.",
    notes="A folder a patient and date, TIFF slices of three channels with _mask beside, most masks empty; data.csv.",
)  # fmt: skip
def lgg(b: Build) -> None:
    rows = []
    for n in range(12):
        person = f"TCGA_{('CS', 'DU', 'FG', 'HT')[n % 4]}_{4941 + 37 * n}"
        folder = f"lgg-mri-segmentation/kaggle_3m/{person}_{1996 + n % 9}{n % 12 + 1:02d}{n % 27 + 1:02d}"
        for k in range(1, 9):
            brain = np.stack([draw.brain(b.rng, 0.1, (40, 40, 8))[..., k - 1] / 4 for _ in range(3)], -1)
            mask = draw.ball((40, 40), draw.near(b.rng, 18, 22, by=5), 5) if 3 <= k <= 5 else np.zeros((40, 40), bool)
            brain[mask] = 240
            name = f"{folder}/{folder.rpartition('/')[2]}_{k}"
            path = b.picture(f"{name}.tif", draw.u8(brain + b.rng.normal(0, 4, brain.shape)))
            b.picture(f"{name}_mask.tif", mask.astype(np.uint8) * 255)
            b.case(path, patient=person, mask={"glioma": mask})
        rows.append([person, 1 + n % 3, n % 2, "" if n % 4 == 0 else n % 3, 30 + n])
    header = ["Patient", "RNASeqCluster", "gender", "histological_type", "age_at_initial_pathologic"]
    b.csv("lgg-mri-segmentation/kaggle_3m/data.csv", header, rows)
    b.text("lgg-mri-segmentation/kaggle_3m/README.md", "Images of 110 patients, FLAIR abnormality masks.\n")


@family(
    "kits_cases", "organ_segmentation", 3,
    "Segment kidney and tumor.",
    notes="imaging.nii.gz and segmentation.nii.gz in a folder a case, the last cases without; kits.json says more.",
)  # fmt: skip
def kits(b: Build) -> None:
    told = []
    for n in range(22):
        folder = f"kits19/data/case_{n:05d}"
        body = np.full((36, 32, 10), -900.0)
        body[draw.ball(body.shape, (18, 16, 5), (15, 13, 40))] = 30
        kidney = draw.ball(body.shape, draw.near(b.rng, 10, 18, 5), (4, 5, 3))
        tumor = draw.ball(body.shape, draw.near(b.rng, 11, 20, 5), (2, 2, 2)) & kidney
        body[kidney], body[tumor] = 180, 90
        image = b.nifti(f"{folder}/imaging.nii.gz", body + b.rng.normal(0, 15, body.shape))
        told.append({"case_id": f"case_{n:05d}", "age_at_nephrectomy": 40 + n, "gender": b.pick("male", "female"), "tumor_histology": "clear_cell_rcc"})
        if n < 18:
            b.nifti(f"{folder}/segmentation.nii.gz", kidney.astype(int) + tumor, dtype=np.uint8)
            b.case(image, patient=f"case_{n:05d}", mask={"kidney": kidney & ~tumor, "tumor": tumor})
        else:
            b.truth["left_out"].append(image)
    b.text("kits19/data/kits.json", json.dumps(told, indent=2))
    b.text("kits19/README.md", "| value | structure |\n|---|---|\n| 1 | kidney |\n| 2 | tumor |\n")


@family(
    "promise_mhd_pairs", "organ_segmentation", 3,
    "Segment the prostate.",
    notes="MHD with RAW, Case00.mhd and Case00_segmentation.mhd in one folder; the test part has no masks.",
)  # fmt: skip
def promise(b: Build) -> None:
    for n in range(22):
        part = "TrainingData_Part1" if n < 9 else "TrainingData_Part2" if n < 18 else "TestData"
        volume = b.rng.normal(200, 20, (30, 30, 8))
        prostate = draw.ball(volume.shape, draw.near(b.rng, 15, 15, 4), (7, 6, 3))
        volume[prostate] += 150
        image = b.itk(f"PROMISE12/{part}/Case{n:02d}.mhd", volume.astype(np.int16), packed=False)
        if n < 18:
            b.itk(f"PROMISE12/{part}/Case{n:02d}_segmentation.mhd", prostate.astype(np.int8), packed=False)
            b.case(image, patient=f"{n:02d}", mask={"prostate": prostate})
        else:
            b.truth["left_out"].append(image)


@family(
    "shenzhen_last_digit", "diagnosis", 2,
    "Normal (0) or tuberculosis (1)?",
    notes="CHNCXR_0001_0.png: the last digit is the class; a text a film says sex, age and findings.",
)  # fmt: skip
def shenzhen(b: Build) -> None:
    for n in range(1, 41):
        sick = int(n > 20)
        name = f"CHNCXR_{n:04d}_{sick}"
        path = b.picture(f"ChinaSet_AllFiles/CXR_png/{name}.png", draw.u8(draw.chest(b.rng, ("opacity",) if sick else ())))
        said = b.pick("bilateral PTB", "right upper PTB", "secondary PTB in the left field") if sick else "normal"
        b.text(f"ChinaSet_AllFiles/ClinicalReadings/{name}.txt", f"{b.pick('male', 'female')} {20 + n}yrs\n{said}\n")
        b.case(path, patient=f"{n:04d}", label=str(sick))
    b.raw("ChinaSet_AllFiles/CXR_png/Thumbs.db", b"\xd0\xcf\x11\xe0" + bytes(200))


@family(
    "schilddruese_bilder_in_spalten", "diagnosis", 2,
    "Bitte die TI-RADS-Stufe aus den Ultraschallbildern vorhersagen.",
    notes="A workbook with a title line and a row an examination: up to three picture names in columns; pictures lie by "
    "month; some people come twice.",
)  # fmt: skip
def schilddruese(b: Build) -> None:
    rows = [["Schilddrüsensprechstunde 2021"], [], ["Lfd. Nr.", "Pat.-Nr.", "Datum", "TI-RADS", "Bild 1", "Bild 2", "Bild 3", "Bemerkung"]]
    number = 0
    for n in range(24):
        person, grade, month = 50310 + 7 * (n % 19), 2 + n % 4, n % 12 + 1
        names = []
        for _ in range(1 + n % 3):
            number += 1
            names.append(f"US_{number:05d}.jpg")
            picture = b.rng.normal(90, 12, (56, 64))
            picture[draw.ball(picture.shape, draw.near(b.rng, 28, 32), (4 + 3 * grade, 4 + 2 * grade))] += 25 * grade
            path = b.picture(f"Sono SD/Bilder/2021-{month:02d}/{names[-1]}", draw.u8(picture))
            b.case(path, patient=str(person), label=str(grade))
        rows.append([n + 1, person, f"{n % 27 + 1:02d}.{month:02d}.2021", grade, *names, *[""] * (3 - len(names)), ""])
    b.xlsx("Sono SD/Patientenliste.xlsx", {"Liste": rows, "Legende": [["TI-RADS", "2 bis 5"]]})


@family(
    "irm_prostate_lesions", "anomaly_detection", 3,
    "Segmenter les lésions de la prostate sur T2, ADC et DWI.",
    notes="A folder an examination (name, number, year) with three sequences and a file a lesion, one or two.",
)  # fmt: skip
def irm(b: Build) -> None:
    for n in range(20):
        person = f"{('DUPONT', 'MARTIN', 'LEROY', 'PETIT')[n % 4]}_{'ABCDE'[n % 5]}_{2210 + 31 * (n % 16)}"
        folder = f"IRM prostate/{person}_{2018 + n // 16}"
        shape, files = (28, 28, 8), []
        lesions = [draw.ball(shape, draw.near(b.rng, 10 + 8 * k, 14, 4), 2.5) for k in range(1 + n % 2)]
        for k, name in enumerate(("T2", "ADC", "DWI_b1400")):
            volume = b.rng.normal(300, 25, shape)
            for lesion in lesions:
                volume[lesion] += (-120, -150, 200)[k]
            files.append(b.nifti(f"{folder}/{name}.nii.gz", volume))
        for k, lesion in enumerate(lesions, 1):
            b.nifti(f"{folder}/lesion_{k}.nii.gz", lesion, dtype=np.uint8)
        b.case(files, patient=person, mask={"lesion": np.any(lesions, 0)}, channels=3)
