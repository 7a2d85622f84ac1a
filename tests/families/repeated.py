"""Datasets that hold more than their cases: copies, smaller versions, several files of one case."""

import numpy as np
from PIL import Image

from .base import Build, family
from .pictures import chest_film, endoscopy, fundus, histology


@family(
    "doubled_folder",
    "diagnosis",
    2,
    "Parasitized or uninfected red blood cells.",
    notes="the whole tree lies a second time in itself, byte for byte, as an archive unpacked twice leaves it",
)
def doubled_folder(b: Build) -> None:
    for n in range(36):
        kind, person = ("Parasitized", "Uninfected")[n % 2], f"C{33 + n % 12}"
        name = f"{kind}/{person}_IMG_{b.rng.integers(100000, 999999)}_cell_{n}.png"
        cell = histology(b.rng, kind == "Parasitized")[0]
        for root in ("cell_images", "cell_images/cell_images"):
            b.picture(f"{root}/{name}", cell)
        b.truth["left_out"].append(f"cell_images/cell_images/{name}")
        b.case(f"cell_images/{name}", patient=person, label=kind, channels=3)


@family(
    "two_eyes_and_small_copies",
    "diagnosis",
    2,
    "Predict the diseases of a patient (columns N, D, G) from the left and right fundus photo.",
    notes="a row and two pictures a patient; all pictures once more, made smaller, in a folder of their own",
)
def two_eyes_and_small_copies(b: Build) -> None:
    rows = []
    for n in range(30):
        ident, kind = 100 + 7 * n, "NDG"[n % 3]
        names = [f"{ident}_{side}.jpg" for side in ("left", "right")]
        for name in names:
            image = fundus(b.rng, "NDG".index(kind))[0]
            b.picture(f"full/Training Images/{name}", image, quality=92)
            small = np.asarray(Image.fromarray(image).resize((32, 32)))
            b.truth["left_out"].append(b.picture(f"preprocessed_images/{name}", small, quality=80))
        rows.append([ident, 40 + n, *names, *[int(kind == one) for one in "NDG"]])
        b.case([f"full/Training Images/{name}" for name in names], patient=str(ident), label=kind, channels=3, views=2)
    b.xlsx("full/data.xlsx", {"Sheet1": [["ID", "Age", "Left-Fundus", "Right-Fundus", *"NDG"], *rows]})


@family(
    "overlays_beside_frames",
    "anomaly_detection",
    2,
    "segment polyps",
    notes="a third folder shows each frame with its mask painted over it; a table names the sequence of each frame",
)
def overlays_beside_frames(b: Build) -> None:
    rows = []
    for n in range(1, 37):
        image, mask = endoscopy(b.rng, True)
        path = b.picture(f"CVC/Original/{n}.tif", image)
        b.picture(f"CVC/Ground Truth/{n}.tif", mask.astype(np.uint8) * 255)
        image[mask, 1] = 255
        b.truth["left_out"].append(b.picture(f"CVC/Overlay/{n}.tif", image))
        rows.append((f"{n}.tif", (n + 2) // 3))
        b.case(path, patient=str((n + 2) // 3), mask={"polyp": mask}, channels=3)
    b.csv("CVC/sequences.csv", ("frame", "sequence_id"), rows)


@family(
    "parts_and_some_again",
    "diagnosis",
    2,
    "pneumonia or normal on chest films",
    patients_known=False,
    notes="one folder holds a part of the pictures of the other folder once more",
)
def parts_and_some_again(b: Build) -> None:
    for n in range(36):
        kind = ("normal", "pneumonia")[n % 2]
        name = f"{kind}/film_{n:03d}.png"
        film = chest_film(b.rng, *([kind] if n % 2 else []))[0]
        if n % 3 == 0:
            b.truth["left_out"].append(b.picture(f"films/extra/{name}", film))
        b.case(b.picture(f"films/complete/{name}", film), label=kind)
