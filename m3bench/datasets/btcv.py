"""BTCV in miniature: abdominal CT with thirteen organs, 30 labelled scans and 20 that nobody has labelled."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from m3bench.datasets.volumes import Scale, Written, as_xyz, clutter, coarse, hounsfield, quirk, truth, write_labels
from m3bench.phantoms.abdomen import ORGANS, build, scanned
from m3bench.phantoms.space import Space
from m3bench.replicas import Replica, processes
from m3bench.scanners.noise import stream
from m3bench.writers import nifti

SCALES = {
    "tiny": Scale(14, 4, (64, 64), (24, 40)),
    "small": Scale(30, 20, (96, 96), (32, 56)),
    "layout": Scale(30, 20, (32, 32), (12, 16)),
}
# The gap is in the original: 1-10 and 21-40 are labelled, 61-80 are not.
_LABELLED = [*range(1, 11), *range(21, 41)]
_FIRST_UNLABELLED = 61


@dataclass(frozen=True)
class _Case:
    number: int
    labelled: bool
    gallbladder: bool


@dataclass(frozen=True)
class _Job:
    root: Path
    top: str
    seed: int
    scale: Scale
    case: _Case


def make(
    root: Path, *, size: str, seed: int, patients: int | None, layout: str = "paper", workers: int = 1
) -> dict[str, object]:
    """Write the dataset into the empty `root`; returns the truth about it."""
    scale = SCALES[size].but(patients)
    top = "RawData/" if layout == "distributed" else ""
    with processes(workers) as mapped:
        cases = list(mapped(_write, [_Job(root, top, seed, scale, case) for case in _plan(scale, seed)]))
    if layout == "paper":
        write_labels(root / "labels.json", ORGANS)
    quirks = [quirk("no_gallbladder", case.facts["image"]) for case in cases if case.facts["gallbladder"] is False]
    quirks += [clutter(root, f"{top}Training/img"), quirk("unlabelled_folder", f"{top}Testing/img")]
    return truth(
        cases,
        {name: number for number, name in enumerate(ORGANS, 1)},
        quirks,
        split_unit="volume",
        ideal={"dice": 1.0, "why": "organs were labelled where they were painted, before blur and noise"},
    )


def _plan(scale: Scale, seed: int) -> list[_Case]:
    rng = stream("btcv", seed, "plan")
    beyond = range(_FIRST_UNLABELLED + 1000, _FIRST_UNLABELLED + 1000 + max(0, scale.labelled - len(_LABELLED)))
    numbers = [*_LABELLED, *beyond]
    # A smaller set takes from both runs of numbers.
    chosen = np.linspace(0, max(len(_LABELLED), scale.labelled) - 1, scale.labelled).round().astype(int)
    without = set(rng.choice(scale.labelled, max(1, scale.labelled // 15), replace=False).tolist())
    labelled = [_Case(numbers[pick], True, at not in without) for at, pick in enumerate(chosen.tolist())]
    return labelled + [_Case(_FIRST_UNLABELLED + at, False, True) for at in range(scale.unlabelled)]


def _write(job: _Job) -> Written:
    case = job.case
    rng = stream("btcv", job.seed, case.number)
    shape = job.scale.shape(rng)
    bottom, top = float(rng.uniform(-1.05, -0.85)), float(rng.uniform(0.88, 1.05))
    right, back = float(rng.uniform(-0.06, 0.06)), float(rng.uniform(-0.06, 0.06))
    low, high = (right - 1, back - 0.8, bottom), (right + 1, back + 0.95, top)
    abdomen = build(Space.draw(shape, rng, low=low, high=high), rng, gallbladder=case.gallbladder)
    image = hounsfield(scanned(abdomen.canvas.density, rng))
    plane, slice_ = float(rng.uniform(0.59, 0.98)), float(rng.choice([2.5, 3.0, 3.0, 4.0, 5.0]))
    matrix = nifti.affine(
        shape[::-1], (plane, plane, slice_), centre=(float(rng.uniform(-15, 15)), float(rng.uniform(-40, 0)), -400.0)
    )
    part = job.top + ("Training" if case.labelled else "Testing")
    image_path = f"{part}/img/img{case.number:04d}.nii.gz"
    nifti.write(job.root / image_path, *nifti.oriented(as_xyz(image), matrix, "LAS"))
    facts: dict[str, object] = {"case": f"{case.number:04d}", "group": f"{case.number:04d}", "image": image_path}
    if not case.labelled:
        return Written({**facts, "gallbladder": True})
    labels = abdomen.canvas.labels
    mask_path = f"{part}/label/label{case.number:04d}.nii.gz"
    nifti.write(job.root / mask_path, *nifti.oriented(as_xyz(labels), matrix, "LAS"))
    voxels = {name: int((labels == value).sum()) for value, name in enumerate(ORGANS, 1)}
    return Written({**facts, "mask": mask_path, "gallbladder": case.gallbladder, "voxels": voxels}, coarse(labels))


REPLICA = Replica(
    summary="BTCV: abdominal CT, 13 organs",
    make=make,
    patients={size: scale.labelled for size, scale in SCALES.items()},
    megabytes={"tiny": 5, "small": 40, "layout": 2},
    unit="labelled scans",
)
