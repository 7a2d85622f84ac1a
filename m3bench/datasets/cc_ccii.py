"""CC-CCII in miniature: `<class>/<patient>/<scan>/<slice>.png`, several scans a patient, its tables and its traps."""

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from m3bench.phantoms.chest import Grid, Patient, build
from m3bench.phantoms.lesions import consolidations, ground_glass, incidental
from m3bench.replicas import Replica, processes
from m3bench.scanners.noise import stream
from m3bench.scanners.scanner import Acquisition, export
from m3bench.writers.formats import write_table
from m3bench.writers.images import BMP, EXPORTED_JPG, PADDED, UNPADDED, UPPER_PNG, NameStyle, write_slices

LABELS = ("CP", "NCP", "Normal")
PATIENTS = {"tiny": 12, "small": 56, "layout": 899}
"""Patients a class."""
REAL = (2698, 3993)
"""Patients and scans of the cleaned release; how they spread over the classes is not settled, so: evenly."""
SLICES = (12, 40)
FEW = (2, 4)
"""Slices of a scan in the size `layout`."""

# How many scans of every class get each style, as a share; at least one of each, so that no format names a class.
_STYLES = ((UNPADDED, 0.08), (EXPORTED_JPG, 0.03), (BMP, 0.02), (UPPER_PNG, 0.02))


@dataclass(frozen=True)
class RenderedScan:
    pixels: NDArray[np.uint8]
    """(slices, rows, columns)"""
    lesion_slices: tuple[int, ...]
    acquisition: Acquisition


@dataclass(frozen=True)
class _Scan:
    """One scan to write; everything random about it follows from seed, patient and scan."""

    label: str
    patient: str
    scan: str
    style: NameStyle
    blank: bool
    """Some grey instead of a chest: the size is about the tree."""

    @property
    def folder(self) -> str:
        return f"{self.label}/{self.patient}/{self.scan}"


def render_scan(label: str, patient_key: Sequence[object], *scan_key: object) -> RenderedScan:
    """Pixels of one scan. Same keys, same pixels; scans with the same `patient_key` share anatomy and texture."""
    patient = Patient.draw(stream(*patient_key, "patient"))
    rng = stream(*patient_key, "scan", *scan_key)
    acquisition = Acquisition.draw(rng, SLICES)
    grid = Grid.of(acquisition)
    chest = build(patient, acquisition, grid, rng)
    incidental(chest, patient, grid, rng)
    slices: tuple[int, ...] = ()
    if label != "Normal":
        lesion = (consolidations if label == "CP" else ground_glass)(chest, patient, grid, rng)
        slices = tuple(np.flatnonzero(lesion.sum(axis=(1, 2)) >= 6).tolist())
    return RenderedScan(export(chest.density, acquisition, rng), slices, acquisition)


def new_scan(path: Path, label: str, seed: int) -> None:
    """Write one scan of a patient who is in no dataset, as slices below `path`. Raises ValueError, FileExistsError."""
    if label not in LABELS:
        raise ValueError(f"unknown class {label!r}; the classes are {', '.join(LABELS)}")
    write_slices(path, render_scan(label, ("cc-ccii", "new", seed)).pixels, PADDED)


def make(
    root: Path, *, size: str, seed: int, patients: int | None, layout: str = "paper", workers: int
) -> dict[str, object]:
    """Write the dataset into the empty `root`; returns the truth about it. Both layouts are the same."""
    scans = plan(patients or PATIENTS[size], seed, size == "layout", patients in (None, PATIENTS["layout"]))
    by_patient: dict[str, list[_Scan]] = {}
    for scan in scans:
        by_patient.setdefault(scan.patient, []).append(scan)
    jobs = [(str(root), seed, tuple(group)) for group in by_patient.values()]
    with processes(workers) as mapped:
        written = list(mapped(_write_patient, jobs))
    records = [record for group in written for record in group]
    quirks, duplicates = _plant(root, records, seed)
    records.sort(key=lambda record: str(record["folder"]))
    _tables(root, records)
    return {
        "labels": LABELS,
        "sample_unit": "scan",
        "split_unit": "patient",
        "scans": records,
        "quirks": quirks,
        "duplicates": duplicates,
        "trivial": {"accuracy": max(_shares(records)), "balanced_accuracy": 0.3333, "auc_macro": 0.5},
        "ideal": {
            "auc_macro": 1.0,
            "why": "scans of CP and NCP all have lesions: lobar and dense, or many and hazy",
        },
    }


def plan(patients: int, seed: int, blank: bool, exact: bool) -> list[_Scan]:
    """Every scan to write, without the planted copy. `exact`: as many patients and scans as in reality."""
    rng = stream("cc-ccii", seed, "plan")
    scans_of = [np.resize([1, 2, 1, 3, 2, 1], patients)] * len(LABELS)
    if blank and exact:
        scans_of = [_counts(*(int(part) for part in parts)) for parts in _thirds(*REAL)]
    # Ids say nothing: one shuffled range for all classes, with gaps.
    most = max(counts.size for counts in scans_of)
    ids = rng.permutation(np.arange(1, 3 * 2 * most + 40))[: 3 * most]
    numbers = iter(rng.permutation(np.arange(400, 400 + 20 * most)).tolist())
    scans: list[_Scan] = []
    for position, label in enumerate(LABELS):
        mine = [
            (str(patient), str(next(numbers)))
            for patient, count in zip(ids[position::3].tolist(), scans_of[position].tolist(), strict=False)
            for _ in range(count)
        ]
        styles = [style for style, share in _STYLES for _ in range(max(1, round(share * len(mine))))]
        styles = (styles + [PADDED] * len(mine))[: len(mine)]
        shuffled = [styles[index] for index in rng.permutation(len(mine))]
        named = zip(mine, shuffled, strict=True)
        scans += [_Scan(label, patient, scan, style, blank) for (patient, scan), style in named]
    return scans


def _thirds(patients: int, scans: int) -> list[tuple[int, int]]:
    """Patients and scans of each class, as even as whole numbers are."""
    return [((patients + 2 - at) // 3, (scans + 2 - at) // 3) for at in range(3)]


def _counts(patients: int, scans: int) -> NDArray[np.int64]:
    """Scans of each patient: one, for some two or three."""
    counts = np.ones(patients, np.int64)
    two = (scans - patients) * 2 // 3
    counts[:two] += 1
    counts[: scans - patients - two] += 1
    return counts


def _blank(seed: int, scan: _Scan) -> RenderedScan:
    rng = stream("cc-ccii", seed, scan.patient, scan.scan, "blank")
    acquisition = Acquisition.draw(rng, FEW)
    pixels = rng.integers(0, 256, (acquisition.slices, 8, 8), dtype=np.uint8)
    return RenderedScan(pixels, () if scan.label == "Normal" else (acquisition.slices // 2,), acquisition)


def _write_patient(job: tuple[str, int, tuple[_Scan, ...]]) -> list[dict[str, object]]:
    root, seed, scans = job
    records: list[dict[str, object]] = []
    for scan in scans:
        key = ("cc-ccii", seed, scan.patient)
        rendered = _blank(seed, scan) if scan.blank else render_scan(scan.label, key, scan.scan)
        names = write_slices(Path(root, scan.folder), rendered.pixels, scan.style)
        records.append(
            {
                "folder": scan.folder,
                "label": scan.label,
                "patient": scan.patient,
                "scan": scan.scan,
                "style": scan.style.name,
                "files": names,
                "lesion_files": [names[index] for index in rendered.lesion_slices],
                "acquisition": asdict(rendered.acquisition),
            }
        )
    return records


def _plant(root: Path, records: list[dict[str, object]], seed: int) -> tuple[list[dict[str, str]], list[list[str]]]:
    """One damaged slice, one scan that stands under two patients of its class, and clutter of a desktop computer."""
    rng = stream("cc-ccii", seed, "quirks")
    plain = [record for record in records if record["style"] == PADDED.name]
    damaged, copied = (plain[index] for index in rng.choice(len(plain), 2, replace=False))
    files = damaged["files"]
    assert isinstance(files, list)
    slice_ = root / str(damaged["folder"]) / files[len(files) // 2]
    slice_.write_bytes(slice_.read_bytes()[: slice_.stat().st_size // 2])

    others = sorted(
        {str(record["patient"]) for record in records if record["label"] == copied["label"]} - {str(copied["patient"])}
    )
    twin = {**copied, "patient": others[int(rng.integers(len(others)))]}
    twin["scan"] = str(max(int(str(record["scan"])) for record in records) + 7)
    twin["folder"] = f"{twin['label']}/{twin['patient']}/{twin['scan']}"
    shutil.copytree(root / str(copied["folder"]), root / str(twin["folder"]))
    records.append(twin)

    clutter = [".DS_Store", f"{records[0]['folder']}/._{_first_file(records[0])}"]
    (root / clutter[0]).write_bytes(b"\0\0\0\1Bud1\0" + bytes(64))
    (root / clutter[1]).write_bytes(b"\x00\x05\x16\x07\x00\x02\x00\x00Mac OS X        " + bytes(40))
    quirks = [
        {"quirk": "corrupt_png", "path": slice_.relative_to(root).as_posix()},
        {"quirk": "duplicate_scan", "path": str(twin["folder"])},
        *({"quirk": "hidden_file", "path": path} for path in clutter),
        *({"quirk": str(r["style"]), "path": str(r["folder"])} for r in records if r["style"] != PADDED.name),
    ]
    return quirks, [sorted([str(copied["folder"]), str(twin["folder"])])]


def _tables(root: Path, records: Sequence[Mapping[str, object]]) -> None:
    rows = [
        [f"COVID19-CT-{at // 25 + 1:02d}.zip", *(record[key] for key in ("label", "patient", "scan")), len(files)]
        for at, record in enumerate(records)
        if (files := _list(record, "files"))
    ]
    write_table(root / "unzip_filenames.csv", ["zip_file", "label", "patient_id", "scan_id", "n_slice"], rows)
    lesions = [[f"{record['folder']}/{name}"] for record in records for name in _list(record, "lesion_files")]
    write_table(root / "lesions_slices.csv", ["imgpath"], lesions)


def _list(record: Mapping[str, object], key: str) -> list[str]:
    value = record[key]
    assert isinstance(value, list)
    return value


def _first_file(record: Mapping[str, object]) -> str:
    return _list(record, "files")[0]


def _shares(records: Sequence[Mapping[str, object]]) -> list[float]:
    return [round(sum(record["label"] == label for record in records) / len(records), 4) for label in LABELS]


REPLICA = Replica(
    summary="CC-CCII: chest CT as slices, CP / NCP / Normal",
    make=make,
    patients=PATIENTS,
    megabytes={"tiny": 12, "small": 60, "layout": 80},
    unit="patients a class",
)
