"""Volumes: a download of a memory cohort, two frames of a cine, a prostate challenge in two trees, CTs among films."""

from typing import Any

import numpy as np
from scipy.ndimage import zoom

from bench.strangers import draw
from bench.strangers.build import Families, tsv
from tests.families.base import Build

FAMILIES = Families()
family = FAMILIES.family


@family(
    "memory_cohort_download", "diagnosis", 3,
    "Build a classifier that tells from a T1 brain MRI whether someone is cognitively normal, has mild cognitive impairment or Alzheimer's disease.",
    notes="Image id in folder and name; the table of the download has the group; same-day repeats and later visits; other tables by RID.",
)  # fmt: skip
def memory(b: Build) -> None:
    rows: list[list[str]] = []
    visits, image = [], 31020
    for n in range(32):
        group, site, rid = ("CN", "MCI", "AD")[(n + n // 3) % 3], (2, 11, 23, 41)[n % 4], 107 + 29 * n
        subject, sex, age = f"{site:03d}_S_{rid:04d}", b.pick("M", "F"), 60 + int(b.rng.integers(28))
        loss = {"CN": 0.0, "MCI": 0.5, "AD": 1.0}[group] + b.rng.uniform(-0.1, 0.1)
        scans = [("sc", "MP-RAGE", 2006)] + [("sc", "MP-RAGE_REPEAT", 2006)] * (n % 4 == 1) + [("m12", "MP-RAGE", 2007)] * (n % 5 == 2)
        for code, series, year in scans:
            image += int(b.rng.integers(3, 900))
            month, day = n % 12 + 1, n % 27 + 1
            stamp = f"{year}{month:02d}{day:02d}{b.rng.integers(10**8, 10**9)}"
            folder = f"ADRC/{subject}/{series}/{year}-{month:02d}-{day:02d}_{9 + n % 8:02d}_{20 + (series != 'MP-RAGE') * 9}_11.0/I{image}"
            path = f"{folder}/ADRC_{subject}_MR_{series}__br_raw_{stamp}_1_S{image // 2}_I{image}.nii"
            scan = draw.brain(b.rng, loss, (32, 36, 18))
            listed = n not in (7, 26)
            if n == 18 and code == "sc":
                b.broken(path, b"\x5c\x01\x00\x00" + bytes(300))
            else:
                b.nifti(path, scan, np.diag([-5.0, -5.0, 8.0, 1.0]))
                if listed:
                    b.case(path, patient=subject, label=group)
                else:
                    b.truth["left_out"].append(path)
            if listed:
                rows.append([f"I{image}", subject, group, sex, str(age + (code == "m12")), code, "MRI", series, "Original",
                             f"{month}/{day}/{year}", "NiFTI", "6/14/2023"])  # fmt: skip
            if series == "MP-RAGE":
                score = {"CN": 28, "MCI": 27, "AD": 23}[group] + int(b.rng.integers(-2, 3))
                visits.append([rid, site, code, f"{year}-{month:02d}-{day:02d}", score])
    for n in range(4):  # in the collection, not downloaded
        rows.append([f"I{90011 + 7 * n}", "023_S_1190", "MCI", "F", "71", f"m{6 * n + 6:02d}", "MRI", "MP-RAGE", "Original",
                     f"{n + 2}/9/2008", "NiFTI", ""])  # fmt: skip
    header = ["Image Data ID", "Subject", "Group", "Sex", "Age", "Visit", "Modality", "Description", "Type", "Acq Date",
              "Format", "Downloaded"]  # fmt: skip
    lines = [",".join(f'"{cell}"' for cell in row) for row in (header, *(rows[i] for i in b.rng.permutation(len(rows))))]
    b.text("ADRC1_Screening_MPRAGE_6_14_2023.csv", "\n".join(lines) + "\n")
    b.csv("Study_Info/MMSE.csv", ["RID", "SITEID", "VISCODE", "VISDATE", "MMSCORE"], visits)
    b.csv("Study_Info/APOERES.csv", ["RID", "SITEID", "APGEN1", "APGEN2"],
          [[107 + 29 * n, (2, 11, 23, 41)[n % 4], b.pick(2, 3, 3), b.pick(3, 3, 4)] for n in range(32)])  # fmt: skip
    b.csv("Study_Info/PTDEMOG.csv", ["RID", "SITEID", "PTGENDER", "PTEDUCAT", "PTHAND"],
          [[107 + 29 * n, (2, 11, 23, 41)[n % 4], b.pick(1, 2), int(b.rng.integers(6, 20)), 1] for n in range(32)])  # fmt: skip


def _heart(b: Build, squeezed: bool, shape: tuple[int, int, int] = (40, 36, 8)) -> tuple[np.ndarray, np.ndarray]:
    """Short axis: blood is bright, muscle dark. 1 right cavity, 2 muscle, 3 left cavity."""
    mid = draw.near(b.rng, 22, 18, shape[2] / 2, by=1)
    inner = b.rng.uniform(4.0, 4.6) if squeezed else b.rng.uniform(6.2, 7.0)
    left = draw.ball(shape, mid, (inner, inner, 3.4))
    outer = draw.ball(shape, mid, (9.6, 9.6, 3.9))
    right = draw.ball(shape, (mid[0] - 9, mid[1] - 3, mid[2]), (5.5 if squeezed else 7.5, 9, 3.2)) & ~outer
    marked = np.zeros(shape, np.uint8)
    marked[right], marked[outer], marked[left] = 1, 2, 3
    scan = np.full(shape, 110.0)
    for value, grey in ((1, 255), (2, 60), (3, 275)):
        scan[marked == value] = grey
    return np.clip(scan + b.rng.normal(0, 9, shape), 0, None), marked


@family(
    "cine_two_frames", "organ_segmentation", 3,
    "Please build a model that segments the right ventricle, the myocardium and the left ventricle on short-axis cardiac MRI.",
    notes="Two frames of each patient are outlined (_gt beside them), the 4D cine is not; the testing patients have no outlines.",
)  # fmt: skip
def cine(b: Build) -> None:
    affine = np.diag([-1.5, -1.5, 8.0, 1.0])
    for n in range(26):
        code = f"patient{n + 1 if n < 21 else 80 + n:03d}"
        base, group, end = f"database/{'training' if n < 21 else 'testing'}/{code}", ("NOR", "DCM", "HCM", "MINF", "RV")[n % 5], 3 + n % 3
        frames = {}
        for frame, squeezed in ((1, False), (end, True)):
            scan, marked = _heart(b, squeezed)
            frames[frame] = scan
            path = f"{base}/{code}_frame{frame:02d}.nii.gz"
            if n == 16 and frame == 1:
                b.broken(path, b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03" + b"\x63\x60" * 20)
                b.nifti(path.replace(".nii", "_gt.nii"), marked, affine, np.uint8)
                continue
            b.nifti(path, scan, affine)
            if n >= 21 or (n == 9 and squeezed):  # the outline of one is missing
                b.truth["left_out"].append(path)
                continue
            b.nifti(path.replace(".nii", "_gt.nii"), marked, affine, np.uint8)
            names = {"right ventricular cavity": 1, "myocardium": 2, "left ventricular cavity": 3}
            b.case(path, patient=code, mask={name: marked == value for name, value in names.items()})
        closed = [max(0.0, 1 - abs(t - end + 1) / (end - 1)) for t in range(5)]
        beat = np.stack([frames[1] * (1 - k) + frames[end] * k for k in closed], -1)
        b.truth["left_out"].append(b.nifti(f"{base}/{code}_4d.nii.gz", beat, affine))
        known = f"Group: {group}\n" if n < 21 else ""
        b.text(f"{base}/Info.cfg", f"ED: 1\nES: {end}\n{known}Height: {150 + n}.0\nNbFrame: 5\nWeight: {55 + 2 * n}.0\n")
    b.text("database/MANDATORY_CITATION.md", "If you use this database, cite the challenge paper.\n")
    b.text("README.md", "# Automated cardiac segmentation challenge\n\n`patientXXX_4d.nii.gz`: the whole cine. "
           "`patientXXX_frameYY.nii.gz`: end-diastole and end-systole (see Info.cfg).\n`patientXXX_frameYY_gt.nii.gz`: "
           "reference, 0 background, 1 right ventricular cavity, 2 myocardium, 3 left ventricular cavity.\n"
           "The reference of the testing set is kept by the organisers.\n")  # fmt: skip
    b.text("LICENSE.txt", "CC BY-NC-SA 4.0\n")


@family(
    "prostate_in_two_trees", "anomaly_detection", 3,
    "Build a model that detects and outlines clinically significant cancer on biparametric prostate MRI.",
    notes="T2, ADC and high-b as mha by patient and study in folds; outlines as NIfTI in another tree, on the grid of T2; the gland is outlined too.",
)  # fmt: skip
def prostate(b: Build) -> None:
    rows = []
    shape = (40, 36, 10)
    for n in range(30):
        person = 10005 + 13 * (n - (n % 9 == 4))
        study = f"{person}_{1000017 + 31 * n}"
        gland = draw.ball(shape, draw.near(b.rng, 20, 18, 5, by=1), (11, 9, 4))
        sick = n % 3 != 1
        spot = draw.near(b.rng, 20 + b.pick(-5, 5), 19, 5, by=1)
        lesion = draw.ball(shape, spot, (3.2, 3, 1.9)) & gland & sick
        series = {}
        for name, (outside, inside, sign) in {"t2w": (200, 420, 210), "adc": (900, 1500, 600), "hbv": (30, 45, 150)}.items():
            scan = np.where(gland, inside, outside).astype(float)
            scan[lesion] = sign
            series[name] = scan + b.rng.normal(0, outside * 0.06, shape)
        files = []
        for name, scan in series.items():
            coarse = name != "t2w"  # half the resolution in the plane
            array = zoom(scan, (0.5, 0.5, 1), order=1, grid_mode=True, mode="nearest") if coarse else scan
            spacing = (3.0, 3.0, 3.0) if coarse else (1.5, 1.5, 3.0)
            files.append(b.itk(f"images/fold{n % 3}/{person}/{study}_{name}.mha", np.clip(np.round(array), 0, None).astype(np.int16), spacing))
        b.nifti(f"labels/anatomical_delineations/whole_gland/AI/{study}.nii.gz", gland, dtype=np.uint8)
        if n in (6, 17, 24):  # only by biopsy, nobody outlined it
            b.truth["left_out"] += files
        else:
            b.nifti(f"labels/csPCa_lesion_delineations/human_expert/{study}.nii.gz", lesion, dtype=np.uint8)
            b.case(files, patient=str(person), mask={"csPCa lesion": lesion}, channels=3)
        psa = round(float(b.rng.uniform(2, 18)), 1)
        grade = int(b.rng.integers(2, 6)) if sick else int(b.rng.integers(0, 2))
        rows.append([person, 1000017 + 31 * n, f"20{12 + n % 9}-0{n % 9 + 1}-21", 52 + n, psa, round(psa / 55, 2), 55, b.pick("MRBx", "SysBx", "RP"),
                     grade, "YES" if sick else "NO", ("RUMC", "ZGT", "PCNN")[n % 3]])  # fmt: skip
    header = ["patient_id", "study_id", "mri_date", "patient_age", "psa", "psad", "prostate_volume", "histopath_type", "case_ISUP",
              "case_csPCa", "center"]  # fmt: skip
    b.csv("labels/clinical_information/marksheet.csv", header, rows)
    b.text("labels/README.md", "# Annotations\n\n- `csPCa_lesion_delineations/human_expert`: outlines of csPCa (ISUP >= 2) by trained "
           "investigators, on the grid of the axial T2W scan. 0 background, 1 csPCa lesion. All zeros where there is no csPCa. "
           "Not every study has been outlined.\n"
           "- `anatomical_delineations/whole_gland/AI`: prostate gland, by a network.\n"
           "- `clinical_information/marksheet.csv`: one row a study.\n")  # fmt: skip
    b.text("labels/LICENSE", "CC BY-NC 4.0\n")
    b.text("images/README.txt", "images/foldK/<patient_id>/<patient_id>_<study_id>_{t2w,adc,hbv}.mha\n"
           "t2w: axial T2, adc: apparent diffusion coefficient, hbv: high b-value.\n")  # fmt: skip


_SPANISH = {
    "sick": ("opacidades parcheadas bilaterales en vidrio deslustrado .", "patron compatible con neumonia bilateral ."),
    "effusion": ("derrame pleural bilateral .",),
    "right": ("nodulo solido en pulmon derecho .",),
    "left": ("nodulo solido en pulmon izquierdo .",),
}


def _chest_ct(b: Build, signs: list[str], shape: tuple[int, int, int] = (40, 36, 10)) -> np.ndarray:
    scan = draw.lung_ct(b.rng, "sick" in signs, shape)
    if "effusion" in signs:  # at the bottom and the back of both lungs
        x, y, _ = shape
        for side in (0.3, 0.7):
            low = draw.ball(shape, (x * side, y * 0.62, 1), (x * 0.15, y * 0.14, 3.5))
            scan[low] = 15 + b.rng.normal(0, 20, int(low.sum()))
    for name, side in (("right", 0.3), ("left", 0.7)):  # x runs to the left of the patient
        if name in signs:
            scan[draw.ball(shape, draw.near(b.rng, shape[0] * side, shape[1] * 0.42, 6, by=1.5), (3, 3, 1.8))] = 70
    return scan


@family(
    "ct_among_films", "report_generation", 3,
    "Build a model that writes the report of a chest CT, in Spanish as our radiologists do.",
    notes="BIDS-like with mod-ct and mod-rx; one tsv with the reports of both by session; tables of tests and people beside it.",
)  # fmt: skip
def informes(b: Build) -> None:
    reports: list[list[Any]] = [["PatientID", "ReportID", "StudyDate", "Report", "Labels"]]
    people: dict[str, list[Any]] = {}
    entries = []
    for n in range(52):
        person, session, film = f"S0{3041 + 17 * (n - (n % 6 in (3, 5)))}", f"E0{6130 + 23 * n}", n % 6 == 5
        date = f"2020{n % 5 + 3:02d}{n % 27 + 1:02d}"
        signs = [s for s in _SPANISH if b.rng.random() < 0.35]
        if {"right", "left"} <= set(signs):
            signs.remove("left")
        stem = f"sub-{person}_ses-{session}_run-1_bp-chest"
        side = {"StudyDate": date, "Manufacturer": b.pick("SIEMENS", "Philips", "GE"), "BodyPart": "chest"}
        if film:
            seen = [{"sick": "opacity", "right": "nodule", "left": "nodule"}.get(s, s) for s in signs]
            pixels = (np.clip(draw.chest(b.rng, tuple(seen)), 0, 255) * 16).astype(np.uint16)
            path = b.picture(f"sub-{person}/ses-{session}/mod-rx/{stem}_vp-pa_dx.png", pixels)
            text = "rx torax . " + ("alteraciones descritas en tc previo ." if signs else "sin alteraciones .")
            b.truth["left_out"].append(path)
        else:
            path = b.nifti(f"sub-{person}/ses-{session}/mod-ct/{stem}_ct.nii.gz", _chest_ct(b, signs))
            found = [_SPANISH[s][int(b.rng.integers(len(_SPANISH[s])))] for s in signs]
            text = b.pick("tc torax sin contraste . ", "estudio de tc toracico . ")
            text += " ".join(found or ["parenquima pulmonar sin hallazgos ."]) + ("" if "effusion" in signs else " no se observa derrame pleural .")
            if n in (14, 37):  # no report
                b.truth["left_out"].append(path)
            else:
                b.case(path, patient=person, text=text)
        b.json(path.split(".")[0] + ".json", {"Modality": "DX" if film else "CT", **side})
        people.setdefault(person, [f"sub-{person}", [], b.pick("M", "F"), 35 + int(b.rng.integers(50))])[1].append("dx" if film else "ct")
        if n not in (14, 37):
            entries.append([person, session, date, text, str(["derrame pleural"] if "effusion" in signs else ["sin derrame"])])
    for n in range(3):  # the images of these were not released
        text = "tc torax sin contraste . parenquima pulmonar sin hallazgos ."
        entries.append([f"S0{9001 + n}", f"E0{9950 + n}", "20200611", text, "['sin derrame']"])
    tsv(b, "derivatives/labels/reports_es.tsv", reports + [entries[i] for i in b.rng.permutation(len(entries))])
    header = ["participant", "modality_dicom", "gender", "age"]
    tsv(b, "participants.tsv", [header, *([p[0], str(sorted(set(p[1]))), *p[2:]] for p in people.values())])
    tests = [[p, b.pick("PCR", "PCR", "IgG"), f"2020{n % 5 + 3:02d}02", b.pick("POSITIVO", "NEGATIVO")] for n, p in enumerate(people)]
    tsv(b, "derivatives/EHR/sars_cov_2_tests.tsv", [["PatientID", "test", "date", "result"], *tests])
    b.json("dataset_description.json", {"Name": "Torax RX y TC 2020", "BIDSVersion": "1.3.0-dev", "License": "restricted"})
    b.text("README", "RX (mod-rx) and CT (mod-ct) of the chest. ReportID is the session (ses-).\n"
           "Free text in derivatives/labels/reports_es.tsv, lower case, without accents.\n")  # fmt: skip
