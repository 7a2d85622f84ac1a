"""Structures of DICOM SEG and RTSTRUCT objects: their names, as far as something is marked."""

import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from shared.dataset.survey.naming import evenly
from shared.dataset.tables.forms import structure
from shared.imaging.dicom_headers import opened
from shared.imaging.dicom_masks import segment_name
from shared.imaging.errors import BadImage, guarded

_MOST = 12
"""Objects that are looked into."""
_OUTLINE = re.compile(r"body|external|skin|outer contour|patient(?: outline)?|couch.*|table|outline", re.IGNORECASE)
"""What dose is planned with, and nothing to be found in an image."""


def structures(root: Path, files: Sequence[str], kind: str) -> list[str]:
    """Names in some of the objects, but for outlines of the body and what has no contour in any of them."""
    found: dict[str, str] = {}
    for file in evenly(files, _MOST):
        try:
            for name in guarded(root / file, partial(_marked, root / file, kind)):
                found.setdefault(structure(name), name)
        except BadImage:
            continue
    return [name for name in found.values() if name and not _OUTLINE.fullmatch(re.sub(r"[-_]+", " ", name))]


def _marked(path: Path, kind: str) -> list[str]:
    if kind == "dicom_seg":
        return [segment_name(item) for item in opened(path, ("SegmentSequence",)).SegmentSequence]
    read = opened(path, ("StructureSetROISequence", "ROIContourSequence"))
    drawn = {
        int(item.ReferencedROINumber)
        for item in getattr(read, "ROIContourSequence", ())
        if getattr(item, "ContourSequence", None)
    }
    rois = read.StructureSetROISequence
    return [str(getattr(item, "ROIName", "")).strip() for item in rois if int(item.ROINumber) in drawn]
