"""What a file's header tells, in one form for all formats."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from .formats import Kind

if TYPE_CHECKING:
    import numpy as np


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
