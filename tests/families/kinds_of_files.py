"""Datasets with several files a case that are no cases of their own, or that are one case together."""

import numpy as np

from .base import Build, family
from .pictures import endoscopy, fundus
from .volumes import abdomen, brain, label_map


@family(
    "cine_beside_frames",
    "organ_segmentation",
    3,
    "segment liver and spleen in the frames",
    notes="two frames with masks and the whole 4D recording in each patient's folder",
)
def cine_beside_frames(b: Build) -> None:
    for n in range(1, 15):
        root, frames = f"data/patient{n:03d}/patient{n:03d}", []
        for frame in (1, 7 + n % 5):
            volume, masks = abdomen(b.rng)
            path = b.nifti(f"{root}_frame{frame:02d}.nii.gz", volume)
            b.nifti(f"{root}_frame{frame:02d}_gt.nii.gz", label_map(masks, "liver", "spleen"), dtype=np.uint8)
            b.case(path, patient=f"{n:03d}", mask={name: masks[name] for name in ("liver", "spleen")})
            frames += [volume] * 2
        b.truth["left_out"].append(b.nifti(f"{root}_4d.nii.gz", np.stack(frames, -1)))


@family(
    "ordinal_observers",
    "anomaly_detection",
    2,
    "segment the bleedings, as the second reader (2ndR) drew them",
    patients_known=False,
    notes="1stR and 2ndR beside each picture; the request says which",
)
def ordinal_observers(b: Build) -> None:
    for n in range(30):
        image, masks = fundus(b.rng, 2)
        marked = masks["haemorrhage"]
        path = b.picture(f"set/scan_{n:02d}.jpg", image, quality=95)
        for tag, mask in (("1st", marked | np.roll(marked, 1, 0)), ("2nd", marked)):
            b.picture(f"set/scan_{n:02d}_{tag}R.png", mask.astype(np.uint8) * 255)
        b.case(path, mask={"haemorrhage": marked}, channels=3)


@family(
    "planes_of_an_examination",
    "diagnosis",
    3,
    "Alzheimer's disease or control, from the axial and the coronal series of each examination",
    patients_known=False,
    notes="an array a plane in parallel folders, of the same number; one row an examination",
)
def planes_of_an_examination(b: Build) -> None:
    rows = []
    for n in range(30):
        kind = ("control", "AD")[n % 2]
        volume = brain(b.rng, kind)[0]["T1"]
        files = []
        for plane, array in (("axial", volume.transpose(2, 0, 1)), ("coronal", volume.transpose(1, 0, 2)[::2])):
            files.append(f"exams/{plane}/{n + 100:04d}.npy")
            np.save(b.at(files[-1]), array.astype(np.int16))
        rows.append([f"{n + 100:04d}", kind])
        b.case(files, label=kind, views=2)
    b.csv("exams/diagnosis.csv", ["exam", "diagnosis"], rows)


@family(
    "good_without_masks",
    "anomaly_detection",
    2,
    "find polyps as anomalies; the good ones show none",
    patients_known=False,
    notes="train/good lies a folder higher than test/good/img and test/bad/img, with masks (black if good)",
)
def good_without_masks(b: Build) -> None:
    for n in range(40):
        sick = n >= 28
        image, mask = endoscopy(b.rng, sick)
        place = "train/good" if n < 18 else f"test/{'bad' if sick else 'good'}/img"
        path = b.picture(f"Gut/{place}/{n:04d}.png", image)
        if n >= 18:
            b.picture(f"Gut/{place[:-4]}/label/{n:04d}.png", mask.astype(np.uint8) * 255)
        b.case(path, mask={"polyp": mask}, channels=3)
