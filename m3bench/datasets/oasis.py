"""L2R-OASIS in miniature: skull-stripped T1 MRI with 35 structures; `_0000` also ends the names of masks."""

import json
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np

from m3bench.datasets.volumes import Scale, Written, as_xyz, coarse, quirk, truth, write_labels
from m3bench.phantoms.brain import STRUCTURES, Brain, scanned
from m3bench.phantoms.space import Space
from m3bench.replicas import Replica, processes
from m3bench.scanners.noise import stream
from m3bench.writers import nifti

SCALES = {
    "tiny": Scale(16, 4, (40, 40), (48, 48)),
    "small": Scale(40, 8, (80, 80), (96, 96)),
    "layout": Scale(414, 39, (20, 20), (24, 24)),
}
_VESSELS = ("left vessel", "right vessel")


@dataclass(frozen=True)
class _Job:
    root: Path
    layout: str
    seed: int
    scale: Scale
    number: int
    labelled: bool
    without: frozenset[str]


def make(
    root: Path, *, size: str, seed: int, patients: int | None, layout: str = "paper", workers: int = 1
) -> dict[str, object]:
    """Write the dataset into the empty `root`; returns the truth about it."""
    scale = SCALES[size].but(patients)
    rng = stream("oasis", seed, "plan")
    lacking = rng.choice(scale.labelled, 2, replace=False).tolist()
    total = scale.labelled + (scale.unlabelled if layout == "distributed" else 0)
    jobs = [
        _Job(root, layout, seed, scale, at + 1, at < scale.labelled, frozenset(_VESSELS[1:] if at in lacking else ()))
        for at in range(total)
    ]
    with processes(workers) as mapped:
        cases = list(mapped(_write, jobs))
    quirks = [quirk("no_right_vessel", cases[at].facts["image"]) for at in sorted(lacking)]
    if layout == "distributed":
        _registration_json(root / "OASIS", scale.labelled, total)
        quirks += [quirk("unlabelled_folder", "OASIS/imagesTs"), quirk("masks_of_the_head_not_labels", "OASIS/masksTr")]
    else:
        write_labels(root / "labels.json", STRUCTURES)
    return truth(
        cases,
        {name: value for value, name in enumerate(STRUCTURES, 1)},
        quirks,
        split_unit="subject",
        ideal={"dice": 1.0, "why": "structures were labelled where they were painted, before blur and noise"},
    )


def _write(job: _Job) -> Written:
    rng = stream("oasis", job.seed, job.number)
    # 160 x 224 x 192 voxels in the original, and so in proportion.
    x = job.scale.plane[0]
    shape = (x * 6 // 5, x * 7 // 5, x)
    grown = [float(rng.uniform(0.97, 1.06)) for _ in range(3)]
    high = (grown[0], grown[1], grown[2])
    space = Space.draw(shape, rng, low=(-high[0], -high[1], -high[2]), high=high, amount=0.045)
    brain = Brain(space, rng, without=job.without)
    _never_lost(brain, job.without, rng)
    image = scanned(brain, rng)
    matrix = nifti.affine((shape[2], shape[1], shape[0]), (1.0, 1.0, 1.0))
    name = f"OASIS_{job.number:04d}_0000.nii.gz"

    def put(folder: str, volume: np.ndarray) -> str:
        nifti.write(job.root / folder / name, *nifti.oriented(as_xyz(volume), matrix, "RAS"))
        return f"{folder}/{name}"

    facts: dict[str, object] = {"case": f"{job.number:04d}", "group": f"{job.number:04d}"}
    labels = brain.canvas.labels
    if job.layout == "distributed":
        part = "Tr" if job.labelled else "Ts"
        facts["image"] = put(f"OASIS/images{part}", image)
        put(f"OASIS/masks{part}", (labels > 0).astype(np.uint8))
        if job.labelled:
            facts["mask"] = put("OASIS/labelsTr", labels)
    else:
        facts["image"], facts["mask"] = put("images", image), put("masks", labels)
    if not job.labelled:
        return Written(facts)
    missing = [structure for value, structure in enumerate(STRUCTURES, 1) if not (labels == value).any()]
    return Written({**facts, "missing": missing}, coarse(labels))


def _never_lost(brain: Brain, without: frozenset[str], rng: np.random.Generator) -> None:
    """A vessel may fall between voxels: it gets one, a dark dot in the ventral white matter."""
    labels, density = brain.canvas.labels, brain.canvas.density
    for name, beside in zip(_VESSELS, ("left putamen", "right putamen"), strict=True):
        value = STRUCTURES.index(name) + 1
        near = np.argwhere(labels == STRUCTURES.index(beside) + 1)
        if name not in without and not (labels == value).any() and len(near):
            z, y, x = near[near[:, 0].argmin()]
            labels[z, y, x], density[z, y, x] = value, 0.36 + rng.uniform(-0.02, 0.02)


def _registration_json(root: Path, labelled: int, total: int) -> None:
    """The original's own: pairs to register, and no list of labels."""
    names = [f"OASIS_{number:04d}_0000.nii.gz" for number in range(1, total + 1)]
    held_out = max(2, labelled // 20)
    last = names[labelled - held_out : labelled]
    pairs = [{"fixed": f"./imagesTr/{one}", "moving": f"./imagesTr/{other}"} for one, other in pairwise(last)]
    content = {
        "name": "OASIS",
        "description": "Inter-patient registration of brain MRI, a made-up replica",
        "modality": {"0": "MR"},
        "tensorImageShape": {"0": "made up"},
        "numTraining": labelled,
        "numTest": total - labelled,
        "training": [
            {"image": f"./imagesTr/{name}", "label": f"./labelsTr/{name}", "mask": f"./masksTr/{name}"}
            for name in names[:labelled]
        ],
        "registration_val": pairs,
        "test": [f"./imagesTs/{name}" for name in names[labelled:]],
    }
    (root / "OASIS_dataset.json").write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    about = "A made-up replica of the Learn2Reg task; no real patient is in it.\n"
    (root / "README.txt").write_text(about, encoding="utf-8")
    (root / "changelog.txt").write_text("v1.0 first\n", encoding="utf-8")


REPLICA = Replica(
    summary="L2R-OASIS: T1 MRI of the head, 35 structures",
    make=make,
    patients={size: scale.labelled for size, scale in SCALES.items()},
    megabytes={"tiny": 6, "small": 100, "layout": 15},
    unit="labelled people",
)
