"""Families as pieces of rules: patterns whose fields get names, have one value, or are shared with other files."""

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from shared.dataset.files.packed import Picked
from shared.dataset.files.patterns import compile
from shared.dataset.survey.family import Family
from shared.dataset.survey.naming import evenly
from shared.dataset.tables.forms import numbered

MOST = 4000
"""Files of a piece that are looked at by name."""
_FEW = 0.1
"""Share of masks that may have lost their image."""
_MORE = 1.2
"""Times as many images that zeros before numbers have to keep from being found, until they do not count."""
_LETTERED = re.compile(r"\d+([^\W\d_]{1,12})")
_LETTERS = 6
"""Endings of numbers that are names of something, such as of sides."""


def braces(name: str) -> str:
    """A field as patterns write it."""
    return f"{{{name}}}"


@dataclass(frozen=True)
class Piece:
    """Files of one family, or of a part of it where a field has one value."""

    family: Family
    pattern: str
    files: Sequence[str]
    """Images: of slices the first of each folder. All of them."""
    beside: tuple[Family, ...] = ()
    """Further families whose files are among them."""

    def family_of(self, file: str) -> Family:
        return next((one for one in self.beside if one.has(file)), self.family)

    @cached_property
    def rows(self) -> list[dict[str, str]]:
        """Fields of an even sample of the files."""
        looker = compile(self.pattern)
        return [found for file in self.sample if (found := looker.match(file)) is not None]

    @cached_property
    def sample(self) -> list[str]:
        looker = compile(self.pattern)
        return [file for file in evenly(self.files, MOST) if looker.match(file) is not None]

    @property
    def fields(self) -> tuple[str, ...]:
        return compile(self.pattern).fields

    def column(self, name: str) -> list[str]:
        return [row[name] for row in self.rows]

    def renamed(self, names: Mapping[str, str]) -> "Piece":
        """With other names for fields; names that are taken by others give way."""
        taken = set(names.values()) - set(names)
        free = {name: f"{name}_" for name in self.fields if name in taken}
        known = {**free, **names}
        pattern = re.sub(r"\{(\w+)\}", lambda one: braces(known.get(one[1], one[1])), self.pattern)
        return replace(self, pattern=pattern)

    def fixed(self, name: str, value: str) -> "Piece":
        """The part of the files where a field has `value`."""
        pattern = self.pattern.replace(braces(name), value)
        looker = compile(pattern)
        return replace(
            self, pattern=pattern, files=tuple(file for file in self.files if looker.match(file) is not None)
        )

    def split(self, name: str) -> dict[str, "Piece"]:
        values = sorted(set(self.column(name)))
        return {value: self.fixed(name, value) for value in values}

    def lettered(self) -> list["Piece"]:
        """Apart by the letters behind a number, such as L and R of `105R`, where a field is such; else none."""
        for name in self.fields:
            ends = Counter(found[1] if (found := _LETTERED.fullmatch(text)) else "" for text in self.column(name))
            if ends and not ends[""] and len(ends) <= _LETTERS:
                return [self.fixed(name, f"{braces(name)}{end}") for end in sorted(ends)]
        return []

    def level(self, depth: int) -> str:
        """The segment of the pattern at a depth from the top; empty where there is none, or it is the file's name."""
        parts = self.pattern.split("/")
        return parts[depth] if depth < len(parts) - 1 else ""

    def with_level(self, depth: int, name: str) -> "Piece":
        """With a whole folder as one field."""
        parts = self.pattern.split("/")
        parts[depth] = braces(name)
        return replace(self, pattern="/".join(parts))


def piece_of(family: Family, images: bool = True) -> Piece:
    return Piece(family, family.pattern, Picked(family.listing.files, family.units if images else family.at))


@dataclass(frozen=True)
class Alignment:
    """Which fields of other files say the same as fields of images, and how many images have such files."""

    names: dict[str, str]
    """Field of the other -> field of the image."""
    share: float
    """Of the images that have one."""
    alone: float
    """Of the others that have no image."""
    several: float
    """Others a hit image, on average."""
    images: float
    """Images that another hits, on average."""
    form: Callable[[str], str] = str.lower
    """In which values are compared."""


def align(other: Piece, image: Piece, form: Callable[[str], str] = str.lower) -> Alignment | None:
    """Fields by the values that both have: as many as possible, as long as most files still find each other."""
    if not other.rows or not image.rows:
        return None
    mine = {name: list(map(form, image.column(name))) for name in image.fields}
    options = []
    for name in other.fields:
        values = set(map(form, other.column(name)))
        for own, texts in mine.items():
            known = set(texts)
            both = len(values & known)
            if both and both >= 0.5 * min(len(values), len(known)):
                options.append((both / max(len(values), len(known)), len(known), name, own))
    best: Alignment | None = None
    if not options and not other.fields and not image.fields:
        return None
    # Fields with many values first: they bind most.
    options.sort(key=lambda one: (-min(one[1], 50), -one[0], one[2], one[3]))
    names: dict[str, str] = {}
    folder = other.pattern.rpartition("/")[0]
    if "{" in folder and folder == image.pattern.rpartition("/")[0]:  # what lies in one folder belongs together
        names = {name: name for name in compile(folder).fields}
        best = measured(other, image, names, form)
    for _, _, name, own in options:
        if name in names or own in names.values():
            continue
        tried = measured(other, image, {**names, name: own}, form)
        if not tried.share:
            continue
        # Fewer images are found, but one each where many had the same: only these are marked.
        closer = best is not None and best.images > 1.2 > tried.images and _lost(other, image, tried) <= _FEW
        if best is None or closer or tried.share >= 0.8 * best.share:
            names, best = {**names, name: own}, tried
    return best


def align_numbers(other: Piece, image: Piece) -> Alignment | None:
    """`align`, where `7` is `007` if that finds more images."""
    exact, loose = align(other, image), align(other, image, numbered)
    return loose if loose and loose.share > _MORE * (exact.share if exact else 0) else exact


def measured(other: Piece, image: Piece, names: Mapping[str, str], form: Callable[[str], str] = str.lower) -> Alignment:
    """How many files find each other by the fields of `names` (of the other -> of the image)."""
    pairs = list(names.items())
    theirs = Counter(tuple(form(row[name]) for name, _ in pairs) for row in other.rows)
    ours = Counter(tuple(form(row[own]) for _, own in pairs) for row in image.rows)
    both = [key for key in ours if key in theirs]
    hit = sum(ours[key] for key in both)
    used = sum(theirs[key] for key in both)
    # Samples of large families meet only in part: compare what is complete.
    share = hit / max(1, sum(ours.values()))
    alone = 1 - used / max(1, sum(theirs.values()))
    return Alignment(dict(names), share, alone, used / max(1, len(both)), hit / max(1, len(both)), form)


def _lost(other: Piece, image: Piece, fit: Alignment) -> float:
    """Of the others the share without an image; of samples of large families, by the path that it would have."""
    own = {image_field: name for name, image_field in fit.names.items()}
    if fit.alone <= _FEW or not own.keys() >= set(image.fields) or "*" in image.pattern:
        return fit.alone
    places = re.split(r"\{(\w+)\}", image.pattern)
    paths = ("".join([row[own[one]] if at % 2 else one for at, one in enumerate(places)]) for row in other.rows)
    return 1 - sum(map(image.family.has, paths)) / max(1, len(other.rows))


def nested(fine: Sequence[str], coarse: Sequence[str]) -> bool:
    """Whether values of `fine` fall into one value of `coarse` each."""
    return len(set(zip(fine, coarse, strict=True))) == len(set(fine))
