"""24 further datasets that nobody tuned for: FAMILIES maps names to Family; make(folder, truth, seed) writes one.

Truth as in second.py: `files` names the entry files of a case, volumes of slices in anatomical order (upwards). Colour
pictures count as COLOUR channels. `left_out` names pictures that look like cases and are none.
"""

import base64
import io
import json
import uuid
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from PIL import Image
from pydicom.dataset import FileDataset, FileMetaDataset
from pydicom.uid import ExplicitVRLittleEndian
from scipy.ndimage import gaussian_filter
from skimage.draw import polygon2mask
from tests.families.base import Build, Family

from bench.strangers import draw

COLOUR = 1
FAMILIES: dict[str, Family] = {}


def family(name: str, task: str, dims: int, request: str, *, notes: str, patients_known: bool = True, **more: Any):
    def register(write: Callable[[Build], None]):
        def make(folder: Path, truth: Path, seed: int) -> None:
            b = Build(Path(folder), np.random.default_rng([seed, zlib.crc32(name.encode())]))
            b.truth = {"task": task, "dimensions": dims, "expect": "ready", **more, "patients_known": patients_known,
                       "notes": notes, "broken": [], "left_out": [], "cases": []}
            b.folder.mkdir(parents=True, exist_ok=True)
            write(b)
            Path(truth).write_text(json.dumps(b.truth, indent=1, ensure_ascii=False), encoding="utf-8")

        FAMILIES[name] = Family(name, task, dims, request, make)
        return write

    return register


def uid(b: Build, root: str = "1.3.6.1.4.1.9590.100.1.2") -> str:
    return root + "." + ".".join(str(int(v)) for v in b.rng.integers(10000, 999999, 4))


def hexid(b: Build, n: int = 16) -> str:
    return b.rng.bytes(n).hex()


def uuid4(b: Build) -> str:
    return str(uuid.UUID(bytes=b.rng.bytes(16), version=4))


SOP = {"CT": "1.2.840.10008.5.1.4.1.1.2", "MR": "1.2.840.10008.5.1.4.1.1.4", "CR": "1.2.840.10008.5.1.4.1.1.1", "DX": "1.2.840.10008.5.1.4.1.1.1.1"}


def dicom(b: Build, path: str, array: np.ndarray, modality: str, **tags: Any) -> str:
    meta = FileMetaDataset()
    meta.MediaStorageSOPClassUID = SOP[modality]
    meta.MediaStorageSOPInstanceUID = uid(b)
    meta.TransferSyntaxUID = ExplicitVRLittleEndian
    ds = FileDataset(None, {}, file_meta=meta, preamble=bytes(128))
    ds.SOPClassUID, ds.SOPInstanceUID = meta.MediaStorageSOPClassUID, meta.MediaStorageSOPInstanceUID
    ds.Modality = modality
    ds.Rows, ds.Columns = array.shape
    ds.SamplesPerPixel, ds.PhotometricInterpretation = 1, "MONOCHROME2"
    bits = array.dtype.itemsize * 8
    ds.BitsAllocated, ds.BitsStored, ds.HighBit = bits, bits, bits - 1
    ds.PixelRepresentation = int(array.dtype.kind == "i")
    ds.PixelData = np.ascontiguousarray(array).tobytes()
    for key, value in tags.items():
        setattr(ds, key, value)
    ds.save_as(b.at(path), enforce_file_format=True)
    return path


def tsv(b: Build, path: str, rows: list[list[Any]]) -> None:
    b.text(path, "".join("\t".join(map(str, r)) + "\n" for r in rows))


# ---------------------------------------------------------------- diagnosis


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


@family(
    "cheng_mat_struct", "diagnosis", 2,
    "Classify the brain tumours by cjdata.label (1, 2 or 3).",
    notes="MATLAB v7.3 (HDF5 behind a 512-byte user block), a file a slice with a struct: label, PID as character codes, image (transposed), tumorBorder, tumorMask; four part folders; "
    "meaning of the labels in README.txt; cvind.mat with fold numbers is no case.",
)
def cheng(b: Build) -> None:
    def mat(path: str, fill: Callable[[Any], None]) -> str:
        buffer = io.BytesIO()
        with h5py.File(buffer, "w", userblock_size=512, libver="earliest") as f:
            fill(f)
        data = bytearray(buffer.getvalue())
        head = b"MATLAB 7.3 MAT-file, Platform: PCWIN64, Created on: Sun Jul 28 11:04:26 2013 HDF5 schema 1.00 ."
        data[:128] = head.ljust(116) + bytes(8) + b"\x00\x02IM"
        b.raw(path, bytes(data))
        return path

    def put(group: Any, name: str, array: np.ndarray, kind: str) -> None:
        data = group.create_dataset(name, data=array, track_times=False)
        data.attrs["MATLAB_class"] = np.bytes_(kind)
        if kind == "char":
            data.attrs["MATLAB_int_decode"] = np.int32(2)

    folds = []
    for n in range(39):
        kind = n % 3 + 1
        person = f"{100360 + n % 15 * 7}" if n % 15 % 2 else f"MR0{24000 + n % 15 * 13}{'ABC'[n % 3]}"
        size = (56, 56)
        image = np.zeros(size)
        image[draw.ball(size, (28, 28), (25, 21))] = 900
        image[draw.ball(size, (28, 28), (22, 18))] = 500
        where, r = {1: ((13, b.pick(17, 39)), 6), 2: ((26, b.pick(20, 36)), 9), 3: ((42, 28), 4)}[kind]
        mask = draw.ball(size, draw.near(b.rng, *where, by=2), (r, r - 0.5))
        image[mask] = 1400 if kind != 2 else 950
        image = np.clip(gaussian_filter(image, 0.7) + b.rng.normal(0, 25, size), 0, None)
        turn = np.linspace(0, 2 * np.pi, 12, endpoint=False)
        border = np.stack([where[0] + r * np.sin(turn), where[1] + r * np.cos(turn)], 1).ravel()

        def fill(f: Any) -> None:
            g = f.create_group("cjdata")
            g.attrs["MATLAB_class"] = np.bytes_("struct")
            put(g, "PID", np.array([[ord(c)] for c in person], np.uint16), "char")
            put(g, "image", image.astype(np.int16).T, "int16")
            put(g, "label", np.array([[float(kind)]]), "double")
            put(g, "tumorBorder", border[None], "double")
            put(g, "tumorMask", mask.astype(np.uint8).T, "logical")

        folder = ("brainTumorDataPublic_1-766", "brainTumorDataPublic_767-1532", "brainTumorDataPublic_1533-2298", "brainTumorDataPublic_2299-3064")[n * 4 // 39]
        path = mat(f"1512427/{folder}/{(1, 767, 1533, 2299)[n * 4 // 39] + n}.mat", fill)
        folds.append(float(n % 5 + 1))
        b.case(path, patient=person, label=str(kind))
    mat("1512427/cvind.mat", lambda f: put(f, "cvind", np.array([folds]), "double"))
    b.text("1512427/README.txt", "This brain tumor dataset contains T1-weighted contrast-enhanced images of three kinds of brain tumor. Each file stores a struct with these fields:\r\n"
           "cjdata.label: 1 for meningioma, 2 for glioma, 3 for pituitary tumor\r\ncjdata.PID: patient ID\r\ncjdata.image: image data\r\n"
           "cjdata.tumorBorder: a vector storing the coordinates of discrete points on tumor border, [x1, y1, x2, y2,...]\r\ncjdata.tumorMask: a binary image with 1s indicating tumor region\r\n")


@family(
    "kvasir_capsule_semicolon", "diagnosis", 2,
    "Classify the labelled frames of capsule endoscopy by finding (finding_class).",
    notes="Classes as folders with blanks and dashes; metadata.csv with semicolons names the video (one patient each) and repeats the class with a coarser category; two official folds of both "
    "halves; unlabelled frames in a folder of their own; bounding boxes only for some.",
)
def capsule(b: Build) -> None:
    looks = {"Angiectasia": (200, 40, 30), "Blood - fresh": (150, 15, 15), "Foreign body": (40, 120, 60), "Ileocecal Valve": (240, 190, 90), "Normal clean mucosa": None}
    category = {"Ileocecal Valve": "Anatomy", "Normal clean mucosa": "Luminal", "Foreign body": "Luminal", "Angiectasia": "Luminal", "Blood - fresh": "Luminal"}
    videos = [hexid(b, 8) for _ in range(14)]
    rows, folds = [], [[], []]

    def frame(kind: str) -> np.ndarray:
        out = np.zeros((48, 48, 3))
        out[draw.ball((48, 48), (24, 24), 23)] = (190, 120, 75)
        out += gaussian_filter(b.rng.normal(0, 1, (48, 48)), 3)[..., None] * 90 * (out > 0)
        for _ in range(0 if looks[kind] is None else 1 if kind == "Ileocecal Valve" else 4):
            spot = draw.ball((48, 48), draw.near(b.rng, 24, 24, by=11), {"Angiectasia": 2.2, "Ileocecal Valve": 11}.get(kind, 6))
            out[spot] = looks[kind]
        return draw.u8(out + b.rng.normal(0, 5, out.shape))

    for n in range(45):
        kind = list(looks)[n % 5]
        video = videos[(n // 5 + n % 5 * 3) % 14]
        number = int(b.rng.integers(100, 40000))
        name = f"{video}_{number}.jpg"
        path = b.picture(f"kvasir-capsule/labelled_images/{kind}/{name}", frame(kind), quality=94)
        box = [int(v) for v in b.rng.integers(5, 40, 8)] if n % 3 == 0 and looks[kind] else [""] * 8
        rows.append([name, video, number, category[kind], kind, *box])
        folds[(n // 5 + n % 5 * 3) % 14 % 2].append([name, kind])
        b.case(path, patient=video, label=kind, channels=COLOUR)
    b.csv("kvasir-capsule/metadata.csv", ["filename", "video_id", "frame_number", "finding_category", "finding_class", "x1", "y1", "x2", "y2", "x3", "y3", "x4", "y4"], rows, sep=";")
    for k, part in enumerate(folds):
        b.csv(f"kvasir-capsule/official_splits/split_{k}.csv", ["filename", "label"], part)
    for n in range(7):
        b.truth["left_out"].append(b.picture(f"kvasir-capsule/unlabelled_images/{hexid(b, 8)}_{b.rng.integers(9000)}.jpg", frame(b.pick(*looks)), quality=94))
    b.text("kvasir-capsule/README.txt", "Each video is the examination of one patient. The two official splits are for two-fold cross-validation and keep videos together.\n")


@family(
    "fetal_planes_semicolon", "diagnosis", 2,
    "Classify the fetal ultrasound pictures into the maternal-fetal planes (column Plane). Keep the given training and test division.",
    notes="Zenodo: semicolon CSV and the same as a workbook; Image_name without suffix; header 'Train ' with a blank at its end holds the split (1 train, 0 test); finer Brain_plane, operator and machine also look like "
    "classes; patient number unpadded; one row without a picture.",
)
def fetal(b: Build) -> None:
    planes = ["Fetal brain", "Fetal abdomen", "Fetal femur", "Maternal cervix"]
    rows: list[list[Any]] = []
    for n in range(44):
        plane = planes[n % 4]
        person = n // 4 + 1 + (n % 4 == 3) * 11
        size = (48, 60)
        image = np.full(size, 22.0)
        mid = draw.near(b.rng, 24, 30, by=3)
        if plane in ("Fetal brain", "Fetal abdomen"):
            outer, inner = draw.ball(size, mid, (16, 22)), draw.ball(size, mid, (14, 20))
            image[outer] = 190 if plane == "Fetal brain" else 110
            image[inner] = 60 if plane == "Fetal brain" else 105
            if plane == "Fetal brain":
                image[int(mid[0]), int(mid[1]) - 15 : int(mid[1]) + 15] = 170
            else:
                image[draw.ball(size, draw.near(b.rng, *mid, by=5), 5)] = 10
        elif plane == "Fetal femur":
            image[draw.ball(size, mid, (2.5, 18))] = 230
        else:
            image[: int(mid[0]), :] = 120
            image[draw.ball(size, mid, (4, 25))] = 15
        name = f"Patient{person:05d}_Plane{n % 4 + 1}_{n % 3 + 1}_of_3"
        train = int(person % 3 != 0)
        rows.append([name, person, plane, b.pick("Trans-thalamic", "Trans-ventricular") if n % 4 == 0 else "Not A Brain", b.pick("Op. 1", "Op. 2", "Other"), b.pick("Voluson E6", "Aloka"), train])
        if n == 18:
            continue
        noise = b.rng.gamma(4, 0.25, size)
        b.case(b.picture(f"FETAL_PLANES_ZENODO/Images/{name}.png", draw.u8(gaussian_filter(image, 0.7) * noise)), patient=str(person), label=plane, split="train" if train else "test")
    head = ["Image_name", "Patient_num", "Plane", "Brain_plane", "Operator", "US_Machine", "Train "]
    b.csv("FETAL_PLANES_ZENODO/FETAL_PLANES_DB_data.csv", head, rows, sep=";")
    b.xlsx("FETAL_PLANES_ZENODO/FETAL_PLANES_DB_data.xlsx", {"FETAL_PLANES_DB_data": [head, *rows]})
    b.text("FETAL_PLANES_ZENODO/README.md", "Images of 1,792 patients. `Train`: 1 = training set, 0 = test set, split by patient.\n")


@family(
    "prostata_dicom_konsens", "diagnosis", 3,
    "Bitte aus der transversalen T2-Serie (t2_tse_tra) den PI-RADS-Wert nach der Spalte Konsens klassifizieren.",
    notes="All series of an exam in ONE folder with hexadecimal names without suffix, told apart only by header (localizer, sagittal T2, ADC); German cp1252 semicolon table with decimal commas, two readers and a consensus; "
    "consensus open for two exams; exam number is the AccessionNumber; two exams of some patients.",
)
def prostata(b: Build) -> None:
    rows = []
    for n in range(27):
        p = n % 18
        person, case = f"{70411 + p * 97:08d}", f"MR{21000 + n * 31}"
        grade = (2, 4, 5)[(p + n // 18) % 3]
        open_ = n in (5, 20)
        a, c = grade, int(np.clip(grade + b.rng.integers(-1, 2), 1, 5))
        rows.append([case, int(person), 55 + p, f"{b.rng.uniform(1, 19):.1f}".replace(".", ","), *(b.rng.permutation([a, c])), "offen" if open_ else grade, b.pick("", "Bewegungsartefakte", "Hüft-TEP")])
        shape = (36, 32, 6)
        gland = draw.ball(shape, draw.near(b.rng, 18, 16, 3, by=1), (12, 10, 5))
        vol = np.full(shape, 150.0)
        vol[gland] = 420
        if grade > 2:
            vol[draw.ball(shape, draw.near(b.rng, b.pick(13, 23), 20, 3, by=1), (3, 3, 2) if grade == 4 else (6, 5, 3)) & gland] = 180
        vol = (vol + b.rng.normal(0, 18, shape)).clip(0)
        tags = dict(PatientID=person, PatientName=f"PROSTATA^{p:03d}", AccessionNumber=case, StudyInstanceUID=uid(b), StudyDate=f"2021{n % 12 + 1:02d}{n % 27 + 1:02d}", StudyDescription="MRT Prostata")
        jobs: list[tuple[bool, dict[str, Any], np.ndarray]] = []
        across, along = [1, 0, 0, 0, 1, 0], [0, 1, 0, 0, 0, -1]
        for number, words, stack, orient in ((1, "localizer", vol[:, :, 3:4], across), (2, "t2_tse_sag", vol[::6].transpose(1, 2, 0)[:, :, :2], along),
                                             (3, "t2_tse_tra", vol, across), (5, "ep2d_diff_b50_800_tra_ADC", vol[::2, ::2, :3] * 2.4, across)):
            series = uid(b)
            for z in range(stack.shape[2]):
                place = [-18.0, -16.0, -20.0 + 3.5 * z] if orient is across else [-9.0 + 6 * z, -16.0, 20.0]
                jobs.append((number == 3, dict(tags, SeriesInstanceUID=series, SeriesNumber=number, SeriesDescription=words, InstanceNumber=z + 1, ImageOrientationPatient=orient,
                             ImagePositionPatient=place, PixelSpacing=[1.0, 1.0], SliceThickness=3.5, ImageType=["ORIGINAL" if number < 5 else "DERIVED", "PRIMARY", "M" if number < 5 else "ADC"]),
                             stack[:, :, z].T.astype(np.uint16)))
        names = b.rng.permutation(len(jobs))
        wanted = []
        for (main, meta, pixels), k in zip(jobs, names, strict=True):
            path = dicom(b, f"Export_2021-12-03/EXAM{n:04d}/{int(k) + 16:08X}", pixels, "MR", **meta)
            if main:
                wanted.append(path)
        if open_:
            b.truth["left_out"] += wanted
        else:
            b.case(wanted, patient=person, label=str(grade))
    b.csv("Auswertung_Prostata_final.csv", ["Fall-Nr", "Pat-ID", "Alter", "PSA (ng/ml)", "Leser A", "Leser B", "Konsens", "Bemerkung"], [rows[i] for i in b.rng.permutation(len(rows))],
          sep=";", encoding="cp1252", end="\r\n")


# ---------------------------------------------------------------- segmentation and anomaly


@family(
    "idrid_lesion_folders", "anomaly_detection", 2,
    "Segment the hard exudates.",
    notes="A folder a lesion type (1. Microaneurysms .. 5. Optic Disc) under Training and Testing, masks .tif with _EX, _MA.. at the end; mask value 76; other lesions not asked and only for some pictures.",
    patients_known=False,
)
def idrid_a(b: Build) -> None:
    root = "A. Segmentation"
    for n in range(1, 29):
        part = "a. Training Set" if n <= 19 else "b. Testing Set"
        image, red, yellow = grade_eye(b, n % 4, 2 + n % 6)
        yellow &= draw.ball((64, 64), (32, 32), 30)
        disc = draw.ball((64, 64), draw.near(b.rng, 32, 19), 5)
        path = b.picture(f"{root}/1. Original Images/{part}/IDRiD_{n:02d}.jpg", image, quality=95)
        for folder, end, mask, there in (("1. Microaneurysms", "MA", red, n % 4 > 0), ("2. Haemorrhages", "HE", np.roll(red, 2, 1), n % 4 == 3), ("3. Hard Exudates", "EX", yellow, True),
                                         ("4. Soft Exudates", "SE", np.roll(yellow, 9, 0), n % 3 == 0), ("5. Optic Disc", "OD", disc, True)):
            if there:
                b.picture(f"{root}/2. All Segmentation Groundtruths/{part}/{folder}/IDRiD_{n:02d}_{end}.tif", mask.astype(np.uint8) * 76)
        b.case(path, mask={"hard exudates": yellow}, split="train" if n <= 19 else "test", channels=COLOUR)
    b.text(f"{root}/CC-BY-4.0.txt", "Creative Commons Attribution 4.0 International Public License\n")


@family(
    "chaos_t2spir_png_masks", "organ_segmentation", 3,
    "Segment liver (63), right kidney (126), left kidney (189) and spleen (252) in the T2-SPIR MR series.",
    notes="DICOM series with masks as one grey PNG a slice in Ground beside DICOM_anon; T1DUAL in and out of phase with masks of its own, CT with liver masks only (same folder numbers, other people); test set without Ground; not all organs "
    "on every slice.",
)
def chaos(b: Build) -> None:
    def series(root: str, name: str, stack: np.ndarray, kind: str, person: str, words: str) -> list[str]:
        out, one, study = [], uid(b), uid(b)
        for z in range(stack.shape[2]):
            out.append(dicom(b, f"{root}/{name % (z + 1)}", stack[:, :, z].T.clip(0).astype(np.uint16), kind, PatientID=person, PatientName="", StudyInstanceUID=study, SeriesInstanceUID=one, SeriesDescription=words,
                             SeriesNumber=3, InstanceNumber=z + 1, ImageOrientationPatient=[1, 0, 0, 0, 1, 0], ImagePositionPatient=[-60.0, -50, -100 + 7.5 * z], PixelSpacing=[3.0, 3.0], SliceThickness=7.5))
        return out

    values = {"liver": 63, "right kidney": 126, "left kidney": 189, "spleen": 252}
    for n in range(27):
        person, number = f"CHAOS-MR-{n + 1:02d}", n + 1
        test = n >= 25
        shape = (36, 32, 5)
        label = np.zeros(shape, np.uint8)
        label[draw.ball(shape, draw.near(b.rng, 10, 13, 2.5, by=1), (7, 8, 3))] = 63
        label[draw.ball(shape, draw.near(b.rng, 30, 14, 3, by=1), (4, 5, 2))] = 252
        label[draw.ball(shape, draw.near(b.rng, 11, 25, 1.5, by=0.8), (3.5, 3.5, 2))] = 126
        label[draw.ball(shape, draw.near(b.rng, 27, 25, 1.5, by=0.8), (3.5, 3.5, 2))] = 189
        image = np.full(shape, 40.0)
        image[draw.ball(shape, (18, 16, 2.5), (17.5, 15, 20))] = 150
        for v, value in ((63, 330), (252, 620), (126, 800), (189, 800)):
            image[label == v] = value
        base = f"CHAOS_{'Test' if test else 'Train'}_Sets/{'Test' if test else 'Train'}_Sets/MR/{number - 22 if test else number}"
        files = series(f"{base}/T2SPIR/DICOM_anon", f"IMG-{n + 3:04d}-%05d.dcm", image + b.rng.normal(0, 20, shape), "MR", person, "T2W_SPIR")
        ins, outs = image[:, :, :2] * 0.8, image[:, :, :2] * 0.5
        series(f"{base}/T1DUAL/DICOM_anon/InPhase", f"IMG-{n + 4:04d}-%05d.dcm", ins + b.rng.normal(0, 20, ins.shape), "MR", person, "T1 DUAL")
        series(f"{base}/T1DUAL/DICOM_anon/OutPhase", f"IMG-{n + 5:04d}-%05d.dcm", outs + b.rng.normal(0, 20, ins.shape), "MR", person, "T1 DUAL")
        if test:
            b.truth["left_out"] += files
            continue
        for z, f in enumerate(files):
            b.picture(f"{base}/T2SPIR/Ground/{Path(f).stem}.png", label[:, :, z].T.copy())
        for z in range(2):
            b.picture(f"{base}/T1DUAL/Ground/IMG-{n + 4:04d}-{z + 1:05d}.png", np.roll(label[:, :, z].T, 1, 1).copy())
        b.case(files, patient=person, mask={k: label == v for k, v in values.items()})
        if n < 2:
            ct = (draw.lung_ct(b.rng, False)[:, :, :3] + 1024).clip(0)
            root = f"CHAOS_Train_Sets/Train_Sets/CT/{number}"
            series(f"{root}/DICOM_anon", "i%04d,0000b.dcm", ct, "CT", f"CHAOS-CT-{n + 1:02d}", "Abdomen portal")
            for z in range(3):
                b.picture(f"{root}/Ground/liver_GT_{z:03d}.png", draw.ball((36, 40), draw.near(b.rng, 17, 12), draw.near(b.rng, 8, 7)).astype(np.uint8) * 255)


@family(
    "wmh_challenge_sites", "anomaly_detection", 3,
    "Detect the white matter hyperintensities (value 1 in wmh.nii.gz) from the preprocessed FLAIR and T1 (folder pre). Value 2 is other pathology and does not count.",
    notes="Every subject's files have the same names (FLAIR, T1, wmh) in orig and pre below site, for one site also below scanner; label 2 must not count; extra observers' results in a parallel tree; the original 3DT1 is on another grid.",
)
def wmh(b: Build) -> None:
    for n in range(27):
        k = n % 9
        split = "training" if k < 6 else "test"
        site, number = [("Utrecht", n), ("Singapore", 50 + n), ("Amsterdam/GE3T", 100 + n)][n // 9]
        root = f"dataverse_files/{split}/{site}/{number}"
        brain = draw.brain(b.rng, 0.6, (26, 30, 14))
        inside = brain > 550
        lesion, other = np.zeros(brain.shape, bool), np.zeros(brain.shape, bool)
        more = int(b.rng.integers(15, 60))
        while lesion.sum() < more:
            lesion |= draw.ball(brain.shape, draw.near(b.rng, b.pick(8, 18), 15, 7, by=4), b.rng.uniform(1.2, 2.6)) & inside
        if n % 4 == 0:
            other = draw.ball(brain.shape, draw.near(b.rng, 13, 23, 7, by=2), 2.5) & inside & ~lesion
        flair, t1 = np.where(brain > 300, 350.0, brain), brain.copy()
        flair[lesion | other], t1[lesion | other] = 800, 420
        affine = np.diag([-6.0, 6, 9, 1])
        files = [b.nifti(f"{root}/pre/{name}.nii.gz", a + b.rng.normal(0, 12, a.shape), affine) for name, a in (("FLAIR", flair), ("T1", t1))]
        b.nifti(f"{root}/orig/FLAIR.nii.gz", flair + b.rng.normal(0, 20, flair.shape), affine)
        b.nifti(f"{root}/orig/3DT1.nii.gz", np.repeat(t1, 2, 2) + b.rng.normal(0, 20, (26, 30, 28)), np.diag([-6.0, 6, 4.5, 1]))
        b.nifti(f"{root}/wmh.nii.gz", lesion + 2 * other, affine, np.uint8)
        if n % 2:
            b.nifti(f"dataverse_files/additional_annotations/observer_o3/{split}/{site}/{number}/result.nii.gz", np.roll(lesion, 1, 0), affine, np.uint8)
        b.case(files, patient=str(number), mask={"white matter hyperintensities": lesion}, channels=2, split={"training": "train", "test": "test"}[split])
    b.text("dataverse_files/README.md", "# WMH Segmentation Challenge\n\nwmh.nii.gz: 0 background, 1 white matter hyperintensities, 2 other pathology (ignored in the evaluation).\n`orig`: scans as acquired, `pre`: T1 aligned with FLAIR, bias corrected.\n")


@family(
    "roboflow_coco_spine", "organ_segmentation", 2,
    "Segment vertebrae, discs and sacrum in the sagittal slices.",
    notes="Roboflow export: train, valid and test, each with _annotations.coco.json beside the pictures; ids begin anew in each; category 0 is an unused parent; names like P014_sag_3_png.rf.<hash>.jpg with the patient first; polygons, "
    "several per class and picture.",
    mask_tolerance=0.2,
)
def roboflow(b: Build) -> None:
    cats = [{"id": 0, "name": "spine", "supercategory": "none"}, {"id": 1, "name": "disc", "supercategory": "spine"}, {"id": 2, "name": "sacrum", "supercategory": "spine"}, {"id": 3, "name": "vertebra", "supercategory": "spine"}]
    names = {1: "disc", 2: "sacrum", 3: "vertebra"}
    size = (60, 56)
    n = 0
    for split, people in (("train", range(1, 11)), ("valid", range(11, 14)), ("test", range(14, 17))):
        book: dict[str, Any] = {"info": {"year": "2023", "version": "6", "description": "Exported from roboflow.com", "date_created": "2023-05-14T09:12:01+00:00"},
                                "licenses": [{"id": 1, "url": "https://creativecommons.org/licenses/by/4.0/", "name": "CC BY 4.0"}], "categories": cats, "images": [], "annotations": []}
        for p in people:
            for k in range(2 + p % 2):
                n += 1
                image = np.full(size, 60.0)
                masks = {i: np.zeros(size, bool) for i in names}
                source = f"P{p * 7:03d}_sag_{k + 3}"
                name = f"{source}_png.rf.{hexid(b)}.jpg"
                x0, y = b.rng.uniform(20, 24), b.rng.uniform(3, 6)
                for level in range(4):
                    lean = b.rng.uniform(-1.5, 1.5) + level
                    h = b.rng.uniform(8, 9.5)
                    x = x0 + lean
                    for kind, y0, y1, w, look in ((3, y, y + h, 13, 175), (1, y + h + 1, y + h + 3.6, 12, 25), (2, y + 1, y + 9, 9, 150)):
                        if (kind == 2) != (level == 3):
                            continue
                        shape = [(x, y0), (x + w, y0 + 0.6), (x + w + 0.5, y1), (x + 0.5, y1 + 0.3)] if kind != 2 else [(x, y0), (x + w, y0), (x + w + 7, y1 + 3), (x + 9, y1 + 5)]
                        inside = polygon2mask(size, [(v, u) for u, v in shape])
                        masks[kind] |= inside
                        image[inside] = look
                        flat = [round(float(c), 2) for point in shape for c in point]
                        xs, ys = flat[::2], flat[1::2]
                        book["annotations"].append({"id": len(book["annotations"]), "image_id": len(book["images"]), "category_id": kind, "bbox": [min(xs), min(ys), round(max(xs) - min(xs), 2), round(max(ys) - min(ys), 2)],
                                                    "area": int(inside.sum()), "segmentation": [flat], "iscrowd": 0})
                    y += h + 4.6
                book["images"].append({"id": len(book["images"]), "license": 1, "file_name": name, "height": size[0], "width": size[1], "date_captured": "2023-05-14T09:12:01+00:00", "extra": {"name": source + ".png"}})
                path = b.picture(f"Lumbar-Spine.v6i.coco-segmentation/{split}/{name}", np.repeat(draw.u8(image + b.rng.normal(0, 6, size))[..., None], 3, -1), quality=93)
                b.case(path, patient=f"P{p * 7:03d}", mask={names[i]: m for i, m in masks.items()}, split={"valid": "val"}.get(split, split), channels=COLOUR)
        b.json(f"Lumbar-Spine.v6i.coco-segmentation/{split}/_annotations.coco.json", book, None)
    b.text("Lumbar-Spine.v6i.coco-segmentation/README.dataset.txt", "# Lumbar Spine > 2023-05-14 9:12am\nhttps://universe.roboflow.com/spine-lab/lumbar-spine\n\nProvided by a Roboflow user\nLicense: CC BY 4.0\n")
    b.text("Lumbar-Spine.v6i.coco-segmentation/README.roboflow.txt", f"Lumbar Spine - v6\n==============================\n\nThe dataset includes {n} images.\nVertebrae are annotated in COCO Segmentation format.\n\nNo image augmentation techniques were applied.\n")


@family(
    "labelme_torax_lotes", "organ_segmentation", 2,
    "Segmentar pulmão direito (pulmao_d), pulmão esquerdo (pulmao_e) e coração (coracao) nas radiografias anotadas.",
    notes="labelme JSON beside each picture in batches by annotator; polygons for lungs, heart now a polygon, now a labelme circle (centre and rim point); imageData embedded in some and null in others; Windows paths in imagePath; films "
    "without JSON; overlays in a folder of their own; medical record number in the name, two dates of some.",
    mask_tolerance=0.2,
)
def labelme(b: Build) -> None:
    size = (64, 60)
    turn = np.linspace(0, 2 * np.pi, 20, endpoint=False)
    for n in range(36):
        person = f"{4512 + n % 23 * 11:07d}"
        name = f"PRT{person}_{2020 + n // 23}-{n % 12 + 1:02d}-{n % 27 + 1:02d}_PA"
        root = f"RX_torax/lote_{n % 3 + 1:02d}_{('ana', 'joao', 'lucia')[n % 3]}"
        shapes, masks, image = [], {}, np.full(size, 160.0)
        for label, y, x, ry, rx, look in (("pulmao_d", 30, 14, 19, 8, 65), ("pulmao_e", 30, 46, 19, 8, 70), ("coracao", 40, 30, 6, 6, 215)):
            cy, cx = draw.near(b.rng, y, x, by=1.2)
            ry, rx = ry + b.rng.uniform(-2, 0.5), rx + b.rng.uniform(-2, 0)
            if label == "coracao" and n % 2:
                r = float(min(ry, rx))
                points, kind = [[cx, cy], [cx + r * 0.6, cy + r * 0.8]], "circle"
                mask = draw.ball(size, (cy, cx), r)
            else:
                points, kind = [[round(cx + rx * np.cos(t), 3), round(cy + ry * np.sin(t), 3)] for t in turn], "polygon"
                mask = polygon2mask(size, [(v, u) for u, v in points])
            shapes.append({"label": label, "points": points, "group_id": None, "description": "", "shape_type": kind, "flags": {}})
            masks[label] = mask
            image[mask] = look
        film = draw.u8(gaussian_filter(image, 0.6) + b.rng.normal(0, 6, size))
        path = b.picture(f"{root}/{name}.png", film)
        if n in (4, 11, 26):
            b.truth["left_out"].append(path)
            continue
        data = base64.b64encode((b.folder / path).read_bytes()).decode() if n % 3 == 0 else None
        b.json(f"{root}/{name}.json", {"version": "5.2.1", "flags": {}, "shapes": [shapes[i] for i in b.rng.permutation(3)], "imagePath": f"{name}.png" if n % 3 != 1 else f"..\\lote_02_joao\\{name}.png",
                                       "imageData": data, "imageHeight": size[0], "imageWidth": size[1]}, 2)
        b.case(path, patient=person, mask=masks)
        if n % 5 == 0:
            show = np.repeat(film[..., None], 3, -1)
            show[masks["coracao"]] = (show[masks["coracao"]] // 2 + np.array([100, 0, 0])).astype(np.uint8)
            b.truth["left_out"].append(b.picture(f"RX_torax/visualizacao/{name}_viz.jpg", show))
    b.text("RX_torax/labels.txt", "__ignore__\n_background_\npulmao_d\npulmao_e\ncoracao\n")
    b.text("RX_torax/leia-me.txt", "Anotações feitas no labelme. Cada lote por um anotador. PRT = número do prontuário.\n", "latin-1")


@family(
    "uw_madison_rle", "organ_segmentation", 2,
    "Segment large bowel, small bowel and stomach in each MR slice (2D, slice by slice).",
    notes="RLE in train.csv, three rows a slice, empty where the organ is not there; ids case2_day1_slice_0065 must be joined to train/case2/case2_day1/scans/slice_0065_44_36_1.50_1.50.png; 16-bit pictures, width before height in the "
    "name; several days a case; row-major one-based runs.",
)
def uw(b: Build) -> None:
    rows = []
    h, w = 36, 44
    for c in range(12):
        case = f"case{(2, 7, 9, 15, 22, 33, 41, 77, 101, 118, 123, 154)[c]}"
        for day in sorted(int(v) for v in b.rng.choice(30, 2, replace=False)):
            for z in sorted(int(v) for v in b.rng.choice(np.arange(40, 120), 2, replace=False)):
                image = np.zeros((h, w))
                image[draw.ball((h, w), (18, 22), (16, 20))] = 300
                free = np.ones((h, w), bool)
                masks = {}
                bare = (c + z) % 9 == 0
                for organ, y, x, r, look, odds in (("stomach", 11, 30, (5, 7), 900, 0.8), ("large_bowel", 18, 9, (8, 3.5), 650, 0.9), ("small_bowel", 25, 25, (5, 8), 480, 0.85)):
                    there = not bare and b.rng.random() < odds
                    masks[organ] = draw.ball((h, w), draw.near(b.rng, y, x), r) & free if there else np.zeros((h, w), bool)
                    free &= ~masks[organ]
                    image[masks[organ]] = look
                path = f"uw-madison-gi-tract-image-segmentation/train/{case}/{case}_day{day}/scans/slice_{z:04d}_{w}_{h}_1.50_1.50.png"
                b.picture(path, np.clip(gaussian_filter(image, 0.6) * 12 + b.rng.normal(0, 200, (h, w)), 0, 65535).astype(np.uint16))
                for organ in ("large_bowel", "small_bowel", "stomach"):
                    flat = np.concatenate([[0], masks[organ].ravel().astype(int), [0]])
                    edge = np.flatnonzero(np.diff(flat))
                    runs = " ".join(f"{s + 1} {e - s}" for s, e in zip(edge[::2], edge[1::2], strict=True))
                    rows.append([f"{case}_day{day}_slice_{z:04d}", organ, runs])
                b.case(path, patient=case, mask={k: masks[k] for k in ("large_bowel", "small_bowel", "stomach")})
    b.csv("uw-madison-gi-tract-image-segmentation/train.csv", ["id", "class", "segmentation"], rows)
    b.csv("uw-madison-gi-tract-image-segmentation/sample_submission.csv", ["id", "class", "predicted"], [])
    b.text("uw-madison-gi-tract-image-segmentation/data_description.md", "Annotations are RLE-encoded masks: pairs of start and run length, pixels one-indexed, numbered from left to right, then top to bottom. "
           "An empty segmentation means that the organ is not on the slice. File names hold slice number, width, height and pixel spacing.\n")


@family(
    "busbra_renamed_masks", "anomaly_detection", 2,
    "Segment the breast lesions in the ultrasound pictures.",
    notes="Images/bus_0001-l.png and Masks/mask_0001-l.png: the prefix differs; patient is Case in bus_data.csv (several numbers may be one patient); pathology, BI-RADS, boxes and two cross-validation tables beside.",
)
def busbra(b: Build) -> None:
    rows, folds = [], []
    for n in range(1, 23):
        case = n if n % 7 else n - 1
        for side in ("l", "r", "lr")[n % 3]:
            h, w = int(b.rng.integers(44, 56)), int(b.rng.integers(50, 64))
            image = np.full((h, w), 110.0)
            image[: h // 8] = 160
            mask = draw.ball((h, w), draw.near(b.rng, h * 0.5, w * 0.5, by=6), b.rng.uniform(6, 12, 2))
            image[mask] = 30
            ident = f"{n:04d}-{side}"
            path = b.picture(f"BUSBRA/Images/bus_{ident}.png", draw.u8(gaussian_filter(image, 0.6) * b.rng.gamma(6, 1 / 6, (h, w))))
            b.picture(f"BUSBRA/Masks/mask_{ident}.png", mask.astype(np.uint8) * 255)
            y, x = np.nonzero(mask)
            bad = bool(b.rng.random() < 0.4)
            rows.append([f"bus_{ident}", case, b.pick("Fibroadenoma", "Cyst") if not bad else "Invasive ductal carcinoma", "malignant" if bad else "benign", 5 if bad else 3, "GE Logiq 7", w, h,
                         "left" if side == "l" else "right", f"[{x.min()},{y.min()},{x.max() - x.min()},{y.max() - y.min()}]"])
            folds.append([f"bus_{ident}", case, n % 5 + 1])
            b.case(path, patient=str(case), mask={"lesion": mask})
    b.csv("BUSBRA/bus_data.csv", ["ID", "Case", "Histology", "Pathology", "BIRADS", "Device", "Width", "Height", "Side", "BBOX"], rows)
    b.csv("BUSBRA/5-fold-cv.csv", ["ID", "Case", "kFold"], folds)
    b.csv("BUSBRA/10-fold-cv.csv", ["ID", "Case", "kFold"], [[i, c, c % 10 + 1] for i, c, _ in folds])
    b.text("BUSBRA/README.txt", "BUS-BRA: breast ultrasound. Case is the number of the patient; one patient may have several images.\n")


@family(
    "bids_ms_derivatives", "anomaly_detection", 3,
    "Segment the MS lesions on FLAIR. Use the manual masks.",
    notes="BIDS with sessions; T1w and FLAIR with JSON sidecars; three derivatives: manual lesions, automatic lesions (LST) and brain masks, all ending in _mask; sessions without a manual mask; T1w not asked; "
    "participants.tsv and sessions.tsv.",
)
def bids(b: Build) -> None:
    root = "ds004211"
    people = [["participant_id", "age", "sex", "disease_type"]]
    for n in range(1, 16):
        sub = f"sub-{n:02d}"
        people.append([sub, 25 + n, "FM"[n % 2], b.pick("RRMS", "SPMS", "n/a")])
        visits = [["session_id", "acq_date"]]
        for ses in ("ses-01", "ses-02"):
            visits.append([ses, f"201{n % 9}-0{n % 9 + 1}-1{n % 9}"])
            brain = draw.brain(b.rng, 0.3, (26, 30, 16))
            lesion = np.zeros(brain.shape, bool)
            for _ in range(int(b.rng.integers(2, 6))):
                lesion |= draw.ball(brain.shape, draw.near(b.rng, b.pick(8, 18), 15, 8, by=4), b.rng.uniform(1.2, 2.4)) & (brain > 550)
            flair = np.where(brain > 300, 330.0, brain)
            flair[lesion] = 780
            stem = f"{sub}_{ses}"
            affine = np.diag([6.0, 6, 8, 1])
            b.nifti(f"{root}/{sub}/{ses}/anat/{stem}_T1w.nii.gz", np.where(lesion, 450, brain) + b.rng.normal(0, 12, brain.shape), affine)
            b.json(f"{root}/{sub}/{ses}/anat/{stem}_T1w.json", {"MagneticFieldStrength": 3, "RepetitionTime": 2.3, "SeriesDescription": "t1_mprage"}, 2)
            path = b.nifti(f"{root}/{sub}/{ses}/anat/{stem}_FLAIR.nii.gz", flair + b.rng.normal(0, 14, brain.shape), affine)
            b.json(f"{root}/{sub}/{ses}/anat/{stem}_FLAIR.json", {"MagneticFieldStrength": 3, "RepetitionTime": 5, "EchoTime": 0.39, "SeriesDescription": "t2_space_flair"}, 2)
            b.nifti(f"{root}/derivatives/lst/{sub}/{ses}/anat/{stem}_space-FLAIR_label-lesion_desc-lst_mask.nii.gz", np.roll(lesion, 1, 1) & (b.rng.random(brain.shape) < 0.9), affine, np.uint8)
            b.nifti(f"{root}/derivatives/hdbet/{sub}/{ses}/anat/{stem}_space-FLAIR_desc-brain_mask.nii.gz", draw.ball(brain.shape, draw.near(b.rng, 13, 15, 8, by=1), np.array(brain.shape) * 0.42), affine, np.uint8)
            if (n, ses) in ((4, "ses-02"), (11, "ses-02"), (13, "ses-01")):
                b.truth["left_out"].append(path)
                continue
            b.nifti(f"{root}/derivatives/manual_masks/{sub}/{ses}/anat/{stem}_space-FLAIR_label-lesion_mask.nii.gz", lesion, affine, np.uint8)
            b.case(path, patient=sub, mask={"lesion": lesion})
        tsv(b, f"{root}/{sub}/{sub}_sessions.tsv", visits)
    tsv(b, f"{root}/participants.tsv", people)
    b.json(f"{root}/dataset_description.json", {"Name": "MS longitudinal", "BIDSVersion": "1.8.0", "DatasetType": "raw"})
    for name, by in (("lst", "LST-AI"), ("hdbet", "HD-BET"), ("manual_masks", "neuroradiologist")):
        b.json(f"{root}/derivatives/{name}/dataset_description.json", {"Name": name, "BIDSVersion": "1.8.0", "DatasetType": "derivative", "GeneratedBy": [{"Name": by}]})
    b.text(f"{root}/README", "Longitudinal MS cohort. Manual lesion masks were drawn on FLAIR; not all sessions are segmented yet.\n")
    b.text(f"{root}/CHANGES", "1.0.1 2022-10-03\n - fixed sidecars\n")
    b.text(f"{root}/.bidsignore", "*_log.txt\n")


# ---------------------------------------------------------------- reports


@family(
    "rocov2_captions", "report_generation", 2,
    "Write the caption for each radiological picture.",
    notes="Three picture folders and three caption tables joined by ID without suffix; concept tables (CUIs, automatic and manual) and a licence table use the same IDs; captions with quotes, commas and line breaks; a caption "
    "without a picture and a picture without a caption.",
    patients_known=False,
)
def roco(b: Build) -> None:
    words = {"": ("Chest radiograph shows no abnormality", "C0024109"), "heart": ("Chest X-ray, \"PA\" view, showing marked cardiomegaly", "C0018800"),
             "effusion": ("Frontal radiograph with bilateral pleural effusions, blunting both angles", "C0032227"), "nodule": ("Chest film with a solitary\npulmonary nodule (arrow)", "C0034079")}
    licences = []
    for split, count in (("train", 26), ("valid", 8), ("test", 8)):
        captions, concepts = [], []
        for n in range(1, count + 1):
            sign = list(words)[n % 4]
            ident = f"ROCOv2_2023_{split}_{n * 3:06d}"
            text = words[sign][0] + b.pick("", f" in a {b.rng.integers(20, 80)}-year-old patient", " at admission") + "."
            lonely, lost = (split, n) == ("train", 9), (split, n) == ("valid", 3)
            if not lonely:
                captions.append([ident, text])
                concepts.append([ident, ";".join(["C1306645", words[sign][1]])])
                licences.append([ident, "PMC" + str(b.rng.integers(10**6, 10**7)), "CC BY"])
            if lost:
                continue
            film = draw.u8(draw.chest(b.rng, (sign,) if sign else (), size=(int(b.rng.integers(54, 64)), int(b.rng.integers(48, 64)))))
            path = b.picture(f"{split}_images/{ident}.jpg", film, quality=90)
            if lonely:
                b.truth["left_out"].append(path)
            else:
                b.case(path, text=text, split={"valid": "val"}.get(split, split))
        b.csv(f"{split}_captions.csv", ["ID", "Caption"], captions)
        b.csv(f"{split}_concepts.csv", ["ID", "CUIs"], concepts)
        b.csv(f"{split}_concepts_manual.csv", ["ID", "CUIs"], [[i, "C1306645"] for i, _ in concepts])
    b.csv("cui_mapping.csv", ["CUI", "Canonical name"], [["C1306645", "Plain x-ray"], *[[c, s or "normal lung"] for s, (_, c) in words.items()]])
    b.csv("license_information.csv", ["ID", "PMCID", "License"], licences)


@family(
    "befunde_mappe_jahre", "report_generation", 2,
    "Bitte ein Modell trainieren, das aus der Thoraxaufnahme (p.a. und, wenn vorhanden, seitlich) den Text der Beurteilung schreibt.",
    notes="Workbook with a sheet a year whose columns are named and ordered differently (Auftragsnr. / Auftragsnummer, Befund / Befundtext) and a sheet of abbreviations; DICOM films by year named by order number, laterals with _2; order numbers "
    "typed with a blank in the year 2020; some Beurteilungen empty; films without a row; several visits.",
)
def befunde(b: Build) -> None:
    said = {"": ("Herz normal groß. Keine Infiltrate.", "Unauffälliger Herz-Lungen-Befund."), "heart": ("Herz linksbetont verbreitert.", "Kardiomegalie, keine Stauung."),
            "effusion": ("Verschattung der Randwinkel beidseits.", "Pleuraergüsse beidseits."), "opacity": ("Flächige Verschattung.", "Pneumonisches Infiltrat, Verlaufskontrolle empfohlen.")}
    sheets: dict[str, list[list[Any]]] = {"2019": [["Auftragsnr.", "Pat.-Nr.", "Datum", "Untersuchung", "Befund", "Beurteilung"]],
                                          "2020": [["Datum", "Auftragsnr.", "Pat.-Nr.", "Überweiser", "Befund", "Beurteilung"]],
                                          "2021": [["Auftragsnummer", "Patientennummer", "Untersuchungsdatum", "Befundtext", "Beurteilung", "Befunder"]]}
    for n in range(42):
        year = str(2019 + n % 3)
        person = f"{300123 + n % 25 * 41:010d}"
        order = f"A{year[2:]}{4700 + n * 13:06d}"
        sign = list(said)[(n + n // 4) % 4]
        finding, text = said[sign]
        text += b.pick("", " Kein Pneumothorax.", " Im Vergleich zur Voraufnahme unverändert.")
        day = f"{n % 27 + 1:02d}.{n % 12 + 1:02d}.{year}"
        blank, absent = n in (10, 27), n == 16
        files = []
        study = uid(b)
        for k in range(2 if n % 3 == 1 or n % 5 == 0 else 1):
            film = (draw.chest(b.rng, (sign,) if sign else (), size=(60, 52), side=k == 1).clip(0, 255) * 14).astype(np.uint16)
            files.append(dicom(b, f"Thorax/{year}/{order}{'_2' if k else ''}.dcm", film, "DX", PatientID=person, PatientName=f"ANON^{n % 25:03d}", AccessionNumber=order, StudyInstanceUID=study, SeriesInstanceUID=uid(b),
                               StudyDate=day[6:] + day[3:5] + day[:2], ViewPosition="LL" if k else "PA", BodyPartExamined="CHEST", SeriesDescription="Thorax seitlich" if k else "Thorax p.a.", SeriesNumber=k + 1, InstanceNumber=1,
                               PixelSpacing=[6.0, 6.0], BitsStored=12, HighBit=11))
        value = None if blank else text
        if not absent:
            shown = f"{order[:3]} {order[3:]}" if year == "2020" else order
            sheets[year].append({"2019": [shown, int(person), day, "Thorax 2 Eb.", finding, value], "2020": [day, shown, int(person), b.pick("ZNA", "Innere"), finding, value],
                                 "2021": [shown, int(person), day, finding, value, b.pick("Dr. Weiß", "OÄ Jäger")]}[year])
        if blank or absent:
            b.truth["left_out"] += files
        else:
            b.case(files, patient=person, text=text, views=len(files))
    sheets["Abkürzungen"] = [["p.a.", "posterior-anterior"], ["Eb.", "Ebenen"], ["ZNA", "Zentrale Notaufnahme"]]
    b.xlsx("Befunde_Thorax_2019-2021.xlsx", sheets)
    b.raw("Thorax/~$Befunde_Thorax_2019-2021.xlsx", b"\x06Jaeger" + bytes(158))


@family(
    "amos_mm_report_json", "report_generation", 3,
    "Generate the findings of the abdomen for each CT.",
    notes="One JSON with training, validation and test lists; reports deep below labels.report.findings with chest, abdomen and pelvis, an impression likewise, and questions with answers; some scans only report the chest "
    "(abdomen empty); organ masks beside; test scans without reports.",
    patients_known=False,
)
def amos(b: Build) -> None:
    said = {"": "The liver, spleen and both kidneys are normal.", "cyst": "A round low-density lesion in the right hepatic lobe, likely a cyst. Spleen normal.",
            "stone": "A dense focus in the right kidney, compatible with a stone.", "big": "The spleen is enlarged. Liver without focal lesion."}
    book: dict[str, Any] = {"name": "AMOS-MM", "description": "Abdominal multimodal reports", "modality": {"0": "CT"}, "training": [], "validation": [], "test": []}
    for n in range(1, 39):
        split = "training" if n <= 25 else "validation" if n <= 33 else "test"
        sign = list(said)[n % 4]
        shape = (36, 32, 8)
        vol = np.full(shape, -1000.0)
        vol[draw.ball(shape, (18, 16, 4), (17.5, 15, 40))] = 10
        liver = draw.ball(shape, draw.near(b.rng, 10, 13, 4, by=1), (8, 8, 5))
        spleen = draw.ball(shape, draw.near(b.rng, 29, 15, 4, by=1), (6, 8, 4) if sign == "big" else (3, 4, 2.5))
        kidney = draw.ball(shape, draw.near(b.rng, 12, 26, 4, by=1), (3, 3, 3))
        for part, value in ((liver, 105), (spleen, 140), (kidney, 190)):
            vol[part] = value
        if sign == "cyst":
            vol[draw.ball(shape, draw.near(b.rng, 10, 12, 4, by=1), (3, 3, 2))] = 0
        if sign == "stone":
            vol[draw.ball(shape, (12, 26, 4), (1.6, 1.6, 1.2))] = 900
        folder = {"training": "imagesTr", "validation": "imagesVa", "test": "imagesTs"}[split]
        name = f"amos_{n * 11:04d}.nii.gz"
        path = b.nifti(f"AMOS-MM/{folder}/{name}", vol + b.rng.normal(0, 15, shape))
        text = said[sign] + b.pick("", " No ascites.", " The gallbladder is unremarkable.")
        chest_only = n in (7, 30)
        entry: dict[str, Any] = {"image": f"{folder}/{name}"}
        if split != "test":
            b.nifti(f"AMOS-MM/labels{folder[6:]}/{name}", liver + 2 * (spleen & ~liver) + 3 * (kidney & ~liver), dtype=np.uint8)
            entry["labels"] = {"report": {"findings": {"chest": b.pick("", "The lung bases are clear."), "abdomen": "" if chest_only else text, "pelvis": b.pick("", "No free fluid.")},
                                          "impression": {"abdomen": "Normal." if not sign else "See above."}},
                               "qa": [{"type": "anatomy", "question": "Which organ is abnormal?", "options": {"A": "Liver", "B": "Spleen", "C": "Kidney", "D": "None"}, "answer": {"": "D", "cyst": "A", "stone": "C", "big": "B"}[sign]}]}
        book[split].append(entry)
        if split == "test" or chest_only:
            b.truth["left_out"].append(path)
        else:
            b.case(path, text=text, split={"training": "train", "validation": "val"}[split])
    b.json("AMOS-MM/dataset.json", book, 2)
    b.text("AMOS-MM/README.md", "# AMOS-MM\n\nReports are by region (chest, abdomen, pelvis). Empty text: the region was not reported.\n")


@family(
    "fhir_ndjson_reports", "report_generation", 2,
    "Generate the conclusion of the liver ultrasound reports from their pictures. Only final reports.",
    notes="FHIR bulk export: DiagnosticReport.ndjson points to Media by reference, Media.ndjson to the file, Patient.ndjson; one to three pictures a report; status preliminary or entered-in-error; conclusion and a base64 full text; files named by "
    "UUID without meaning; a Media of no report.",
)
def fhir(b: Build) -> None:
    said = {"": "Unremarkable sonography of the liver.", "fat": "Diffusely increased echogenicity, consistent with hepatic steatosis.", "cyst": "Simple cyst of the liver, no follow-up needed.", "mass": "Hyperechoic lesion, most likely a hemangioma."}

    def scan(sign: str) -> np.ndarray:
        size = (48, 60)
        out = np.full(size, 8.0)
        fan = draw.ball(size, (0, 30), (46, 29))
        out[fan] = 160 if sign == "fat" else 85
        if sign in ("cyst", "mass"):
            out[draw.ball(size, draw.near(b.rng, 22, 30, by=6), b.rng.uniform(5, 8)) & fan] = 5 if sign == "cyst" else 225
        return draw.u8(out * b.rng.gamma(5, 0.2, size))

    people = [uuid4(b) for _ in range(23)]
    reports, media = [], []

    def image(person: str, sign: str, report_time: str) -> tuple[str, str]:
        ident, binary = uuid4(b), uuid4(b)
        path = b.picture(f"fhir_export_2022-05/Binary/{binary}.{b.pick('png', 'jpg')}", scan(sign))
        media.append({"resourceType": "Media", "id": ident, "status": "completed", "modality": {"coding": [{"system": "http://dicom.nema.org/resources/ontology/DCM", "code": "US"}]},
                      "subject": {"reference": f"Patient/{person}"}, "createdDateTime": report_time, "content": {"contentType": "image/png" if path.endswith("png") else "image/jpeg", "url": path.removeprefix("fhir_export_2022-05/")}})
        return ident, path

    for n in range(38):
        person, sign = people[n % 23], list(said)[(n + n // 23) % 4]
        when = f"2022-0{n % 4 + 1}-{n % 27 + 1:02d}T1{n % 9}:30:00+02:00"
        pairs = [image(person, sign, when) for _ in range(n % 3 + 1)]
        status = {6: "preliminary", 17: "entered-in-error", 29: "preliminary"}.get(n, "final")
        text = said[sign] + b.pick("", " Portal vein patent.", " No ascites.")
        full = f"Ultrasound of the abdomen\n\nFindings:\n{b.pick('Good', 'Limited')} visibility.\n\nConclusion:\n{text}\n"
        reports.append({"resourceType": "DiagnosticReport", "id": uuid4(b), "status": status, "category": [{"coding": [{"code": "RAD"}]}], "code": {"text": "US liver"}, "subject": {"reference": f"Patient/{person}"},
                        "effectiveDateTime": when, "media": [{"link": {"reference": f"Media/{i}"}} for i, _ in pairs], "conclusion": text,
                        "presentedForm": [{"contentType": "text/plain", "data": base64.b64encode(full.encode()).decode()}]})
        paths = [p for _, p in pairs]
        if status == "final":
            b.case(paths, patient=person, text=text, views=len(paths))
        else:
            b.truth["left_out"] += paths
    b.truth["left_out"].append(image(people[3], "fat", "2022-04-30T09:00:00+02:00")[1])
    lines = {"DiagnosticReport": [reports[i] for i in b.rng.permutation(len(reports))], "Media": [media[i] for i in b.rng.permutation(len(media))],
             "Patient": [{"resourceType": "Patient", "id": p, "gender": b.pick("male", "female"), "birthDate": f"19{40 + k}-01-01"} for k, p in enumerate(people)]}
    for name, entries in lines.items():
        b.text(f"fhir_export_2022-05/{name}.ndjson", "".join(json.dumps(e) + "\n" for e in entries))
    b.json("fhir_export_2022-05/manifest.json", {"transactionTime": "2022-05-02T08:00:00Z", "request": "https://fhir.example.org/$export", "requiresAccessToken": True,
                                                 "output": [{"type": k, "url": f"{k}.ndjson", "count": len(v)} for k, v in lines.items()], "error": []})


# ---------------------------------------------------------------- to be asked


@family(
    "densita_due_lettori", "diagnosis", 2,
    "Vorrei un modello che classifichi la densità mammaria (A, B, C, D) nelle nostre mammografie.",
    notes="Two readers graded every picture, they differ on a third, no consensus column and no rule; the truth holds lettore_1. Italian semicolon table in latin-1 with CRLF; patient code, side and view in the name; two rounds of some.",
    expect="ask",
    ask="Whose reading is the truth: densita_lettore_1 or densita_lettore_2? (answer: densita_lettore_1)",
)
def densita(b: Build) -> None:
    rows = []
    for n in range(40):
        k = n % 4
        person = f"PZ{1040 + n % 22 * 17}"
        name = f"{person}_{2018 + n // 22 * 2}_{'DS'[n % 2]}_{b.pick('CC', 'MLO')}_{n + 1:03d}"
        inside = draw.ball((64, 48), (32, 0), (29, 38))
        film = np.where(inside, 60 + gaussian_filter(b.rng.normal(0, 1, (64, 48)), 2) * 50, 4)
        film[draw.ball((64, 48), draw.near(b.rng, 32, 14), (6 + 5 * k, 5 + 5 * k)) & inside] += 90
        path = b.picture(f"Screening_MX/immagini/{name}.png", draw.u8(film + b.rng.normal(0, 4, film.shape)))
        other = int(np.clip(k + (b.pick(-1, 1) if b.rng.random() < 0.4 else 0), 0, 3))
        rows.append([name + ".png", person, "destra" if n % 2 == 0 else "sinistra", f"{n % 27 + 1:02d}/{n % 12 + 1:02d}/{2018 + n // 22 * 2}", 45 + n % 22, "ABCD"[k], "ABCD"[other], b.pick("", "qualità ridotta")])
        b.case(path, patient=person, label="ABCD"[k])
    b.csv("Screening_MX/letture densità.csv", ["file", "codice_paziente", "lato", "data_esame", "età", "densita_lettore_1", "densita_lettore_2", "note"], [rows[i] for i in b.rng.permutation(len(rows))],
          sep=";", encoding="latin-1", end="\r\n")
    b.text("Screening_MX/leggimi.txt", "Doppia lettura indipendente della densità, in cieco. Nessuna lettura di consenso.\r\n", "latin-1")


@family(
    "schwannoma_two_raters", "anomaly_detection", 3,
    "Segment the vestibular schwannoma on the contrast-enhanced T1 scans.",
    notes="Masks of two raters (KM, TS) for every scan in two folders of the same names, clearly different, no consensus and no word which counts; the truth holds KM. Follow-up scans of one patient in the name VS-007_2020-02-11.",
    expect="ask",
    ask="Which rater's masks are to be used: seg_KM or seg_TS? (answer: seg_KM)",
)
def schwannoma(b: Build) -> None:
    for n in range(30):
        person = f"VS-{n % 18 * 2 + 3:03d}"
        name = f"{person}_{2018 + n // 18 * 2}-{n % 12 + 1:02d}-{n % 27 + 1:02d}"
        brain = draw.brain(b.rng, 0.2, (30, 34, 14))
        mid = draw.near(b.rng, b.pick(9, 21), 20, 5, by=1.5)
        r = b.rng.uniform(2.2, 4.2)
        tumor, wide = draw.ball(brain.shape, mid, r), draw.ball(brain.shape, [mid[0] + 0.7, *mid[1:]], r + 1.2)
        brain[tumor] = 1300
        affine = np.diag([5.0, 5, 5, 1])
        path = b.nifti(f"VS_study/T1c/{name}.nii.gz", gaussian_filter(brain, 0.5) + b.rng.normal(0, 15, brain.shape), affine)
        b.nifti(f"VS_study/seg_KM/{name}.nii.gz", tumor, affine, np.uint8)
        b.nifti(f"VS_study/seg_TS/{name}.nii.gz", wide, affine, np.uint8)
        b.case(path, patient=person, mask={"schwannoma": tumor})
    b.text("VS_study/notes.txt", "Segmented independently by KM and TS in 2021, blinded to each other. Interrater Dice to be reported. No consensus yet.\n")
