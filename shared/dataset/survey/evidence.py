"""What may tell patients, classes, splits or texts apart, with its value of any image file."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from shared.contracts.values import Source
from shared.dataset.survey.family import Family
from shared.dataset.survey.naming import evenly

MOST_UNITS = 10_000
LIKELY = 0.3
"""Score for each image with a value from which a source is likely what it may be; below it is a guess."""
Unit = tuple[int, str]
"""Number of a family, and a file of it: the image itself, or the first slice."""


class Units:
    """Image files (of slices: folders) of all image families: all, or an even sample of 10,000."""

    def __init__(self, families: Sequence[Family]) -> None:
        self.families = {one.number: one for one in families}
        self.total = sum(len(one.units) for one in families)
        share = min(1.0, MOST_UNITS / max(1, self.total))
        self.files: list[Unit] = []
        for one in families:
            most = max(1, round(len(one.units) * share))
            self.files += [(one.number, one.listing.files[at]) for at in evenly(one.units, most)]
        self._values: dict[Unit, dict[str, str]] = {}
        self.headers: dict[str, dict[str, str]] = {}
        """File -> DICOM keyword -> text, where a table names images by them."""
        self.named: list[Any] = []
        """Parts of names with what they tell, kept by `candidates`."""

    @property
    def scale(self) -> float:
        """Images for one of the sample."""
        return self.total / max(1, len(self.files))

    def values(self, unit: Unit) -> dict[str, str]:
        """Field -> text by the pattern of the unit's family."""
        if unit not in self._values:
            self._values[unit] = self.families[unit[0]].values(unit[1])
        return self._values[unit]


@dataclass(frozen=True)
class Evidence:
    """A source of values. `of(family number, file)` is its value of an image file, None where it has none."""

    source: Source
    """`field` is that of the largest family that has it; see `fields`."""
    where: str
    distinct: int
    share: float
    """Of the image files that have a value."""
    values: dict[str, int]
    """Value -> image files, where there are 60 values at most."""
    of: Callable[[int, str], str | None] = field(repr=False)
    fields: dict[int, str] = field(default_factory=dict)
    """Family -> its field, where values come from names; of the pattern in `patterns`, else of the family's own. A
    family without one (the segment is literal there, or has fields in part of it) is in `literals`."""
    patterns: dict[int, str] = field(default_factory=dict)
    """Family -> a pattern of the file names of one structure (`Family.variants`) that has the field."""
    literals: dict[int, str] = field(default_factory=dict)
    """Family -> the literal segment of its pattern that is its value."""
    level: int | None = None
    """Of a whole folder: its depth from 0; -1 the file name."""
    table: str | None = None
    """File of the table; with `sheet` where it has several."""
    columns: tuple[str, ...] = ()
    """One-hot columns that are classes together."""
    separator: str | None = None
    """Of cells with several classes."""
    score: float = 0.0


def measured(
    units: Units, of: Callable[[int, str], str | None], separator: str | None = None
) -> tuple[dict[str, int], float, int]:
    """Value -> images, share of images with a value, and how many distinct values; from all units of the sample."""
    counts: Counter[str] = Counter()
    having = 0
    for number, file in units.files:
        value = of(number, file)
        if value is None or value == "":
            continue
        having += 1
        for part in value.split(separator) if separator else [value]:
            counts[part.strip()] += 1
    few = dict(counts.most_common()) if separator or len(counts) <= 60 else {}
    scaled = {value: max(1, round(count * units.scale)) for value, count in few.items()}
    return scaled, having / max(1, len(units.files)), len(counts)
