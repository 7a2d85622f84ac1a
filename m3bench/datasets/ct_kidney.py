"""CT-Kidney in miniature: JPEG slices in four class folders, neighbours of one study under consecutive numbers."""

import shutil
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from m3bench.phantoms.kidney_slices import CYST, NORMAL, STONE, TUMOR, Study, render
from m3bench.replicas import Replica, processes
from m3bench.scanners.noise import stream
from m3bench.writers.formats import write_picture, write_table

LABELS = (CYST, NORMAL, STONE, TUMOR)
PATIENTS = {"tiny": 28, "small": 60, "layout": 400}
"""Studies of a class on average; the classes have as many as their share in the real set."""
IMAGES = {NORMAL: 5077, CYST: 3709, TUMOR: 2283, STONE: 1377}
SLICES = {"tiny": (3, 6), "small": (8, 16)}
PIXELS = {"tiny": (96, 112), "small": (128, 160)}
WRAPPER = "CT-KIDNEY-DATASET-Normal-Cyst-Tumor-Stone"
DEAD_PATH = "/content/data/CT KIDNEY DATASET Normal, CYST, TUMOR and STONE"


@dataclass(frozen=True)
class Slices:
    """One study: the files `<Class>- (<first>).jpg` and on."""

    label: str
    study: int
    first: int
    count: int
    shape: tuple[int, int]

    def name(self, number: int) -> str:
        return f"{self.label}- ({number})"


def make(root: Path, *, size: str, seed: int, patients: int | None, layout: str, workers: int) -> dict[str, object]:
    """Write the dataset into the empty `root`; returns the truth about it."""
    base = root if layout == "paper" else root / WRAPPER / WRAPPER
    studies, copies = _plan(patients or PATIENTS[size], seed, size)
    with processes(workers) as mapped:
        list(mapped(_write, [(str(base), seed, study) for study in studies]))
    for label, source, target in copies:
        folder = base / label
        shutil.copyfile(folder / f"{label}- ({source}).jpg", folder / f"{label}- ({target}).jpg")
    numbers = {label: sum(s.count for s in studies if s.label == label) for label in LABELS}
    for label, _, _ in copies:
        numbers[label] += 1
    places = {label: stream("ct-kidney", seed, label, "order").permutation(count) for label, count in numbers.items()}
    rows = [
        [name := f"{label}- ({number + 1})", f"{DEAD_PATH}/{label}/{name}.jpg", label, LABELS.index(label), label]
        for label in (TUMOR, CYST, NORMAL, STONE)
        for number in places[label].tolist()
    ]
    table = root / "kidneyData.csv" if layout == "paper" else root / WRAPPER / "kidneyData.csv"
    write_table(table, ["", "image_id", "path", "diag", "target", "Class"], [[n, *row] for n, row in enumerate(rows)])
    total = sum(numbers.values())
    quirks = [
        {"quirk": "copied_file", "path": f"{label}/{label}- ({target}).jpg", "of": f"{label}/{label}- ({source}).jpg"}
        for label, source, target in copies
    ]
    return {
        "labels": LABELS,
        "sample_unit": "image",
        "split_unit": "study (a block of consecutive numbers)",
        "studies": [asdict(study) for study in studies],
        "images": numbers,
        "quirks": [*quirks, {"quirk": "dead_paths", "path": "kidneyData.csv"}],
        "trivial": {"accuracy": round(max(numbers.values()) / total, 4), "balanced_accuracy": 0.25, "auc_macro": 0.5},
        "ideal": {"accuracy": 1.0, "why": "every picture shows whether a cyst, a stone or a mass is in a kidney"},
    }


def _plan(per_class: int, seed: int, size: str) -> tuple[list[Slices], list[tuple[str, int, int]]]:
    """Studies with their numbers, and the copies: (class, number, number of its copy) at each class's end."""
    rng = stream("ct-kidney", seed, "plan")
    total = sum(IMAGES.values())
    studies: list[Slices] = []
    copies: list[tuple[str, int, int]] = []
    for label in LABELS:
        share = IMAGES[label] / total
        many = max(3, round(4 * per_class * share))
        if size == "layout":
            counts = np.diff(np.linspace(0, IMAGES[label], many + 1).astype(int)).tolist()
        else:
            counts = rng.integers(SLICES[size][0], SLICES[size][1] + 1, many).tolist()
        first = 1
        for number, count in enumerate(counts):
            plane = (
                (12, 12) if size == "layout" else tuple(int(v) for v in rng.integers(*PIXELS[size], 2, endpoint=True))
            )
            studies.append(Slices(label, number, first, int(count), (plane[0], plane[1])))
            first += int(count)
        if size != "layout":
            copies += [(label, int(source), first + n) for n, source in enumerate(rng.choice(first - 1, 2, False) + 1)]
    return studies, copies


def _write(job: tuple[str, int, Slices]) -> None:
    base, seed, study = job
    body = Study.draw(study.label, stream("ct-kidney", seed, study.label, study.study))
    offsets = np.linspace(-0.9, 0.9, study.count)
    for number, offset in enumerate(offsets.tolist(), start=study.first):
        grey = render(body, offset, study.shape, stream("ct-kidney", seed, study.label, "slice", number))
        # Grey content in three channels, as screenshots have it.
        write_picture(Path(base, study.label, f"{study.name(number)}.jpg"), np.repeat(grey[..., None], 3, axis=2))


REPLICA = Replica(
    summary="CT-Kidney: abdominal CT slices as JPEG, Cyst / Normal / Stone / Tumor, no patient ids",
    make=make,
    patients=PATIENTS,
    megabytes={"tiny": 6, "small": 20, "layout": 60},
    unit="studies a class",
)
