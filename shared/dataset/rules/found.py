"""Cases in the making, and what becomes of whatever is in none."""

from collections import Counter, defaultdict
from dataclasses import dataclass, field

from shared.contracts.cases import Part
from shared.dataset.rules.reasons import Expected
from shared.dataset.tables.keys import Named


class RulesError(ValueError):
    """Rules that cannot be carried out on this dataset; the text says what to change."""


@dataclass
class Found:
    """A case in the making."""

    key: str
    images: tuple[tuple[Part, ...], ...]
    """View -> channel."""
    fields: dict[str, str]
    """That all its files agree in."""
    by_file: list[tuple[str, dict[str, str]]]
    """Files of the first channel in order, with their own fields."""
    series: str = ""
    """DICOM series, where it is known."""
    files: list[str] = field(default_factory=list)
    """All files in order."""

    def __post_init__(self) -> None:
        parts = [part for view in self.images for part in view]
        self.files = list(dict.fromkeys(file for part in parts for file in part.files))

    @property
    def named(self) -> Named:
        return Named(self.key, self.files, self.fields)


@dataclass
class Account:
    """What became of files, rows and cases that are in no case, and what contradicts."""

    left_out: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    """Reason, with its remedy -> files, rows or keys of cases."""
    unnamed: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Table and what its key names -> some of these that no row has, where rows name no image."""
    conflicts: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    excluded: list[Named] = field(default_factory=list)
    """Image files that rules exclude by their paths, as a case of one would be called."""
    dropped: dict[str, str] = field(default_factory=dict)
    """Keys of cases that rules leave out themselves, or that cannot be read -> why; nothing else is said of them."""
    stood_in: Counter[str] = field(default_factory=Counter)
    """`T1C for T1` -> cases."""
    _lacking: dict[str, str] = field(default_factory=dict)

    def lack(self, reason: str, key: str) -> None:
        """Account for a case that lacks something: once, as a case that nobody asked for where it is one, else by what
        it was first found to lack."""
        before = self._lacking.get(key)
        if before is not None and (isinstance(before, Expected) or not isinstance(reason, Expected)):
            return
        if before is not None and key in self.left_out[before]:
            self.left_out[before].remove(key)
            if not self.left_out[before]:
                del self.left_out[before]
        self._lacking[key] = reason
        self.leave(reason, key)

    def drop(self, reason: str, key: str) -> None:
        """Leave a case out for this reason alone."""
        self.leave(reason, key)
        self.dropped[key] = reason

    def leave(self, reason: str, *names: str) -> None:
        if kept := [name for name in names if name not in self.dropped]:
            self.left_out[reason] += kept
