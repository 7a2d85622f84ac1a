"""Which files mark which images: families of masks, matched by their names."""

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from shared.dataset.files.looking import Looker, alike
from shared.dataset.files.patterns import compile
from shared.dataset.propose.draft import Draft
from shared.dataset.propose.unions import merged
from shared.dataset.survey.family import MASK_WORD, Family
from shared.dataset.survey.naming import evenly
from shared.dataset.survey.pieces import Alignment, Piece, align, braces, measured, piece_of
from shared.dataset.tables.forms import numbered
from shared.imaging.formats import BY_SUFFIX

_NONE = 0.02
"""Share of the images up to which some find their mask by chance."""
_RATER = re.compile(r"(?:experts?|raters?|readers?|annotators?|annot|observers?|obs|doctors?|radiologists?|manual"
                    r"|grader|r|a|seg|v|version)?[-_ ]?(?:\d{1,2}|[a-d])?"
                    r"|(?:\d(?:st|nd|rd|th)|first|second|third)[-_ ]?[a-z]*", re.I)  # fmt: skip
_PLAIN = re.compile(r"(?:masks?|msk|seg(?:m|s|mented|mentations?)?|labels?|lbl|gt|ground|truth|annot(?:ation)?s?|rois?"
                    r"|contours?|manual|binary|final|tr|ts|training|train|test|testing|derivatives|anat|image|img|scan"
                    r"|folder|data|png|nii|gz|sub|ses|t1w?|t2w?|flair|ct|mri?|x|ray|all|corrected|file|output|dseg"
                    r"|label(?:tr|ts)|labels(?:tr|ts)|case|patient|and|of|with|the|s|p|combined)\d*", re.I)  # fmt: skip


_COMPARED = 16
"""Cases whose masks are compared."""
_FEWEST = 3
_SAME_PLACE = 0.4
"""Correlation of small copies of two masks of one structure; of neighbouring structures it is below 0.1."""
_INSIDE = 0.97
_INITIALS = re.compile(r"[A-Z]{2}")
"""Of people who drew masks, more often than of structures."""


@dataclass(frozen=True)
class Source:
    """Files that mark structures on images, with fields named as the images' are."""

    piece: Piece
    fit: Alignment
    hits: frozenset[str]
    """Files of the first channel's sample that have one."""
    structure: str | None
    """Of files of one structure: its name, perhaps with a field."""
    values: tuple[int, ...]
    colours: bool
    what: str
    """Words for a person, such as the pattern."""
    also: tuple[Piece, ...] = ()
    """Further files of the same masks, by other names."""

    @property
    def pieces(self) -> tuple[Piece, ...]:
        return (self.piece, *self.also)


def mask_sources(families: Sequence[Family], draft: Draft, looker: Looker) -> list[Source]:
    """Files that mark the images of a draft, each kind of them once, those that most images have first."""
    found = _of_sides(families, draft, looker)
    return _united(found or [source for one in families for source in _of_family(one, draft, looker)])


def _of_sides(families: Sequence[Family], draft: Draft, looker: Looker) -> list[Source]:
    """Families of masks that differ in a word as images do, such as left and right: one pattern, with it as a field."""
    if not 2 <= len(families) <= 8 or len(draft.channels[0].pieces) != 1:
        return []
    both = merged([piece_of(one, images=False) for one in families], [])
    fit = align(both[0], draft.channels[0].pieces[0]) if both else None
    return _sources(both[0], draft, looker) if both and fit and "kind" in fit.names and fit.several <= 1.2 else []


def _of_family(family: Family, draft: Draft, looker: Looker) -> list[Source]:
    """A family of masks; where its pattern takes images, too, or meets none, its kinds of names, as files of the same
    masks."""
    whole = piece_of(family, images=False)
    names = compile(whole.pattern)
    wide = any(names.match(file) is not None for image in draft.pieces for file in image.sample[:50])
    if not wide or not family.variants:
        if found := _sources(whole, draft, looker):
            return found
        kinds = whole.lettered()
        apart = [source for piece in kinds for source in _sources(piece, draft, looker)]
        if sum(len(one.hits) for one in apart) > len(frozenset().union(*[one.hits for one in apart])):
            return apart  # an image has several of them: structures, each with a name of its own
        called = own_name(whole.pattern, draft.channels[0].pieces[0].pattern)
        found = [replace(one, structure=called if one.structure else None) for one in apart]
    else:
        kinds = [replace(whole, pattern=one.pattern, files=tuple(family.listing.files[at] for at in one.at))
                 for one in family.variants]  # fmt: skip
        found = [source for piece in kinds for source in _sources(piece, draft, looker)]
    if len(found) < 2 or any(one.structure != found[0].structure or one.colours for one in found):
        return found
    hits = frozenset.union(*[one.hits for one in found])
    return [replace(found[0], also=tuple(one.piece for one in found[1:]), hits=hits)]


def _sources(piece: Piece, draft: Draft, looker: Looker) -> list[Source]:
    """A family of masks, or its parts where one field tells rivals apart."""
    modalities = {(look.header.modality or "") for look in piece.family.looks if look.header}
    if modalities & {"SEG", "RTSTRUCT"} or not piece.rows:
        return []
    fitted = _fitted(piece, draft)
    if fitted is None:
        return []
    fit, image, piece = fitted
    folders = set(re.findall(r"\{(\w+)\}", image.pattern.rpartition("/")[0]))
    known = BY_SUFFIX.get(piece.family.suffix.lower())
    if image.family.folders and known and known.kind == "volume" and not folders & {*fit.names.values()}:
        return []  # a number of slices tells no volume apart
    values = _values(piece)
    if fit.several > 1.2:
        extra = _extra(piece, fit)
        if extra is not None:
            column = Counter(piece.column(extra))
            if {value.lower() for value in column} <= {channel.name.lower() for channel in draft.channels}:
                return []  # each channel has a mask of its own: they are cases, no channels
            wordy = _wordy(column)
            text = re.search(rf"([^{{}}/]*)\{{{extra}\}}", piece.pattern)
            lead = text[1].split("/")[-1] if text else ""
            # A field of view may lie beside the drawings of two.
            raters = sum(bool(_RATER.fullmatch(lead + value)) or _by_rater(lead + value) for value in column) > 1
            several = raters or (wordy and (len(values) > 1 or _readings(piece, extra, list(fit.names), looker)))
            if 2 <= len(column) <= 12 and several and (wordy or not _instances(text, column)):
                return [one for part in piece.split(extra).values() for one in _sources(part, draft, looker)]
            # A name for each region, used once or twice, is no structure's.
            single = len(column) > 12 and len(column) * 2 > len(piece.rows)
            if wordy and len(values) <= 1 and not single:
                return [_source(piece, fit, image, _template(piece, extra), values, extra)]
    return [_source(piece, fit, image, None, values, None)]


def _wordy(values: Collection[str]) -> bool:
    """Whether most values have letters."""
    known = set(values)
    return sum(any(c.isalpha() for c in value) for value in known) * 2 > len(known)


def _readings(piece: Piece, extra: str, shared: Sequence[str], looker: Looker) -> bool:
    """Whether masks that differ in a field mark the same places in two of them, neither inside the other: two drawings
    of one structure, no two structures."""
    cases: dict[tuple[str, ...], dict[str, str]] = {}
    for file, row in zip(piece.sample, piece.rows, strict=True):
        cases.setdefault(tuple(row[name] for name in shared), {})[row[extra]] = file
    found: dict[tuple[str, ...], list[bool]] = {}
    for files in evenly([held for held in cases.values() if len(held) > 1], _COMPARED):
        looks = {value: looker.pixels(file) for value, file in files.items()}
        thumbs = {value: look.pixels for value, look in looks.items() if look and look.pixels}
        for pair in combinations(sorted(thumbs), 2):
            one, other = (thumbs[value] for value in pair)
            if one.thumb.any() and other.thumb.any() and one.thumb.shape == other.thumb.shape:
                both = np.minimum(one.thumb / one.thumb.max(), other.thumb / other.thumb.max()).sum()
                least = min((own.thumb / own.thumb.max()).sum() for own in (one, other))
                beside = both < _INSIDE * least or all(map(_INITIALS.fullmatch, pair))
                found.setdefault(pair, []).append(alike(one, other) > _SAME_PLACE and beside)
    return any(sum(told) >= max(_FEWEST, len(told) / 3) for told in found.values())


def _by_rater(name: str) -> bool:
    """Whether the last word says whose drawing it is: `liver_r1`, `masks_readerA`."""
    last = re.split(r"[\W_]", name)[-1]
    return bool(_RATER.fullmatch(last)) and any(c.isalpha() for c in last)


def _instances(text: "re.Match[str] | None", column: Mapping[str, int]) -> bool:
    """`_mask_1`, `_mask_2` that only some images have: several regions of one structure."""
    counts = sorted(column.values())
    return counts[0] * 2 < counts[-1]


def _with_class(mask: Piece, image: Piece) -> tuple[Piece, Alignment | None]:
    """How a mask's fields meet an image's; with a folder `polyp` as a field where images have it as one value of a
    folder among others, such as `good`, and no mask loses its image by it."""
    fit = align(mask, image)
    if fit is None or fit.share <= _NONE:
        fit = align(mask, image, numbered) or fit  # `7` is `007` where nothing else leads to the images
    if fit is None or "group" in mask.fields:
        return mask, fit
    free = [name for part in image.pattern.split("/")[:-1] for name in re.findall(r"^\{(\w+)\}$", part)]
    for depth, part in enumerate(mask.pattern.split("/")[:-1]):
        for name in free if "{" not in part else ():
            if name not in fit.names.values() and part.lower() in {value.lower() for value in image.column(name)}:
                made = mask.with_level(depth, "group")
                closer = measured(made, image, {**fit.names, "group": name}, fit.form)
                if closer.alone <= fit.alone:
                    return made, closer
    return mask, fit


def _fitted(mask: Piece, draft: Draft) -> tuple[Alignment, Piece, Piece] | None:
    """How its fields meet those of the images, for the images that it meets most; these, and the mask's piece."""
    best: tuple[Alignment, Piece, Piece] | None = None
    for image in draft.channels[0].pieces:
        if not _same_kind(mask, image, draft):
            continue
        piece, fit = _with_class(mask, image)
        if fit and fit.share > _NONE and (best is None or fit.share > best[0].share):
            best = (fit, image, piece)
    return best


def _same_kind(mask: Piece, image: Piece, draft: Draft) -> bool:
    flat = mask.family.dimensions == 2
    if image.family.kind == "slices":
        return True
    return flat == (draft.dimensions == 2)


def _values(piece: Piece) -> tuple[int, ...]:
    held = [set(look.pixels.values) - {0} for look in piece.family.looks if look.pixels]
    found = set().union(*held)
    # What is marked is 1 to one program and 255 to another.
    return (1,) if found == {1, 255} and max(map(len, held)) == 1 else tuple(sorted(found))


def _colours(values: Sequence[int]) -> bool:
    """Whether values are colours 0xRRGGBB; white alone is a binary mask that was stored in colour."""
    return any(value > 65535 for value in values) and set(values) != {0xFFFFFF}


def _extra(piece: Piece, fit: Alignment) -> str | None:
    """The field that tells several masks of one image apart: it varies where the shared ones are fixed. Of those that
    tell as many the first one of words: `Hard Exudates` rather than `3`."""
    shared = list(fit.names)
    best: tuple[int, bool, str] = (0, False, "")
    for name in piece.fields:
        if name in shared:
            continue
        several = len({(tuple(row[one] for one in shared), row[name]) for row in piece.rows})
        alone = len({tuple(row[one] for one in shared) for row in piece.rows})
        wordy = _wordy(piece.column(name))
        if several > 1.2 * alone and (several, wordy) > best[:2]:
            best = (several, wordy, name)
    return best[2] or None


def _template(piece: Piece, name: str) -> str:
    """The name of a structure: the whole folder `left lung`, or the field of a file's name."""
    for part in piece.pattern.rpartition("/")[0].split("/"):
        if braces(name) in part and part.count("{") == 1:
            return part.replace(braces(name), "{structure}")
    return "{structure}"


def _source(
    piece: Piece, fit: Alignment, image: Piece, structure: str | None, values: tuple[int, ...], extra: str | None
) -> Source:
    colours = _colours(values)
    if set(values) == {0xFFFFFF}:
        values = (255,)
    what = piece.pattern
    names = dict(fit.names)
    # Fields that images have, too, but which do not say the same, get names of their own.
    names |= {name: "structure" if name == extra else f"mask_{name}" for name in piece.fields if name not in names}
    marked = piece.renamed(names)
    keys = list(dict.fromkeys(fit.names.values()))
    there = {tuple(fit.form(row[key]) for key in keys) for row in marked.rows}
    hits = frozenset(
        file for file, row in zip(image.sample, image.rows, strict=True)
        if tuple(fit.form(row[key]) for key in keys) in there
    )  # fmt: skip
    if structure is None and len(values) == 1:
        structure = own_name(piece.pattern, image.pattern)
    return Source(marked, fit, hits, structure, values, colours, what)


def own_name(pattern: str, image: str) -> str | None:
    """What the words of a pattern call a structure: `lesion` of `derivatives/{x}_label-lesion_mask.nii.gz`. Words that
    the image's pattern has as well name the dataset."""
    known = {word.lower() for word in re.findall(r"[^\W\d_]+", image)}
    found = []
    for part in pattern.split("/"):
        bare = re.sub(r"\{\w+\}", " ", part)
        bare = re.sub(r"(?:\.\w+){1,2}$", "", bare)
        own = [
            word
            for word in re.findall(r"[^\W\d_]+\d*", bare)
            if not _PLAIN.fullmatch(word) and not _by_rater(word) and word.lower() not in known
        ]
        if own and (MASK_WORD.search(bare) or part == pattern.split("/")[-1]):
            found.append(" ".join(own))
    return found[-1] if found else None


def is_rater(source: Source) -> bool:
    name = source.structure or ""
    return (
        bool(re.search(r"expert|rater|reader|annotator|observer|doctor|radiologist|manual", source.what, re.I))
        or any(_by_rater(part.split(".")[0]) for part in source.what.split("/"))
        or not name
    )


def _united(sources: Sequence[Source]) -> list[Source]:
    """Without what is the same twice."""
    kept: list[Source] = []
    for one in sorted(sources, key=lambda source: -len(source.hits)):
        if one.hits and all(one.piece.pattern != other.piece.pattern for other in kept):
            kept.append(one)
    return kept
