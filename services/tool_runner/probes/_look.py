"""Headers and voxels of any format, for the dataset gate. Never raises for what a file holds."""

import math
import pickle
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from shared.trainkit.gate.heads import Fault, Head, Reader, Voxels
from shared.trainkit.imagefile import PICTURE_SUFFIXES, inspect_image, suffix_of
from shared.trainkit.masks import MaskInvalid, pieces

_CUT = ("truncated", "end-of-stream", "EOFError", "broken data stream", "Compressed file ended", "expected", "shorter")
_MODES = {"1": "1 bit", "L": "8 bit grey", "I;16": "16 bit grey", "I;16B": "16 bit grey", "I": "32 bit grey",
          "F": "float grey", "P": "palette", "LA": "grey with alpha", "RGB": "colour", "RGBA": "colour with alpha",
          "CMYK": "colour", "YCbCr": "colour"}  # fmt: skip
_NIFTI = {".nii", ".nii.gz"}
_MANY = 128_000_000
"""Bytes of a file, NIfTI apart, beyond which its pixels are not decoded."""


def head(path: Path) -> Head | Fault:
    try:
        return _head(path)
    except Exception as error:  # whatever a reader trips over in a foreign file is the file's fault
        return fault_of(error, path)


def voxels(path: Path) -> Voxels | Fault:
    try:
        return _streamed(path) if suffix_of(path.name) in _NIFTI else _decoded(path)
    except Exception as error:
        return fault_of(error, path)


def fault_of(error: Exception, path: Path) -> Fault:
    said = " ".join(f"{type(error).__name__}: {error}".replace(str(path), path.name).split())[:200]
    if isinstance(error, PermissionError):
        return Fault("no_permission", said)
    if isinstance(error, pickle.UnpicklingError) and "asks for" in said:
        return Fault("unsafe_pickle", said)
    return Fault("truncated" if any(word in said for word in _CUT) else "undecodable", said)


def _head(path: Path) -> Head:
    from _images import FORMATS, open_image  # type: ignore[import-not-found]

    suffix = suffix_of(path.name)
    if suffix in PICTURE_SUFFIXES or suffix == ".gif":
        return _picture(path)
    kind = FORMATS.get(suffix)
    if kind == "dicom":
        return _dicom(path)
    if kind is None:  # .mha, .nrrd: readable at most
        seen = inspect_image(path)
        if seen.error:
            raise ValueError(seen.error)
        return Head(suffix[1:], ())
    found = open_image(path, kind)
    facts: dict[str, Any] = found.facts
    return Head(
        format=found.format,
        shape=tuple(int(size) for size in facts["shape"]),
        kind=str(facts["dtype"]),
        spacing=tuple(float(step) for step in found.spacing[:3]),
        orientation=str(facts.get("orientation", "")),
        oblique=float(facts.get("oblique_degrees", 0.0)),
        placed=bool(facts.get("sform_code", 1) or facts.get("qform_code", 1)),
    )


def _picture(path: Path) -> Head:
    from PIL import Image

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with Image.open(path) as opened:
            channels = len(opened.getbands())
            return Head(
                format=(opened.format or "picture").lower(),
                shape=(opened.height, opened.width),
                channels=channels,
                kind=_MODES.get(opened.mode, opened.mode),
            )


def _dicom(path: Path) -> Head:
    import pydicom

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        data = pydicom.dcmread(path, stop_before_pixels=True)
    frames = int(data.get("NumberOfFrames") or 1)
    shape = (*((frames,) if frames > 1 else ()), int(data.Rows), int(data.Columns))
    steps = [float(step) for step in data.get("PixelSpacing") or ()]
    if steps and (depth := data.get("SpacingBetweenSlices") or data.get("SliceThickness")):
        steps.append(float(depth))
    return Head(
        format="dicom",
        shape=shape,
        channels=int(data.get("SamplesPerPixel") or 1),
        kind=f"{int(data.get('BitsStored') or 0)} bit",
        spacing=tuple(steps),
        patient=str(data.get("PatientID") or ""),
        series=str(data.get("SeriesInstanceUID") or ""),
    )


def _streamed(path: Path) -> Voxels:
    """A NIfTI to its end, in pieces."""
    low, high, odd = math.inf, -math.inf, 0
    for piece in pieces(path):
        if piece.dtype.kind == "f":
            finite = piece[np.isfinite(piece)]
            odd += piece.size - finite.size
            piece = finite
        if piece.size:
            low, high = min(low, float(piece.min())), max(high, float(piece.max()))
    return Voxels(low, high, odd)


def _decoded(path: Path) -> Voxels:
    from _images import FORMATS, open_image

    if path.stat().st_size > _MANY:
        return Voxels(math.nan, math.nan, whole=False)
    fault = inspect_image(path).error
    if fault:
        raise ValueError(fault)
    kind = FORMATS.get(suffix_of(path.name))
    if kind is None:
        return Voxels(math.nan, math.nan, whole=False)
    image = open_image(path, kind)
    try:
        found = np.asarray(image.pixels(False))
    except Exception:
        if image.format != "dicom":
            raise
        return Voxels(math.nan, math.nan, whole=False)  # no decoder for this transfer syntax here
    if found.dtype.kind not in "biuf":
        raise MaskInvalid(f"values of type {found.dtype}, not numbers")
    finite = found[np.isfinite(found)] if found.dtype.kind == "f" else found
    odd = int(found.size - finite.size)
    if not finite.size:
        return Voxels(math.inf, -math.inf, odd)
    return Voxels(float(finite.min()), float(finite.max()), odd)


READER = Reader(head, voxels)
