"""Diagnosis on volumes: BIDS, NIfTI, ITK formats, TIFF stacks and several sequences."""

import numpy as np
import tifffile

from .base import Build, family, lps
from .volumes import SEQUENCES, abdomen, brain, chest_ct


@family(
    "patient_table_scans",
    "diagnosis",
    3,
    "alzheimer vs control from T1 MRI",
    notes="one row a patient, one to three scans each named after the patient; two patients without scans",
)
def patient_table_scans(b: Build) -> None:
    rows = []
    for number in range(1, 19):
        kind = "AD" if number % 2 else "control"
        patient = f"OAS2_{number * 3:04d}"
        rows.append((patient, b.pick("M", "F"), int(b.rng.integers(60, 95)), int(b.rng.integers(14, 31)), kind))
        for visit in range(1, int(b.rng.integers(1, 4)) + 1):
            path = f"scans/{patient}_MR{visit}.nii.gz"
            b.case(b.nifti(path, brain(b.rng, kind)[0]["T1"]), patient=patient, label=kind)
    rows += [("OAS2_0990", "F", 71, 29, "control"), ("OAS2_0993", "M", 80, 20, "AD")]
    b.csv("patients.csv", ("Subject ID", "M/F", "Age", "MMSE", "Group"), rows)


@family(
    "bids_participants",
    "diagnosis",
    3,
    "BIDS dataset with T1w, classify patient group AD vs. HC",
    notes="label is the column `group` of participants.tsv; one n/a; one without image; "
    "sidecars and derivatives are clutter",
)
def bids_participants(b: Build) -> None:
    b.json("dataset_description.json", {"Name": "memory clinic", "BIDSVersion": "1.8.0", "DatasetType": "raw"})
    b.json("participants.json", {"group": {"Levels": {"AD": "Alzheimer's disease", "HC": "healthy control"}}})
    rows = []
    for i in range(1, 31):
        sub, kind = f"sub-{i:02d}", ("AD", "HC")[i % 2]
        rows.append((sub, int(b.rng.integers(55, 90)), b.pick("F", "M"), "n/a" if i == 9 else kind))
        if i == 12:
            continue
        path = f"{sub}/anat/{sub}_T1w.nii.gz"
        b.nifti(path, brain(b.rng, "AD" if kind == "AD" else "control")[0]["T1"])
        b.json(
            path.replace(".nii.gz", ".json"), {"Modality": "MR", "RepetitionTime": 2.3, "PatientName": "CANARY^NAME"}
        )
        if i == 9:
            b.truth["left_out"].append({"file": path, "why": "group is n/a"})
        else:
            b.case(path, patient=sub, label=kind)
        b.text(f"derivatives/freesurfer/{sub}/stats/aseg.stats", "# Measure BrainSeg, 1100000\n")
    b.csv("participants.tsv", ("participant_id", "age", "sex", "group"), rows, sep="\t")
    b.text("README", "T1w of a memory clinic.\n")
    b.text("CHANGES", "1.0.0 2019-03-04 first\n")


@family(
    "bids_sessions",
    "diagnosis",
    3,
    "progression yes/no for each session, T1w brain MRI bids",
    notes="label per session (sessions.tsv in each subject), several sessions a subject; bold runs are no cases",
)
def bids_sessions(b: Build) -> None:
    b.json("dataset_description.json", {"Name": "follow up", "BIDSVersion": "1.8.0"})
    b.csv("participants.tsv", ("participant_id", "sex"), [(f"sub-P{i:03d}", "F") for i in range(1, 15)], sep="\t")
    for i in range(1, 15):
        sub, rows = f"sub-P{i:03d}", []
        for s in (1, 2):
            bad = b.rng.random() < 0.5
            path = f"{sub}/ses-{s:02d}/anat/{sub}_ses-{s:02d}_T1w.nii.gz"
            b.nifti(path, brain(b.rng, "AD" if bad else "control")[0]["T1"])
            b.case(path, patient=sub, label="yes" if bad else "no")
            rows.append((f"ses-{s:02d}", "2019-03-04", "yes" if bad else "no"))
            if i % 5 == 0:
                bold = b.rng.integers(0, 400, (12, 12, 6, 5))
                b.nifti(f"{sub}/ses-{s:02d}/func/{sub}_ses-{s:02d}_task-rest_bold.nii.gz", bold)
        b.csv(f"{sub}/{sub}_sessions.tsv", ("session_id", "acq_date", "progression"), rows, sep="\t")


@family(
    "nrrd_volumes",
    "diagnosis",
    3,
    "nrrd CTs of the liver: tumor present?",
    notes="NRRD volumes, a CSV with 0/1; some have a detached Slicer scene and a .seg.nrrd beside, which are no images",
)
def nrrd_volumes(b: Build) -> None:
    rows = []
    for i in range(1, 29):
        sick = i % 2
        volume, masks = abdomen(b.rng, tumour=bool(sick))
        path = b.itk(f"volumes/case_{i:02d}.nrrd", volume)
        b.case(path, patient=f"case_{i:02d}", label=str(sick))
        rows.append((f"case_{i:02d}", sick))
        if i % 6 == 0:
            b.itk(f"volumes/case_{i:02d}.seg.nrrd", masks["liver"].astype(np.uint8))
    b.csv("labels.csv", ("case", "tumor"), rows)
    b.text("volumes/scene.mrml", '<MRML version="Slicer4.4.0"></MRML>\n')


@family(
    "mha_volumes",
    "diagnosis",
    3,
    "COVID severity from CT (mha)",
    notes="MHA files named by a number; the reference table keys them as PatientID; "
    "of the columns probCOVID and probSevere the request means the second",
)
def mha_volumes(b: Build) -> None:
    rows = []
    for i in range(26):
        severe = b.rng.random() < 0.5
        number = 17 + 13 * i
        b.case(
            b.itk(f"data/mha/{number}.mha", chest_ct(b.rng, "covid" if severe else "normal")[0]),
            patient=str(number),
            label=str(int(severe)),
        )
        rows.append((number, int(severe or b.rng.random() < 0.5), int(severe), int(b.rng.integers(30, 90))))
    b.csv("metadata/reference.csv", ("PatientID", "probCOVID", "probSevere", "age"), rows)


@family(
    "mhd_raw_subsets",
    "diagnosis",
    3,
    "does this chest ct contain a nodule? (LUNA like data)",
    notes="header .mhd with pixels in .raw, in subset0/1/2, named by series UID; the subsets are folds, not classes",
    patients_known=False,
)
def mhd_raw_subsets(b: Build) -> None:
    rows = []
    for i in range(27):
        sick = b.rng.random() < 0.5
        name = f"1.3.6.1.4.1.14519.5.2.1.6279.6001.{100000 + int(b.rng.integers(9 * 10**5)):d}{i:03d}"
        path = b.itk(f"subset{i % 3}/{name}.mhd", chest_ct(b.rng, "nodule" if sick else "normal")[0], packed=False)
        b.case(path, label="1" if sick else "0")
        rows.append((name, int(sick)))
    b.csv("series_labels.csv", ("seriesuid", "nodule"), rows)


@family(
    "tiff_stacks_16bit",
    "diagnosis",
    3,
    "OCT/microscopy stacks, 16 bit tif, treated or untreated cells?",
    notes="multi-page 16-bit TIFF, a page a slice, values up to 40000; class in the folder, well number in the name",
    patients_known=False,
)
def tiff_stacks_16bit(b: Build) -> None:
    for folder, kind in (("treated", "covid"), ("untreated", "normal")):
        for i in range(1, 14):
            volume, _ = chest_ct(b.rng, kind, (32, 28, 12))
            stack = ((volume.astype(np.int32) + 1024) * 16).clip(0, 40000).astype(np.uint16)
            path = f"{folder}/well_{b.pick('A', 'B', 'C')}{i:02d}.tif"
            tifffile.imwrite(b.at(path), np.ascontiguousarray(stack.T), photometric="minisblack")
            b.case(path, label=folder)
    b.text("settings.xml", '<?xml version="1.0"?><microscope objective="20x"/>')


@family(
    "sequences_as_channels",
    "diagnosis",
    3,
    "glioma grading HGG/LGG with all four MR sequences (flair, t1, t1ce, t2)",
    notes="four files a patient in one folder are the channels; one patient lacks t1ce; "
    "_seg files are masks, not channels",
)
def sequences_as_channels(b: Build) -> None:
    rows = []
    for i in range(1, 27):
        kind, name = ("HGG", "LGG")[i % 2], f"BraTS_{i:03d}"
        images, masks = brain(b.rng, kind)
        files = []
        for s in SEQUENCES:
            if not (i == 11 and s == "T1ce"):
                files.append(b.nifti(f"MICCAI_Train/{name}/{name}_{s.lower()}.nii.gz", images[s]))
        b.nifti(f"MICCAI_Train/{name}/{name}_seg.nii.gz", masks["core"], dtype=np.uint8)
        if i == 11:
            b.truth["left_out"].append({"patient": name, "why": "t1ce is missing"})
        else:
            b.case(files, patient=name, label=kind, channels=4, channel_names=[s.lower() for s in SEQUENCES])
        rows.append((kind, name))
    b.csv("MICCAI_Train/name_mapping.csv", ("Grade", "Subject"), rows)


@family(
    "nifti_4d_channels",
    "diagnosis",
    3,
    "Tell HGG from LGG, 4D niftis (4 contrasts in one file)",
    notes="4th axis is the contrast (FLAIR, T1, T1ce, T2), not time; labels in a TSV",
)
def nifti_4d_channels(b: Build) -> None:
    rows = []
    for i in range(24):
        kind = ("HGG", "LGG")[i % 2]
        images, _ = brain(b.rng, kind, (28, 32, 14))
        path = f"imgs/TUM{i:03d}.nii.gz"
        b.nifti(path, np.stack([images[s] for s in SEQUENCES], axis=-1), lps((2, 2, 4)))
        b.case(path, patient=f"TUM{i:03d}", label=kind, channels=4)
        rows.append((f"TUM{i:03d}", kind))
    b.csv("grades.tsv", ("tumor_id", "grade"), rows, sep="\t")
    b.text("README.md", "# MR of gliomas\n4D NIfTI, last axis = contrast: FLAIR, T1, T1 with gadolinium, T2\n")
