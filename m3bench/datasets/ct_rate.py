"""CT-RATE in miniature: chest CT of several scans a person and reconstructions a scan, with one report a scan.

The real set has 18 labels of 3 to 45 % of the scans each (section 12 of the specification), here about 3.6 a scan. A
report describes each of them with its side and its height in the lung, where it has one, and says of the organs
without any that they are normal.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from m3bench.phantoms.chest import Grid, Patient, build
from m3bench.phantoms.chest_findings import (
    LABELS,
    LEVELLED,
    ORDER,
    PREVALENCE,
    SIDED,
    Place,
    paint,
    paint_instead,
    patient_with,
)  # fmt: skip
from m3bench.replicas import Replica, processes
from m3bench.scanners.noise import Volume, blurred, stream
from m3bench.scanners.scanner import Acquisition
from m3bench.words.ct_words import CLINICAL, TECHNIQUE, labels_in, report
from m3bench.words.reports import Report, known_scores, one_of, usual
from m3bench.writers import nifti
from m3bench.writers.formats import cut_short, write_json, write_table

PATIENTS = {"tiny": 190, "small": 260, "layout": 20_000}
"""People of the training part; the validation part has a fifth of that, in `layout` as many as in reality."""
REAL = {"train": (20_000, 24_128, 47_149), "valid": (1_304, 1_564, 3_039)}
"""People, scans, volumes."""
SLICES = {"tiny": (14, 18), "small": (24, 32)}
PIXELS = {"tiny": 48, "small": 64}
REPORTS = ("VolumeName", "ClinicalInformation_EN", "Technique_EN", "Findings_EN", "Impressions_EN")
METADATA = (
    "VolumeName", "Manufacturer", "PatientSex", "PatientAge", "RescaleIntercept", "RescaleSlope", "XYSpacing",
    "ZSpacing",
)  # fmt: skip
MISSING_TEXT = "Not given."


@dataclass(frozen=True)
class Scan:
    """One examination. `sides` has a label's side in the picture, `levels` its height 0 (upper) to 2; 0 for none."""

    part: str
    patient: int
    letter: str
    volumes: int
    sides: dict[str, int]
    levels: dict[str, int]

    @property
    def places(self) -> dict[str, Place]:
        return {label: Place(side, self.levels[label]) for label, side in self.sides.items()}

    @property
    def name(self) -> str:
        return f"{self.part}_{self.patient}_{self.letter}"

    def volume_names(self) -> list[str]:
        return [f"{self.name}_{number + 1}.nii.gz" for number in range(self.volumes)]

    def folder(self, layout: str) -> str:
        top = "volumes" if layout == "paper" else f"dataset/{self.part}"
        return f"{top}/{self.part}_{self.patient}/{self.name}"


def render(
    key: Sequence[object], patient: int, scan: str, places: dict[str, Place], slices: tuple[int, int], pixels: int
) -> Volume:
    """Densities of one scan in HU (Z, Y, X) without noise; scans with the same key and patient share anatomy."""
    rng = stream(*key, scan)
    body = patient_with(Patient.draw(stream(*key, patient, "patient")), frozenset(places))
    acquisition = Acquisition.draw(rng, slices)
    grid = Grid.of(acquisition, pixels)
    chest = build(body, acquisition, grid, rng)
    for label in ORDER:
        if label in places:
            paint(chest, body, grid, label, places[label], rng)
    paint_instead(chest, grid, places)
    return chest.density


def make(root: Path, *, size: str, seed: int, patients: int | None, layout: str, workers: int) -> dict[str, object]:
    """Write the dataset into the empty `root`; returns the truth about it."""
    scans = _plan(patients or PATIENTS[size], seed, size == "layout" and patients in (None, PATIENTS["layout"]))
    with processes(workers) as mapped:
        written = list(mapped(_write, [(str(root), seed, scan, size, layout) for scan in scans]))
    rng = stream("ct-rate", seed, "quirks")
    several = [scan for scan in scans if scan.part == "train"]
    dumb, silent, lost, cut, blind = (several[index] for index in rng.choice(len(several), 5, replace=False))
    missing = f"{lost.folder(layout)}/{lost.volume_names()[-1]}"
    (root / missing).unlink()
    broken = f"{cut.folder(layout)}/{cut.volume_names()[0]}"
    cut_short(root / broken)
    told = {scan.name: report(scan.places, stream("ct-rate", seed, scan.name, "words")) for scan in scans}
    references = [told[scan.name].findings for scan in scans]
    told[dumb.name] = Report(MISSING_TEXT, told[dumb.name].impression)
    told[silent.name] = Report(told[silent.name].findings, "")
    if layout == "paper":
        _paper_tables(root, scans, told)
    else:
        _distributed_tables(root, scans, told, [row for rows in written for row in rows], blind.volume_names()[0], seed)
    constant = usual(references)
    scores = known_scores(
        references,
        lambda index: report(scans[index].places, stream("again", seed, scans[index].name)).findings,
        constant,
    )
    scores["ideal"]["label_f1"] = 1.0
    scores["trivial"]["label_f1"] = _label_f1(labels_in(constant), scans)
    quirks = [
        {"quirk": "text_not_given", "path": dumb.name},
        {"quirk": "text_nan", "path": silent.name},
        {"quirk": "missing_file", "path": missing},
        {"quirk": "truncated_file", "path": broken},
    ]
    if layout == "distributed":
        quirks.append({"quirk": "spacing_nan", "path": blind.volume_names()[0]})
    return {
        "labels": LABELS,
        "sample_unit": "scan",
        "split_unit": "patient",
        "scans": [{**asdict(scan), "name": scan.name} for scan in scans],
        "quirks": quirks,
        **scores,
    }


def _plan(count: int, seed: int, exact: bool) -> list[Scan]:
    rng = stream("ct-rate", seed, "plan")
    scans: list[Scan] = []
    for part, (people, examined, reconstructed) in REAL.items():
        if not exact:
            people = count if part == "train" else max(3, count // 5)
            examined = round(1.2 * people)
            # In reality 1.95 a scan: the same room holds more scans, and so more reports.
            reconstructed = round(1.5 * examined)
        letters = rng.permutation(_spread(people, examined, rng))
        volumes = _spread(examined, reconstructed, rng).tolist()
        place = 0
        for patient, times in enumerate(letters.tolist(), start=1):
            for number in range(times):
                scans.append(Scan(part, patient, "abcdefgh"[number], volumes[place], *_places(rng)))
                place += 1
    return scans


def _spread(slots: int, total: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """`total` over `slots`, one to three each and at least one."""
    counts = np.ones(slots, np.int64)
    extra = rng.permutation(np.repeat(np.arange(slots), 2))[: total - slots]
    np.add.at(counts, extra, 1)
    return counts


def _places(rng: np.random.Generator) -> tuple[dict[str, int], dict[str, int]]:
    """Sides and levels of the labels that a scan has."""
    here = rng.random(len(LABELS)) < np.array([PREVALENCE[label] for label in LABELS])
    sides, levels = rng.choice([-1, 1], len(LABELS)).tolist(), rng.integers(3, size=len(LABELS)).tolist()
    present = [number for number, yes in enumerate(here.tolist()) if yes]
    return (
        {LABELS[n]: sides[n] if LABELS[n] in SIDED else 0 for n in present},
        {LABELS[n]: levels[n] if LABELS[n] in LEVELLED else 0 for n in present},
    )


def _label_f1(said: frozenset[str], scans: Sequence[Scan]) -> float:
    """Micro F1 of the same labels said of every scan."""
    hits = sum(len(said & scan.sides.keys()) for scan in scans)
    return round(2 * hits / (len(said) * len(scans) + sum(len(scan.sides) for scan in scans)), 3) if hits else 0.0


def _write(job: tuple[str, int, Scan, str, str]) -> list[list[object]]:
    """Write a scan's reconstructions; returns their rows of the metadata."""
    root, seed, scan, size, layout = job
    rng = stream("ct-rate", seed, scan.name, "files")
    key = ("ct-rate", seed, scan.part)
    spacing = round(float(rng.uniform(0.6, 0.9)), 4)
    person = stream(*key, scan.patient, "card")
    sex, age = one_of(person, "F", "M"), f"{int(person.integers(20, 88)):03d}Y"
    maker = one_of(rng, "Siemens Healthineers", "Philips Medical Systems", "PNMS")
    density = None
    if size != "layout":
        density = render(key, scan.patient, scan.name, scan.places, SLICES[size], PIXELS[size])
    rows: list[list[object]] = []
    for name in scan.volume_names():
        thick = float(rng.choice([1.0, 1.5, 2.0, 3.0]))
        # What is stored becomes HU by the table's slope and intercept; the files' headers do not have them.
        intercept = int(rng.choice([-1024, -1024, 0]))
        if density is None:
            stored = rng.integers(0, 1000, (6, 6, 4), dtype=np.int16)
        else:
            stored = _reconstructed(density, rng, intercept)
        nifti.write(
            Path(root, scan.folder(layout), name), stored, nifti.affine(stored.shape, (spacing, spacing, thick))
        )
        rows.append([name, maker, sex, age, intercept, 1, f"[{spacing}, {spacing}]", thick])
    return rows


def _reconstructed(density: Volume, rng: np.random.Generator, intercept: int) -> NDArray[np.int16]:
    """One kernel: sharp and noisy, or soft. (X, Y, Z) with axes to the left, the back and the head."""
    sharp = float(rng.uniform(0, 1))
    noisy = density + (8 + 22 * sharp) * rng.standard_normal(density.shape, dtype=np.float32)
    picture = np.clip(np.rint(blurred(noisy, 0.7 * (1 - sharp))), -1024, 3071)
    return np.ascontiguousarray((picture - intercept).astype(np.int16)[::-1].transpose(2, 1, 0))


def _paper_tables(root: Path, scans: Sequence[Scan], told: dict[str, Report]) -> None:
    for part, name in (("train", "train"), ("valid", "test")):
        rows = [
            {
                "image_path": f"{scan.folder('paper')}/{volume}",
                "finding": told[scan.name].findings or "nan",
                # An empty cell that went through a table reader and str().
                "impression": told[scan.name].impression or "nan",
            }
            for scan in scans
            if scan.part == part
            for volume in scan.volume_names()
        ]
        write_json(root / f"reports_{name}.json", rows)


def _distributed_tables(
    root: Path, scans: Sequence[Scan], told: dict[str, Report], metadata: list[list[object]], blind: str, seed: int
) -> None:
    base = root / "dataset"
    for part, long, short in (("train", "train", "train"), ("valid", "validation", "valid")):
        mine = [scan for scan in scans if scan.part == part]

        def rows(cells: Callable[[Scan], list[object]], of: Sequence[Scan] = mine) -> list[list[object]]:
            return [[volume, *cells(scan)] for scan in of for volume in scan.volume_names()]

        def texts(scan: Scan) -> list[object]:
            rng = stream("ct-rate", seed, scan.name, "request")
            said = told[scan.name]
            return [one_of(rng, *CLINICAL), one_of(rng, *TECHNIQUE), said.findings, said.impression]

        def flags(scan: Scan) -> list[object]:
            return [int(label in scan.sides) for label in LABELS]

        write_table(base / "radiology_text_reports" / f"{long}_reports.csv", REPORTS, rows(texts))
        name = f"{short}_predicted_labels.csv"
        write_table(base / "multi_abnormality_labels" / name, ["VolumeName", *LABELS], rows(flags))
        known = [[*row[:-1], "" if row[0] == blind else row[-1]] for row in metadata if str(row[0]).startswith(part)]
        write_table(base / "metadata" / f"{long}_metadata.csv", METADATA, known)


REPLICA = Replica(
    summary="CT-RATE: chest CT of several scans and reconstructions a person, with reports",
    make=make,
    patients=PATIENTS,
    megabytes={"tiny": 25, "small": 140, "layout": 440},
    unit="people in training",
)
