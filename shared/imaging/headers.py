"""What a file's header tells, in one form for all formats, without decoding voxels where the format allows it."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from .errors import BadImage, guarded
from .formats import Kind, format_of, refusal

if TYPE_CHECKING:
    import numpy as np

__all__ = ["BadImage", "Header", "dicom_values", "peek"]


@dataclass(frozen=True)
class Header:
    """Header of one file, as `read` would give the image."""

    kind: Kind
    """`annotation` for DICOM objects that mark structures (`modality` SEG, RTSTRUCT)."""
    dimensions: Literal[2, 3]
    """3 where more than two axes are longer than one, times and channels apart; so a DICOM slice is 2."""
    shape: tuple[int, ...]
    """x, y, z of a volume as stored, width and height of a picture as it is shown (EXIF)."""
    spacing: tuple[float, ...] = ()
    """mm in the same order; empty where the file does not say."""
    channels: int = 1
    """Values a pixel: 3 of colour."""
    dtype: str = ""
    """As stored, such as `int16`."""
    modality: str | None = None
    """From DICOM."""
    dicom: dict[str, str] = field(default_factory=dict)
    """Keyword -> text, of the keywords in `dicom.KEYWORDS` that have a value."""
    colour: bool = False
    """Stored as colour; `read` makes grey of a picture whose channels are all the same."""
    frames: int = 1
    """Length of a fourth axis: times or channels of a 4D file, pictures of a cine loop."""
    affine: "np.ndarray | None" = field(default=None, compare=False)
    """(4, 4) voxel to mm in RAS; None where the file has none, or where it takes several files to know."""


def peek(path: Path, turned: bool = True) -> Header:
    """Header of one file. Raises BadImage where the file is damaged, no image, or of a format that is not read.

    Pickles and tensors have no header: they are read whole. So is a PNG, behind whose pixels may stand how it is to be
    turned, unless its shape may be that before the turn (`turned` False).
    """
    found = format_of(path)
    if found is None or not found.reader:
        why = refusal(path) or ("is of no known image format" if path.exists() else "does not exist")
        raise BadImage(f"{path.name} {'is ' if refusal(path) else ''}{why}")
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
