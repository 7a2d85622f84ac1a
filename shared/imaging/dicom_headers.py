"""Headers of DICOM files: cheap reading, and what kind of object a file is."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .errors import BadImage
from .header import Header

KEYWORDS = (
    "PatientID", "PatientSex", "PatientAge", "StudyInstanceUID", "SeriesInstanceUID", "SOPInstanceUID", "StudyDate",
    "StudyDescription", "SeriesDescription", "SeriesNumber", "InstanceNumber", "AccessionNumber", "Modality",
    "BodyPartExamined", "ProtocolName", "ViewPosition", "ImageLaterality", "Laterality", "ImageType", "Manufacturer",
    "ManufacturerModelName", "SoftwareVersions", "InstitutionName", "StationName", "SeriesDate", "AcquisitionDate",
    "ContentDate", "ConvolutionKernel", "PhotometricInterpretation", "TransferSyntaxUID",
    "PresentationIntentType", "SliceThickness", "ImageComments",
)  # fmt: skip
"""What `Header.dicom` holds."""
_PLACE = (
    "Rows", "Columns", "NumberOfFrames", "SamplesPerPixel", "BitsAllocated", "BitsStored", "PixelRepresentation",
    "PixelSpacing", "ImagerPixelSpacing", "SliceThickness", "SpacingBetweenSlices", "ImagePositionPatient",
    "ImageOrientationPatient", "FrameTime", "FrameTimeVector", "CineRate", "SOPClassUID",
    "SharedFunctionalGroupsSequence", "PerFrameFunctionalGroupsSequence",
)  # fmt: skip
CINE = frozenset({"US", "XA", "RF", "IVUS", "ES", "XC", "GM"})
"""Modalities whose frames are times; a projection has no third axis."""


def opened(path: Path, keywords: Sequence[str] | None = None, pixels: bool = False) -> Any:
    """A pydicom dataset; without `keywords` all elements. Files without preamble are read, too. Raises BadImage."""
    import warnings

    import pydicom

    # Values that break the standard are told for each file; what counts is checked where it is used.
    pydicom.config.settings.reading_validation_mode = pydicom.config.IGNORE
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = pydicom.dcmread(
            path, stop_before_pixels=not pixels, force=True, specific_tags=list(keywords) if keywords else None
        )
    if not len(found) and not len(getattr(found, "file_meta", ())):
        raise BadImage("holds no DICOM element; it is damaged or of another format")
    return found


def text_of(dataset: Any, keyword: str) -> str:
    """Value of an element as text, several joined by a backslash; empty where there is none."""
    holder = dataset.file_meta if keyword == "TransferSyntaxUID" else dataset
    value = getattr(holder, keyword, None)
    if value is None or isinstance(value, bytes):
        return ""
    several = hasattr(value, "__iter__") and not isinstance(value, str) and not hasattr(value, "components")
    return ("\\".join(str(one) for one in value) if several else str(value)).strip()


def values(path: Path, keywords: Sequence[str]) -> dict[str, str]:
    """See `headers.dicom_values`."""
    from pydicom.datadict import tag_for_keyword

    if unknown := [keyword for keyword in keywords if tag_for_keyword(keyword) is None]:
        raise BadImage(f"has no element {', '.join(unknown)}: DICOM knows no such keyword")
    found = opened(path, keywords)
    texts = {keyword: text_of(found, keyword) for keyword in keywords}
    return {keyword: text for keyword, text in texts.items() if text}


def frames_of(dataset: Any) -> int:
    return max(1, int(getattr(dataset, "NumberOfFrames", None) or 1))


def is_cine(dataset: Any) -> bool:
    """Whether several frames are times of one picture, not slices of a volume."""
    if getattr(dataset, "PerFrameFunctionalGroupsSequence", None):
        return False
    timed = any(getattr(dataset, name, None) for name in ("FrameTime", "FrameTimeVector", "CineRate"))
    return timed or str(getattr(dataset, "Modality", "")) in CINE


def numbers(value: Any, count: int) -> tuple[float, ...] | None:
    """`count` finite numbers of an element, or None."""
    import math

    try:
        found = tuple(float(one) for one in value)
    except (TypeError, ValueError):
        return None
    return found if len(found) == count and all(math.isfinite(one) for one in found) else None


def positive(value: Any) -> float | None:
    """A number above 0, or None."""
    found = numbers([value], 1)
    return found[0] if found and found[0] > 0 else None


def header(path: Path) -> Header:
    """See `headers.peek`."""
    found = opened(path, (*KEYWORDS, *_PLACE))
    modality = text_of(found, "Modality") or None
    texts = {keyword: text for keyword in KEYWORDS if (text := text_of(found, keyword))}
    rows, columns = int(getattr(found, "Rows", 0) or 0), int(getattr(found, "Columns", 0) or 0)
    frames = frames_of(found)
    if modality == "RTSTRUCT" or (modality == "SEG" and rows and columns):
        return Header("annotation", 3, (columns, rows, frames) if rows else (), modality=modality, dicom=texts)
    if not rows or not columns:
        what = f" ({modality})" if modality else ""
        raise BadImage(f"is a DICOM object without pixels{what}; leave it out")
    cine = is_cine(found)
    slices = 1 if cine else frames
    spacing = plane_spacing(found)
    if spacing and slices > 1:
        between = getattr(found, "SpacingBetweenSlices", None) or getattr(found, "SliceThickness", None)
        measures = shared_group(found, "PixelMeasuresSequence")
        between = (
            between or getattr(measures, "SpacingBetweenSlices", None) or getattr(measures, "SliceThickness", None)
        )
        spacing = (*spacing, positive(between) or 1.0)
    samples = int(getattr(found, "SamplesPerPixel", 1) or 1)
    palette = texts.get("PhotometricInterpretation") == "PALETTE COLOR"
    bits = int(getattr(found, "BitsAllocated", 16) or 16)
    return Header(
        "dicom",
        3 if slices > 1 else 2,
        (columns, rows, slices) if slices > 1 else (columns, rows),
        spacing,
        3 if palette else samples,
        f"{'int' if getattr(found, 'PixelRepresentation', 0) else 'uint'}{bits}",
        modality,
        texts,
        samples == 3 or palette,
        frames if cine else 1,
    )


def shared_group(dataset: Any, name: str, frame: int | None = None) -> Any:
    """An item of the functional groups of an enhanced object: of the frame, else of all; None where there is none."""
    holders = []
    if frame is not None and (each := getattr(dataset, "PerFrameFunctionalGroupsSequence", None)):
        holders.append(each[frame] if frame < len(each) else None)
    holders += list(getattr(dataset, "SharedFunctionalGroupsSequence", None) or [])[:1]
    for holder in holders:
        if holder is not None and (items := getattr(holder, name, None)):
            return items[0]
    return None


def plane_spacing(dataset: Any) -> tuple[float, ...]:
    """mm between columns (x) and between rows (y); empty where the header does not say."""
    measures = shared_group(dataset, "PixelMeasuresSequence")
    for holder, name in ((dataset, "PixelSpacing"), (measures, "PixelSpacing"), (dataset, "ImagerPixelSpacing")):
        found = numbers(getattr(holder, name, None) or (), 2)
        if found and min(found) > 0:
            return (found[1], found[0])
    return ()
