"""24 datasets that nobody tuned for: FAMILIES maps names to Family; make(folder, truth, seed) writes one.

Truth: `files` names the entry files of a case (for Analyze pairs the .hdr); volumes of slices list them in anatomical
order. Colour pictures count as COLOUR channels. `left_out` names pictures that look like cases and are none (no label,
copies, derived files, other reconstructions). Masks count voxels over 0 on the mask's own grid, which is the image's.
"""

import io
import json
import uuid
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nibabel
import numpy as np
import SimpleITK as sitk
import tifffile
from PIL import Image
from pydicom.dataset import Dataset, FileDataset, FileMetaDataset
from pydicom.uid import ExplicitVRLittleEndian
from skimage.draw import polygon2mask
from tests.families import Family
from tests.families.base import Build

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


def uid(b: Build) -> str:
    return "1.2.392.200036.9116.2.6.1." + ".".join(str(int(v)) for v in b.rng.integers(1000, 99999, 5))


def hexid(b: Build) -> str:
    return b.rng.bytes(16).hex()


def uuid4(b: Build) -> str:
    return str(uuid.UUID(bytes=b.rng.bytes(16), version=4))


def dicom(b: Build, path: str, array: np.ndarray, modality: str, **tags: Any) -> str:
    """One frame (rows, columns), signed or not as the array is."""
    meta = FileMetaDataset()
    meta.MediaStorageSOPClassUID = {"CT": "1.2.840.10008.5.1.4.1.1.2", "MG": "1.2.840.10008.5.1.4.1.1.1.2"}[modality]
    meta.MediaStorageSOPInstanceUID = uid(b)
    meta.TransferSyntaxUID = ExplicitVRLittleEndian
    ds = FileDataset(None, {}, file_meta=meta, preamble=bytes(128))
    ds.SOPClassUID, ds.SOPInstanceUID = meta.MediaStorageSOPClassUID, meta.MediaStorageSOPInstanceUID
    ds.Modality = modality
    ds.Rows, ds.Columns = array.shape
    ds.SamplesPerPixel, ds.PhotometricInterpretation = 1, "MONOCHROME2"
    ds.BitsAllocated, ds.BitsStored, ds.HighBit = 16, 16, 15
    ds.PixelRepresentation = int(array.dtype.kind == "i")
    ds.PixelData = np.ascontiguousarray(array).tobytes()
    for key, value in tags.items():
        setattr(ds, key, value)
    ds.save_as(b.at(path), enforce_file_format=True)
    return path


# ---------------------------------------------------------------- diagnosis


@family(
    "odir_two_eyes", "diagnosis", 2,
    "Predict all ocular diseases of a patient (the eight one-hot columns N D G C A H M O) from the left and right fundus photo.",
    notes="Multi-label a patient, two eyes a case; workbook with one-hot columns and free keywords; resized copies of all "
    "training pictures in preprocessed_images; testing pictures without any label.",
)
def odir(b: Build) -> None:
    head = ["ID", "Patient Age", "Patient Sex", "Left-Fundus", "Right-Fundus", "Left-Diagnostic Keywords",
            "Right-Diagnostic Keywords", *"NDGCAHMO"]
    words = {"N": "normal fundus", "D": "moderate non proliferative retinopathy", "G": "glaucoma", "C": "cataract", "M": "pathological myopia"}
    rows: list[list[Any]] = []
    kinds = ["N", "D", "G", "DG", "C", "M", "N", "D"] * 4
    for ident, kind in zip(sorted(b.rng.choice(4700, 32, replace=False)), b.rng.permutation(kinds), strict=True):
        names, keys = [], []
        for side in ("left", "right"):
            image = draw.eye(b.rng, kind)
            name = f"{ident}_{side}.jpg"
            b.picture(f"ODIR-5K/ODIR-5K/Training Images/{name}", image, quality=92)
            small = Image.fromarray(image).resize((32, 32))
            b.truth["left_out"].append(b.picture(f"preprocessed_images/{name}", np.asarray(small), quality=80))
            names.append(name)
            keys.append("，".join(words[k] for k in kind))
        rows.append([int(ident), int(b.rng.integers(25, 88)), b.pick("Male", "Female"), *names, *keys,
                     *[int(c in kind) for c in "NDGCAHMO"]])
        b.case([f"ODIR-5K/ODIR-5K/Training Images/{n}" for n in names], patient=str(ident), label=list(kind), views=2, channels=COLOUR)
    b.xlsx("ODIR-5K/ODIR-5K/data.xlsx", {"Sheet1": [head, *rows]})
    for ident in range(4800, 4806):
        for side in ("left", "right"):
            path = f"ODIR-5K/ODIR-5K/Testing Images/{ident}_{side}.jpg"
            b.truth["left_out"].append(b.picture(path, draw.eye(b.rng, b.pick("N", "D", "G"))))


@family(
    "padchest_list_labels", "diagnosis", 2,
    "Multi-label classification of the chest films by the Labels column. Rows marked 'exclude' or without labels are not wanted.",
    notes="Label lists written as Python lists with stray blanks and repeats; pictures 16-bit PNG in numbered folders given by "
    "ImageDir; rows whose picture was never downloaded; one picture no row speaks of.",
)
def padchest(b: Build) -> None:
    head = ["", "ImageID", "ImageDir", "StudyDate_DICOM", "StudyID", "PatientID", "PatientBirth", "PatientSex_DICOM",
            "ViewPosition_DICOM", "Projection", "MethodLabel", "Labels", "Localizations"]
    signs = {"normal": (), "cardiomegaly": ("heart",), "pleural effusion": ("effusion",), "nodule": ("nodule",)}
    kinds = [["normal"], ["cardiomegaly"], ["pleural effusion"], ["cardiomegaly", "pleural effusion"], ["nodule"], ["normal"]]
    people = [hex(int(b.rng.integers(1 << 60)))[2:] + str(n) for n in range(20)]
    people = [f"{int(p[:15], 16):d}" for p in people]
    rows: list[list[Any]] = []
    for n in range(46):
        labels = kinds[n % 6]
        person = people[int(b.rng.integers(20))] if n >= 20 else people[n]
        study = f"{b.rng.integers(10**17):017d}{b.rng.integers(10**17):017d}"
        name = f"{study}_{b.rng.integers(10**5):05d}.png"
        state = "gone" if n in (9, 30, 31) else "exclude" if n in (4, 21) else "blank" if n == 40 else "ok"
        folder = n % 4
        text = str([(" " if k and b.rng.random() < 0.7 else "") + v for k, v in enumerate(labels)])
        if b.rng.random() < 0.3 and len(labels) > 1:
            text = text[:-1] + f", '{labels[0]}']"
        text = {"exclude": "['exclude']", "blank": "nan"}.get(state, text)
        rows.append([n * 7, name, folder, f"20{b.rng.integers(10, 17)}{b.rng.integers(1, 13):02d}{b.rng.integers(1, 28):02d}", study, person,
                     f"{b.rng.integers(1930, 1990)}.0", b.pick("M", "F"), "POSTEROANTERIOR", "PA", b.pick("Physician", "RNN_model"), text,
                     "[['loc basal'], ['loc right']]" if len(labels) > 1 else "[]"])
        if state == "gone":
            continue
        film = draw.chest(b.rng, tuple(s for v in labels for s in signs[v]))
        path = f"{folder}/{name}"
        b.picture(path, (np.clip(film, 0, 255) * 250).astype(np.uint16))
        if state == "ok":
            b.case(path, patient=person, label=labels)
        else:
            b.truth["left_out"].append(path)
    lonely = b.picture("2/1000000000000000_stray.png", (np.clip(draw.chest(b.rng), 0, 255) * 250).astype(np.uint16))
    b.truth["left_out"].append(lonely)
    order = b.rng.permutation(len(rows))
    b.csv("PADCHEST_chest_x_ray_images_labels_160K_01.02.19.csv", head, [rows[i] for i in order])


@family(
    "isic_descriptions", "diagnosis", 2,
    "Is the skin lesion benign or malignant? The truth is in the description of each image.",
    notes="One JSON an image in Descriptions, without a suffix in its name; label deep in meta.clinical; pictures .jpg, .JPG, .jpeg and "
    ".png in one folder; expert masks nobody asked for; a few indeterminate or unlabelled; a finer diagnosis beside the label.",
)
def isic(b: Build) -> None:
    people = [f"IP_{b.rng.integers(10**6, 10**7)}" for _ in range(17)]
    for n in range(44):
        ident = f"ISIC_{12000 + 3 * n:07d}"
        kind = n % 2
        image, mask = draw.spot(b.rng, kind)
        suffix = ("jpg", "jpg", "JPG", "jpeg", "png")[n % 5]
        path = b.picture(f"Data/Images/{ident}.{suffix}", image)
        b.picture(f"Data/Segmentation/{ident}_expert.png", mask.astype(np.uint8) * 255)
        odd = {10: "indeterminate", 25: "indeterminate/malignant", 33: None}
        clinical: dict[str, Any] = {
            "age_approx": int(b.rng.integers(4, 17) * 5), "anatom_site_general": b.pick("posterior torso", "lower extremity", None),
            "patient_id": people[n % 17], "diagnosis": ("nevus", "melanoma")[kind] if n % 4 < 2 else ("solar lentigo", "basal cell carcinoma")[kind],
            "diagnosis_confirm_type": b.pick("histopathology", "single image expert consensus"), "melanocytic": bool(n % 4 < 2),
        }
        value = odd.get(n, ("benign", "malignant")[kind])
        if n not in odd or value:
            clinical["benign_malignant"] = value
        book = {"_id": b.rng.bytes(12).hex(), "_modelType": "image", "created": "2014-10-09T20:36:00.421000+00:00",
                "creator": {"_id": "5450e996bae47865794e4d0d", "name": "User 6VSN"}, "dataset": {"_accessLevel": 0, "name": "SONIC"},
                "meta": {"acquisition": {"image_type": "dermoscopic", "pixelsX": 60, "pixelsY": 60}, "clinical": clinical, "unstructured": {}},
                "name": ident, "notes": {"reviewed": {"accepted": True}, "tags": ["ISBI 2016: Training"]}}
        b.json(f"Data/Descriptions/{ident}", book, None)
        if n in odd:
            b.truth["left_out"].append(path)
        else:
            b.case(path, patient=people[n % 17], label=value, channels=COLOUR)
    b.text("Data/last_download.txt", "ISIC-Archive-Downloader --p 16 -s -so\n")


@family(
    "embed_joined_tables", "diagnosis", 2,
    "Predict the breast assessment (asses: N negative, B benign, S suspicious) for each 2D mammogram. Synthetic C-views are not wanted.",
    notes="Picture table with paths of another disk joined to the clinical table by acc_anon (one of them written as 1.0) and side; "
    "side B stands for both breasts; C-view pictures out; cohort folders; the legend gives the letters.",
)
def embed(b: Build) -> None:
    meta: list[list[Any]] = []
    clinic: list[list[Any]] = []
    for p in range(12):
        person = str(10000000 + int(b.rng.integers(10**6)) * 9 + p)
        acc = str(int(b.rng.integers(10**15, 9 * 10**15)))
        kinds = ({"L": p % 3, "R": (p + 1) % 3}) if p % 4 else {"L": (p // 4) % 3, "R": (p // 4) % 3}
        if p % 4:
            clinic += [[person, f"{acc}.0", "MG Screening Bilateral", "2015-0%d-11" % (p % 9 + 1), s, "NBS"[k], int(b.rng.integers(1, 5)), ""]
                       for s, k in kinds.items()]
        else:
            clinic.append([person, f"{acc}.0", "MG Screening Bilateral", "2016-0%d-02" % (p % 9 + 1), "B", "NBS"[kinds["L"]], 2, ""])
        study, series = uid(b), uid(b)
        for side, kind in kinds.items():
            for view in ("CC", "MLO", *(["CC"] if p % 3 == 0 else [])):
                cview = view == "CC" and any(m[3] == side and m[4] == "CC" and m[1] == acc for m in meta)
                name = uuid4(b).replace("-", "")
                path = f"images/cohort_{p % 2 + 1}/{person}/{study}/{name}.png"
                image = draw.breast(b.rng, kind, side == "L")
                b.picture(path, draw.u8(image))
                meta.append([person, acc, "cview" if cview else "2D", side, view, f"/mnt/NAS2/mammo/anon_dicom/cohort_{p % 2 + 1}/{person}/{study}/{series}/{name}.dcm",
                             f"/mnt/PACS_NAS1/mammo/png_images/cohort_{p % 2 + 1}/{person}/{study}/{name}.png", "HOLOGIC, Inc.", 1 if p % 2 else 2])
                if cview:
                    b.truth["left_out"].append(path)
                else:
                    b.case(path, patient=person, label="NBS"[kind])
    b.csv("tables/EMBED_OpenData_metadata_reduced.csv",
          ["empi_anon", "acc_anon", "FinalImageType", "ImageLateralityFinal", "ViewPosition", "anon_dicom_path", "png_path", "Manufacturer", "cohort_num"],
          [meta[i] for i in b.rng.permutation(len(meta))])
    b.csv("tables/EMBED_OpenData_clinical_reduced.csv", ["empi_anon", "acc_anon", "desc", "study_date_anon", "side", "asses", "tissueden", "path_severity"], clinic)
    b.csv("tables/AWS_Open_Data_Clinical_Legend.csv", ["Header in export", "Code", "Description"],
          [["asses", "N", "Negative - BIRADS 1"], ["asses", "B", "Benign - BIRADS 2"], ["asses", "S", "Suspicious - BIRADS 4"],
           ["side", "B", "Bilateral"], ["tissueden", "1", "almost entirely fatty"]])


@family(
    "vindr_dicom_suffix", "diagnosis", 2,
    "Classify every mammogram by the BI-RADS of its breast (breast_birads in the breast-level annotations).",
    notes="DICOM files called .dicom with 32-hex names in a folder a study; half MONOCHROME1; table with the split as training/test; "
    "box findings with lists of categories beside it; one file truncated.",
)
def vindr(b: Build) -> None:
    rows, boxes = [], []
    for n in range(12):
        study, series = hexid(b), hexid(b)
        split = "test" if n >= 9 else "training"
        for side in "LR":
            kind = (n + (side == "R") * (n % 2)) % 3
            for view in ("CC", "MLO"):
                image = hexid(b)
                path = f"vindr-mammo/1.0.0/images/{study}/{image}.dicom"
                pixels = (draw.breast(b.rng, kind, side == "L") * 12).astype(np.uint16)
                turned = n % 2 == 1
                if turned:
                    pixels = 3060 - pixels
                rows.append([study, series, side, image, view, 72, 48, f"BI-RADS {(1, 2, 4)[kind]}", f"DENSITY {'BCD'[n % 3]}", split])
                if kind:
                    boxes.append([study, series, side, image, view, 72, 48, f"BI-RADS {(1, 2, 4)[kind]}", f"DENSITY {'BCD'[n % 3]}",
                                  str([("Suspicious Calcification", "Mass")[kind - 1]]), f"BI-RADS {(1, 2, 4)[kind]}", 10.5, 20.1, 33.0, 48.9, split])
                if n == 4 and side == "L" and view == "CC":
                    b.broken(path, bytes(128) + b"DICM\x02\x00\x00\x00UL\x04\x00\xc6\x00")
                    continue
                dicom(b, path, pixels, "MG", PhotometricInterpretation="MONOCHROME1" if turned else "MONOCHROME2", WindowCenter=1530,
                      WindowWidth=3060, ImageLaterality=side, ViewPosition=view, StudyInstanceUID=uid(b), PatientAge="058Y")
                b.case(path, patient=study, label=f"BI-RADS {(1, 2, 4)[kind]}", split={"test": "test", "training": "train"}[split])
    head = ["study_id", "series_id", "laterality", "image_id", "view_position", "height", "width", "breast_birads", "breast_density"]
    b.csv("vindr-mammo/1.0.0/breast-level_annotations.csv", [*head, "split"], rows)
    b.csv("vindr-mammo/1.0.0/finding_annotations.csv", [*head, "finding_categories", "finding_birads", "xmin", "ymin", "xmax", "ymax", "split"], boxes)
    b.text("vindr-mammo/1.0.0/SHA256SUMS.txt", "".join(f"{hexid(b)}{hexid(b)} images/{r[0]}/{r[3]}.dicom\n" for r in rows))
    b.text("vindr-mammo/1.0.0/LICENSE.txt", "PhysioNet Restricted Health Data License 1.5.0\n")


@family(
    "breakhis_deep", "diagnosis", 2,
    "Benign or malignant breast tumour, from the histology pictures at all magnifications.",
    notes="Nine folders deep: class, SOB, subtype, slide, magnification; the patient is the slide number in the name (14-22549AB); "
    "subtypes and magnification also look like classes; Folds.csv for cross-validation repeats every path five times.",
)
def breakhis(b: Build) -> None:
    subtypes = {"benign": [("adenosis", "B_A"), ("fibroadenoma", "B_F")], "malignant": [("ductal_carcinoma", "M_DC"), ("mucinous_carcinoma", "M_MC")]}
    folds = []
    for n in range(12):
        kind = ("benign", "malignant")[n % 2]
        sub, code = subtypes[kind][n // 2 % 2]
        slide = f"14-{b.rng.integers(2000, 30000)}{b.pick('', 'AB', 'CD', 'G')}"
        for mag in ("40", "200"):
            for k in (1, 2):
                root = f"BreaKHis_v1/histology_slides/breast/{kind}/SOB/{sub}/SOB_{code}_{slide}/{mag}X"
                path = b.picture(f"{root}/SOB_{code}-{slide}-{mag}-{k + n % 3:03d}.png", draw.tissue(b.rng, kind == "malignant"))
                b.case(path, patient=slide, label=kind, channels=COLOUR)
                folds += [[f, mag, "test" if n % 5 == f else "train", path] for f in range(5)]
    b.csv("Folds.csv", ["fold", "mag", "grp", "filename"], [["%d" % (f + 1), *r] for f, *r in sorted(folds)])
    b.text("BreaKHis_v1/README.txt", "BreaKHis v1.0 - SOB = surgical open biopsy. <BIOPSY>_<CLASS>_<TYPE>-<YEAR>-<SLIDE_ID>-<MAG>-<SEQ>\n")


@family(
    "pacs_export_nhc", "diagnosis", 3,
    "Clasificar las TC de tórax (serie TORAX) en neumonía COVID o normal según la hoja de Radiología.",
    notes="PACS export PA/ST/SE/IM without suffixes and with a scout and a dose page series; a Spanish workbook whose table begins below a "
    "title; request number written TC/2020/00123 there and TC202000123 in the files; NHC without its zeros; spellings vary; two studies of some; "
    "slice numbers run down in half of them; one study not in the sheet and one sheet row without a study.",
)
def nhc(b: Build) -> None:
    rows: list[list[Any]] = []
    sick = ["Neumonía COVID", "neumonía covid", "NEUMONÍA COVID ", "Neumonia COVID"]
    well = ["Normal", "normal", "NORMAL", "Normal "]
    study = 0
    for p in range(18):
        person = f"00{b.rng.integers(200000, 999999)}"
        for s in range(2 if p % 2 else 1):
            study += 1
            kind = bool((p // 2 + s) % 2)
            acc = f"TC2020{b.rng.integers(10, 900) + 1000 * study:05d}"
            known = p != 6
            day, month = int(b.rng.integers(1, 28)), int(b.rng.integers(3, 6))
            if known:
                rows.append([f"TC/2020/{acc[6:]}", int(person), b.pick("H", "M"), int(b.rng.integers(30, 90)),
                             f"{day:02d}/0{month}/2020", b.pick("Urgencias", "Planta", "UCI"), b.pick(*(sick if kind else well)), ""])
            base = f"DICOM/PA{p:06d}/ST{s:06d}"
            tags = dict(PatientID=person, PatientName=f"ANON^{p:03d}", AccessionNumber=acc, StudyInstanceUID=uid(b), PatientBirthDate="", StudyDate=f"20200{month}{day:02d}")
            frame = uid(b)
            scout = (np.tile(draw.chest(b.rng, size=(40, 40)), 1) * 4).astype(np.int16)
            dicom(b, f"{base}/SE000000/IM000000", scout, "CT", **tags, SeriesDescription="Scout", SeriesNumber=1, SeriesInstanceUID=uid(b), InstanceNumber=1,
                  ImageType=["ORIGINAL", "PRIMARY", "LOCALIZER"], RescaleSlope=1, RescaleIntercept=-1024, ImageOrientationPatient=[1, 0, 0, 0, 0, -1],
                  ImagePositionPatient=[-30, 0, 30], PixelSpacing=[1.5, 1.5])
            volume = draw.lung_ct(b.rng, kind)
            series = uid(b)
            paths = []
            for z in range(volume.shape[2]):
                number = volume.shape[2] - z if p % 2 else z + 1
                paths.append(dicom(
                    b, f"{base}/SE000001/IM{number - 1:06d}", (volume[:, :, z].T + 1024).clip(0, 4000).astype(np.int16), "CT", **tags,
                    SeriesDescription="TORAX 5.0 B60f", SeriesNumber=2, SeriesInstanceUID=series, InstanceNumber=number, FrameOfReferenceUID=frame,
                    ImageType=["ORIGINAL", "PRIMARY", "AXIAL"], RescaleSlope=1, RescaleIntercept=-1024, ImageOrientationPatient=[1, 0, 0, 0, 1, 0],
                    ImagePositionPatient=[-30, -27, -200 + 5 * z], PixelSpacing=[1.5, 1.5], SliceThickness=5, BodyPartExamined="CHEST"))
            page = np.zeros((48, 64), np.int16)
            page[8:40:6, 6:50] = 900
            dicom(b, f"{base}/SE000002/IM000000", page, "CT", **tags, SeriesDescription="Patient Protocol", SeriesNumber=501, SeriesInstanceUID=uid(b),
                  InstanceNumber=1, ImageType=["DERIVED", "SECONDARY", "OTHER", "CSA REPORT"])
            if known:
                b.case(paths, patient=person, label="Neumonía COVID" if kind else "Normal")
            else:
                b.truth["left_out"] += paths
    rows.append(["TC/2020/99871", 770123, "H", 55, "02/05/2020", "UCI", "Neumonía COVID", "no localizada en PACS"])
    table = [["Servicio de Radiología - Estudio retrospectivo COVID-19"], ["Fecha de extracción: 03/07/2020"], [],
             ["Nº petición", "NHC", "Sexo", "Edad", "Fecha TC", "Procedencia", "Diagnóstico", "Observaciones"], *[rows[i] for i in b.rng.permutation(len(rows))]]
    b.xlsx("Listado_TC_covid_v3_DEF.xlsx", {"Hoja1": table, "Leyenda": [["H", "Hombre"], ["M", "Mujer"], ["NHC", "Número de historia clínica"]]})


@family(
    "oasis_analyze", "diagnosis", 3,
    "Predict the CDR (0, 0.5 or 1) from the gain-field corrected atlas volume (t88_gfc, with the skull).",
    notes="Analyze .hdr/.img pairs on discs; several derived volumes a session (raw repeats, averaged, masked, tissue classes) and GIF thumbnails; "
    "table with blank CDR for the young; MR1 and MR2 of one person. The files name the .hdr of each pair.",
)
def oasis(b: Build) -> None:
    rows = []
    for n in range(22):
        cdr = None if n in (3, 12, 17) else ("0", "0.5", "1")[n % 3]
        for s in range(1, 3 if n % 3 != 2 or n % 2 else 2):
            ident = f"OAS1_{n * 3 + 1:04d}_MR{s}"
            root = f"disc{n // 8 + 1}/{ident}"
            volume = draw.brain(b.rng, {"0": 0.0, "0.5": 0.5, "1": 1.0}[cdr or "0"])

            def put(path: str, array: np.ndarray) -> str:
                image = nibabel.AnalyzeImage(array.astype(np.int16), np.diag([-2.0, 2, 2, 1]))
                image.header["db_name"] = b""
                nibabel.save(image, b.at(path + ".img"))
                return path + ".hdr"

            for k in (1, 2):
                put(f"{root}/RAW/{ident}_mpr-{k}_anon", volume[::2, ::2, ::2] + b.rng.normal(0, 30, volume[::2, ::2, ::2].shape))
                b.picture(f"{root}/RAW/{ident}_mpr-{k}_anon_sag_66.gif", draw.u8(volume[15] / 4))
            t88 = f"{root}/PROCESSED/MPRAGE/T88_111/{ident}_mpr_n4_anon_111_t88"
            put(f"{root}/PROCESSED/MPRAGE/SUBJ_111/{ident}_mpr_n4_anon_sbj_111", volume[:-2])
            main = put(t88 + "_gfc", volume)
            put(t88 + "_masked_gfc", np.where(draw.ball(volume.shape, np.array(volume.shape) / 2, np.array(volume.shape) * 0.35), volume, 0))
            b.picture(t88 + "_gfc_tra_90.gif", draw.u8(volume[:, :, 13] / 4))
            put(f"{root}/FSL_SEG/{ident}_mpr_n4_anon_111_t88_masked_gfc_fseg", (volume > 250).astype(int) + (volume > 550))
            b.text(f"{root}/{ident}.txt", f"SESSION ID:   {ident}\n\nAGE:          {60 + n}\nM/F:          F\nHAND:         Right\nCDR:          {cdr or ''}\n")
            rows.append([ident, b.pick("M", "F"), "R", 20 + n if cdr is None else 60 + n, "" if cdr is None else 2 + n % 4, "", "" if cdr is None else 30 - n % 6,
                         cdr or "", 1300 + n * 9, f"0.{700 + n}", f"1.{200 + n}", "N/A" if s == 1 else 40])
            if cdr is None:
                b.truth["left_out"].append(main)
            else:
                b.case(main, patient=ident[:9], label=cdr)
    b.csv("oasis_cross-sectional.csv", ["ID", "M/F", "Hand", "Age", "Educ", "SES", "MMSE", "CDR", "eTIV", "nWBV", "ASF", "Delay"], rows)


@family(
    "mrnet_three_planes", "diagnosis", 3,
    "Detect an ACL tear (acl) of the knee from the axial, coronal and sagittal series of each exam.",
    notes="A .npy stack a plane in parallel folders with one number a name; three headerless CSVs, of which acl is asked; train and valid; "
    "stacks of different depth; numbers padded in the names.",
    patients_known=False,
)
def mrnet(b: Build) -> None:
    tables: dict[tuple[str, str], list[list[Any]]] = {}
    for n in range(40):
        split = "train" if n < 30 else "valid"
        acl, tear = n % 2, int(b.rng.random() < 0.4)
        number = f"{n if n < 30 else 1130 + n - 30:04d}"
        files = []
        for plane in ("axial", "coronal", "sagittal"):
            depth = int(b.rng.integers(9, 15))
            stack = np.full((depth, 40, 40), 40.0)
            stack[:, draw.ball((40, 40), (20, 20), (18, 13))] = 120
            stack[:, 19:21, 9:31] = 70
            band = draw.ball((depth, 40, 40), draw.near(b.rng, depth / 2, 20, 20), (3, 8, 2.5))
            stack[band] = 225 if acl else 15
            if tear:
                stack[depth // 2, 18:22, 26:31] = 240
            files.append(f"MRNet-v1.0/{split}/{plane}/{number}.npy")
            np.save(b.at(files[-1]), draw.u8(stack + b.rng.normal(0, 8, stack.shape)))
        for name, value in (("abnormal", int(acl or tear)), ("acl", acl), ("meniscus", tear)):
            tables.setdefault((split, name), []).append([number, value])
        b.case(files, label=str(acl), split={"train": "train", "valid": "val"}[split], views=3)
    for (split, name), rows in tables.items():
        b.csv(f"MRNet-v1.0/{split}-{name}.csv", None, rows)


@family(
    "malaria_doubled_folder", "diagnosis", 2,
    "Parasitized or uninfected red blood cells.",
    notes="The whole tree lies a second time in itself (cell_images/cell_images, byte for byte), as on Kaggle: the inner copy is left out; "
    "patients by two mapping tables; cut-outs of all sizes; Thumbs.db; a zero-byte picture.",
)
def malaria(b: Build) -> None:
    maps: dict[str, list[list[str]]] = {"Parasitized": [], "Uninfected": []}
    for n in range(48):
        kind = ("Parasitized", "Uninfected")[n % 2]
        person = f"C{33 + n % 16 * 5}P{63 - n % 16}"
        h, w = (int(v) for v in b.rng.integers(40, 60, 2))
        cell = np.zeros((h, w, 3))
        cell[draw.ball((h, w), (h / 2, w / 2), (h * 0.46, w * 0.46))] = (220, 165, 165)
        if kind == "Parasitized":
            for _ in range(int(b.rng.integers(1, 3))):
                cell[draw.ball((h, w), draw.near(b.rng, h / 2, w / 2, by=8), (4, 3.5))] = (120, 40, 130)
        name = f"{person}thinF_IMG_20150{b.rng.integers(600, 930)}_{b.rng.integers(100000, 160000)}{b.pick('', 'a')}_cell_{n + 10}.png"
        data = io.BytesIO()
        Image.fromarray(draw.u8(cell + b.rng.normal(0, 4, cell.shape))).save(data, "PNG")
        for root in ("cell_images", "cell_images/cell_images"):
            b.raw(f"{root}/{kind}/{name}", data.getvalue())
        b.truth["left_out"].append(f"cell_images/cell_images/{kind}/{name}")
        b.case(f"cell_images/{kind}/{name}", patient=person, label=kind, channels=COLOUR)
        maps[kind].append([person, name])
    b.broken("cell_images/Uninfected/C99P3thinF_IMG_20150818_101010_cell_1.png", b"")
    for kind, rows in maps.items():
        b.clutter("windows", under=f"cell_images/{kind}")
        b.csv(f"patientid_cellmapping_{kind.lower()}.csv", None, rows)


@family(
    "cnmc_folds_and_codes", "diagnosis", 2,
    "Leukaemia (all) versus healthy (hem) cells. In the validation table 1 is all and 0 is hem.",
    notes="BMP; training classes as folders inside three folds (no splits), the class again in the name; the validation set is flat with renamed "
    "pictures, codes and original names in a CSV; a test folder without labels; patient in UID_<patient>_<image>_<cell>.",
)
def cnmc(b: Build) -> None:
    def cell(kind: str) -> np.ndarray:
        out = np.zeros((50, 50, 3))
        big = 18 if kind == "all" else 12
        out[draw.ball((50, 50), draw.near(b.rng, 25, 25), (big, big * 0.9))] = (120, 60, 150) if kind == "all" else (150, 90, 175)
        out[draw.ball((50, 50), draw.near(b.rng, 25, 25, by=4), 3)] = (230, 210, 235)
        return draw.u8(out + b.rng.normal(0, 6, out.shape) * (out > 0))

    n_train = 0
    for fold in range(3):
        for kind in ("all", "hem"):
            for k in range(6):
                person = f"{'H' if kind == 'hem' else ''}{fold * 10 + 1 + k // 2 + (30 if kind == 'all' else 0)}"
                path = f"C-NMC_Leukemia/training_data/fold_{fold}/{kind}/UID_{person}_{k % 2 + 1}_{b.rng.integers(1, 40)}_{kind}.bmp"
                b.case(b.picture(path, cell(kind)), patient=person, label=kind, split="train", channels=COLOUR)
                n_train += 1
    rows = []
    for k in range(12):
        kind = ("all", "hem")[k % 2]
        person = f"{'H' if kind == 'hem' else ''}{57 + k // 4}"
        path = b.picture(f"C-NMC_Leukemia/validation_data/C-NMC_test_prelim_phase_data/{k + 1}.bmp", cell(kind))
        rows.append([f"UID_{person}_{k + 20}_{b.rng.integers(1, 9)}_{kind}.bmp", f"{k + 1}.bmp", int(kind == "all")])
        b.case(path, patient=person, label=kind, split="val", channels=COLOUR)
    b.csv("C-NMC_Leukemia/validation_data/C-NMC_test_prelim_phase_data_labels.csv", ["Patient_ID", "new_names", "labels"], [rows[i] for i in b.rng.permutation(12)])
    for k in range(5):
        b.truth["left_out"].append(b.picture(f"C-NMC_Leukemia/testing_data/C-NMC_test_final_phase_data/{k + 1}.bmp", cell(b.pick("all", "hem"))))


@family(
    "duke_oct_tiff_stacks", "diagnosis", 3,
    "Classify the OCT volumes: AMD, DME or NORMAL.",
    notes="A folder a volume whose name is class and number run together (AMD1), slices as 8-bit TIFF three folders below; slice names unpadded in "
    "some; 16-bit originals of some beside them, not wanted twice; no table at all; volumes of 10 to 12 slices.",
)
def oct(b: Build) -> None:
    for kind in ("AMD", "DME", "NORMAL"):
        for n in range(1, 11):
            depth = int(b.rng.integers(10, 13))
            stack = np.full((depth, 36, 56), 20.0)
            xs = np.arange(56)
            for z in range(depth):
                top = 14 + 2 * np.sin(xs / 18 + n)
                lift = {"AMD": 5 * np.abs(np.sin(xs / 5.0)), "DME": np.zeros(56), "NORMAL": np.zeros(56)}[kind]
                for x in xs:
                    stack[z, int(top[x]) : int(top[x]) + 12, x] = 110
                    stack[z, int(top[x] + 11 - lift[x]) : int(top[x]) + 14, x] = 220
            if kind == "DME":
                for _ in range(5):
                    stack[draw.ball(stack.shape, (b.rng.uniform(2, depth - 2), b.rng.uniform(17, 22), b.rng.uniform(10, 46)), (3, 3, 5))] = 10
            stack += b.rng.normal(0, 9, stack.shape)
            files = []
            for z in range(depth):
                name = f"{z + 1}.tif" if n % 4 == 0 else f"{z + 1:03d}.tif"
                path = f"Publication_Dataset/{kind}{n}/TIFFs/8bitTIFFs/{name}"
                tifffile.imwrite(b.at(path), draw.u8(stack[z]))
                files.append(path)
                if n % 5 == 0:
                    other = f"Publication_Dataset/{kind}{n}/TIFFs/16bitTIFFs/{name}"
                    tifffile.imwrite(b.at(other), (np.clip(stack[z], 0, 255) * 257).astype(np.uint16))
                    b.truth["left_out"].append(other)
            b.case(files, patient=f"{kind}{n}", label=kind)
    b.text("Publication_Dataset/Read Me.txt", "45 OCT volumes acquired with Spectralis SD-OCT. See Srinivasan et al., Biomed. Opt. Express 2014.\r\n")


# ---------------------------------------------------------------- segmentation and anomaly


@family(
    "acdc_frames_and_4d", "organ_segmentation", 3,
    "Segment the heart in the ED and ES frames: right ventricle (1), myocardium (2), left ventricle (3).",
    notes="Masks beside the frames with _gt; the cine 4D file of each patient is no case; frame numbers differ and stand in Info.cfg; "
    "training and testing; diagnosis groups in Info.cfg are not asked.",
)
def acdc(b: Build) -> None:
    for n in range(1, 16):
        split = "training" if n <= 11 else "testing"
        person = f"patient{n if n <= 11 else n + 90:03d}"
        root = f"ACDC/database/{split}/{person}"
        shape = (36, 40, 8)
        es = int(b.rng.integers(7, 13))
        cine = []
        mid = draw.near(b.rng, 17, 20, 4)[:2] + [4]
        for frame, r in ((1, 7.0), (es, 4.5)):
            lv = draw.ball(shape, mid, (r, r, 5))
            myo = draw.ball(shape, mid, (r + 3, r + 3, 6)) & ~lv
            rv = draw.ball(shape, (mid[0] + r + 6, mid[1], 4), (r, r + 2, 5)) & ~lv & ~myo
            image = np.full(shape, 90.0)
            for part, value in ((lv, 260), (myo, 40), (rv, 220)):
                image[part] = value
            image += b.rng.normal(0, 12, shape)
            label = (1 * rv + 2 * myo + 3 * lv).astype(np.uint8)
            affine = np.diag([1.56, 1.56, 10.0, 1.0])
            path = b.nifti(f"{root}/{person}_frame{frame:02d}.nii.gz", image, affine)
            b.nifti(f"{root}/{person}_frame{frame:02d}_gt.nii.gz", label, affine, np.uint8)
            b.case(path, patient=person, mask={"right ventricle": rv, "myocardium": myo, "left ventricle": lv}, split={"training": "train", "testing": "test"}[split])
            cine += [image] * 3
        b.truth["left_out"].append(b.nifti(f"{root}/{person}_4d.nii.gz", np.stack(cine, -1), np.diag([1.56, 1.56, 10.0, 1.0])))
        b.text(f"{root}/Info.cfg", f"ED: 1\nES: {es}\nGroup: {b.pick('DCM', 'HCM', 'NOR')}\nHeight: 17{n % 10}.0\nNbFrame: 6\nWeight: 8{n % 10}.0\n")
        b.text(f"{root}/MANDATORY_CITATION.md", "O. Bernard, A. Lalande, C. Zotti, et al., IEEE TMI 2018\n")


@family(
    "itksnap_japanese_labels", "organ_segmentation", 3,
    "CTの肝臓・脾臓・右腎をセグメンテーションしたい。_seg_final のマスクを使うこと。",
    notes="Folders by initials, number and date under a Japanese folder; .nii and .nii.gz mixed; label values 2, 5 and 6 named only in an ITK-SNAP "
    "label file in Japanese; draft segmentations (_seg_v1) and .itksnap workspaces beside the final ones; one scan without a final mask.",
)
def itksnap(b: Build) -> None:
    names = {2: "肝臓", 5: "脾臓", 6: "右腎"}
    lines = ["#" * 48, "# ITK-SnAP Label Description File", "# File format:", "# IDX   -R-  -G-  -B-  -A--  VIS MSH  LABEL", "#" * 48,
             '    0     0    0    0        0  0  0    "Clear Label"', '    2   221  130  101        1  1  1    "肝臓"',
             '    5   157  108  162        1  1  1    "脾臓"', '    6   185  102   83      0.6  1  1    "右腎"']
    b.text("腹部CT_2021/labels_腹部.txt", "\n".join(lines) + "\n")
    for n in range(26):
        who = n % 17
        person = f"{'ABCDEFGHKMNSTYWRI'[who]}{'KMSTH'[who % 5]}{400 + who * 7:04d}"
        date = f"20{20 + n // 17}{who % 12 + 1:02d}{n % 27 + 1:02d}"
        root = f"腹部CT_2021/{person}_{date}"
        shape = (40, 34, 12)
        liver = draw.ball(shape, draw.near(b.rng, 12, 15, 6), (8, 8, 5))
        spleen = draw.ball(shape, draw.near(b.rng, 32, 20, 6), (4, 5, 3)) & ~liver
        kidney = draw.ball(shape, draw.near(b.rng, 13, 27, 5), (4, 3, 4)) & ~liver
        image = np.full(shape, -1000.0)
        image[draw.ball(shape, (20, 17, 6), (19, 16, 50))] = 10
        for part, value in ((liver, 110), (spleen, 150), (kidney, 210)):
            image[part] = value
        image += b.rng.normal(0, 12, shape)
        label = (2 * liver + 5 * spleen + 6 * kidney).astype(np.uint8)
        ends = ".nii" if n % 3 == 0 else ".nii.gz"
        path = b.nifti(f"{root}/{person}_造影CT{ends}", image)
        draft = np.roll(label, 3, 0)
        if n % 4 == 0:
            b.nifti(f"{root}/{person}_seg_v1.nii.gz", draft, dtype=np.uint8)
        if n == 8:
            b.truth["left_out"].append(path)
            continue
        b.nifti(f"{root}/{person}_seg_final{'.nii.gz' if n % 5 else '.nii'}", label, dtype=np.uint8)
        b.text(f"{root}/{person}.itksnap", f'<?xml version="1.0" encoding="UTF-8" ?>\n<!--ITK-SNAP (itksnap.org) Project File-->\n<registry>\n <entry key="Version" value="20190612" />\n'
               f' <folder key="Layers">\n  <folder key="Layer[000]" >\n   <entry key="AbsolutePath" value="D:\\seg\\{person}_造影CT{ends}" />\n  </folder>\n </folder>\n</registry>\n')
        b.case(path, patient=person, mask={names[v]: label == v for v in names})


@family(
    "chase_two_observers", "organ_segmentation", 2,
    "Segment the retinal vessels, by the first human observer (1stHO).",
    notes="Pictures and two observers' masks in one flat folder, told apart by suffix and by JPG against PNG; 1-bit masks; left and right eye of each "
    "child (01L, 01R); a script and a PDF beside them.",
)
def chase(b: Build) -> None:
    for n in range(1, 15):
        for side in "LR":
            size = (60, 64)
            disc = draw.ball(size, (30, 32), 28)
            vessel = np.zeros(size, bool)
            for _ in range(5):
                vessel |= draw.curve(b.rng, size, 0.9)
            vessel &= disc
            image = np.zeros((*size, 3))
            image[disc] = (170, 75, 35)
            image[vessel] = (105, 25, 18)
            name = f"CHASEDB1/Image_{n:02d}{side}"
            b.picture(name + ".jpg", draw.u8(image + b.rng.normal(0, 5, image.shape)), quality=95)
            other = vessel | np.roll(vessel, 1, 0)
            for tag, mask in (("1st", vessel), ("2nd", other)):
                Image.fromarray(mask).save(b.at(f"{name}_{tag}HO.png"))
            b.case(name + ".jpg", patient=f"{n:02d}", mask={"vessel": vessel}, channels=COLOUR)
    b.text("CHASEDB1/evaluate.m", "function acc = evaluate(seg, gt)\nacc = mean(seg(:) == gt(:));\nend\n")
    b.raw("CHASEDB1/CHASE_DB1_description.pdf", b"%PDF-1.4\n1 0 obj<<>>endobj\ntrailer<<>>\n%%EOF\n")


@family(
    "cholecseg_three_masks", "organ_segmentation", 2,
    "Segment the laparoscopic frames into the classes of the class table; the watershed masks hold the ids.",
    notes="Three masks a frame (tool mask with white contours, colour mask, watershed mask as grey RGB with ids 11, 12, 21, 22, 31); the table in the "
    "README gives id and colour; background id 50 not 0; patient is the video, clips as folders below.",
)
def cholec(b: Build) -> None:
    classes = {11: ("Abdominal Wall", (210, 140, 140)), 21: ("Liver", (255, 114, 114)), 12: ("Fat", (186, 183, 75)),
               22: ("Gallbladder", (255, 160, 165)), 31: ("Grasper", (170, 255, 0))}
    looks = {50: (8, 8, 8), 11: (190, 110, 95), 21: (130, 45, 40), 12: (215, 190, 90), 22: (120, 140, 95), 31: (170, 175, 185)}
    table = ["| Class | Name | RGB of color mask | Watershed value |", "|---|---|---|---|", "| 0 | Black Background | 127,127,127 | 50 |"]
    table += [f"| {k + 1} | {name} | {','.join(map(str, rgb))} | {v} |" for k, (v, (name, rgb)) in enumerate(classes.items())]
    b.text("README.md", "# CholecSeg8k (subset)\n\nEach frame has a raw image, an annotation mask, a color mask and a watershed mask.\n\n" + "\n".join(table) + "\n")
    size = (48, 80)
    for v in range(12):
        video = f"video{(1, 9, 12, 17, 18, 20, 24, 25, 26, 27, 28, 35)[v]:02d}"
        start = int(b.rng.integers(1, 200)) * 80
        for k in range(3):
            ids = np.full(size, 50)
            view = draw.ball(size, (24, 40), (23, 38))
            ids[view] = 11
            ids[view & (np.arange(48)[:, None] > b.rng.uniform(22, 28))] = 21
            ids[draw.ball(size, draw.near(b.rng, 38, 55, by=3), (6, 14)) & view] = 12
            ids[draw.ball(size, draw.near(b.rng, 27, 38, by=4), (7, 10)) & view] = 22
            if k != 1:
                ids[20 : 20 + 4, 50:80] = np.where(view[20:24, 50:80], 31, 50)
            frame = f"{video}/{video}_{start:05d}/frame_{start + k}_endo"
            colour, image = np.full((*size, 3), 127, np.uint8), np.zeros((*size, 3))
            for i, look in looks.items():
                image[ids == i] = look
                if i != 50:
                    colour[ids == i] = classes[i][1]
            edge = (np.roll(ids, 1, 0) != ids) | (np.roll(ids, 1, 1) != ids)
            b.picture(frame + ".png", draw.u8(image + b.rng.normal(0, 6, image.shape)))
            b.picture(frame + "_color_mask.png", colour)
            b.picture(frame + "_watershed_mask.png", np.repeat(ids[..., None], 3, -1).astype(np.uint8))
            b.picture(frame + "_mask.png", np.repeat(np.where(edge, 255, ids)[..., None], 3, -1).astype(np.uint8))
            b.case(frame + ".png", patient=video, mask={name: ids == i for i, (name, _) in classes.items()}, channels=COLOUR)


@family(
    "bmad_good_ungood", "anomaly_detection", 2,
    "Find brain tumours as anomalies in the slices: train on the good ones, tumour masks are in the label folders.",
    notes="train/good without img folder, valid and test with good and Ungood, each img and label; labels of good ones are all black; the masks keep the "
    "picture's name; patient is the number before the underscore and crosses good and Ungood.",
)
def bmad(b: Build) -> None:
    def slice_(sick: bool) -> tuple[np.ndarray, np.ndarray]:
        s = (60, 60)
        image = np.zeros(s)
        image[draw.ball(s, (30, 30), (26, 21))] = 120
        for x in (26, 34):
            image[draw.ball(s, draw.near(b.rng, 30, x, by=1), (6, 2))] = 50
        mask = draw.ball(s, draw.near(b.rng, 30, 30, by=11), b.rng.uniform(4, 7)) if sick else np.zeros(s, bool)
        image[mask] = 225
        return draw.u8(image + b.rng.normal(0, 6, s)), mask

    plan = [("train", "good", False, 18, 0), ("valid", "good", False, 5, 3), ("valid", "Ungood", True, 6, 12), ("test", "good", False, 6, 4), ("test", "Ungood", True, 11, 14)]
    for split, kind, sick, count, first in plan:
        for n in range(count):
            person = f"{(n + first) % 16 if split == 'train' else (20 if split == 'valid' else 40) + n % (3 if split == 'valid' else 5):05d}"
            name = f"{person}_{60 + n + first}.png"
            image, mask = slice_(sick)
            if split == "train":
                path = b.picture(f"Brain_AD/train/good/{name}", image)
            else:
                path = b.picture(f"Brain_AD/{split}/{kind}/img/{name}", image)
                b.picture(f"Brain_AD/{split}/{kind}/label/{name}", mask.astype(np.uint8) * 255)
            b.case(path, patient=person, mask={"tumor": mask}, split={"train": "train", "valid": "val", "test": "test"}[split])


@family(
    "atlas_stroke_t1", "anomaly_detection", 3,
    "Detect chronic stroke lesions in the T1w scans.",
    notes="BIDS-like names with the entities of the derivative (space-MNI..., label-L_desc-T1lesion_mask) beside the T1w; cohort folders; metadata workbook with "
    "counts of strokes; a second session of some; Testing has no masks; dataset_description.json.",
)
def atlas(b: Build) -> None:
    rows: list[list[Any]] = []
    space = "space-MNI152NLin2009aSym"
    for n in range(27):
        train = n < 22
        site = f"R{(1, 3, 5, 9)[n % 4] if train else 34:03d}"
        person = f"sub-{site.lower()}s{n + 1:03d}"
        for ses in (1, 2) if n % 6 == 0 and train else (1,):
            image = draw.brain(b.rng)
            lesion = draw.ball(image.shape, draw.near(b.rng, b.pick(10, 20), 18, 14, by=4), b.rng.uniform(2.5, 4.5)) & (image > 300)
            image[lesion] = 150 + b.rng.normal(0, 15, int(lesion.sum()))
            stem = f"ATLAS_2/{'Training' if train else 'Testing'}/{site}/{person}/ses-{ses}/anat/{person}_ses-{ses}_{space}"
            path = b.nifti(stem + "_T1w.nii.gz", image, np.diag([5.0, 5, 5, 1]), np.float32)
            if train:
                b.nifti(stem + "_label-L_desc-T1lesion_mask.nii.gz", lesion, np.diag([5.0, 5, 5, 1]), np.uint8)
                b.case(path, patient=person, mask={"lesion": lesion})
                rows.append([site, person, f"ses-{ses}", 1, 0, b.pick("L", "R"), b.pick("Subcortical", "Cortical"), int(b.rng.integers(30, 80))])
            else:
                b.truth["left_out"].append(path)
    b.json("ATLAS_2/Training/dataset_description.json", {"Name": "ATLAS", "BIDSVersion": "1.6.0"})
    b.json("ATLAS_2/Testing/dataset_description.json", {"Name": "ATLAS", "BIDSVersion": "1.6.0"})
    b.xlsx("ATLAS_2/20220425_ATLAS_2.0_MetaData.xlsx", {"Dataset_v2": [["Site", "Subject ID", "Session", "Number of Strokes LH", "Number of Strokes RH", "Primary Stroke Hemisphere", "Primary Stroke Location", "Age"], *rows]})


@family(
    "picai_public_folds", "anomaly_detection", 3,
    "Detect clinically significant prostate cancer (csPCa) on T2w, ADC and high-b-value scans. Use the human expert delineations; any value of 2 or more is a lesion.",
    notes="Three .mha a study (_t2w, _adc, _hbv) plus sagittal and coronal T2 that are not wanted, spread over five fold folders; masks .nii.gz in a parallel "
    "repository tree under the study's name, with ISUP grades as values and many empty; AI masks and gland masks beside; marksheet with several studies a patient.",
)
def picai(b: Build) -> None:
    rows = []
    geometry = {"spacing": (0.5, 0.5, 3.0)}
    study = 1000000
    for p in range(20):
        person = str(10000 + p * 3)
        for _ in range(2 if p % 3 == 0 else 1):
            study += int(b.rng.integers(1, 20))
            shape = (40, 40, 10)
            gland = draw.ball(shape, draw.near(b.rng, 20, 20, 5, by=1), (13, 11, 4.5))
            sick = (p + study) % 5 < 3
            lesion = draw.ball(shape, draw.near(b.rng, b.pick(14, 26), 24, 5, by=2), (4, 4, 2)) & gland if sick else np.zeros(shape, bool)
            isup = int(b.rng.integers(2, 6))
            t2, adc, hbv = np.full(shape, 200.0), np.full(shape, 900.0), np.full(shape, 30.0)
            t2[gland], adc[gland], hbv[gland] = 420, 1500, 50
            t2[lesion], adc[lesion], hbv[lesion] = 230, 600, 160
            root = f"input/images/picai_public_images_fold{p % 5}/{person}/{person}_{study}"
            files = [b.itk(f"{root}_{name}.mha", (a + b.rng.normal(0, s, shape)).clip(0).astype(np.int16), **geometry)
                     for name, a, s in (("t2w", t2, 20), ("adc", adc, 60), ("hbv", hbv, 6))]
            for name in ("sag", "cor"):
                b.itk(f"{root}_{name}.mha", (t2[:, ::2, ::2] + b.rng.normal(0, 20, t2[:, ::2, ::2].shape)).clip(0).astype(np.int16), (0.5, 1.0, 6.0))
            labels = "input/picai_labels"
            for where, mask in (("csPCa_lesion_delineations/human_expert/resampled", lesion * isup), ("csPCa_lesion_delineations/AI/Bosma22a", np.roll(lesion, 2, 0)),
                                ("anatomical_delineations/whole_gland/AI/Bosma22b", gland)):
                b.itk(f"{labels}/{where}/{person}_{study}.nii.gz", mask.astype(np.uint8), **geometry)
            rows.append([person, study, "2019-07-02", 60 + p, "6.1", "" if p % 4 else "0.12", 55, "YES" if sick else "NO", isup if sick else ""])
            b.case(files, patient=person, mask={"csPCa": lesion}, channels=3)
    b.csv("input/picai_labels/clinical_information/marksheet.csv", ["patient_id", "study_id", "mri_date", "patient_age", "psa", "psad", "prostate_volume", "case_csPCa", "case_ISUP"], rows)
    b.text("input/picai_labels/README.md", "Expert-derived annotations: 0 = background or indolent, 2-5 = csPCa with that ISUP grade.\n")


@family(
    "ddti_svg_in_xml", "anomaly_detection", 2,
    "Segment the thyroid nodules outlined in the XML of each case.",
    notes="One XML a patient (7.xml) for several pictures (7_1.jpg, 7_2.jpg); each mark names the picture number and holds JSON with a freehand polygon inside <svg>; "
    "sometimes two nodules a picture or two marks for it; all in one flat folder with the archive they came from.",
    mask_tolerance=0.2,
)
def ddti(b: Build) -> None:
    size = (60, 72)
    for n in range(1, 19):
        case = n * 4 + n % 3
        marks = []
        for k in range(1, 3 if n % 2 else 4):
            image = 70 + b.rng.normal(0, 1, size) * 14
            image[:12] = 130
            full, shapes = np.zeros(size, bool), []
            for j in range(2 if (n + k) % 5 == 0 else 1):
                cy, cx = draw.near(b.rng, 35, 22 + 28 * j + (0 if (n + k) % 5 == 0 else 12), by=3)
                ry, rx = b.rng.uniform(6, 11), b.rng.uniform(7, 11)
                turn = np.linspace(0, 2 * np.pi, 48, endpoint=False)
                shapes.append({"points": [{"x": int(round(cx + rx * np.cos(t))), "y": int(round(cy + ry * np.sin(t)))} for t in turn],
                               "annotation": {"shapes": []}, "regionType": "freehand"})
                full |= polygon2mask(size, [(p["y"], p["x"]) for p in shapes[-1]["points"]])
            image[full] = 25 + b.rng.normal(0, 8, int(full.sum()))
            path = b.picture(f"thyroid/{case}_{k}.jpg", np.repeat(draw.u8(image)[..., None], 3, -1), quality=90)
            b.case(path, patient=str(case), mask={"nodule": full}, channels=COLOUR)
            for part in ([shapes] if len(shapes) == 1 or n % 2 else [[s] for s in shapes]):
                marks.append(f"<mark><image>{k}</image><svg>{json.dumps(part, separators=(',', ':'))}</svg></mark>")
        b.text(f"thyroid/{case}.xml", f'<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n<case><number>{case}</number><age>{30 + n}</age><sex>F</sex>'
               f"<composition>solid</composition><echogenicity>hypoechogenicity</echogenicity><margins>well defined smooth</margins>"
               f"<calcifications>non</calcifications><tirads>{b.pick('2', '4a', '5', '')}</tirads>{''.join(marks)}</case>")
    with zipfile.ZipFile(b.at("thyroid/thyroid_readme.zip"), "w") as pack:
        pack.writestr(zipfile.ZipInfo("readme.txt"), "DDTI: Thyroid Ultrasound Images, Universidad Nacional de Colombia")


# ---------------------------------------------------------------- reports


@family(
    "openi_ecgen_xml", "report_generation", 2,
    "Write the FINDINGS section from the chest films of each report.",
    notes="One XML a report (ecgen-radiology/12.xml) naming its pictures by parentImage id; some reports have no FINDINGS, some no picture at all; "
    "one or two pictures a report; MeSH terms and an IMPRESSION beside; XXXX for removed words.",
    patients_known=False,
)
def openi(b: Build) -> None:
    said = {"": "The heart is normal in size. The lungs are clear.", "heart": "The heart is enlarged. The lungs are clear.",
            "effusion": "Heart size is normal. There is a pleural effusion.", "opacity": "Heart size is normal. There is a focal airspace opacity."}
    for n in range(1, 41):
        sign = list(said)[n % 4]
        ident = n * 3 + n % 2
        number = f"{b.rng.integers(1, 9000):04d}"
        files = []
        count = 0 if n in (7, 22) else 1 if n % 5 == 0 else 2
        for k in range(count):
            name = f"CXR{ident}_IM-{number}-{(1001, 2001)[k] if n % 3 else (4004, 8008)[k]}"
            films = draw.chest(b.rng, (sign,) if sign else (), side=k == 1)
            files.append(b.picture(f"NLMCXR_png/{name}.png", draw.u8(films)))
        text = said[sign] + b.pick("", " No pneumothorax.", " XXXX XXXX are unremarkable.")
        bare = n in (12, 30)
        images = "".join(f'<parentImage id="{Path(f).stem}"><figureId>F{k + 1}</figureId><caption>PA and lateral chest</caption><panel type="single"><url>/hadoop/storage/{Path(f).stem}.jpg</url></panel></parentImage>'
                         for k, f in enumerate(files))
        b.text(f"NLMCXR_reports/ecgen-radiology/{ident}.xml", f'<?xml version="1.0" encoding="utf-8"?><eCitation><meta type="rr"/><uId id="CXR{ident}"/><pmcId id="{ident}"/><docSource>CXR</docSource>'
               f'<MedlineCitation Owner="Indiana University" Status="supplied by publisher"><Article PubModel="Electronic"><ArticleTitle>Indiana University Chest X-ray Collection</ArticleTitle>'
               f'<Abstract><AbstractText Label="COMPARISON">None.</AbstractText><AbstractText Label="INDICATION">XXXX-year-old, chest pain</AbstractText>'
               f'<AbstractText Label="FINDINGS">{"" if bare else text}</AbstractText><AbstractText Label="IMPRESSION">{"No acute disease." if not sign else "Abnormal chest."}</AbstractText></Abstract></Article></MedlineCitation>'
               f"<MeSH><major>{sign or 'normal'}</major></MeSH>{images}</eCitation>")
        if bare:
            b.truth["left_out"] += files
        elif files:
            b.case(files, text=text, views=len(files))


@family(
    "cr_textes_windows", "report_generation", 2,
    "Générer la CONCLUSION du compte rendu à partir des clichés de face et de profil.",
    notes="French reports, one .txt a visit in cp1252 with CRLF, sections in capitals with blank before the colon; films named by initials, birth date, visit date and F or P "
    "in folders by year, PNG before 2019 and JPG after; spelling of the folder and case of names differ; two visits of some; one report without films.",
)
def cr(b: Build) -> None:
    said = {"": ("Transparence pulmonaire normale. Silhouette cardiaque de taille normale.", "Radiographie thoracique normale."),
            "heart": ("Augmentation de la taille de la silhouette cardiaque.", "Cardiomégalie, sans épanchement."),
            "effusion": ("Comblement des culs-de-sac pleuraux.", "Épanchement pleural de moyenne abondance."),
            "nodule": ("Opacité nodulaire d’allure isolée.", "Nodule pulmonaire à contrôler par scanner.")}
    for n in range(34):
        who = n % 22
        person = f"{'ABCDEFGHJKLMNOPRSTVWYZ'[who]}{'AEIOU'[who % 5]}{'LMNR'[who % 4]}{1935 + who:04d}{who % 12 + 1:02d}{who + 3:02d}"
        year = 2018 if n < 22 else 2019
        visit = f"{year}{n % 12 + 1:02d}{n % 27 + 1:02d}"
        sign = list(said)[(n + n // 22) % 4]
        files = []
        for view in "FP" if n != 15 else "":
            ends = "png" if year == 2018 else "jpg"
            film = draw.u8(draw.chest(b.rng, (sign,) if sign else (), side=view == "P"))
            files.append(b.picture(f"Clichés/{year}/{person}_{visit}_{view}.{ends}", film))
        b.text(f"Comptes rendus/CR {person.lower() if n % 6 == 5 else person} {visit}.txt", "\r\n".join([
            "CENTRE HOSPITALIER - SERVICE D'IMAGERIE", f"Patient : {person}", f"Date : {visit[6:]}/{visit[4:6]}/{visit[:4]}", "",
            "RADIOGRAPHIE DU THORAX (F + P)", "", "INDICATION : " + b.pick("Toux fébrile.", "Dyspnée d'effort.", "Bilan préopératoire."), "",
            "RÉSULTAT :", said[sign][0], "", "CONCLUSION :", said[sign][1], "", "Dr " + b.pick("LEFÈVRE", "Gaëlle MARTIN"), ""]), "cp1252")
        if files:
            b.case(files, patient=person, text=said[sign][1], views=2)


@family(
    "ctrate_reconstructions", "report_generation", 3,
    "Generate the findings (Findings_EN) for each chest CT volume.",
    notes="Names train_5_a_1: patient 5, scan a, reconstruction 1; reconstructions of one scan share a report row each, keyed by VolumeName with .nii.gz; train and valid reports in "
    "two tables with quotes and line ends inside; abnormality label and metadata tables beside; folder valid_fixed style nesting.",
)
def ctrate(b: Build) -> None:
    said = {False: 'Trachea and both main bronchi are open.\nNo infiltrative lesion was detected in the lung parenchyma; "clear" lungs.',
            True: "Trachea and both main bronchi are open.\nPatchy ground-glass opacities are observed in both lungs, consistent with infection."}
    tables: dict[str, dict[str, list[list[Any]]]] = {}
    for n in range(1, 19):
        split = "train" if n <= 14 else "valid"
        person = f"{split}_{n if n <= 14 else n - 14}"
        for scan in "ab" if n % 4 == 0 else "a":
            sick = bool((n + (scan == "b")) % 2)
            text = said[sick] + b.pick("", " Heart contour and size are normal.")
            volume = draw.lung_ct(b.rng, sick)
            for rec in (1, 2) if n % 2 else (1,):
                name = f"{person}_{scan}_{rec}.nii.gz"
                path = b.nifti(f"dataset/{split}/{person}/{person}_{scan}/{name}", volume + b.rng.normal(0, 15 * rec, volume.shape))
                book = tables.setdefault(split, {"r": [], "l": [], "m": []})
                book["r"].append([name, "Cough, fever." if n % 3 else "", "Sections were taken without contrast medium.", text, "Infection." if sick else "Findings within normal limits."])
                book["l"].append([name, 0, int(sick), 0])
                book["m"].append([name, "Siemens", "[0.7, 0.7]", 1.5, "B60f" if rec == 1 else "B30f", "068Y"])
                b.case(path, patient=person, text=text, split={"train": "train", "valid": "val"}[split])
    for split, book in tables.items():
        b.csv(f"dataset/radiology_text_reports/{split}_reports.csv" if split == "train" else "dataset/radiology_text_reports/validation_reports.csv",
              ["VolumeName", "ClinicalInformation_EN", "Technique_EN", "Findings_EN", "Impressions_EN"], book["r"])
        b.csv(f"dataset/multi_abnormality_labels/{split}_predicted_labels.csv", ["VolumeName", "Cardiomegaly", "Lung opacity", "Hiatal hernia"], book["l"])
        b.csv(f"dataset/metadata/{split}_metadata.csv", ["VolumeName", "Manufacturer", "XYSpacing", "ZSpacing", "ConvolutionKernel", "PatientAge"], book["m"])


# ---------------------------------------------------------------- to be asked


@family(
    "kniearchiv_json_befunde", "diagnosis", 2,
    "Bitte ein Modell trainieren, das unsere Knieaufnahmen klassifiziert.",
    notes="JSON beside each picture with three findings that could all be the class (Arthrose, Gelenkerguss, Fraktur, each ja/nein) and nothing says which; the truth holds Arthrose. "
    "PNG and JPG in folders by quarter; patient is initials and birth date in the name, also Patient.Kuerzel inside.",
    expect="ask",
    ask="Which finding is the class: Arthrose, Gelenkerguss or Fraktur? (answer: Arthrose)",
)
def knie(b: Build) -> None:
    for n in range(36):
        who = n % 21
        person = f"{'ABDEFGHJKLMNPRSTUVWXZ'[who]}{'KLMST'[who % 5]}-19{40 + who * 2}-{who % 12 + 1:02d}-{who + 5:02d}"
        a, e, f = n % 2, int(b.rng.random() < 0.45), int(b.rng.random() < 0.35)
        image = np.full((64, 56), 35.0)
        image[:30, 16:40] = 190
        image[(31 if a else 36):, 16:40] = 180
        if e:
            image[24:42, 4:14] = 120
        if f:
            for k in range(24):
                image[10 + k // 3 : 12 + k // 3, 16 + k] = 40
        image = draw.u8(image + b.rng.normal(0, 7, image.shape))
        stem = f"Knie_Archiv/2022_Q{n % 4 + 1}/{person}_{b.pick('re', 'li')}_{n + 1:02d}"
        path = b.picture(stem + (".png" if n % 3 else ".jpg"), image)
        word = {0: "nein", 1: "ja"}
        book = {"Patient": {"Kürzel": person.split("_")[0], "Geschlecht": b.pick("m", "w")}, "Aufnahme": {"Projektion": "a.p.", "Gerät": "Siemens Ysio", "kV": 65},
                "Befund": {"Arthrose": word[a], "Gelenkerguss": word[e], "Fraktur": word[f], "Befunder": b.pick("OA Dr. Groß", "Dr. Müller")}}
        b.text(stem + ".json", json.dumps(book, ensure_ascii=False, indent=2))
        b.case(path, patient=person, label=word[a])
