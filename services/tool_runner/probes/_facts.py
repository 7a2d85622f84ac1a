"""Facts of one image file for a reader: header, place in space, values. Read by `shared.imaging`, as intake does."""

from pathlib import Path
from typing import Any

import numpy as np

from shared.imaging.arrays import arrays_of
from shared.imaging.formats import format_of
from shared.imaging.grid import closest_ras
from shared.imaging.header import Header
from shared.imaging.headers import peek
from shared.imaging.image import Image
from shared.imaging.units import looks_like_hu
from shared.imaging.volume import BadImage, read

_LARGEST = 1 << 30
"""Bytes of voxels above which only the header is told."""
_SHOWN = 64
"""Different whole values up to which each is counted."""
_TAGS = (
    "PatientID", "StudyInstanceUID", "SeriesInstanceUID", "InstanceNumber", "Modality", "BodyPartExamined", "ImageType",
    "ViewPosition", "PhotometricInterpretation",
)  # fmt: skip
"""What geometry and grouping need. Names, dates and free text of a patient are never told."""


def image_facts(path: Path) -> dict[str, Any]:
    """Plain values of one file: `format`, `shape` (x, y, z or width, height), `dtype`, `spacing` (mm), `orientation`,
    `channels`, `tags` of DICOM, `arrays` where it holds several, and what `values_of` finds. Raises BadImage."""
    header = peek(path)
    found = format_of(path)
    facts: dict[str, Any] = {"format": found.name if found else "image", "shape": list(header.shape)}
    facts |= {"dtype": header.dtype} if header.dtype else {}
    facts |= {"spacing": [round(size, 4) for size in header.spacing]} if header.spacing else {}
    facts |= {"channels": header.channels} if header.channels > 1 else {}
    facts |= {"frames": header.frames} if header.frames > 1 else {}
    facts |= _place(header)
    tags = {name: header.dicom[name] for name in _TAGS if name in header.dicom}
    facts |= {"tags": tags} if tags else {}
    if header.kind == "annotation":
        return facts
    names = [one.name for one in arrays_of(path)] if header.kind == "array" else []
    if len(names) > 1:
        facts["arrays"] = {one.name: f"{one.dtype} {list(one.shape)}" for one in arrays_of(path)[:20]}
    if np.prod([float(edge) for edge in header.shape]) * header.frames * header.channels * 4 > _LARGEST:
        return facts | {"notes": ["values not read: the image is too large for a preview"]}
    try:
        return facts | values_of(read([path], array=names[0] if len(names) > 1 else None, axis4="first"))
    except BadImage as error:
        if header.kind != "dicom":
            raise
        # A header without a decoder for its pixels is still worth knowing.
        return facts | {"notes": [f"values not read: {error}"]}


def values_of(image: Image) -> dict[str, Any]:
    """`min`, `max`, `mean`, `std`, 1st, 50th and 99th percentile, `hu`, and `values` (value -> voxels) where they are
    few and whole."""
    values = image.array.reshape(-1)
    sample = values[:: max(1, values.size // 1_000_000)].astype(np.float64)
    low, middle, high = np.percentile(sample, (1, 50, 99))
    facts: dict[str, Any] = {"min": _plain(values.min()), "max": _plain(values.max())}
    facts |= {"mean": round(float(values.mean(dtype=np.float64)), 4), "std": round(float(sample.std()), 4)}
    facts |= {"p1": _plain(low), "median": _plain(middle), "p99": _plain(high)}
    facts |= {"hu": True} if image.affine is not None and looks_like_hu(sample) else {}
    if facts["max"] - facts["min"] <= 300 and bool((sample == np.round(sample)).all()):
        found, counts = np.unique(values, return_counts=True)
        if len(found) <= _SHOWN:
            facts["values"] = {f"{value:g}": int(count) for value, count in zip(found, counts, strict=True)}
    return facts


def _place(header: Header) -> dict[str, Any]:
    if header.affine is None:
        return {}
    import nibabel as nib

    turned = closest_ras(header.affine).moved(header.affine, (*header.shape, 1, 1)[:3])
    unit = turned[:3, :3] / np.linalg.norm(turned[:3, :3], axis=0)
    angle = float(np.degrees(np.arccos(np.clip(np.diag(unit), -1, 1))).max())
    facts: dict[str, Any] = {"orientation": "".join(str(code) for code in nib.aff2axcodes(header.affine))}
    return facts | ({"oblique_degrees": round(angle, 1)} if angle > 1 else {})


def _plain(value: Any) -> float | int:
    number = float(value)
    return int(number) if number.is_integer() else round(number, 4)


def line_of(facts: dict[str, Any]) -> str:
    """The facts in a line."""
    parts = [facts["format"], " x ".join(map(str, facts["shape"])), facts.get("dtype", "")]
    parts += [f"spacing {' x '.join(f'{size:g}' for size in facts['spacing'])} mm"] if "spacing" in facts else []
    parts += [facts["orientation"]] if "orientation" in facts else []
    parts += [f"oblique by {facts['oblique_degrees']} degrees"] if "oblique_degrees" in facts else []
    parts += [f"{facts['channels']} channels"] if "channels" in facts else []
    parts += [f"{facts['frames']} frames"] if "frames" in facts else []
    parts += [f"{facts['min']:g} to {facts['max']:g}, mean {facts['mean']:g}"] if "mean" in facts else []
    parts += ["Hounsfield units"] if facts.get("hu") else []
    parts += [f"values {', '.join(list(facts['values'])[:12])}"] if "values" in facts else []
    return ", ".join(part for part in parts if part) + "".join(f"; {note}" for note in facts.get("notes", ()))
