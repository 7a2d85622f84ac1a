"""Notes of a PACS about other objects: key object selections (KO) that reject images."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from shared.imaging.dicom_headers import opened
from shared.imaging.errors import BadImage, guarded

REJECTIONS = {"113001", "113037", "113038", "113039"}
"""Codes of DICOM (CID 7011): rejected for quality, for safety, for a wrong worklist entry, and for its age."""
_TAGS = ("ConceptNameCodeSequence", "CurrentRequestedProcedureEvidenceSequence", "ContentSequence")


def rejected_by(path: Path) -> set[str]:
    """SOPInstanceUIDs of what a note rejects; nothing where it selects for another reason or cannot be read."""

    def read() -> set[str]:
        note = opened(path, _TAGS)
        codes = {str(getattr(one, "CodeValue", "")) for one in getattr(note, _TAGS[0], ())}
        return set(_named(note)) if codes & REJECTIONS else set()

    try:
        return guarded(path, read)
    except BadImage:
        return set()


def _named(note: Any) -> Iterator[str]:
    series = (one for study in getattr(note, _TAGS[1], ()) for one in getattr(study, "ReferencedSeriesSequence", ()))
    for holder in (*series, *getattr(note, _TAGS[2], ())):
        for image in getattr(holder, "ReferencedSOPSequence", ()):
            yield str(getattr(image, "ReferencedSOPInstanceUID", ""))
