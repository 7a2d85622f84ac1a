"""Datasets about which a person must be asked. `ask` in the truth: the question, its options and this set's answer."""

import numpy as np

from .base import Build, family
from .pictures import chest_film, skin, ultrasound
from .volumes import abdomen, brain


@family(
    "two_label_columns",
    "diagnosis",
    2,
    "benign or malignant breast ultrasound classification",
    notes="diagnosis_radiology and diagnosis_pathology are equally filled and differ in a fifth of the rows",
    expect="ask",
    ask={
        "question": "which column is the reference",
        "options": ["diagnosis_radiology", "diagnosis_pathology"],
        "answer": "diagnosis_pathology",
    },
)
def two_label_columns(b: Build) -> None:
    rows = []
    for i in range(1, 41):
        truth, other = ("benign", "malignant")[:: b.pick(1, -1)]
        b.case(b.picture(f"us/{i:03d}.png", ultrasound(b.rng, truth)[0]), patient=f"B{i:03d}", label=truth)
        seen = other if i % 5 == 0 else truth
        b.truth["cases"][-1]["answers"] = {"diagnosis_radiology": seen, "diagnosis_pathology": truth}
        rows.append((f"B{i:03d}", f"{i:03d}.png", seen, truth))
    b.csv("cases.csv", ("patient", "image", "diagnosis_radiology", "diagnosis_pathology"), rows)


@family(
    "two_mask_folders",
    "anomaly_detection",
    2,
    "skin lesion segmentation",
    patients_known=False,
    notes="masks_readerA and masks_readerB for every picture; B draws wider",
    expect="ask",
    ask={
        "question": "which reader's masks are the reference",
        "options": ["masks_readerA", "masks_readerB"],
        "answer": "masks_readerA",
    },
)
def two_mask_folders(b: Build) -> None:
    from scipy.ndimage import binary_dilation

    for i in range(32):
        image, mask = skin(b.rng, b.pick("nevus", "melanoma"))
        wide = binary_dilation(mask, iterations=2)
        b.picture(f"masks_readerA/les{i:03d}.png", mask.astype(np.uint8) * 255)
        b.picture(f"masks_readerB/les{i:03d}.png", wide.astype(np.uint8) * 255)
        counts = {"masks_readerA": {"lesion": int(mask.sum())}, "masks_readerB": {"lesion": int(wide.sum())}}
        path = b.picture(f"images/les{i:03d}.png", image)
        b.case(path, mask={"lesion": mask}, channels=3, answers=counts)


@family(
    "three_readers",
    "organ_segmentation",
    3,
    "prostate... no sorry, liver segmentation from CT, three radiologists annotated",
    notes="liver_r1, _r2, _r3 a patient by three readers, no consensus file; r2 left out four patients",
    expect="ask",
    ask={"question": "which reader, or a vote", "options": ["r1", "r2", "r3", "majority"], "answer": "r1"},
)
def three_readers(b: Build) -> None:
    for i in range(1, 25):
        volume, masks = abdomen(b.rng)
        name, counts = f"pat_{i:02d}", {}
        for reader in (1, 2, 3):
            if reader == 2 and i % 6 == 0:
                continue
            mask = np.roll(masks["liver"], reader - 1, axis=0)
            b.nifti(f"{name}/liver_r{reader}.nii.gz", mask, dtype=np.uint8)
            counts[f"r{reader}"] = {"liver": int(mask.sum())}
        path = b.nifti(f"{name}/ct.nii.gz", volume)
        b.case(path, patient=name, mask={"liver": masks["liver"]}, answers=counts)


@family(
    "patient_or_exam",
    "diagnosis",
    2,
    "cardiomegaly vs normal from the thorax films",
    notes="columns `Akte` and `Fall` both group films; Akte is coarser; nothing says which of them is the person",
    expect="ask",
    ask={"question": "which column tells patients apart", "options": ["Akte", "Fall"], "answer": "Akte"},
)
def patient_or_exam(b: Build) -> None:
    rows, number = [], 0
    for chart in range(1, 15):
        for stay in range(1, 3):
            ill = b.rng.random() < 0.5
            for _ in range(int(b.rng.integers(1, 3))):
                number += 1
                path = b.picture(f"f/{number:04d}.png", chest_film(b.rng, *(["cardiomegaly"] if ill else []))[0])
                case = f"F{chart * 31 % 17:02d}{stay}"
                b.case(
                    path, patient=f"A{chart}", label="yes" if ill else "no", answers={"Akte": f"A{chart}", "Fall": case}
                )
                rows.append((f"{number:04d}.png", f"A{chart}", case, "yes" if ill else "no"))
    b.csv("liste.csv", ("Bild", "Akte", "Fall", "Cardiomegaly"), rows, sep=";")


@family(
    "two_targets",
    "diagnosis",
    3,
    "predict the outcome from the brain MRI",
    notes="the table holds `responder` and `progression_6m`, both binary and filled; `outcome` means either",
    expect="ask",
    ask={"question": "which outcome", "options": ["responder", "progression_6m"], "answer": "responder"},
)
def two_targets(b: Build) -> None:
    rows = []
    for i in range(26):
        kinds = {"HGG": "yes", "LGG": "no"}
        kind, other = b.pick(*kinds), b.pick("yes", "no")
        path = b.nifti(f"mri/S{i:03d}.nii.gz", brain(b.rng, kind)[0]["T1ce"])
        b.case(
            path, patient=f"S{i:03d}", label=kinds[kind], answers={"responder": kinds[kind], "progression_6m": other}
        )
        rows.append((f"S{i:03d}", int(b.rng.integers(30, 80)), kinds[kind], other))
    b.csv("clinical.csv", ("subject", "age", "responder", "progression_6m"), rows)
