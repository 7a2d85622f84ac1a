"""COVID-19-CT-Seg in miniature: lungs and infection, half of the scans in HU and half as grey values 0..255."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from m3bench.datasets.volumes import Scale, Written, as_xyz, coarse, hounsfield, quirk, truth, write_labels
from m3bench.phantoms.chest import Grid, Patient, build
from m3bench.phantoms.lesions import ground_glass, incidental
from m3bench.replicas import Replica, processes
from m3bench.scanners.noise import Volume, blurred, stream
from m3bench.scanners.scanner import Acquisition
from m3bench.writers import nifti

SCALES = {
    "tiny": Scale(14, 0, (64, 64), (28, 40)),
    "small": Scale(20, 0, (128, 128), (48, 72)),
    "layout": Scale(20, 0, (32, 32), (12, 16)),
}
LABELS = {"left lung": 1, "right lung": 2, "COVID-19 infection": 3}
_RADIOPAEDIA = (
    "4_85506_1", "7_85703_0", "10_85902_1", "10_85902_3", "14_85914_0", "27_86410_0", "29_86490_1", "29_86491_1",
    "36_86526_0", "40_86625_0",
)  # fmt: skip
# The window in which the second half was exported, in HU.
_WINDOW = (-1250, 250)


@dataclass(frozen=True)
class _Job:
    root: Path
    layout: str
    seed: int
    scale: Scale
    name: str
    group: str
    infected: bool

    @property
    def exported(self) -> bool:
        return self.name.startswith("radiopaedia")


def make(
    root: Path, *, size: str, seed: int, patients: int | None, layout: str = "paper", workers: int = 1
) -> dict[str, object]:
    """Write the dataset into the empty `root`; returns the truth about it."""
    scale = SCALES[size].but(patients)
    jobs = [_Job(root, layout, seed, scale, *each) for each in _plan(scale.labelled, seed)]
    with processes(workers) as mapped:
        cases = list(mapped(_write, jobs))
    if layout == "paper":
        write_labels(root / "labels.json", list(LABELS))
    quirks = [quirk("grey_values_not_hu", case.facts["image"]) for case in cases if case.facts["range"] == "0..255"]
    groups = [case.facts["group"] for case in cases]
    quirks += [quirk("shared_patient", case.facts["image"]) for case in cases if groups.count(case.facts["group"]) > 1]
    quirks += [quirk("no_lesion", case.facts["image"]) for case in cases if not case.facts["infection_voxels"]]
    return truth(
        cases,
        LABELS,
        quirks,
        split_unit="patient",
        ideal={
            "lung_dice": 1.0,
            "infection_dice": "below 1",
            "why": "lungs end where the density changes; infection fades out and was labelled above 30 % of its haze",
        },
    )


def _plan(count: int, seed: int) -> list[tuple[str, str, bool]]:
    """(name, whose it is, infected): two halves; two pairs of the second half are of one patient each."""
    first = [f"coronacases_{number:03d}" for number in range(1, count - count // 2 + 1)]
    made_up = (f"{number}_{86700 + number}_0" for number in range(41, 41 + count))
    second = [
        f"radiopaedia_{_RADIOPAEDIA[at] if at < len(_RADIOPAEDIA) else next(made_up)}" for at in range(count // 2)
    ]
    healthy = count // 2 - 1 - int(stream("covid19", seed, "plan").integers(2))
    named = [(name, name, True) for name in first]
    return named + [(name, "_".join(name.split("_")[:2]), at != healthy) for at, name in enumerate(second)]


def _write(job: _Job) -> Written:
    patient = Patient.draw(stream("covid19", job.seed, job.group, "patient"))
    rng = stream("covid19", job.seed, job.name)
    low, high = job.scale.slices
    # Exported scans are fewer slices of another size.
    slices = (low // 2, low * 3 // 4) if job.exported else (low, high)
    pixels = job.scale.plane[0] * (9 if job.exported else 8) // 8
    acquisition = Acquisition.draw(rng, slices=slices)
    grid = Grid.of(acquisition, pixels)
    chest = build(patient, acquisition, grid, rng)
    incidental(chest, patient, grid, rng)
    labels = np.zeros(grid.shape, np.uint8)
    labels[chest.left], labels[chest.right] = LABELS["left lung"], LABELS["right lung"]
    if job.infected:
        labels[ground_glass(chest, patient, grid, rng)] = LABELS["COVID-19 infection"]
    image = _scanned(chest.density, acquisition, job.exported, rng)
    plane, thick = float(rng.uniform(0.68, 0.81)), float(rng.uniform(1.0, 1.5) * (5 if job.exported else 1))
    matrix = nifti.affine((pixels, pixels, acquisition.slices), (plane, plane, thick), centre=(0.0, -160.0, -200.0))

    def put(folder: str, volume: NDArray[Any]) -> str:
        path = f"{folder}/{job.name}.nii.gz"
        # The phantom's slices run from the tips of the lungs down.
        nifti.write(job.root / path, *nifti.oriented(as_xyz(volume[::-1]), matrix, "LAS"))
        return path

    infection = (labels == LABELS["COVID-19 infection"]).astype(np.uint8)
    facts: dict[str, object] = {"case": job.name, "group": job.group, "range": "0..255" if job.exported else "HU"}
    if job.layout == "distributed":
        facts["image"] = put("COVID-19-CT-Seg_20cases", image)
        lungs = np.where(chest.left, 1, np.where(chest.right, 2, 0)).astype(np.uint8)
        facts["lung_mask"], facts["infection_mask"] = put("Lung_Mask", lungs), put("Infection_Mask", infection)
        facts["mask"] = put("Lung_and_Infection_Mask", labels)
    else:
        facts["image"], facts["mask"] = put("images", image), put("segmentation_masks", labels)
    return Written({**facts, "infection_voxels": int(infection.sum())}, coarse(labels))


def _scanned(density: Volume, acquisition: Acquisition, exported: bool, rng: np.random.Generator) -> NDArray[np.int16]:
    noisy = blurred(
        density + acquisition.noise * rng.standard_normal(density.shape, dtype=np.float32), acquisition.blur
    )
    if exported:
        low, high = _WINDOW
        noisy = (255 * np.clip((noisy - low) / (high - low), 0, 1)).astype(np.float32)
    return hounsfield(np.clip(noisy, -1023, 3071))


REPLICA = Replica(
    summary="COVID-19-CT-Seg: chest CT, lungs and infection",
    make=make,
    patients={size: scale.labelled for size, scale in SCALES.items()},
    megabytes={"tiny": 6, "small": 50, "layout": 2},
    unit="labelled scans",
)
