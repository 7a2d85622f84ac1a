"""What is true of a case's files, or of whom and where they were taken, but not of what the image shows."""

from typing import Literal

from pydantic import Field

from shared.contracts.base import Contract

Sex = Literal["female", "male", "other"]
AgeBand = Literal["under 18", "18 to 39", "40 to 59", "60 to 79", "80 and over"]


class Groups(Contract):
    """The subgroups that a case belongs to, from closed lists of DICOM tags and column names; None where unknown."""

    sex: Sex | None = None
    age: AgeBand | None = None
    manufacturer: str | None = Field(default=None, pattern=r"^(?:[A-Z][A-Za-z ]{1,20}|[0-9a-f]{12})$")
    """A known maker of scanners by its name, any other as a digest."""
    site: str | None = Field(default=None, pattern=r"^[0-9a-f]{12}$")
    """Digest of what names the hospital."""

    def over(self, other: "Groups") -> "Groups":
        """These, and those of `other` where nothing is known here."""
        return Groups.model_validate(other.model_dump(exclude_none=True) | self.model_dump(exclude_none=True))


class Wrapping(Contract):
    """What can be said of a case without its content: for the shortcut audit and the subgroups, read by the scorer
    alone. Texts of headers and paths are digests."""

    numbers: dict[str, tuple[float, ...]] = {}
    """`file size` (log2 of bytes a value, log2 of bytes a canonical byte, in half steps), `dimensions`, `spacing` (mm),
    `study date` (day), `file order` (place among all cases)."""
    kinds: dict[str, tuple[str, ...]] = {}
    """`format`, `bit depth`, `scanner`, `protocol`, `source folder`: digests."""
    groups: Groups = Groups()
