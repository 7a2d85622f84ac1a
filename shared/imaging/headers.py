"""Headers of all formats, read without decoding voxels where the format allows it."""

from collections.abc import Sequence
from pathlib import Path

from .errors import BadImage, guarded
from .formats import known_format
from .header import Header

__all__ = ["BadImage", "dicom_values", "peek"]


def peek(path: Path, turned: bool = True) -> Header:
    """Header of one file. Raises BadImage where the file is damaged, no image, or of a format that is not read.

    Pickles and tensors have no header: they are read whole. So is a PNG, behind whose pixels may stand how it is to be
    turned, unless its shape may be that before the turn (`turned` False).
    """
    found = known_format(path)
    if found.reader == "nifti":
        from .nifti import header
    elif found.reader == "itk":
        from .itk import header
    elif found.reader == "dicom":
        from .dicom_headers import header
    elif found.reader == "arrays":
        from .arrays import header
    elif found.reader == "tiff":
        from .tiff import header
    else:
        from .pictures import header as of_picture

        return guarded(path, lambda: of_picture(path, turned))
    return guarded(path, lambda: header(path))


def dicom_values(path: Path, keywords: Sequence[str]) -> dict[str, str]:
    """Keyword -> text of a DICOM file's elements, of several values joined by a backslash; those without value are
    left out. Raises BadImage, also for a keyword that DICOM does not have."""
    from .dicom_headers import values

    return guarded(path, lambda: values(path, keywords))
