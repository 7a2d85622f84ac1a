"""Families of files with what a few looks say of them: image, mask, slices, table, text."""

import re
from array import array
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from shared.dataset.files.listing import Listing
from shared.dataset.files.looking import Look, Looker
from shared.dataset.files.packed import Names, Picked
from shared.dataset.files.patterns import compile
from shared.dataset.survey.families import fine_groups, join, template_of, together
from shared.dataset.survey.naming import evenly, pattern_of
from shared.dataset.survey.overlap import Fine, Places
from shared.dataset.survey.stacks import is_stacks
from shared.dataset.tables.tables import SEPARATED
from shared.imaging.formats import BY_SUFFIX, sniffed

GroupKind = Literal["volume", "picture", "slices", "mask", "table", "text", "annotation", "other"]
HEADERS = 12
PIXELS = 4
"""Files a family whose header and whose pixels are looked at."""
_MOST_ROLES = 200
MASK_WORD = re.compile(
    r"(?:^|[^a-z])(?:masks?|msk|seg(?:m|s|mentations?)?|labels?|lbl|gt|ground[-_ ]?truth|truth|annot(?:ation)?s?|rois?"
    r"|contours?|manual|matte)(?:tr|ts|va|\d*)(?=[^a-z]|$)|mask",
    re.IGNORECASE,
)
_TABLES = {*SEPARATED, ".xlsx", ".xls", ".xlsm"}


@dataclass(frozen=True)
class Variant:
    """Files of a family whose names have one structure."""

    pattern: str
    at: Places


@dataclass
class Family:
    """Files that look alike by place and name."""

    number: int
    """Its place in `Survey.families`."""
    pattern: str
    """Of rules, with fields part1, part2, ...; takes all files of the family, and may take others."""
    suffix: str
    role: Literal["image", "mask", "other"]
    kind: GroupKind
    at: Places
    """Indices of its files in the listing, sorted."""
    listing: Listing
    variants: tuple[Variant, ...] = ()
    """Where names of several structures make it up: each with a pattern of its own, largest first."""
    looks: list[Look] = field(default_factory=list)
    opened: int = 0
    empty: int = 0
    """Of masks: how many checks have opened, and how many of these mark nothing."""
    preview: bool = False
    """Repeats what other images show: pictures of volumes, copies. No images of their own."""
    entries: int = 0
    """Images of all its files, where an array holds one after the other (`case: entry` of rules)."""
    entry_shape: tuple[int, ...] = ()
    """Of one of them."""
    folders: bool = False
    """Of slices: whether one folder is one volume; otherwise a DICOM series is."""

    @property
    def fields(self) -> tuple[str, ...]:
        return compile(self.pattern).fields

    def __len__(self) -> int:
        return len(self.at)

    @property
    def files(self) -> Picked[str]:
        """Paths of all members, sorted."""
        return Picked(self.listing.files, self.at)

    def has(self, file: str) -> bool:
        """Whether it is one of its files."""
        place = self.listing.place(file)
        at = bisect_left(self.at, place) if place is not None else len(self.at)
        return at < len(self.at) and self.at[at] == place

    @property
    def regex(self) -> re.Pattern[str]:
        return compile(self.pattern).regex

    def values(self, file: str) -> dict[str, str]:
        """Field -> text of one of its files."""
        return compile(self.pattern).match(file) or {}

    @cached_property
    def units(self) -> Places:
        """Index of the first file of each image: of slices one a folder, else every file."""
        if not self.folders:
            return self.at
        found = array("i")
        before = None
        for at in self.at:
            folder = self.listing.files[at].rpartition("/")[0]
            if folder != before:
                found.append(at)
                before = folder
        return found

    @property
    def count(self) -> int:
        """Images: files, folders of slices, or entries of arrays."""
        return self.entries or len(self.units)

    @property
    def shape(self) -> tuple[int, ...]:
        """Median over the headers looked at, of slices with their number."""
        if self.entries:
            return self.entry_shape
        shapes = [look.header.shape for look in self.looks if look.header]
        if not shapes:
            return ()
        axes = max(map(len, shapes))
        shape = tuple(
            sorted(column)[len(column) // 2] for column in zip(*[s for s in shapes if len(s) == axes], strict=True)
        )
        return (*shape[:2], max(1, len(self.at) // len(self.units))) if self.kind == "slices" else shape

    @property
    def hu(self) -> bool:
        """Whether values look like Hounsfield units, of most files looked at."""
        seen = [look.pixels.hu for look in self.looks if look.pixels]
        return self.role == "image" and sum(seen) * 2 > len(seen)

    @property
    def dimensions(self) -> Literal[2, 3] | None:
        """Of most of the headers looked at."""
        if self.kind == "slices":
            return 3
        if self.entries:
            return 3 if len(self.entry_shape) > 2 else 2
        seen = [look.header.dimensions for look in self.looks if look.header]
        return (3 if seen.count(3) * 2 > len(seen) else 2) if seen else None


def families_of(listing: Listing, looker: Looker) -> list[Family]:
    """All families, largest first."""
    files = listing.files
    fines = fine_groups(files)
    for one in fines:
        if not one.suffix and len(one.at) > 0:
            one.suffix = _by_content(one, listing)
    images = sorted((one for one in fines if _is_image(one.suffix)), key=lambda one: -len(one.at))
    for count in (1, 3):  # first a look into each group
        for one in images[:_MOST_ROLES]:
            if not one.role and looker.left > looker.seconds / 2:
                one.role = _role(one, files, looker, count)
    groups = join(fines, files, lambda masks: _one_structure(masks, files, looker))
    found = []
    for number, group in enumerate(groups):
        at = together(one.at for one in group.members)
        paths = Picked(files, at)
        suffix = group.suffix
        written = suffix if paths[0].lower().endswith(suffix) else ""
        pattern = pattern_of(group.segments, written, paths)
        role: Literal["image", "mask", "other"] = "other"
        if _is_image(suffix):
            said_mask = bool(MASK_WORD.search(re.sub(r"\{\w+\}", "#", pattern)))
            role = "mask" if group.role == "mask" or (not group.role and said_mask) else "image"
        family = Family(number, pattern, suffix, role, "other", at, listing, _variants(group.members, files, written))
        family.kind = _kind(family, looker)
        found.append(family)
    return found


def _is_image(suffix: str) -> bool:
    known = BY_SUFFIX.get(suffix)
    return bool(known and known.reader and not known.companion)


def _by_content(one: Fine, listing: Listing) -> str:
    """Suffix that the first bytes of some files ask for; empty unless they agree."""
    found = {sniffed(listing.root / listing.files[at]) for at in evenly(one.at, 3)}
    return found.pop() if len(found) == 1 else ""


def _role(one: Fine, files: Sequence[str], looker: Looker, count: int) -> str:
    said_mask = bool(MASK_WORD.search("/".join(one.segments)))
    roles = []
    for at in evenly(one.at, count):
        look = looker.pixels(files[at])
        if look and look.header and look.header.kind == "annotation":
            roles.append("mask")
        if look is None or look.pixels is None:
            continue
        pixels = look.pixels
        if pixels.mask or (said_mask and not pixels.constant and pixels.nearly_mask):
            roles.append("mask")
        elif not pixels.constant:
            roles.append("image")
    return max(set(roles), key=roles.count) if roles else ""


def _one_structure(masks: Sequence[Fine], files: Sequence[str], looker: Looker) -> bool:
    """Whether each group of masks marks one structure: one value beside the background."""
    for one in masks:
        look = looker.known.get(files[one.at[0]])
        if look is None or look.pixels is None or len(look.pixels.values) > 2:
            return False
    return True


def _variants(fines: Sequence[Fine], files: Names, suffix: str) -> tuple[Variant, ...]:
    if len(fines) < 2:
        return ()
    shapes: dict[tuple[str, ...], list[Fine]] = {}
    for one in fines:
        shape = tuple(re.sub(r"[^\W_]+", "w", segment.replace("#", "0")) for segment in one.segments)
        shapes.setdefault(shape, []).append(one)
    if len(shapes) < 2:
        return ()
    found = []
    for group in shapes.values():
        at = together(one.at for one in group)
        levels = [template_of([one.segments[level] for one in group]) for level in range(len(group[0].segments))]
        found.append(Variant(pattern_of(levels, suffix, Picked(files, at)), at))
    return tuple(sorted(found, key=lambda one: -len(one.at)))[:8]


def _kind(family: Family, looker: Looker) -> GroupKind:
    """Also takes the looks."""
    suffix = family.suffix
    if family.role == "other":
        if suffix in _TABLES or (suffix in (".json", ".jsonl") and len(family) <= 3):
            return "table"
        if suffix in (".txt", ".md"):
            return "text"
        known = BY_SUFFIX.get(suffix)
        return "annotation" if known and known.kind == "annotation" else "other"
    files = family.listing.files
    for place, at in enumerate(evenly(family.at, HEADERS)):
        few = place % (HEADERS // PIXELS) == 0
        look = looker.pixels(files[at]) if few else looker.header(files[at])
        if look is not None:
            family.looks.append(look)
    if family.role == "mask":
        return "mask"
    headers = [look.header for look in family.looks if look.header]
    if headers and all(one.kind == "annotation" for one in headers):
        family.role = "mask"
        return "mask"
    if headers and sum(one.dimensions == 2 for one in headers) * 2 > len(headers):
        stacks = is_stacks(files, family.at, headers, looker)
        if stacks:
            family.folders = stacks == "folders"
            return "slices"
        return "picture"
    return "volume" if headers else "picture" if _flat_format(suffix) else "volume"


def _flat_format(suffix: str) -> bool:
    return bool((known := BY_SUFFIX.get(suffix)) and known.kind == "picture")
