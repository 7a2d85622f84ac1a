"""MSD Task07 in miniature: the pancreas and a tumour within it, beside files that only look like images."""

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from m3bench.datasets.volumes import Scale, Written, as_xyz, coarse, hounsfield, quirk, truth, write_labels
from m3bench.phantoms.abdomen import ORGANS, Abdomen, build, scanned
from m3bench.phantoms.space import Shape, Space
from m3bench.replicas import Replica, processes
from m3bench.scanners.noise import smooth_field, stream
from m3bench.writers import nifti

SCALES = {
    "tiny": Scale(14, 4, (64, 64), (16, 56)),
    "small": Scale(40, 12, (96, 96), (20, 88)),
    "layout": Scale(281, 139, (32, 32), (10, 16)),
}
LABELS = {"pancreas": 1, "cancer": 2}
_SPACINGS = (0.7, 1.25, 2.5, 2.5, 2.5, 3.0, 5.0, 7.5)


@dataclass(frozen=True)
class _Job:
    root: Path
    layout: str
    seed: int
    scale: Scale
    number: int
    labelled: bool
    spacing: float


def make(
    root: Path, *, size: str, seed: int, patients: int | None, layout: str = "paper", workers: int = 1
) -> dict[str, object]:
    """Write the dataset into the empty `root`; returns the truth about it."""
    scale = SCALES[size].but(patients)
    rng = stream("msd-pancreas", seed, "plan")
    # One run of numbers for both parts, and one number more for a download that broke off.
    total = scale.labelled + scale.unlabelled + 1
    numbers = (rng.permutation(total) + 1).tolist()
    labelled = sorted(numbers[: scale.labelled + 1])
    unlabelled = sorted(numbers[scale.labelled + 1 :]) if layout == "distributed" else []
    jobs = [
        _Job(root, layout, seed, scale, number, number in set(labelled), _SPACINGS[at % len(_SPACINGS)])
        for at, number in enumerate(labelled + unlabelled)
    ]
    with processes(workers) as mapped:
        cases = list(mapped(_write, jobs))
    broken = cases[int(rng.integers(len(labelled)))]
    path = root / str(broken.facts["image"])
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    folders = sorted(
        {Path(str(case.facts[part])).parent for case in cases for part in ("image", "mask") if part in case.facts}
    )
    quirks = [quirk("corrupt_gzip", broken.facts["image"]), *(quirk("apple_double", f"{each}/._*") for each in folders)]
    if layout == "distributed":
        quirks.append(quirk("unlabelled_folder", "Task07_Pancreas/imagesTs"))
        _dataset_json(root / "Task07_Pancreas", labelled, unlabelled)
    else:
        write_labels(root / "labels.json", list(LABELS))
    return truth(
        [case for case in cases if case is not broken],
        LABELS,
        quirks,
        split_unit="volume",
        ideal={
            "dice": 1.0,
            "why": "both were labelled where they were painted, before blur and noise",
        },
    )


def _write(job: _Job) -> Written:
    rng = stream("msd-pancreas", job.seed, job.number)
    low, high = job.scale.slices
    # Thick slices are few: both ends of the original's tenfold range.
    slices = int(np.clip(round(high * 2.0 / job.spacing), low, high))
    shape = (slices, job.scale.plane[0], job.scale.plane[0])
    shift = [float(rng.uniform(-0.08, 0.08)) for _ in range(3)]
    space = Space.draw(
        shape, rng, low=(-1 + shift[0], -0.8 + shift[1], -0.9 + shift[2]), high=(1 + shift[0], 0.95 + shift[1], 0.95)
    )
    abdomen = build(space, rng)
    cancer = _cancer(abdomen, rng)
    image = hounsfield(scanned(abdomen.canvas.density, rng))
    plane = float(rng.uniform(0.61, 0.98))
    matrix = nifti.affine(shape[::-1], (plane, plane, job.spacing), centre=(0.0, float(rng.uniform(-30, 0)), -300.0))
    name = f"pancreas_{job.number:03d}.nii.gz"
    top = "Task07_Pancreas/" if job.layout == "distributed" else ""
    folders = ("imagesTr", "labelsTr") if top else ("images", "masks")
    facts: dict[str, object] = {"case": f"{job.number:03d}", "group": f"{job.number:03d}"}
    facts["image"] = f"{top}{folders[0] if job.labelled else 'imagesTs'}/{name}"
    _put(job.root / str(facts["image"]), as_xyz(image), matrix)
    if not job.labelled:
        return Written(facts)
    labels = (abdomen.canvas.labels == ORGANS.index("pancreas") + 1).astype(np.uint8)
    labels[cancer] = LABELS["cancer"]
    facts["mask"] = f"{top}{folders[1]}/{name}"
    _put(job.root / str(facts["mask"]), as_xyz(labels), matrix)
    voxels = {name: int((labels == value).sum()) for name, value in LABELS.items()}
    return Written({**facts, "voxels": voxels, "spacing": [plane, plane, job.spacing]}, coarse(labels))


def _put(path: Path, volume: np.ndarray, matrix: nifti.Affine) -> None:
    nifti.write(path, *nifti.oriented(volume, matrix, "RAS"))
    nifti.write_twin(path)


def _cancer(abdomen: Abdomen, rng: np.random.Generator) -> np.ndarray:
    """Paint one dark tumour at the pancreas and dark spots elsewhere that are none; returns where it is (Z, Y, X)."""
    canvas, space = abdomen.canvas, abdomen.space
    for organ in ("liver", "right kidney", "left kidney", "spleen"):
        seen = (canvas.labels == ORGANS.index(organ) + 1).any()
        for _ in range(int(rng.integers(0, 3)) if seen else 0):
            _spot(abdomen, organ, float(rng.uniform(0.03, 0.07)), float(rng.uniform(10, 65)), rng)
    # Bowel beside it is as dark; only what bulges from the pancreas is the tumour.
    radius = float(np.exp(rng.uniform(np.log(0.035), np.log(0.13))))
    where, shape = _spot(abdomen, "pancreas", radius, float(rng.uniform(42, 62)), rng)
    cancer = np.zeros(space.shape, bool)
    cancer[shape.window] = shape.inside & np.isin(canvas.labels[shape.window], [0, ORGANS.index("pancreas") + 1])
    cancer[where] = True
    return cancer


def _spot(
    abdomen: Abdomen, organ: str, radius: float, hu: float, rng: np.random.Generator
) -> tuple[tuple[int, int, int], Shape]:
    canvas, space = abdomen.canvas, abdomen.space
    value = ORGANS.index(organ) + 1
    at = np.argwhere(canvas.labels == value)
    z, y, x = (int(index) for index in at[int(rng.integers(len(at)))])
    bend = space.bend[:, z, y, x]
    centre = (space.x[0, 0, x] + bend[0], space.y[0, y, 0] + bend[1], space.z[z, 0, 0] + bend[2])
    shape = space.lumpy(space.ellipsoid(centre, (radius, radius * 0.9, radius * 1.1)), rng, 0.2)
    texture = (hu + 8 * smooth_field(rng, shape.depth.shape, (4, 4, 4))).astype(np.float32)
    # Vessels and neighbours stay whole.
    free = np.isin(canvas.labels, [0, value]) if organ == "pancreas" else canvas.labels == value
    inside = shape.inside & free[shape.window]
    canvas.density[shape.window][inside] = texture[inside]
    canvas.density[z, y, x] = hu
    return (z, y, x), shape


def _dataset_json(root: Path, labelled: list[int], unlabelled: list[int]) -> None:
    names = [f"pancreas_{number:03d}.nii.gz" for number in labelled]
    content = {
        "name": "Pancreas",
        "description": "Pancreas and cancer, a made-up replica",
        "tensorImageSize": "3D",
        "modality": {"0": "CT"},
        "labels": {"0": "background", "1": "pancreas", "2": "cancer"},
        "numTraining": len(labelled),
        "numTest": len(unlabelled),
        "training": [{"image": f"./imagesTr/{name}", "label": f"./labelsTr/{name}"} for name in names],
        "test": [f"./imagesTs/pancreas_{number:03d}.nii.gz" for number in unlabelled],
    }
    (root / "dataset.json").write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


REPLICA = Replica(
    summary="MSD Pancreas: abdominal CT, pancreas and tumour",
    make=make,
    patients={size: scale.labelled for size, scale in SCALES.items()},
    megabytes={"tiny": 6, "small": 50, "layout": 14},
    unit="labelled scans",
)
