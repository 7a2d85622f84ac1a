"""What the result of a predict job says of a case whose answer is a mask."""

from typing import Literal

from pydantic import Field

from shared.contracts.base import Contract, Ref

MaskSuffix = Literal[".nii.gz", ".png"]


class MaskAnswer(Contract):
    """A mask as a program of ours wrote it after reading the package's, or why there is none.

    The stored files hold uint8 or uint16 in the forms of `shared.imaging.write`: `.nii.gz` for a volume, else `.png`.
    """

    error: str | None = None
    unreadable: bool = False
    """The package wrote a file, and it is no mask; `error` says why."""
    mask: Ref | None = None
    suffix: MaskSuffix | None = None
    fractions: int = Field(default=0, ge=0)
    """Voxels of the package's mask that hold no whole number; 0 in the stored one."""
    outside: int = Field(default=0, ge=0)
    """Voxels that hold a number which no structure can have (below 0, above 65535); 0 in the stored one."""
    score: Ref | None = None
    """Bins of probabilities (`shared.scorebins`)."""
    score_error: str | None = None
