"""INSTANCE 2022 in miniature: blood in plain head CT, thick slices, the same file name for image and mask."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from m3bench.datasets.volumes import Scale, Written, as_xyz, coarse, hounsfield, quirk, truth, write_labels
from m3bench.phantoms.bleeding import KINDS, bleed
from m3bench.phantoms.head import BLOOD, build, scanned
from m3bench.phantoms.space import Space
from m3bench.replicas import Replica, processes
from m3bench.scanners.noise import stream
from m3bench.writers import nifti

SCALES = {
    "tiny": Scale(14, 4, (96, 96), (12, 20)),
    "small": Scale(40, 12, (128, 128), (16, 28)),
    "layout": Scale(100, 30, (32, 32), (8, 12)),
}
LABELS = {"intracranial hemorrhage": BLOOD}


@dataclass(frozen=True)
class _Job:
    root: Path
    layout: str
    seed: int
    scale: Scale
    number: int
    labelled: bool
    kinds: tuple[str, ...]
    wide: bool


def make(
    root: Path, *, size: str, seed: int, patients: int | None, layout: str = "paper", workers: int = 1
) -> dict[str, object]:
    """Write the dataset into the empty `root`; returns the truth about it."""
    scale = SCALES[size].but(patients)
    rng = stream("instance2022", seed, "plan")
    numbers = [*range(1, scale.labelled + 1)]
    if layout == "distributed":
        first = max(101, scale.labelled + 1)
        numbers += range(first, first + scale.unlabelled)
    # Every kind occurs; one case in three has two bleedings.
    kinds = rng.permutation(np.resize(np.arange(len(KINDS)), len(numbers))).tolist()
    wide = int(rng.integers(scale.labelled))
    jobs = []
    for at, (number, kind) in enumerate(zip(numbers, kinds, strict=True)):
        second = KINDS[int(rng.integers(len(KINDS)))]
        chosen = (KINDS[kind], second) if at % 3 == 1 else (KINDS[kind],)
        jobs.append(_Job(root, layout, seed, scale, number, at < scale.labelled, chosen, at == wide))
    with processes(workers) as mapped:
        cases = list(mapped(_write, jobs))
    quirks = [quirk("other_plane_size", cases[wide].facts["image"])]
    quirks += [quirk("tilted", case.facts["image"]) for case in cases if case.facts["tilt"]]
    if layout == "distributed":
        quirks.append(quirk("unlabelled_folder", "evaluation"))
    else:
        write_labels(root / "labels.json", list(LABELS))
    return truth(
        cases,
        LABELS,
        quirks,
        split_unit="volume",
        ideal={"dice": 1.0, "why": "blood was labelled where it was painted, before blur and noise"},
    )


def _write(job: _Job) -> Written:
    rng = stream("instance2022", job.seed, job.number)
    slices, rows, columns = job.scale.shape(rng)
    columns += rows // 12 if job.wide else 0
    shift = [float(rng.uniform(-0.1, 0.1)) for _ in range(3)]
    high = (1 + shift[0], 1 + shift[1], 1.05 + shift[2])
    low = (-1 + shift[0], -1 + shift[1], -0.85 + shift[2])
    head = build(Space.draw((slices, rows, columns), rng, low=low, high=high, amount=0.045, cells=4), rng)
    for kind in job.kinds:
        bleed(head, kind, rng)
    image = hounsfield(scanned(head.canvas.density, rng))
    plane, thick = float(rng.uniform(0.37, 0.60)), float(rng.choice([4.4, 5.0, 5.0, 5.0, 6.0, 10.0]))
    # Gantries are tilted along the base of the skull.
    tilt = float(rng.uniform(6, 20)) if rng.random() < 0.4 else 0.0
    matrix = nifti.affine((columns, rows, slices), (plane, plane, thick), tilt=tilt)
    name = f"{job.number:03d}.nii.gz"
    image_folder, mask_folder = (
        ("train_2/data", "train_2/label") if job.layout == "distributed" else ("images", "masks")
    )
    facts: dict[str, object] = {
        "case": f"{job.number:03d}",
        "group": f"{job.number:03d}",
        "image": f"{image_folder if job.labelled else 'evaluation'}/{name}",
        "tilt": tilt,
    }
    nifti.write(job.root / str(facts["image"]), *nifti.oriented(as_xyz(image), matrix, "LAS"))
    if not job.labelled:
        return Written(facts)
    labels = head.canvas.labels
    facts["mask"] = f"{mask_folder}/{name}"
    nifti.write(job.root / str(facts["mask"]), *nifti.oriented(as_xyz(labels), matrix, "LAS"))
    return Written({**facts, "kinds": list(job.kinds), "voxels": int((labels == BLOOD).sum())}, coarse(labels))


REPLICA = Replica(
    summary="INSTANCE2022: plain head CT, haemorrhage",
    make=make,
    patients={size: scale.labelled for size, scale in SCALES.items()},
    megabytes={"tiny": 6, "small": 40, "layout": 4},
    unit="labelled scans",
)
