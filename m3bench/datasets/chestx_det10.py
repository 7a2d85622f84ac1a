"""ChestX-Det10 in miniature: chest films with boxes around ten kinds of findings, or masks painted from those boxes."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from m3bench.phantoms.xray import Person, developed, frontal
from m3bench.phantoms.xray_findings import EXTENDED, Box, draw
from m3bench.replicas import Replica, processes
from m3bench.scanners.noise import stream
from m3bench.writers.formats import write_json, write_picture

LABELS = (
    "Atelectasis", "Calcification", "Consolidation", "Effusion", "Emphysema", "Fibrosis", "Fracture", "Mass", "Nodule",
    "Pneumothorax",
)  # fmt: skip
SHARES = {
    "Consolidation": (0.45, 1.56), "Effusion": (0.39, 1.46), "Fibrosis": (0.14, 1.5), "Fracture": (0.10, 1.75),
    "Nodule": (0.10, 2.6), "Atelectasis": (0.083, 1.15), "Calcification": (0.054, 1.7), "Pneumothorax": (0.051, 1.1),
    "Emphysema": (0.046, 1.7), "Mass": (0.037, 1.15),
}  # fmt: skip
"""Share of all images with the finding, and boxes in such an image."""
EMPTY = 0.227
PATIENTS = {"tiny": 72, "small": 160, "layout": 1900}
PIXELS = {"tiny": 128, "small": 256, "layout": 24}
REAL = (3001, 542)


@dataclass(frozen=True)
class Image:
    name: str
    patient: int
    findings: tuple[str, ...]
    """A name for each box."""
    part: str


def make(root: Path, *, size: str, seed: int, patients: int | None, layout: str, workers: int) -> dict[str, object]:
    """Write the dataset into the empty `root`; returns the truth about it."""
    exact = size == "layout" and patients in (None, PATIENTS["layout"])
    images = _plan(patients or PATIENTS[size], seed, exact)
    # Some exports of the source have an alpha channel.
    coloured = set(stream("chestx", seed, "alpha").choice([image.name for image in images], 2, replace=False).tolist())
    jobs = [(str(root), seed, image, PIXELS[size], layout, image.name in coloured) for image in images]
    with processes(workers) as mapped:
        entries = list(mapped(_write, jobs))
    if layout == "paper":
        write_json(root / "labels.json", list(LABELS))
    else:
        for part in ("train", "test"):
            chosen = [entry for entry, image in zip(entries, images, strict=True) if image.part == part]
            write_json(root / f"{part}.json", chosen)
    both = {i.patient for i in images if i.part == "train"} & {i.patient for i in images if i.part == "test"}
    return {
        "labels": LABELS,
        "label_values": {name: number for number, name in enumerate(LABELS, start=1)},
        "sample_unit": "image",
        "split_unit": "patient",
        "images": [{**entry, "patient": i.patient, "part": i.part} for entry, i in zip(entries, images, strict=True)],
        "quirks": [{"quirk": "rgba", "path": name} for name in sorted(coloured)]
        + [{"quirk": "patient_in_both_parts", "path": f"{patient:08d}"} for patient in sorted(both)],
        "mask_rule": "boxes are filled in the order of their area, the smallest last; value = place in labels + 1",
        "trivial": {"dice": 0.0},
        "ideal": {"dice": 1.0, "why": "a box is the rectangle around what is painted; a small one covers a large one"},
    }


def masks(boxes: list[Box], names: list[str], shape: tuple[int, int]) -> NDArray[np.uint8]:
    """Boxes (corners included) as one mask (rows, columns): small over large."""
    mask = np.zeros(shape, np.uint8)
    order = sorted(zip(boxes, names, strict=True), key=lambda pair: -_area(pair[0]))
    for (x1, y1, x2, y2), name in order:
        mask[y1 : y2 + 1, x1 : x2 + 1] = LABELS.index(name) + 1
    return mask


def _area(box: Box) -> int:
    return (box[2] - box[0]) * (box[3] - box[1])


def _plan(count: int, seed: int, exact: bool) -> list[Image]:
    rng = stream("chestx", seed, "plan")
    ids = sorted(rng.choice(30_000, count, replace=False).tolist())
    visits = np.resize([1, 1, 2, 1, 3, 1, 2, 2], count)
    pairs = [
        (patient, number)
        for patient, many in zip(ids, visits.tolist(), strict=True)
        for number in sorted(rng.choice(12, many, replace=False).tolist())
    ]
    train, test = REAL if exact else (round(0.85 * len(pairs)), len(pairs) - round(0.85 * len(pairs)))
    while len(pairs) < train + test:
        pairs.append((int(rng.choice(ids)), 12 + len(pairs)))
    pairs = sorted(pairs[: train + test])
    # The official parts were drawn by image, so that many patients are in both.
    parts = [["test", "train"][int(place >= test)] for place in rng.permutation(len(pairs)).tolist()]
    return [
        Image(f"{patient:08d}_{number:03d}.png", patient, _findings(rng), part)
        for (patient, number), part in zip(pairs, parts, strict=True)
    ]


def _findings(rng: np.random.Generator) -> tuple[str, ...]:
    if rng.random() < EMPTY:
        return ()
    shares = np.array([share for share, _ in SHARES.values()]) / (1 - EMPTY)
    present = rng.random(len(shares)) < shares
    if not present.any():
        present[int(rng.choice(len(shares), p=shares / shares.sum()))] = True
    found: list[str] = []
    for (name, (_, boxes)), here in zip(SHARES.items(), present.tolist(), strict=True):
        many = 1 + int(rng.poisson(boxes - 1)) if here else 0
        found += [name] * min(many, 2 if name in EXTENDED else 5)
    return tuple(found)


def _write(job: tuple[str, int, Image, int, str, bool]) -> dict[str, object]:
    """Write one image, and its mask where the layout has masks; returns its entry of the list."""
    root, seed, image, pixels, layout, alpha = job
    person = Person.draw(stream("chestx", seed, image.patient))
    rng = stream("chestx", seed, image.name)
    film = frontal(person, (pixels, pixels), rng)
    boxes: list[Box] = []
    names: list[str] = []
    order = sorted(image.findings, key=lambda name: name not in EXTENDED)
    for number, name in enumerate(order):
        # A second large one of a kind is on the other side.
        twin = order[:number].count(name)
        side = None if not (name in EXTENDED and twin) else (1 if boxes[-1][0] < pixels / 2 else -1)
        finding = draw(film, name, rng, side)
        if finding.box is not None:
            boxes.append(finding.box)
            names.append(name)
    grey = developed(film, rng)
    colours = np.dstack([grey, grey, grey, np.full_like(grey, 255)]) if alpha else grey
    if layout == "paper":
        write_picture(Path(root, "images", image.name), colours)
        write_picture(Path(root, "masks", image.name), masks(boxes, names, grey.shape))
    else:
        write_picture(Path(root, f"{image.part}_data", image.name), colours)
    return {"file_name": image.name, "syms": names, "boxes": [list(box) for box in boxes]}


REPLICA = Replica(
    summary="ChestX-Det10: chest films with boxes (or masks of boxes) of ten kinds of findings",
    make=make,
    patients=PATIENTS,
    megabytes={"tiny": 4, "small": 25, "layout": 30},
)
