"""Datasets that are files of arrays, each as somebody would save it, with what its cases truly are."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import scipy.io

SIZE = (20, 24)
Place = tuple[str, str | None, int | None]
"""File, array and entry of an image."""


@dataclass
class Truth:
    labels: dict[Place, str] = field(default_factory=dict)
    patients: dict[Place, str] = field(default_factory=dict)
    pixels: dict[Place, Any] = field(default_factory=dict)
    """A few images as they are to come out, (H, W) or slices first."""


Layout = Callable[[Path, Truth], None]


def film(rng: np.random.Generator, sick: int) -> Any:
    """A picture with a bright patch where somebody is sick."""
    image = rng.normal(90, 20, SIZE)
    if sick:
        image[6:12, 8:16] += 90
    return np.clip(image, 0, 255).astype(np.uint8)


def scan(rng: np.random.Generator, sick: int) -> Any:
    return np.stack([film(rng, sick) for _ in range(9)])


def group_a_case(root: Path, truth: Truth) -> None:
    """One h5 with a group for each case: its volume, its class as a number and its patient as a text."""
    rng = np.random.default_rng(1)
    with h5py.File(root / "cohort.h5", "w") as file:
        for number in range(24):
            sick, patient = number % 3 == 0, f"ID{number // 2:03d}"
            group = file.create_group(f"case_{number:04d}")
            group["volume"] = scan(rng, sick)
            group["label"] = int(sick)
            group["patient_id"] = patient
            place = ("cohort.h5", f"case_{number:04d}/volume", None)
            truth.labels[place], truth.patients[place] = str(int(sick)), patient


def entries_with_index(root: Path, truth: Truth) -> None:
    """A stack of pictures in one h5; a CSV tells each entry's class and patient by its number."""
    rng = np.random.default_rng(2)
    rows = ["index,subject,finding"]
    films = []
    for number in range(30):
        sick, patient = number % 2, f"s{number // 3:02d}"
        films.append(film(rng, sick))
        rows.append(f"{number},{patient},{('clear', 'opacity')[sick]}")
        place = ("films.h5", "films", number)
        truth.labels[place], truth.patients[place] = ("clear", "opacity")[sick], patient
    with h5py.File(root / "films.h5", "w") as file:
        file.create_dataset("films", data=np.stack(films), chunks=(4, *SIZE), compression="gzip")
    (root / "meta.csv").write_text("\n".join(rows))


def stack_of_patients(root: Path, truth: Truth) -> None:
    """One npz: pictures, classes in words and a text for each that says who it is."""
    rng = np.random.default_rng(3)
    sick = np.arange(36) % 2
    people = np.array([f"P{number // 4}" for number in range(36)])
    films = np.stack([film(rng, one) for one in sick])
    np.savez_compressed(root / "all.npz", x=films, y=np.array(["benign", "malignant"])[sick], patient=people)
    for number in range(36):
        place = ("all.npz", "x", number)
        truth.labels[place], truth.patients[place] = ("benign", "malignant")[sick[number]], str(people[number])
        truth.pixels[place] = films[number]


def matlab_stack(root: Path, truth: Truth) -> None:
    """MATLAB 5: rows, columns, entries; classes in a row vector."""
    rng = np.random.default_rng(4)
    sick = np.arange(20) % 2
    films = np.stack([film(rng, one) for one in sick])
    scipy.io.savemat(root / "set.mat", {"images": np.moveaxis(films, 0, -1), "labels": sick + 1, "note": "of 2019"})
    for number in range(20):
        truth.labels["set.mat", "images", number] = str(sick[number] + 1)
        truth.pixels["set.mat", "images", number] = films[number]


def flags_of_entries(root: Path, truth: Truth) -> None:
    """Several findings an entry as zeros and ones, in a file for each side."""
    rng = np.random.default_rng(5)
    for side, many in (("train", 30), ("test", 12)):
        flags = (rng.random((many, 4)) < 0.4).astype(np.uint8)
        np.savez(root / f"{side}.npz", images=np.stack([film(rng, row[0]) for row in flags]), labels=flags)
        for number, row in enumerate(flags):
            truth.labels[f"{side}.npz", "images", number] = "|".join(str(place) for place in np.flatnonzero(row))


def volumes_of_entries(root: Path, truth: Truth) -> None:
    """One volume after the other in one npz, `x_train` and `y_train` beside `x_test` and `y_test`."""
    rng = np.random.default_rng(6)
    held = {}
    for side, many in (("train", 16), ("test", 8)):
        sick = np.arange(many) % 2
        held |= {f"x_{side}": np.stack([scan(rng, one) for one in sick]), f"y_{side}": sick}
        for number in range(many):
            truth.labels["volumes.npz", f"x_{side}", number] = str(sick[number])
            truth.pixels["volumes.npz", f"x_{side}", number] = held[f"x_{side}"][number]
    np.savez_compressed(root / "volumes.npz", **held)


def file_of_classes(root: Path, truth: Truth) -> None:
    """`X_train.npy` and `y_train.npy` side by side, and the same of the test."""
    rng = np.random.default_rng(7)
    for side, many in (("train", 24), ("test", 10)):
        sick = np.arange(many) % 2
        np.save(root / f"X_{side}.npy", np.stack([film(rng, one) for one in sick]))
        np.save(root / f"y_{side}.npy", sick)
        for number in range(many):
            truth.labels[f"X_{side}.npy", None, number] = str(sick[number])


def marked_entries(root: Path, number: int = 24) -> Any:
    """Pictures and masks in one npz, of two structures, with a number for each patient; the masks."""
    rng = np.random.default_rng(8)
    films = np.stack([film(rng, 1) for _ in range(number)])
    masks = np.zeros_like(films)
    masks[:, 6:12, 8:16] = 1
    masks[::2, 14:18, 2:6] = 2
    np.savez_compressed(root / "data.npz", images=films, masks=masks, patient=np.arange(number) // 2)
    return masks


LAYOUTS: dict[str, Layout] = {
    one.__name__: one
    for one in (
        group_a_case,
        entries_with_index,
        stack_of_patients,
        matlab_stack,
        flags_of_entries,
        volumes_of_entries,
        file_of_classes,
    )
}


def made(name: str, root: Path) -> Truth:
    root.mkdir(parents=True, exist_ok=True)
    truth = Truth()
    LAYOUTS[name](root, truth)
    return truth
