"""Datasets whose patients stand in names that no separator or word sets apart."""

import numpy as np

from .base import Build, family
from .pictures import chest_film, fundus, histology
from .volumes import brain


@family(
    "sides_by_letter",
    "anomaly_detection",
    2,
    "segment the bleedings of the fundus photos",
    notes="01L and 01R are the two eyes of one child",
)
def sides_by_letter(b: Build) -> None:
    for n in range(1, 16):
        for side in "LR":
            image, masks = fundus(b.rng, 2)
            path = b.picture(f"EYES/Image_{n:02d}{side}.jpg", image, quality=95)
            b.picture(f"EYES/Image_{n:02d}{side}_mask.png", masks["haemorrhage"].astype(np.uint8) * 255)
            b.case(path, patient=f"{n:02d}", mask={"haemorrhage": masks["haemorrhage"]}, channels=3)


@family(
    "class_letter_before_number",
    "diagnosis",
    2,
    "Leukaemia (all) versus healthy (hem) cells.",
    notes="UID_41_2_21_all and UID_H22_2_15_hem: the person is 41 and H22, image and cell follow; three folds",
)
def class_letter_before_number(b: Build) -> None:
    for fold in range(3):
        for k in range(16):
            kind = ("all", "hem")[k % 2]
            person = f"{'H' * (k % 2)}{fold * 10 + 1 + k // 4 + 30 * (k % 2)}"
            name = f"UID_{person}_{k // 2 % 2 + 1}_{b.rng.integers(1, 40)}_{kind}.bmp"
            path = b.picture(f"training_data/fold_{fold}/{kind}/{name}", histology(b.rng, k % 2 == 0)[0])
            b.case(path, patient=person, label=kind, channels=3)


@family(
    "initials_in_quarters",
    "diagnosis",
    2,
    "normal or pneumonia on chest films",
    notes="folders by quarter, names by initials and birth date; people come back in another quarter",
)
def initials_in_quarters(b: Build) -> None:
    for n in range(36):
        who, kind = n % 21, ("normal", "pneumonia")[n % 2]
        person = f"{'ABDEFGHJKLMNPRSTUVWXZ'[who]}{'KLMST'[who % 5]}-19{40 + who * 2}-{who % 12 + 1:02d}-{who + 5:02d}"
        film = chest_film(b.rng, *([kind] if n % 2 else []))[0]
        path = b.picture(f"Archiv/2022_Q{n % 4 + 1}/{person}_{kind}_{n + 1:02d}.png", film)
        b.case(path, patient=person, label=kind)


@family(
    "ids_of_several_sources",
    "report_generation",
    3,
    "Generate radiology reports from brain MRI.",
    notes="two sequences a person, all in one folder, by the names of four sources; the given split tears people",
)
def ids_of_several_sources(b: Build) -> None:
    names = ["BraTS-GLI-{:05d}-000-{}", "BraTS-MEN-{:05d}-000-{}", "sub-stroke{:04d}_ses-01_{}", "Utrecht_{}_{}"]
    reports: dict[str, list[dict[str, str]]] = {"train": [], "test": []}
    for n in range(26):
        parts = brain(b.rng, "HGG" if n % 2 else "control")[0]
        for at, sequence in enumerate(("T1", "FLAIR")):
            path = b.nifti(f"images/{names[n % 4].format(10 + 7 * n, sequence.lower())}.nii.gz", parts[sequence])
            text = f"{sequence}: {'a ring with oedema' if n % 2 else 'no lesion'}, number {n}."
            side = "test" if n % 5 == at else "train"
            reports[side].append({"image_path": path, "finding": text})
            b.case(path, patient=str(n), text=text)
    for side, rows in reports.items():
        b.json(f"reports_{side}.json", rows)
