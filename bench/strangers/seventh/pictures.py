"""Pictures: numbered parts of an archive, a REDCap cohort, two tasks of CVAT, and the outgoing messages of a RIS."""

import csv
import gzip
import io
from typing import Any

import numpy as np
from PIL import Image, ImageDraw
from scipy.ndimage import gaussian_filter

from bench.strangers import draw
from bench.strangers.build import Families, dicom, uid
from tests.families.base import Build

FAMILIES = Families()
family = FAMILIES.family

_WORDS = {"heart": "cardiomegaly", "effusion": "pleural effusion", "nodule": "nodule", "pneumothorax": "pneumothorax"}
_ROOTS = {"heart": "silu cardiac aument", "effusion": "derram pleural", "nodule": "nodul pulmon", "pneumothorax": "neumotorax"}


def _digits(b: Build, n: int) -> str:
    return "".join(str(v) for v in b.rng.integers(1, 9, n))


@family(
    "torax_in_numbered_parts", "diagnosis", 2,
    "Build a model that reads a chest radiograph and says which findings it shows. A film can have several of them at once.",
    notes="16-bit pictures in numbered folders, one csv.gz with lists of Python as labels, rows of parts that were not downloaded.",
)  # fmt: skip
def torax(b: Build) -> None:
    header = ["", "ImageID", "ImageDir", "StudyDate_DICOM", "StudyID", "PatientID", "PatientBirth", "PatientSex_DICOM",
              "ViewPosition_DICOM", "Projection", "MethodProjection", "Modality_DICOM", "Manufacturer_DICOM", "ReportID",
              "Report", "MethodLabel", "Labels", "Localizations"]  # fmt: skip
    rows: list[list[Any]] = []
    people: dict[str, tuple[int, str]] = {}
    person = ""
    for n in range(60):
        if n % 4 != 3:  # the fourth film is of the person of the third
            person = _digits(b, 38)
        born, sex = people.setdefault(person, (1930 + int(b.rng.integers(60)), b.pick("M", "F")))
        study = _digits(b, 44)
        part = (0, 3, 17, 38)[n % 4]
        name = f"{study}_{b.rng.integers(100):02d}-{b.rng.integers(200):03d}-{b.rng.integers(200):03d}.png"
        signs = [sign for sign in _WORDS if b.rng.random() < 0.34]
        labels = [_WORDS[s] for s in signs] or ["normal"]
        pixels = (np.clip(draw.chest(b.rng, tuple(signs)), 0, 255) * 16).astype(np.uint16)
        written = str([" " + labels[0], *labels[1:]] if n % 19 == 5 else labels)
        report = " . ".join([_ROOTS[s] for s in signs] or ["sin hallazg signific"]) + " ."
        if n in (10, 41):  # the row says nothing
            written, report = "", ""
        row = [n * 37, name, part, 20100101 + n * 137 % 28, study, person, born, sex, b.pick("POSTEROANTERIOR", ""), "PA",
               "Manual review of DICOM fields", b.pick("CR", "DX"), b.pick("ImagingDynamicsCompanyLtd", "PhilipsMedicalSystems"),
               4765777 + n, report, b.pick("Physician", "RNN_model"), written, "['loc basal']" if "effusion" in signs else "[]"]  # fmt: skip
        path = f"{part}/{name}"
        if n == 27:
            b.broken(path)
            rows.append(row)
            continue
        b.picture(path, pixels)
        if n in (33, 52):  # not in the table
            b.truth["left_out"].append(path)
            continue
        if n in (10, 41):
            b.truth["left_out"].append(path)
        else:
            b.case(path, patient=person, label=labels)
        rows.append(row)
    for n in range(5):  # of a part that is not here
        study = _digits(b, 44)
        rows.append([2900 + n, f"{study}_00-0{n}1-007.png", 54, 20110607, study, _digits(b, 38), 1950, "F", "", "PA", "Manual review of DICOM fields",
                     "CR", "PhilipsMedicalSystems", 4766000 + n, "derram pleural .", "Physician", "['pleural effusion']", "[]"])  # fmt: skip
    out = io.StringIO(newline="")
    csv.writer(out, lineterminator="\n").writerows([header, *(rows[i] for i in b.rng.permutation(len(rows)))])
    b.raw("TORAX_chest_x_ray_images_labels_01.02.19.csv.gz", gzip.compress(out.getvalue().encode(), mtime=0))
    smokers = [[p, b.pick("yes", "no", "ex"), int(b.rng.integers(40))] for p in people]
    b.csv("patients_smoking_history.csv", ["PatientID", "smoker", "pack_years"], smokers)
    b.text("README.md", "# Chest radiographs\n\nPNG, 16 bit, zipped in parts (folders 0, 3, 17, 38, 54). Each part is downloaded separately.\n\n"
           "`Labels` are the radiographic findings extracted from the report (by physicians or by a recurrent network).\n"
           "`Report` is the stemmed report in Spanish.\n")  # fmt: skip
    b.text("LICENSE", "Dataset Research Use Agreement. No redistribution, no attempt to identify any person.\n")


def _knee(b: Build, grade: int, left: bool, size: tuple[int, int] = (80, 72)) -> np.ndarray:
    """From 0 to 255: the joint space closes with the grade, spurs and sclerosis come."""
    h, w = size
    out = np.full(size, 60.0)
    gap, mid = 11 - 2.5 * grade, h / 2 + b.rng.uniform(-3, 3)
    out[: int(mid - gap / 2), 14 : w - 14] = 170
    out[int(mid + gap / 2) :, 16 : w - 16] = 165
    if grade >= 2:
        for x in (13, w - 14):
            out[draw.ball(size, (mid + gap / 2 + 2, x), (2.5, 2 + grade))] = 190
    if grade >= 3:
        out[int(mid + gap / 2) : int(mid + gap / 2) + 4, 18 : w - 18] = 235
    out[8:36, 48:58] += 25  # the kneecap, outside of the middle
    out = gaussian_filter(out, 0.8) + b.rng.normal(0, 5, size)
    return np.clip(out[:, ::-1] if left else out, 0, 255)


_CHOICES = "0, none | 1, doubtful | 2, mild | 3, moderate | 4, severe"
_FIELDS = [
    ["record_id", "demographics", "text", "Record ID", ""],
    ["site", "demographics", "radio", "Study site", "1, Leeds | 2, Aarhus | 3, Lund"],
    ["sex", "demographics", "radio", "Sex", "0, male | 1, female"],
    ["age", "demographics", "text", "Age at enrolment", ""],
    ["bmi", "demographics", "text", "BMI", ""],
    ["womac_pain_r", "questionnaire", "text", "WOMAC pain, right knee (0-20)", ""],
    ["womac_pain_l", "questionnaire", "text", "WOMAC pain, left knee (0-20)", ""],
    ["xr_date", "radiograph_reading", "text", "Date of radiograph", ""],
    ["xr_kl_r", "radiograph_reading", "radio", "Kellgren-Lawrence grade, right knee", _CHOICES],
    ["xr_kl_l", "radiograph_reading", "radio", "Kellgren-Lawrence grade, left knee", _CHOICES],
    ["xr_reader", "radiograph_reading", "text", "Initials of reader", ""],
]


@family(
    "knees_from_redcap", "diagnosis", 2,
    "I'd like a model that gives the Kellgren-Lawrence grade of osteoarthritis from a knee radiograph.",
    notes="REDCap export as workbook: a row an event, a column a side; DICOM a knee; codes in a data dictionary; one site inverted.",
)  # fmt: skip
def knees(b: Build) -> None:
    rows = []

    def film(n: int, event: str, side: str, grade: int) -> tuple[str, np.ndarray, dict[str, Any]]:
        code, inverted = f"KOA{1003 + 4 * n}", n % 3 == 1
        pixels = (_knee(b, grade, side == "L") * 16).astype(np.uint16)
        pixels = 4095 - pixels if inverted else pixels
        tags = {"PatientID": code, "PatientName": code, "StudyInstanceUID": uid(b), "SeriesInstanceUID": uid(b), "BodyPartExamined": "KNEE",
                "ImageLaterality": side, "ViewPosition": "PA", "StudyDate": f"20{17 + 2 * (event == 'M24')}0{n % 9 + 1}14", "PixelSpacing": [0.9, 0.9],
                "PhotometricInterpretation": "MONOCHROME1" if inverted else "MONOCHROME2", "BitsStored": 12, "HighBit": 11}  # fmt: skip
        return f"images/{('LDS', 'AAR', 'LND')[n % 3]}/{code}/{code}_{event}_{side}.dcm", pixels, tags

    for n in range(24):
        right = (n * 3 + n // 5) % 5
        left = int(np.clip(right + b.rng.integers(-1, 2), 0, 4))
        for event in ("BL", "M24") if n % 4 == 1 else ("BL",):
            later = event == "M24"
            grades = {"R": min(right + later, 4), "L": left}
            cells: dict[str, Any] = dict(grades)
            for side, grade in grades.items():
                if n == 13 and later:  # did not come for the film
                    cells[side] = None
                    continue
                if n == 6 and side == "L":  # a prosthesis, not filmed
                    cells[side] = None
                    continue
                path, pixels, tags = film(n, event, side, grade)
                if n == 15 and side == "R":
                    b.broken(path, bytes(128) + b"DICM\x02\x00\x00\x00UL")
                    continue
                dicom(b, path, pixels, "DX", **tags)
                if n == 9 and later:  # not read yet
                    cells[side] = None
                    b.truth["left_out"].append(path)
                else:
                    b.case(path, patient=str(1003 + 4 * n), label=str(grade))
            read = any(v is not None for v in cells.values())
            demographics = [None] * 4 if later else [n % 3 + 1, n % 2, 48 + n, round(float(b.rng.uniform(22, 36)), 1)]
            rows.append([1003 + 4 * n, "month_24_arm_1" if later else "baseline_arm_1", *demographics, int(b.rng.integers(21)), int(b.rng.integers(21)),
                         f"20{17 + 2 * later}-0{n % 9 + 1}-14" if read or n == 9 else None, cells["R"], cells["L"], b.pick("jh", "mk") if read else None,
                         2 if read else 0])  # fmt: skip
    for side in "RL":  # films of one who is not in the export
        path, pixels, tags = film(24, "BL", side, 2)
        b.truth["left_out"].append(dicom(b, path, pixels, "DX", **tags))
    rows.append([1111, "baseline_arm_1", 2, 1, 60, 27.4, 8, 6, "2017-05-02", 2, 1, "jh", 2])  # films never arrived
    header = ["record_id", "redcap_event_name", *(f[0] for f in _FIELDS[1:]), "radiograph_reading_complete"]
    b.xlsx("KneeOACohort_DATA_2023-05-11_1412.xlsx", {"KneeOACohort_DATA_2023-05-11_14": [header, *sorted(rows, key=lambda r: (r[0], r[1]))]})
    b.csv("KneeOACohort_DataDictionary_2023-05-11.csv",
          ["Variable / Field Name", "Form Name", "Field Type", "Field Label", "Choices, Calculations, OR Slider Labels"], _FIELDS)  # fmt: skip
    b.text("readme.txt", "Knee OA cohort, pseudonymised. images/<site>/<KOA + record id>/<KOA + record id>_<BL|M24>_<R|L>.dcm\r\n"
           "BL = baseline, M24 = visit after 24 months.\r\n")  # fmt: skip


def _polygon(b: Build, mid: list[float]) -> list[tuple[float, float]]:
    """The corners (x, y) of a lump, with the two decimals that CVAT writes."""
    turns = np.sort(np.linspace(0, 2 * np.pi, 18, endpoint=False) + b.rng.uniform(-0.1, 0.1, 18))
    wide, high = b.rng.uniform(11, 14.5), b.rng.uniform(10, 13)
    far = 1 + b.rng.uniform(-0.07, 0.07, 18)
    return [(round(float(mid[0] + wide * f * np.cos(t)), 2), round(float(mid[1] + high * f * np.sin(t)), 2)) for t, f in zip(turns, far, strict=True)]


def _filled(points: list[tuple[float, float]], size: tuple[int, int]) -> np.ndarray:
    """The pixels of which more than half lie inside; (0, 0) is the corner of the first pixel."""
    fine = Image.new("L", (size[1] * 8, size[0] * 8))
    ImageDraw.Draw(fine).polygon([(8 * x - 0.5, 8 * y - 0.5) for x, y in points], fill=1)
    return np.asarray(fine).reshape(size[0], 8, size[1], 8).mean((1, 3)) > 0.5


@family(
    "thyroid_from_cvat", "anomaly_detection", 2,
    "Train something that outlines thyroid nodules on ultrasound images.",
    notes="CVAT for images 1.1, two tasks; a tag means read and free; frames with neither tag nor polygon were not read; TI-RADS is in a table.",
    mask_tolerance=0.12,
)  # fmt: skip
def thyroid(b: Build) -> None:
    tasks: dict[int, list[str]] = {1: [], 2: []}
    table = []
    for n in range(56):
        size, person, batch = ((80, 96), (76, 88))[n % 2], 112 + 3 * (n // 2), 1 + n // 32
        name = f"batch_{batch}/TUS_{person:04d}_{('RT', 'RL', 'LT', 'LL')[n % 4]}.{'png' if batch == 1 else 'jpg'}"
        scan = 95 + gaussian_filter(b.rng.normal(0, 1, size), 1.2) * 45
        scan[draw.ball(size, (size[0] * 0.55, size[1] * 0.5), (size[0] * 0.4, size[1] * 0.46))] += 45
        scan[:10] = 190 + b.rng.normal(0, 12, (10, size[1]))
        unread, free, mask, shapes = n in (19, 20, 47), n % 5 == 2, np.zeros(size, bool), []
        for k in range(0 if free else 1 + (n % 6 == 3)):
            points = _polygon(b, draw.near(b.rng, size[1] * (0.28, 0.71)[(n + k + 1) % 2], size[0] * 0.56, by=2))
            inside = _filled(points, size)
            mask |= inside
            scan[inside] -= 85
            corners = ";".join(f"{x:.2f},{y:.2f}" for x, y in points)
            shapes.append(
                f'    <polygon label="nodule" source="manual" occluded="0" points="{corners}" z_order="0">\n'
                f'      <attribute name="composition">{b.pick("solid", "mixed", "cystic")}</attribute>\n    </polygon>\n'
            )
        how = {"quality": 95} if batch == 2 else {}
        path = b.picture(f"images/{name}", draw.u8(gaussian_filter(scan, 0.5)), **how)
        if n % 2 == 0:
            table.append([f"TUS_{person:04d}", 88100 + 17 * n, b.pick("F", "F", "M"), 25 + n, 1 if free else int(b.rng.integers(2, 6)), "2021-09"])
        if n == 35:  # was never uploaded to the tool
            b.truth["left_out"].append(path)
            continue
        if unread:
            b.truth["left_out"].append(path)
            shapes = []
        elif free:
            shapes = ['    <tag label="no_nodule" source="manual">\n    </tag>\n']
        if not unread:
            b.case(path, patient=f"TUS_{person:04d}", mask={"nodule": mask})
        head = f'  <image id="{len(tasks[batch])}" name="{name}" width="{size[1]}" height="{size[0]}">\n'
        tasks[batch].append(f"{head}{''.join(shapes)}  </image>\n")
    tasks[2].append('  <image id="23" name="batch_2/TUS_0301_RT.jpg" width="96" height="80">\n'
                    '    <tag label="no_nodule" source="manual">\n    </tag>\n  </image>\n')  # fmt: skip
    label = ('<label><name>nodule</name><color>#ff007c</color><type>polygon</type><attributes><attribute><name>composition</name>'
             '<mutable>False</mutable><input_type>select</input_type><values>solid\nmixed\ncystic</values></attribute></attributes></label>'
             '<label><name>no_nodule</name><color>#33ddff</color><type>tag</type><attributes></attributes></label>')  # fmt: skip
    for batch, images in tasks.items():
        meta = (f"  <meta>\n    <task><id>{40 + batch}</id><name>thyroid batch {batch}</name><size>{len(images)}</size><mode>annotation</mode>"
                f"<labels>{label}</labels></task>\n    <dumped>2022-01-1{batch} 09:21:07.551+00:00</dumped>\n  </meta>\n")  # fmt: skip
        b.text(f"task_{40 + batch}_annotations_2022_01_1{batch}_cvat for images 1.1/annotations.xml",
               f'<?xml version="1.0" encoding="utf-8"?>\n<annotations>\n  <version>1.1</version>\n{meta}{"".join(images)}</annotations>\n')  # fmt: skip
    b.csv("patients.csv", ["us_code", "hospital_no", "sex", "age", "tirads", "exam_month"], table)
    b.text("NOTES.md", "Two CVAT tasks, one per batch. Every nodule has a polygon; an image without a nodule got the tag `no_nodule`.\n"
           "Images that have neither were skipped by the annotators and have not been read.\n\n"
           "TUS code = patient, RT/RL/LT/LL = lobe and plane.\n")  # fmt: skip


_WRIST = {
    "fracture": ("Transverse fracture of the distal radius.", "Fracture of the distal radius."),
    "styloid": ("Avulsion of the ulnar styloid process.", "Ulnar styloid avulsion."),
    "plate": ("Plate in place along the radius, no loosening.", "Status after plating of the radius."),
    "cast": ("The films were taken through a plaster cast.", None),
}


def _wrist(b: Build, signs: list[str], side: bool, size: tuple[int, int] = (88, 64)) -> np.ndarray:
    h, w = size
    out = np.full(size, 35.0)
    out[:, 8 : w - 8] = 70
    x, y = (int(v) for v in draw.near(b.rng, w * (0.42 if side else 0.34), h * 0.44, by=2))
    u = x + (8 if side else 20)
    out[y:, u : u + 8] = 150
    out[y:, x - 7 : x + 7] = 165
    for k in range(5):
        out[draw.ball(size, (y - 6 - 8 * (k % 2), x - 5 + 7 * k * (0.5 if side else 1)), 4.5)] = 150
    if "fracture" in signs:
        out[y + 12 : y + 15, x - 8 : x + 8] = 60
    if "styloid" in signs:
        out[y + 3 : y + 5, u - 1 : u + 9] = 60
    if "plate" in signs:
        out[y + 4 : y + 34, x - 2 : x + 2] = 250
    if "cast" in signs:
        out[:, 3:7] = out[:, w - 7 : w - 3] = 210
        out += 15
    return draw.u8(gaussian_filter(out, 0.6) + b.rng.normal(0, 5, size))


@family(
    "wrists_in_hl7", "report_generation", 2,
    "We want a model that drafts the radiology report for wrist x-rays in our usual wording.",
    notes="Reports are outgoing HL7 messages (ORU), a line an OBX; the accession is OBR-3 and the folder of the films; patient in PID-3.",
)  # fmt: skip
def wrists(b: Build) -> None:
    manifest = []
    for n in range(50):
        order, mrn = f"RX22{n % 9 + 1:02d}{31177 + 41 * n}", 7100233 + 1709 * (n - (n % 7 == 4))
        day, filmed = f"2022{n % 9 + 1:02d}{n % 27 + 1:02d}", n < 45
        signs = [s for s in _WRIST if b.rng.random() < (0.45 if s == "fracture" else 0.25)]
        views = ("ap", "lat") if n % 3 else ("ap",)
        found = [_WRIST[s][0] for s in signs if s != "cast"] or ["No fracture line is visible.", "Normal alignment of the carpal bones."]
        lines = [f"XR {b.pick('left', 'right')} wrist, {len(views)} view{'s' * (len(views) > 1)}.", "", "Findings:"]
        lines += [_WRIST["cast"][0]] * ("cast" in signs) + found + b.pick([], ["Soft tissues unremarkable."])
        lines += ["", "Impression:", " ".join([_WRIST[s][1] for s in signs if s != "cast"] or ["No acute bony injury."])]
        code = "XRWRIST^XR WRIST^L"
        if not filmed:
            lines = ["Ultrasound of the abdomen.", "", "Findings:", "Liver and spleen of normal size.", "", "Impression:", "Normal."]
            code = "USABD^US ABDOMEN^L"
        if filmed:
            base = f"images/{day[:6]}/{order}/{order}"
            films = [b.picture(f"{base}_{k + 1}_{v}.jpg", _wrist(b, signs, v == "lat"), quality=93) for k, v in enumerate(views)]
            manifest.append([order, mrn, day, b.pick("M", "F"), 20 + n, len(films)])
            if n in (12, 30):  # the message never came
                b.truth["left_out"] += films
                continue
            b.case(films, patient=str(mrn), text="\n".join(lines), views=len(films))
        segments = [
            f"MSH|^~\\&|RIS|KSN|ARCHIVE|KSN|{day}{n % 10 + 8:02d}4210||ORU^R01|{880120 + 3 * n}|P|2.3.1",
            f"PID|1||{mrn}^^^KSN^MR||REMOVED^REMOVED||{1930 + n}0101|{'MF'[n % 2]}",
            "PV1|1|E|ED",
            f"OBR|1|{560031 + n}|{order}|{code}|||{day}{n % 10 + 7:02d}1500" + "|" * 18 + "F",
            *(f"OBX|{k + 1}|TX|18782-3^Radiology Study observation^LN||{line}||||||F" for k, line in enumerate(lines)),
        ]
        b.raw(f"hl7_out/{day[:6]}/ORU_{day}_{880120 + 3 * n}.hl7", "\r".join([*segments, ""]).encode())
    b.csv("images/manifest.csv", ["accession", "mrn", "exam_date", "sex", "age", "n_images"], manifest)
    b.text("README.txt", "Wrist films of the emergency department 2022, and the reports as sent by the RIS (HL7 v2.3.1).\n"
           "The RIS sends everything, so there are a few messages of other exams.\n")  # fmt: skip
