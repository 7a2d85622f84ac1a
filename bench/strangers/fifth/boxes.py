"""Boxes that become masks: a table by several readers, and YOLO files."""

import numpy as np

from bench.strangers import draw
from bench.strangers.build import Families, dicom, hexid, uid
from tests.families.base import Build

FAMILIES = Families()
family = FAMILIES.family

_SIGNS = {"Cardiomegaly": (44, 34, 11, 19, 190), "Pleural effusion": (56, 18, 7, 9, 210), "Nodule/Mass": (24, 45, 5, 5, 235)}


@family(
    "vindr_three_readers", "anomaly_detection", 2,
    "Mark cardiomegaly, pleural effusion and nodules or masses on the chest film.",
    notes=".dicom files; a row is a box of one of three readers, none for no finding; the test part is a consensus without reader.",
    patients_known=False,
)  # fmt: skip
def vindr(b: Build) -> None:
    size = (72, 64)
    for part, many in (("train", 32), ("test", 12)):
        rows, labels = [], []
        for n in range(many):
            name = hexid(b)
            film = draw.chest(b.rng, (), size)
            masks = {sign: np.zeros(size, bool) for sign in _SIGNS}
            shown = [sign for i, sign in enumerate(_SIGNS) if (n + i) % 4 == 1 or (n + 2 * i) % 7 == 3]
            boxes = {}
            for sign in shown:
                y, x, ry, rx, bright = _SIGNS[sign]
                y, x = draw.near(b.rng, y, x)
                film[draw.ball(size, (y, x), (ry, rx))] = bright
                boxes[sign] = (x - rx, y - ry, x + rx, y + ry)
            for reader in ("R8", "R9", "R10") if part == "train" else (None,):
                who = [] if reader is None else [reader]
                for sign in shown:
                    box = [max(0.0, round(v + b.rng.uniform(-1, 1), 2)) for v in boxes[sign]]
                    box[2], box[3] = min(box[2], 63.0), min(box[3], 71.0)
                    rows.append([name, *who, sign, *box])
                    masks[sign][int(box[1]) : int(np.ceil(box[3])), int(box[0]) : int(np.ceil(box[2]))] = True
                if not shown:
                    rows.append([name, *who, "No finding", "", "", "", ""])
                labels.append([name, *who, *(int(sign in shown) for sign in _SIGNS), int(not shown)])
            tags = {"StudyInstanceUID": uid(b), "SeriesInstanceUID": uid(b), "PatientSex": b.pick("M", "F", "O")}
            path = dicom(b, f"{part}/{name}.dicom", (np.clip(film, 0, 255) * 16).astype(np.uint16), "DX", **tags)
            b.case(path, mask=masks, split=part)
        who = ["rad_id"] if part == "train" else []
        b.csv(f"annotations/annotations_{part}.csv", ["image_id", *who, "class_name", "x_min", "y_min", "x_max", "y_max"], rows)
        b.csv(f"annotations/image_labels_{part}.csv", ["image_id", *who, *_SIGNS, "No finding"], labels)
    b.text("SHA256SUMS.txt", "".join(f"{b.rng.bytes(32).hex()} annotations/annotations_{p}.csv\n" for p in ("train", "test")))
    b.text("LICENSE.txt", "PhysioNet Credentialed Health Data License 1.5.0\n")


@family(
    "wrists_in_yolo", "anomaly_detection", 2,
    "Boxes on children's wrist films for everything that is annotated: fracture, metal, periosteal reaction, text.",
    notes="16-bit PNG in two folders, YOLO files in a third, class names in meta.yaml, of which most never occur; person first in names.",
)  # fmt: skip
def wrists(b: Build) -> None:
    classes = ["boneanomaly", "bonelesion", "foreignbody", "fracture", "metal", "periostealreaction", "pronatorsign", "softtissue", "text"]
    size, rows = (80, 56), []
    for n in range(48):
        person, view = n // 2 // 2 + 1 if n < 24 else n // 2 - 5, n % 2 + 1
        study = 1 + (n < 24 and n // 2 % 2)
        stem = f"{person:04d}_{1297860395 + 86400 * (n // 2) * 31}_{study:02d}_WRI-{'LR'[person % 2]}{view}_{'MF'[person % 3 // 2]}{5 + person % 12:03d}"
        film = np.full(size, 30.0) + b.rng.normal(0, 6, size)
        film[:, 18:25], film[:, 30:38] = 150, 160
        film[8:24, 14:42] = 140
        masks = {name: np.zeros(size, bool) for name in ("fracture", "metal", "periostealreaction", "text")}
        lines = []
        marks = [("text", 6, 48, 8, 10, 250)] if n % 8 else []
        if n // 2 % 3 != 1:
            marks.append(("fracture", 44 + b.rng.uniform(-8, 8), 34, 6, 12, 70))
        if n // 2 % 7 == 2:
            marks.append(("metal", 60, 21, 16, 4, 255))
        if n // 2 % 5 == 3:
            marks.append(("periostealreaction", 55, 27, 12, 4, 120))
        for name, y, x, h, w, bright in marks:
            part = (slice(int(y - h / 2), int(y + h / 2)), slice(int(x - w / 2), int(x + w / 2)))
            film[part] = bright
            masks[name][part] = True
            lines.append(f"{classes.index(name)} {x / 56:.6f} {y / 80:.6f} {w / 56:.6f} {h / 80:.6f}")
        path = b.picture(f"images_part{1 + (n >= 24)}/{stem}.png", (np.clip(film, 0, 255) * 257).astype(np.uint16))
        b.text(f"folder_structure/yolov5/labels/{stem}.txt", "\n".join(lines))
        b.case(path, patient=str(person), mask=masks)
        rows.append([stem, person, 5 + person % 12, "MF"[person % 3 // 2], "LR"[person % 2], view, study,
                     1 if any(m[0] == "fracture" for m in marks) else "", 1 if any(m[0] == "metal" for m in marks) else "", "23r-M/3.1"])  # fmt: skip
    b.text("folder_structure/yolov5/meta.yaml", "train: ../yolov5/images/train/\nval: ../yolov5/images/valid/\n\n"
           f"# number of classes\nnc: {len(classes)}\n\n# class names\nnames: {classes}\n")  # fmt: skip
    b.csv("dataset.csv", ["filestem", "patient_id", "age", "gender", "laterality", "projection", "study_number", "fracture_visible", "metal", "ao_classification"], rows)
