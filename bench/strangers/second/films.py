"""Of the second set: pictures and tables."""

from typing import Any

import numpy as np
from PIL import Image

from bench.strangers import draw
from bench.strangers.build import COLOUR, Families, dicom, hexid, uid, uuid4
from tests.families.base import Build

FAMILIES = Families()
family = FAMILIES.family


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
