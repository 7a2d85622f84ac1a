"""Of the third set: pictures and tables."""

from pathlib import Path
from typing import Any

import numpy as np
from scipy.ndimage import gaussian_filter

from bench.strangers import draw
from bench.strangers.build import COLOUR, Families, dicom, hexid, uid, uuid4
from tests.families.base import Build

FAMILIES = Families()
family = FAMILIES.family


@family(
    "cbis_ddsm_jpeg_join", "diagnosis", 2,
    "Predict the pathology (BENIGN, BENIGN_WITHOUT_CALLBACK or MALIGNANT) from the full mammogram images of CBIS-DDSM. The cropped images and ROI masks are not wanted.",
    notes="Kaggle edition: four case tables (mass/calc, train/test) with paths of DICOMs that are not here; the series UID in the path is the folder of the "
    "JPEG; dicom_info.csv says which JPEG is full, crop or mask; a picture with two abnormalities has two rows; mask paths end in a line break.",
)
def cbis(b: Build) -> None:
    tables: dict[tuple[str, str], list[list[Any]]] = {}
    info: list[list[Any]] = []
    kinds = ["BENIGN", "MALIGNANT", "BENIGN_WITHOUT_CALLBACK"]
    for n in range(17):
        what = ("mass", "calc")[n % 2]
        split = "train" if n % 4 != 3 else "test"
        person = f"P_{n * 13 + 4:05d}"
        k = n % 3
        side = ("LEFT", "RIGHT")[int(b.rng.integers(2))]
        title = f"{what.capitalize()}-{'Training' if split == 'train' else 'Test'}_{person}_{side}"
        for view in ("CC", "MLO"):
            study, series = uid(b), uid(b)
            name = f"1-{b.rng.integers(1, 250):03d}.jpg"
            path = f"CBIS-DDSM/jpeg/{series}/{name}"
            full = draw.u8(draw.breast(b.rng, (0, 2, 1)[k], side == "LEFT"))
            b.picture(path, full, quality=92)
            info.append([f"CBIS-DDSM/dicom/{series}/1-1.dcm", path, "GEMS", "BREAST", 20160426, "MG", side[0], f"{title}_{view}", "full mammogram images", series, study])
            b.case(path, patient=person, label=kinds[k], split=split)
            for a in range(2 if n % 5 == 1 and view == "CC" else 1):
                study2, series2 = uid(b), uid(b)
                crop = full[22 + 6 * a : 46 + 6 * a, 4:28] if side == "LEFT" else full[22 + 6 * a : 46 + 6 * a, -28:-4]
                mask = draw.ball(full.shape, draw.near(b.rng, 36 + 4 * a, 18 if side == "LEFT" else 30), draw.near(b.rng, 7, 6)).astype(np.uint8) * 255
                other = [(crop, "cropped images", "1-1.jpg"), (mask, "ROI mask images", "1-2.jpg")]
                for array, words, part in other:
                    out = f"CBIS-DDSM/jpeg/{series2}/{part}"
                    b.truth["left_out"].append(b.picture(out, array, quality=92))
                    info.append([out.replace("jpeg", "dicom").replace("jpg", "dcm"), out, "MathWorks", "BREAST", 20160503, "MG", side[0], f"{title}_{view}_{a + 1}", words, series2, study2])
                rows = tables.setdefault((what, split), [])
                extra = ["IRREGULAR", "SPICULATED"] if what == "mass" else ["PLEOMORPHIC", "CLUSTERED"]
                rows.append([person, 2 + n % 3, side, view, a + 1, "mass" if what == "mass" else "calcification", *extra, (3, 5, 2)[k], kinds[k], 3 + n % 3,
                             f"{title}_{view}/{study}/{series}/000000.dcm", f"{title}_{view}_{a + 1}/{study2}/{series2}/000000.dcm",
                             f"{title}_{view}_{a + 1}/{study2}/{series2}/000001.dcm\n"])
    for (what, split), rows in tables.items():
        two = ["mass shape", "mass margins"] if what == "mass" else ["calc type", "calc distribution"]
        b.csv(f"csv/{what}_case_description_{split}_set.csv",
              ["patient_id", "breast_density" if what == "mass" else "breast density", "left or right breast", "image view", "abnormality id", "abnormality type", *two,
               "assessment", "pathology", "subtlety", "image file path", "cropped image file path", "ROI mask file path"], rows)
    b.csv("csv/dicom_info.csv", ["file_path", "image_path", "AccessionNumber", "BodyPartExamined", "ContentDate", "Modality", "PatientOrientation", "PatientID",
                                 "SeriesDescription", "SeriesInstanceUID", "StudyInstanceUID"], [info[i] for i in b.rng.permutation(len(info))])


def grade_eye(b: Build, grade: int, exudates: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A fundus with `grade` * 6 red dots and some yellow patches, and where both are."""
    image = draw.eye(b.rng, "").astype(float)
    red, yellow = np.zeros((64, 64), bool), np.zeros((64, 64), bool)
    for _ in range(grade * 6):
        red |= draw.ball((64, 64), b.rng.uniform(15, 49, 2), 1.5)
    for _ in range(exudates):
        yellow |= draw.ball((64, 64), b.rng.uniform(20, 50, 2), b.rng.uniform(1.6, 4))
    image[red] = (75, 8, 8)
    image[yellow] = (250, 230, 120)
    return draw.u8(image), red & ~yellow, yellow


@family(
    "idrid_grading_twins", "diagnosis", 2,
    "Grade the diabetic retinopathy from the fundus photographs.",
    notes="Numbered folders with blanks and dots; Training and Testing Set hold pictures of the SAME NAMES (IDRiD_001.jpg) with other content and other grades; "
    "one table each, training table with a dozen nameless empty columns; edema risk beside the grade.",
    patients_known=False,
)
def idrid_b(b: Build) -> None:
    root = "B. Disease Grading"
    for letter, words, count in (("a", "Training", 27), ("b", "Testing", 13)):
        rows = []
        for n in range(count):
            grade = (0, 2, 3, 1, 4, 0, 2)[(n + (letter == "b") * 2) % 7]
            name = f"IDRiD_{n + 1:03d}"
            path = b.picture(f"{root}/1. Original Images/{letter}. {words} Set/{name}.jpg", grade_eye(b, grade)[0], quality=93)
            rows.append([name, grade, 0 if grade < 2 else int(b.rng.integers(0, 3)), *([""] * 9 if letter == "a" else [])])
            b.case(path, label=str(grade), split={"a": "train", "b": "test"}[letter], channels=COLOUR)
        b.csv(f"{root}/2. Groundtruths/{letter}. IDRiD_Disease Grading_{words} Labels.csv",
              ["Image name", "Retinopathy grade", "Risk of macular edema ", *([""] * 9 if letter == "a" else [])], rows, end="\r\n")
    b.text(f"{root}/CC-BY-4.0.txt", "Creative Commons Attribution 4.0 International Public License\n")


@family(
    "pad_ufes_parts", "diagnosis", 2,
    "Classify the skin lesion photos taken with smartphones (diagnostic).",
    notes="Unpacked twice-named part folders; metadata.csv joins by img_id; names PAT_8_15_820 hold patient, lesion and picture; patients with lesions of several "
    "classes; many clinical columns True/False/UNK; rows without a picture, one picture without a row.",
)
def pad(b: Build) -> None:
    tone = {"BCC": (205, 90, 90), "NEV": (110, 65, 40), "ACK": (225, 160, 120), "SEK": (60, 55, 50)}
    rows = []
    picture = 100
    for lesion in range(30):
        person = 8 + lesion % 19 * 3
        kind = list(tone)[(lesion + lesion // 19 * 2) % 4]
        for _ in range(2 if lesion % 4 == 1 else 1):
            picture += int(b.rng.integers(1, 30))
            h, w = (int(v) for v in b.rng.integers(44, 62, 2))
            image = np.empty((h, w, 3))
            image[:] = (222, 175, 150)
            spot = draw.ball((h, w), draw.near(b.rng, h / 2, w / 2, by=4), b.rng.uniform(9, 14, 2))
            image[spot] = tone[kind]
            if kind in ("SEK", "ACK"):
                image[spot & (b.rng.random((h, w)) < 0.3)] += 50
            name = f"PAT_{person}_{lesion * 7 + 15}_{picture}.png"
            rows.append([f"PAT_{person}", lesion * 7 + 15, b.pick("True", "False", ""), b.pick("POMERANIA", "GERMANY", "UNK", ""), 30 + person % 50, b.pick("FEMALE", "MALE", ""),
                         b.pick("FACE", "FOREARM", "BACK"), b.pick("6.0", ""), kind, b.pick("True", "False", "UNK"), name, kind == "BCC" or bool(lesion % 3 == 0)])
            if picture % 17 == 0 and lesion > 20:
                continue
            path = b.picture(f"zr7vgbcyr2-1/images/imgs_part_{lesion % 3 + 1}/imgs_part_{lesion % 3 + 1}/{name}", draw.u8(gaussian_filter(image, (0.8, 0.8, 0)) + b.rng.normal(0, 5, image.shape)))
            b.case(path, patient=f"PAT_{person}", label=kind, channels=COLOUR)
    rows.append(["PAT_2100", 4999, "", "", 61, "", "NOSE", "", "BCC", "UNK", "PAT_2100_4999_31.png", True])
    odd, _ = draw.spot(b.rng, 0)
    b.truth["left_out"].append(b.picture("zr7vgbcyr2-1/images/imgs_part_3/imgs_part_3/PAT_2101_5000_12.png", odd))
    b.csv("zr7vgbcyr2-1/metadata.csv", ["patient_id", "lesion_id", "smoke", "background_father", "age", "gender", "region", "diameter_1", "diagnostic", "itch", "img_id", "biopsed"],
          [rows[i] for i in b.rng.permutation(len(rows))])


@family(
    "rsna_pneumonia_rows", "diagnosis", 2,
    "Classify the chest radiographs into the three classes of the detailed class info.",
    notes="DICOM named by patientId; the class table repeats a row for each box; a second table with boxes and Target 0/1; three classes, one with a comma-less slash; "
    "test pictures only in the sample submission.",
)
def rsna(b: Build) -> None:
    classes = ["Normal", "Lung Opacity", "No Lung Opacity / Not Normal"]
    info, boxes, sample = [], [], []
    for n in range(40):
        person = uuid4(b)
        kind = n % 3
        sign = ((), ("opacity",), (b.pick("heart", "effusion"),))[kind]
        film = draw.u8(draw.chest(b.rng, sign, size=(60, 60)))
        test = n >= 33
        path = dicom(b, f"rsna-pneumonia-detection-challenge/stage_2_{'test' if test else 'train'}_images/{person}.dcm", film, "CR", PatientID=person, PatientName=person,
                     PatientSex=b.pick("M", "F"), PatientAge=f"{b.rng.integers(20, 80):03d}Y", ViewPosition=b.pick("PA", "AP"), ConversionType="WSD", BodyPartExamined="CHEST",
                     StudyInstanceUID=uid(b, "1.2.276.0.7230010.3.1.2"), SeriesInstanceUID=uid(b, "1.2.276.0.7230010.3.1.3"), SeriesDescription="view: PA", PixelSpacing=[2.2, 2.2])
        if test:
            b.truth["left_out"].append(path)
            sample.append([person, "0.5 0 0 100 100"])
            continue
        for _ in range(1 + (kind == 1 and n % 2)):
            info.append([person, classes[kind]])
            boxes.append([person, *([f"{v:.1f}" for v in b.rng.uniform(5, 30, 4)] if kind == 1 else [""] * 4), int(kind == 1)])
        b.case(path, patient=person, label=classes[kind])
    root = "rsna-pneumonia-detection-challenge"
    b.csv(f"{root}/stage_2_detailed_class_info.csv", ["patientId", "class"], info)
    b.csv(f"{root}/stage_2_train_labels.csv", ["patientId", "x", "y", "width", "height", "Target"], boxes)
    b.csv(f"{root}/stage_2_sample_submission.csv", ["patientId", "PredictionString"], sample)
    b.text(f"{root}/GCP Credits Request Link - RSNA.txt", "https://www.kaggle.com/GCP-Credits-RSNA\n")


@family(
    "adni_ida_tree", "diagnosis", 3,
    "Classify the Group (AD, MCI, CN) from the processed T1 scans (MPR; GradWarp; B1 Correction; N3; Scaled). The raw MP-RAGE are not wanted.",
    notes="LONI IDA download: subject / description / date_time / image id, plain .nii, one XML an image in the root; the table joins by Image Data ID (I40966), which is the last part "
    "of the name; originals and processed of one visit; several visits; US dates; a row not downloaded, a subject not in the table.",
)
def adni(b: Build) -> None:
    groups = {"CN": 0.0, "MCI": 0.5, "AD": 1.0}
    rows, serial = [], 40000
    done = "MPR__GradWarp__B1_Correction__N3__Scaled"
    for n in range(17):
        group = list(groups)[n % 3]
        person = f"{(2, 5, 11, 23)[n % 4]:03d}_S_{295 + n * 37:04d}"
        for v in range(1 + (n % 3 != 1) + (n % 5 == 0)):
            visit = ("sc", "m06", "m12")[v]
            y, m, d = 2006 + (v == 2), (n + 6 * v) % 12 + 1, n + 5
            stamp = f"{y}-{m:02d}-{d:02d}_08_{20 + n}_30.0"
            brain = draw.brain(b.rng, groups[group], (26, 30, 22))
            for words, kind, change in (("MP-RAGE", "Original", 1.0), (done, "Processed", 1.3)):
                serial += int(b.rng.integers(1, 60))
                ident = f"I{serial}"
                series = f"S{13000 + n * 10 + v}"
                folder = words if kind == "Processed" else "MP-RAGE"
                stem = f"ADNI_{person}_MR_{folder}_{'Br_' if kind == 'Processed' else 'br_raw_'}{y}{m:02d}{d:02d}0820{n:02d}_{series}_{ident}"
                path = b.nifti(f"ADNI/{person}/{folder}/{stamp}/{ident}/{stem}.nii", brain * change + b.rng.normal(0, 8, brain.shape), np.diag([6.0, 6, 6, 1]))
                b.text(f"ADNI/ADNI_{person}_{folder}_{series}_{ident}.xml", f'<?xml version="1.0" encoding="UTF-8"?>\n<idaxs xmlns="http://ida.loni.usc.edu"><project><subject><subjectIdentifier>{person}'
                       f"</subjectIdentifier><subjectSex>F</subjectSex><study><subjectAge>7{n % 10}.4</subjectAge><series><seriesIdentifier>{series[1:]}</seriesIdentifier>"
                       f"<modality>MRI</modality><dateAcquired>{stamp[:10]} 08:20:30.0</dateAcquired></series></study></subject></project></idaxs>\n")
                lost = n == 7
                if not lost:
                    words2 = "MPR; GradWarp; B1 Correction; N3; Scaled" if kind == "Processed" else words
                    rows.append([ident, person, group, b.pick("M", "F"), 65 + n, visit, "MRI", words2, kind, f"{m}/{d}/{y}", "NiFTI", "11/22/2022"])
                if kind == "Processed" and not lost:
                    b.case(path, patient=person, label=group)
                else:
                    b.truth["left_out"].append(path)
    rows.append(["I99871", "941_S_1363", "MCI", "M", 70, "sc", "MRI", "MPR; GradWarp; B1 Correction; N3; Scaled", "Processed", "3/12/2007", "NiFTI", ""])
    b.csv("ADNI1_Complete_1Yr_1.5T_11_22_2022.csv", ["Image Data ID", "Subject", "Group", "Sex", "Age", "Visit", "Modality", "Description", "Type", "Acq Date", "Format", "Downloaded"],
          [rows[i] for i in b.rng.permutation(len(rows))])


@family(
    "cohen_covid_metadata", "diagnosis", 2,
    "Classify the finding in the frontal chest X-rays (views PA, AP and AP Supine). Lateral views, CT and findings 'todo' or 'Unknown' are not wanted.",
    notes="Wild file names from papers and web pages, jpg/jpeg/png mixed; classes as paths (Pneumonia/Viral/COVID-19); laterals, CT slices and NIfTI volumes in the same table; notes "
    "with commas, quotes and line breaks; machine-made lung masks beside; patient numbers with several films on several days.",
)
def cohen(b: Build) -> None:
    signs = {"Pneumonia/Viral/COVID-19": ("opacity",), "No Finding": (), "Pneumonia/Bacterial/Streptococcus": ("effusion",), "Tuberculosis": ("nodule",)}
    rows: list[list[Any]] = []
    for n in range(52):
        finding = list(signs)[(n % 21) % 4 if n % 21 != 20 else 0]
        person = str(n % 21 * 3 + 2) if n % 7 else f"{n % 21 * 3 + 2}b"
        view = ("PA", "AP Supine", "AP", "PA", "L", "PA", "AP")[n % 7]
        modality, folder = "X-ray", "images"
        name = (f"1-s2.0-S09296646203{b.rng.integers(10000, 99999)}-gr2_lrg-{'abcd'[n % 4]}.jpg", f"auntminnie-{'abcd'[n % 4]}-2020_01_{n % 28 + 1:02d}_{n}.jpeg",
                f"{hexid(b, 4).upper()}-{hexid(b, 2).upper()}-{n}.png", f"ryct.2020200{n:03d}.fig2.jpeg", f"case {1000 + n * 7} day {n % 4} (1).jpg")[n % 5]
        if n % 13 == 6:
            view, modality = "Axial", "CT"
        if n in (9, 31):
            finding = ("todo", "Unknown")[n > 10]
        film = draw.chest(b.rng, signs.get(finding, ()), side=view == "L")
        if modality == "CT":
            film = np.clip((draw.lung_ct(b.rng, True)[:, :, 5].T + 1000) / 6, 0, 255)
        if n % 26 == 19:
            folder, name = "volumes", f"coronacases_org_{n:03d}.nii.gz"
            modality, view = "CT", "Axial"
            path = b.nifti(f"covid-chestxray-dataset/volumes/{name}", draw.lung_ct(b.rng, True))
        else:
            path = b.picture(f"covid-chestxray-dataset/{folder}/{name}", draw.u8(film), **({} if name.endswith("png") else {"quality": 92}))
        note = f'{b.pick("Dry cough", "Fever")}, {b.rng.integers(2, 12)} days.\n"Patchy" changes, see text' if n % 3 else ""
        rows.append([person, b.pick(0, 3, 5, "") , b.pick("M", "F", ""), b.pick(65, 42, 71, ""), finding, b.pick("Y", "N", "Unclear", ""), b.pick("Y", "N", ""), view, modality,
                     "January 22, 2020", "Cho Ray Hospital, Ho Chi Minh City, Vietnam", folder, name, "10.1056/nejmc2001272", "https://www.nejm.org/doi/full/10.1056/NEJMc2001272", "", note, "", ""])
        if modality == "X-ray" and view != "L" and finding in signs:
            b.case(path, patient=person, label=finding)
            if n % 4 == 0:
                mask = draw.ball(film.shape, draw.near(b.rng, 34, 19), (24, 11)) | draw.ball(film.shape, draw.near(b.rng, 34, 45), (24, 11))
                b.truth["left_out"].append(b.picture(f"covid-chestxray-dataset/annotations/lungVAE-masks/{Path(name).stem}_mask.png", mask.astype(np.uint8) * 255))
        else:
            b.truth["left_out"].append(path)
    b.csv("covid-chestxray-dataset/metadata.csv", ["patientid", "offset", "sex", "age", "finding", "RT_PCR_positive", "survival", "view", "modality", "date", "location", "folder", "filename",
                                                   "doi", "url", "license", "clinical_notes", "other_notes", "Unnamed: 29"], rows)
    b.text("covid-chestxray-dataset/README.md", "# COVID-19 image data collection\n\n`metadata.csv`: one row an image. `folder` and `filename` say where it is, `finding` the type of pneumonia.\n")
    b.text("covid-chestxray-dataset/SCHEMA.md", "patientid: internal identifier\n\noffset: days since start of symptoms\n")
