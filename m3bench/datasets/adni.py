"""ADNI in miniature: T1 heads of AD / MCI / CN at one to four visits, a search table with rows that must not be used.

What tells the classes is the size of the ventricles (up) and of the hippocampi (down); every tissue has the same share
of voxels whatever the class. Severity is drawn about 0 (CN), 1 (MCI) and 2 (AD) with a deviation of 0.25 per person.
"""

import io
import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from m3bench.phantoms.tissue import T1, Head, signal, tissues
from m3bench.replicas import Replica, processes
from m3bench.scanners.mri import received
from m3bench.scanners.noise import Volume, stream
from m3bench.writers import nifti
from m3bench.writers.dicom import Series, write_series
from m3bench.writers.formats import write_table

LABELS = ("AD", "CN", "MCI")
SEVERITY = {"CN": 0.0, "SMC": 0.1, "EMCI": 0.6, "MCI": 1.0, "LMCI": 1.4, "AD": 2.0}
SPREAD = 0.25
PATIENTS = {"tiny": 20, "small": 40, "layout": 450}
"""People a class."""
SHAPES = {"tiny": (32, 40, 32), "small": (48, 56, 48), "layout": (6, 8, 6)}
HEADER = (
    "Image Data ID", "Subject", "Group", "Sex", "Age", "Visit", "Modality", "Description", "Type", "Acq Date", "Format",
    "Downloaded",
)  # fmt: skip
TABLE = "ADNI1_Complete_3Yr_1.5T_11_21_2025.csv"
DTYPES = ("float32",) * 8 + ("float16", "int16")
RAW = ("MP-RAGE", "MPRAGE", "MP-RAGE REPEAT")
PROCESSED = "MPR; GradWarp; B1 Correction; N3; Scaled"
LOCALIZER = "3-plane localizer"


@dataclass(frozen=True)
class Scan:
    """One image. `listed` and `stored`: whether the table has a row and the folder a file."""

    image_id: str
    subject: str
    group: str
    sex: str
    age: int
    visit: str
    description: str
    kind: str
    date: tuple[int, int, int]
    severity: float
    dtype: str
    shape: tuple[int, int, int]
    listed: bool = True
    stored: bool = True
    written_id: str = ""
    """How the table spells the id, where it leaves the I out."""

    def row(self) -> list[object]:
        year, month, day = self.date
        shown = f"{month}/{day}/{year}"
        kind = "DCM" if self.kind == "Original" else "NiFTI"
        return [
            self.written_id or self.image_id, self.subject, self.group, self.sex, self.age, self.visit, "MRI",
            self.description, self.kind, shown, kind, "11/21/2025",
        ]  # fmt: skip


def render(subject_key: tuple[object, ...], image_id: str, severity: float, shape: tuple[int, int, int]) -> Volume:
    """One T1 volume (X, Y, Z) in RAS, 0 to about 1.2. Scans with the same `subject_key` share head and texture."""
    head = Head.draw(stream(*subject_key, "head"))
    rng = stream(*subject_key, image_id)
    axes = head.place(shape, tuple(rng.uniform(-0.03, 0.03, 3)))
    labels = tissues(
        head, axes, ventricle=0.75 + 0.4 * severity, hippocampus=1.2 - 0.22 * severity,
        csf=float(rng.uniform(0.18, 0.26)), grey=float(rng.uniform(0.38, 0.46)),
    )  # fmt: skip
    return received(signal(labels, T1, head, axes, rng), rng)


def make(root: Path, *, size: str, seed: int, patients: int | None, layout: str, workers: int) -> dict[str, object]:
    """Write the dataset into the empty `root`; returns the truth about it."""
    scans, quirks = _plan(patients or PATIENTS[size], seed, SHAPES[size])
    stored = [scan for scan in scans if scan.stored]
    with processes(workers) as mapped:
        if layout == "paper":
            for scan, volume in zip(stored, mapped(_scaled, [(seed, scan) for scan in stored]), strict=True):
                _write_tensor(root / "ADNI_PT" / f"{scan.image_id}.pt", volume)
        else:
            list(mapped(_write_archive, [(str(root), seed, scan) for scan in stored]))
    order = stream("adni", seed, "rows").permutation(len(scans)).tolist()
    rows = [scans[index].row() for index in order if scans[index].listed]
    write_table(root / TABLE, HEADER, rows, quote_all=True)
    usable = [s for s in scans if s.listed and s.stored and s.group in LABELS and s.description != LOCALIZER]
    shares = [sum(scan.group == label for scan in usable) / len(usable) for label in LABELS]
    return {
        "labels": LABELS,
        "sample_unit": "image",
        "split_unit": "subject",
        "scans": [asdict(scan) for scan in scans],
        "quirks": quirks,
        "trivial": {"accuracy": round(max(shares), 4), "balanced_accuracy": 0.3333, "auc_macro": 0.5},
        "ideal": {"balanced_accuracy": round(_ideal(), 3), "why": f"severity overlaps (deviation {SPREAD})"},
    }


def _ideal() -> float:
    """Of a reader who sees the severity without error and cuts halfway between the classes."""
    below = 0.5 * (1 + math.erf(0.5 / SPREAD / math.sqrt(2)))
    return (2 * below + (2 * below - 1)) / 3


def _plan(count: int, seed: int, shape: tuple[int, int, int]) -> tuple[list[Scan], list[dict[str, str]]]:
    rng = stream("adni", seed, "plan")
    extra = max(2, count // 8)
    groups = [group for group in ("AD", "CN", "MCI") for _ in range(count)]
    groups += [group for group in ("EMCI", "LMCI", "SMC") for _ in range(extra)]
    visits = [number for label in LABELS for number in np.resize([1, 2, 1, 3, 2, 4], count).tolist()]
    visits += np.resize([1, 2], 3 * extra).tolist()
    people = rng.choice(7000, len(groups), replace=False).tolist()
    numbers = iter((rng.choice(900_000, 4 * len(groups) + 20, replace=False) + 10_000).tolist())
    scans: list[Scan] = []
    for group, times, person in zip(groups, visits, people, strict=True):
        scans += _person(group, times, f"{int(rng.integers(2, 137)):03d}_S_{person:04d}", numbers, shape, rng)
    return _plant(scans, numbers, rng)


def _person(
    group: str, times: int, subject: str, ids: Iterator[int], shape: tuple[int, int, int], rng: np.random.Generator
) -> list[Scan]:
    severity = float(np.clip(rng.normal(SEVERITY[group], SPREAD), -0.5, 2.6))
    sex, age, year = str(rng.choice(["F", "M"])), int(rng.integers(56, 90)), int(rng.integers(2005, 2014))
    scans: list[Scan] = []
    for number in range(times):
        # A fourth image is a second version of the first visit's: another id, the same day.
        again = number == 3
        visit = 0 if again else number
        scans.append(
            Scan(
                image_id=f"I{next(ids)}",
                subject=subject,
                group=group,
                sex=sex,
                age=age + (visit + 1) // 2,
                visit=("sc", "m12", "m24")[visit],
                description=PROCESSED if again or rng.random() < 0.3 else str(rng.choice(RAW)),
                kind="",
                date=scans[0].date if again else (year + visit, int(rng.integers(1, 13)), int(rng.integers(1, 29))),
                severity=round(severity + 0.03 * visit, 4),
                dtype=DTYPES[int(rng.integers(len(DTYPES)))],
                shape=shape,
            )
        )
    return [replace(scan, kind="Processed" if scan.description == PROCESSED else "Original") for scan in scans]


def _plant(scans: list[Scan], ids: Iterator[int], rng: np.random.Generator) -> tuple[list[Scan], list[dict[str, str]]]:
    """Rows without file, files without row, ids without I, a localizer, and a person whose diagnosis changes."""
    quirks: list[dict[str, str]] = []

    def tag(quirk: str, scan: Scan) -> None:
        quirks.append({"quirk": quirk, "path": scan.image_id})

    several = [scan for scan in scans if scan.group == "MCI" and scan.visit != "sc"]
    convert = several[int(rng.integers(len(several)))]
    places = {scan.image_id: index for index, scan in enumerate(scans)}
    for scan in [s for s in scans if s.subject == convert.subject and s.visit >= convert.visit and s.visit != "sc"]:
        scans[places[scan.image_id]] = replace(scan, group="AD", severity=round(scan.severity + 1, 4))
        tag("diagnosis_changes", scan)
    plain = [
        index for index, s in enumerate(scans) if s.group in LABELS and s.visit == "sc" and s.subject != convert.subject
    ]
    chosen = iter(rng.permutation(plain).tolist())
    for quirk, many in (("row_without_file", 3), ("file_without_row", 2), ("id_without_letter", 2)):
        for _ in range(many):
            place = next(chosen)
            scan = scans[place]
            if quirk == "row_without_file":
                # An image more than those there are, so that no class loses any.
                scan = replace(scan, image_id=f"I{next(ids)}", stored=False)
                scans.append(scan)
            elif quirk == "file_without_row":
                scan = replace(scan, image_id=f"I{next(ids)}", listed=False)
                scans.append(scan)
            else:
                scans[place] = scan = replace(scan, written_id=scan.image_id[1:])
            tag(quirk, scan)
    for _ in range(2):
        scan = scans[next(chosen)]
        small = (3, scan.shape[1], scan.shape[2])
        scan = replace(scan, image_id=f"I{next(ids)}", description=LOCALIZER, kind="Original", shape=small)
        scans.append(scan)
        tag("localizer", scan)
    return scans, quirks


def _scaled(job: tuple[int, Scan]) -> NDArray[Any]:
    """Scanners and processing chains have scales of their own, from 0..1 to thousands."""
    seed, scan = job
    volume = render(("adni", seed, scan.subject), scan.image_id, scan.severity, scan.shape)
    scale = float(stream("adni", seed, scan.image_id, "scale").choice([1.0, 180.0, 900.0, 2400.0]))
    return (volume * np.float32(scale if scan.dtype != "int16" else 900.0)).astype(scan.dtype)


def _write_tensor(path: Path, volume: NDArray[Any]) -> None:
    # In one process only: loading torch takes longer than a few heads.
    import torch

    path.parent.mkdir(exist_ok=True)
    buffer = io.BytesIO()
    torch.save(torch.from_numpy(volume), buffer)
    path.write_bytes(buffer.getvalue())


def _write_archive(job: tuple[str, int, Scan]) -> None:
    """`ADNI/<subject>/<description>/<date_time>/<image id>/`: a DICOM series, or one NIfTI if processed."""
    root, seed, scan = job
    rng = stream("adni", seed, scan.image_id, "archive")
    year, month, day = scan.date
    clock = [int(value) for value in rng.integers((8, 0, 0), (18, 60, 60))]
    described = "".join(c if c.isalnum() or c == "-" else "_" for c in scan.description)
    moment = f"{year}-{month:02d}-{day:02d}_{clock[0]:02d}_{clock[1]:02d}_{clock[2]:02d}.0"
    folder = Path(root, "ADNI", scan.subject, described, moment, scan.image_id)
    made = f"{year + 1}{month:02d}{day:02d}{int(rng.integers(10**8)):09d}"
    series_number = f"S{int(rng.integers(10_000, 99_999))}"
    volume = render(("adni", seed, scan.subject), scan.image_id, scan.severity, scan.shape)
    spacing = (1.2, 0.9375, 0.9375)
    if scan.kind == "Processed":
        affine = np.diag([*spacing, 1.0])
        affine[:3, 3] = -np.array(spacing) * np.array(scan.shape) / 2
        name = f"ADNI_{scan.subject}_MR_{described}_Br_{made}_{series_number}_{scan.image_id}.nii"
        nifti.write(folder / name, (900 * volume).astype(np.float32), affine)
        return
    stem = f"ADNI_{scan.subject}_MR_{described}__br_raw_{made}"
    # Numbers without leading zeros: in the order of names 10 comes before 2.
    names = [folder / f"{stem}_{n + 1}_{series_number}_{scan.image_id}.dcm" for n in range(scan.shape[0])]
    series = Series(
        patient=scan.subject,
        sex=scan.sex,
        age=scan.age,
        description=scan.description,
        date=f"{year}{month:02d}{day:02d}",
        time="{:02d}{:02d}{:02d}".format(*clock),
        spacing=spacing,
        orientation=(0, 1, 0, 0, 0, -1),
        manufacturer=str(rng.choice(["SIEMENS", "GE MEDICAL SYSTEMS", "Philips Medical Systems"])),
        study_key=f"adni/{seed}/{scan.subject}/{moment}",
        series_key=f"adni/{seed}/{scan.image_id}",
    )
    # Sagittal slices towards the person's right; in each, columns run to the back and rows downwards.
    sagittal = volume[:, ::-1, ::-1].transpose(0, 2, 1)
    write_series(names, np.clip(sagittal * 1800, 0, 4095).astype(np.uint16), series)


REPLICA = Replica(
    summary="ADNI: T1 MRI of the head, AD / CN / MCI, several visits a person",
    make=make,
    patients=PATIENTS,
    megabytes={"tiny": 40, "small": 240, "layout": 110},
    unit="people a class",
)
