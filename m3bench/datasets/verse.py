"""VerSe in miniature: windows of the spine, 26 vertebrae whose values have a gap, orientations as they come."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from m3bench.datasets.volumes import Scale, Written, as_xyz, coarse, hounsfield, quirk, truth, write_labels
from m3bench.phantoms.space import Space
from m3bench.phantoms.spine import VALUES, Spine, build, scanned, with_extra
from m3bench.replicas import Replica, processes
from m3bench.scanners.noise import stream
from m3bench.writers import nifti

# `plane` is voxels from front to back, `slices` voxels a vertebra.
SCALES = {
    "tiny": Scale(16, 0, (48, 48), (7, 8)),
    "small": Scale(48, 0, (72, 72), (11, 13)),
    "layout": Scale(374, 0, (24, 24), (3, 4)),
}
LABELS = dict(sorted(VALUES.items(), key=lambda item: item[1]))
# Beside these a landmark ends or begins: skull, tips of the lungs, windpipe, bases of the lungs, short ribs, sacrum.
_ANCHORS = {"C1", "T1", "T4", "T11", "T12", "L5", "L6"}
_CODES = ("PIR", "LAS", "RAS")
_PARTS = {
    "verse19": (
        "dataset-verse19training",
        "dataset-verse19training",
        "dataset-verse19validation",
        "dataset-verse19test",
    ),
    "verse20": ("dataset-01training", "dataset-02validation", "dataset-03test"),
}


@dataclass(frozen=True)
class _Scan:
    subject: str
    entities: str
    """What stands between the subject and the suffix, such as `_dir-ax`."""
    part: str
    share: float
    """Where its window begins: 0 at C1, 1 as low as it goes."""
    extra: str | None
    codes: str
    mask_codes: str
    mask_float: bool

    @property
    def stem(self) -> str:
        return f"{self.subject}{self.entities}"


@dataclass(frozen=True)
class _Job:
    root: Path
    layout: str
    seed: int
    scale: Scale
    scan: _Scan


def make(
    root: Path, *, size: str, seed: int, patients: int | None, layout: str = "paper", workers: int = 1
) -> dict[str, object]:
    """Write the dataset into the empty `root`; returns the truth about it."""
    scale = SCALES[size].but(patients)
    scans = _plan(scale.labelled, seed)
    with processes(workers) as mapped:
        cases = list(mapped(_write, [_Job(root, layout, seed, scale, scan) for scan in scans]))
    quirks = []
    for scan, case in zip(scans, cases, strict=True):
        if scan.extra:
            quirks.append(quirk(f"extra_{scan.extra}", case.facts["image"]))
        if scan.codes != scan.mask_codes:
            quirks.append(quirk("mask_in_another_orientation", case.facts["mask"]))
        if scan.mask_float:
            quirks.append(quirk("float64_mask", case.facts["mask"]))
        if "split-" in scan.entities:
            quirks.append(quirk("several_series_of_one_patient", case.facts["image"]))
    if layout == "paper":
        write_labels(root / "labels.json", list(LABELS))
    return truth(
        cases,
        LABELS,
        quirks,
        split_unit="patient",
        ideal={
            "dice": 1.0,
            "why": "vertebrae were labelled where they were painted, and what is around them tells which they are; "
            "in a case that is not anchored (middle of neck or chest) only sizes do, and being off by one costs all",
        },
    )


def _plan(count: int, seed: int) -> list[_Scan]:
    rng = stream("verse", seed, "plan")
    older = round(count * 160 / 374)
    # The original shares the patients with two series, here one; the last of the older half.
    young = iter((rng.permutation(np.arange(max(400, older))) + 1).tolist())
    names = [(f"sub-verse{next(young):03d}", "", "verse19") for _ in range(older - 2)]
    twice = f"sub-verse{next(young):03d}"
    names += [(twice, f"_split-verse{number}", "verse19") for number in (252, 253)]
    for at in range(count - older):
        subject = f"sub-gl{3 + 4 * at:03d}" if at % 2 else f"sub-verse{500 + 3 * at}"
        names.append((subject, "_dir-ax", "verse20"))
    # Some from C1 on, more down to L5, as ever; the others evenly between, so that every vertebra is in some scan.
    ends = max(1, count // 8), max(1, count * 3 // 8)
    shares = rng.permutation([*[0.0] * ends[0], *[1.0] * ends[1], *np.linspace(0, 1, count - sum(ends))])
    alone = [at for at, (_, entities, _) in enumerate(names) if "split" not in entities and shares[at] > 0.6]
    extras = {at: ("T13" if number % 8 == 0 else "L6") for number, at in enumerate(alone[: max(2, count // 8)])}
    turned = int(rng.integers(count))
    scans = []
    for at, (subject, entities, family) in enumerate(names):
        codes = _CODES[at % 3]
        mask_codes = _CODES[(at + 1) % 3] if at == turned else codes
        part = _PARTS[family][at % len(_PARTS[family])] if "split" not in entities else _PARTS[family][0]
        share = float(shares[at])
        scans.append(_Scan(subject, entities, part, share, extras.get(at), codes, mask_codes, at % 5 == 1))
    return scans


def _write(job: _Job) -> Written:
    scan = job.scan
    # Both series of a patient show the same spine.
    spine = Spine.draw(stream("verse", job.seed, scan.subject, scan.extra), scan.extra)
    rng = stream("verse", job.seed, scan.stem)
    space, volume, labels = _window(job, spine, rng)
    plane, slice_ = float(rng.choice([0.4, 0.6, 0.8, 1.0, 1.2])), float(rng.choice([1.0, 1.5, 2.0, 3.0]))
    tilt = float(rng.uniform(-8, 8)) if rng.random() < 0.6 else 0.0
    centre = (0.0, float(rng.uniform(-60, 60)), 0.0)
    matrix = nifti.affine(space.shape[::-1], (slice_, plane, plane), tilt=tilt, centre=centre)
    image = nifti.oriented(as_xyz(volume), matrix, scan.codes)
    mask = nifti.oriented(as_xyz(labels), matrix, scan.mask_codes)
    if scan.mask_float:
        mask = (mask[0].astype(np.float64), mask[1])
    if job.layout == "distributed":
        raw, derived = (f"{scan.part}/{kind}/{scan.subject}/{scan.stem}" for kind in ("rawdata", "derivatives"))
    else:
        raw, derived = f"images/{scan.stem}", f"masks/{scan.stem}"
    facts = {"image": f"{raw}_ct.nii.gz", "mask": f"{derived}_seg-vert_msk.nii.gz"}
    nifti.write(job.root / facts["image"], *image, qform=0, sform=2)
    nifti.write(job.root / facts["mask"], *mask, qform=0, sform=2)
    if job.layout == "distributed":
        _extras(job.root / f"{derived}_seg-", mask[0], scan.mask_codes, volume)
    values = [int(value) for value in np.unique(labels) if value]
    names = [name for name, value in LABELS.items() if value in values]
    anchored = not _ANCHORS.isdisjoint(names)
    more = {"vertebrae": names, "anchored": anchored, "spacing": [slice_, plane, plane], "tilt": tilt}
    return Written({"case": scan.stem, "group": scan.subject, **facts, **more}, coarse(labels))


def _window(job: _Job, spine: Spine, rng: np.random.Generator) -> tuple[Space, NDArray[np.int16], NDArray[np.uint8]]:
    """A part of the spine: some five to twelve whole vertebrae and what the edges leave of their neighbours."""
    count = int(rng.integers(5, 13))
    names = with_extra(job.scan.extra)
    first = round(job.scan.share * (len(names) - count))
    if job.scan.extra:
        # Around the extra one, with the ribs above or the sacrum below in sight.
        at = names.index(job.scan.extra)
        first = min(max(first, at - count + 2, 0), at - 2, len(names) - count)
    upper, lower = spine.vertebrae[first], spine.vertebrae[first + count - 1]
    high = upper.top + float(rng.uniform(0.3, 0.85)) * upper.height
    low = lower.top - lower.height - float(rng.uniform(0.1, 0.7)) * lower.height
    x, y, _ = spine.at((high + low) / 2)
    wide, deep = float(rng.uniform(46, 62)), float(rng.uniform(56, 70))
    forward = float(rng.uniform(-14, 4))
    plane = job.scale.plane[0]
    shape = (count * int(rng.integers(job.scale.slices[0], job.scale.slices[1] + 1)), plane, plane * 5 // 6)
    low_corner, high_corner = (x - wide, y + forward - deep, low), (x + wide, y + forward + deep, high)
    space = Space.draw(shape, rng, low=low_corner, high=high_corner, amount=1.6)
    canvas = build(spine, space, rng)
    return space, hounsfield(scanned(canvas.density, rng)), canvas.labels


def _extras(prefix: Path, mask: NDArray[Any], codes: str, volume: NDArray[np.int16]) -> None:
    """Centroids in voxels of the mask's own orientation, and the snapshot of the middle."""
    from PIL import Image

    points: list[dict[str, object]] = [{"direction": list(codes)}]
    for value in (int(value) for value in np.unique(mask) if value):
        x, y, z = (round(float(axis), 1) for axis in np.argwhere(mask == value).mean(axis=0))
        points.append({"label": value, "X": x, "Y": y, "Z": z})
    prefix.with_name(prefix.name + "subreg_ctd.json").write_text(json.dumps(points) + "\n", encoding="utf-8")
    middle = np.clip((volume[::-1, :, volume.shape[2] // 2].astype(np.float32) + 200) / 5, 0, 255).astype(np.uint8)
    Image.fromarray(middle).save(prefix.with_name(prefix.name + "vert_snp.png"))


REPLICA = Replica(
    summary="VerSe: spine CT, vertebrae C1 to L6 and T13",
    make=make,
    patients={size: scale.labelled for size, scale in SCALES.items()},
    megabytes={"tiny": 7, "small": 60, "layout": 20},
    unit="labelled scans",
)
