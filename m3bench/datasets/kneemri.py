"""KneeMRI in miniature: pickled sagittal knee volumes, the state of the anterior cruciate ligament in a table."""

import pickle
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from m3bench.phantoms.knee import HEALTHY, PARTIAL, RUPTURED, Knee, render
from m3bench.replicas import Replica, processes
from m3bench.scanners.mri import received
from m3bench.scanners.noise import stream
from m3bench.writers.formats import write_table

LABELS = ("0", "1", "2")
"""Healthy, partial tear, complete rupture."""
PATIENTS = {"tiny": 120, "small": 240, "layout": 917}
"""Volumes."""
ARCHIVES = {"tiny": 3, "small": 10, "layout": 10}
IN_PLANE = {"tiny": (56, 64), "small": (88, 96), "layout": (8, 10)}
SLICES = {"tiny": (16, 24), "small": (21, 45), "layout": (3, 5)}
HEADER = (
    "examId", "seriesNo", "aclDiagnosis", "kneeLR", "roiX", "roiY", "roiZ", "roiHeight", "roiWidth", "roiDepth",
    "volumeFilename",
)  # fmt: skip


@dataclass(frozen=True)
class Volume:
    exam: int
    series: int
    diagnosis: int
    shape: tuple[int, int, int]
    folder: str

    @property
    def name(self) -> str:
        return f"{self.exam}-{self.series}.pck"


def make(root: Path, *, size: str, seed: int, patients: int | None, layout: str, workers: int) -> dict[str, object]:
    """Write the dataset into the empty `root`; returns the truth about it."""
    volumes = _plan(patients or PATIENTS[size], seed, size, layout)
    with processes(workers) as mapped:
        rows = list(mapped(_write, [(str(root), seed, volume) for volume in volumes]))
    write_table(root / "metadata.csv", HEADER, rows)
    shares = [sum(volume.diagnosis == label for volume in volumes) / len(volumes) for label in range(3)]
    exams = [volume.exam for volume in volumes]
    return {
        "labels": LABELS,
        "sample_unit": "volume",
        "split_unit": "exam",
        "volumes": [{**asdict(volume), "path": f"{volume.folder}/{volume.name}"} for volume in volumes],
        "quirks": [
            {"quirk": "several_series", "path": f"{volume.folder}/{volume.name}"}
            for volume in volumes
            if exams.count(volume.exam) > 1
        ]
        + [{"quirk": "pickle_of_numpy_1", "path": "*.pck"}, {"quirk": "imbalance", "path": "metadata.csv"}],
        "trivial": {"accuracy": round(max(shares), 4), "balanced_accuracy": 0.3333, "auc_macro": 0.5},
        "ideal": {
            "balanced_accuracy": 1.0,
            "auc_macro": 1.0,
            "why": "whoever follows the ligament is never in doubt",
        },
    }


def _plan(count: int, seed: int, size: str, layout: str) -> list[Volume]:
    """75, 19 and 6 % of the classes; one volume in 25 is a second series of the same knee."""
    rng = stream("kneemri", seed, "plan")
    torn, partial = max(1, round(0.065 * count)), max(1, round(0.185 * count))
    if size == "layout" and count == PATIENTS["layout"]:
        torn, partial = 55, 172
    wanted = {HEALTHY: count - torn - partial, PARTIAL: partial, RUPTURED: torn}
    twice = max(1, round(count / 25)) if size != "layout" else 8
    exams = iter((rng.choice(900_000, count, replace=False) + 100_000).tolist())
    volumes: list[Volume] = []
    for diagnosis, many in wanted.items():
        # Second series mostly of healthy knees, as most knees are; at least one of a torn one where there are several.
        second = (twice + 1) // 2 if diagnosis == HEALTHY else (twice // 2 if diagnosis == PARTIAL else 0)
        second = min(second, many // 2)
        series_of = [1 + (number < second) for number in range(many - second)]
        if size == "layout" and diagnosis == HEALTHY and second > 2:
            # One exam has three, as in reality.
            series_of[0], series_of[second - 1] = 3, 1
        for times in series_of:
            exam = next(exams)
            for series in sorted(rng.choice(np.arange(2, 12), times, replace=False).tolist()):
                low, high = IN_PLANE[size]
                plane = [int(value) for value in rng.integers(low, high + 1, 2)]
                depth = int(rng.integers(SLICES[size][0], SLICES[size][1] + 1))
                volumes.append(Volume(exam, series, diagnosis, (depth, plane[0], plane[1]), ""))
    shuffled = [volumes[index] for index in rng.permutation(len(volumes))]
    archives = ARCHIVES[size]
    return [
        Volume(
            v.exam, v.series, v.diagnosis, v.shape,
            f"vol{index * archives // len(shuffled) + 1:02d}" if layout == "distributed" else "volumetric_data",
        )
        for index, v in enumerate(shuffled)
    ]  # fmt: skip


def _write(job: tuple[str, int, Volume]) -> list[object]:
    """Write one volume, uint16 of 12 bits as (slices, rows, columns); returns its row of the table."""
    root, seed, volume = job
    knee = Knee.draw(stream("kneemri", seed, volume.exam))
    rng = stream("kneemri", seed, volume.exam, volume.series)
    noisy = received(render(knee, volume.diagnosis, volume.shape, rng), rng)
    scaled = np.clip(noisy * rng.uniform(500, 2600), 0, 4095).astype(np.uint16)
    path = Path(root, volume.folder, volume.name)
    path.parent.mkdir(parents=True, exist_ok=True)
    # Protocol 3 names modules in lines of text; the files are of the years when the module was called so.
    path.write_bytes(
        pickle.dumps(scaled, protocol=3).replace(b"cnumpy._core.multiarray\n", b"cnumpy.core.multiarray\n")
    )
    box = knee.region(volume.shape)
    # The table's other columns never tell the diagnosis: the side and the box are the healthy ligament's.
    cells = [box[name] for name in HEADER[4:10]]
    return [volume.exam, volume.series, volume.diagnosis, int(knee.left), *cells, volume.name]


REPLICA = Replica(
    summary="KneeMRI: sagittal knee volumes as pickles, anterior cruciate ligament healthy / partly torn / ruptured",
    make=make,
    patients=PATIENTS,
    megabytes={"tiny": 30, "small": 180, "layout": 8},
    unit="volumes",
)
