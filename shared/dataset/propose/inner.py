"""Images in files of arrays: which array is the image, and whether a file holds one case or many."""

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from shared.dataset.files.held import SUFFIXES, Held, Shaped, held
from shared.dataset.files.patterns import compile
from shared.dataset.propose.draft import Draft
from shared.dataset.propose.unions import SEQUENCE
from shared.dataset.survey.naming import evenly
from shared.dataset.survey.pieces import Piece, braces
from shared.dataset.survey.splits import split_of
from shared.dataset.survey.survey import Survey
from shared.imaging.arrays import plain_shape, split_axis4
from shared.imaging.errors import BadImage

LABEL_ARRAY = re.compile(r"label|mask|seg|gt|lbl|annot|truth|target|roi|(?:^|[^a-z])y(?:$|[^a-z])", re.IGNORECASE)
_IMAGE_ARRAY = re.compile(r"image|img|scan|volume|data|ct|mr|(?:^|[^a-z])x(?:$|[^a-z])|pixels|raw", re.IGNORECASE)
_ROLE = re.compile(r"images?|imgs?|scans?|volumes?|data|x|pixels|raw|ct|mri?", re.IGNORECASE)
_TOKEN = re.compile(r"[A-Za-z]+|\d+|[^A-Za-z\d]")
_FILES = 4
_MOST_FILES = 400
_MOST_ENTRIES = 2000
"""Of one array, that stand for all of them while rules are searched for."""
_MOST_NEAR = 60
_SECONDS = 4.0
_FEW, _MANY = 3, 8
"""Arrays, and entries of one."""
_FEWEST = 3
"""Values beside an array from which on they are one for each entry."""


@dataclass(frozen=True)
class Choice:
    """Which arrays are images: a name, or a pattern with fields."""

    template: str
    names: tuple[str, ...]


def array_drafts(draft: Draft, survey: Survey) -> list[Draft]:
    """The draft with the array that is the image, where files hold several; and where a file holds several cases with
    each of them. Unchanged for other files."""
    if draft.pieces[0].family.suffix not in SUFFIXES or len(draft.channels) > 1:
        return [draft]
    draft = _with_images(draft, survey)
    some = {file: held(survey.root / file) for file in evenly(draft.pieces[0].files, _FILES)}
    some = {file: one for file, one in some.items() if one.images}
    if not some:
        return [draft]
    found = []
    for choice in _choices(list(some.values())):
        if (made := _entries(draft, survey, choice, some)) is not None:
            found.append(made)
        elif "{" in choice.template:
            found.append(_inside(draft, survey, choice, None))
    name = _usual(list(some.values()))
    if name is None:
        return found or [draft]
    channels = tuple(replace(one, array=name) for one in draft.channels)
    single = draft.change(channels=channels).said("array", f"the image is the array {name}")
    return [*found, single.change(prior=single.prior - 0.2 * bool(found))]


def _usual(some: Sequence[Held]) -> str | None:
    """The array that is the image of a case a file; None where there is but one array."""
    names = [name for name in some[0].images if all(name in one.images for one in some)]
    if len(names) < 2 and all(len(one.images) == 1 for one in some):
        return None
    images = [name for name in names if _IMAGE_ARRAY.search(name) and not LABEL_ARRAY.search(name)]
    rest = [name for name in names if not LABEL_ARRAY.search(name)]
    return next(iter((*images, *rest, *names)), None)


def _choices(some: Sequence[Held]) -> list[Choice]:
    """Single arrays, and patterns over arrays of one kind; what may be images, likely ones first."""
    kinds: dict[str, Shaped] = {}
    for one in some:
        kinds.update(one.images)
    names = [name for name in kinds if not LABEL_ARRAY.search(name)] or list(kinds)
    names = [name for name in names if _IMAGE_ARRAY.search(name)] or names
    found: list[Choice] = []
    if len(names) > 1:
        axes = {len(kinds[name].shape) for name in names}
        patterns = [template_of([name for name in names if len(kinds[name].shape) == count]) for count in axes]
        found += [one for one in patterns if one is not None]
    inner = {name for one in found for name in one.names}
    return [*found, *(Choice(name, (name,)) for name in names if name not in inner)][:4]


def template_of(names: Sequence[str]) -> Choice | None:
    """A pattern for names that differ in one part, which tells cases or sides of a split; None for channels."""
    split = [name.split("/") for name in names]
    if len(names) < 2 or len({len(parts) for parts in split}) != 1:
        return None
    differ = [place for place, column in enumerate(zip(*split, strict=True)) if len(set(column)) > 1]
    fields = []
    parts = list(split[0])
    for number, place in enumerate(differ):
        column = [one[place] for one in split]
        made = _within(column)
        if made is None:
            parts[place] = braces(_field(column, number))
            fields += [column]
        else:
            parts[place], values = made
            fields += [values]
    # Sequences by name are channels of one case.
    if any(all(SEQUENCE.fullmatch(value.lower()) and not value.isdigit() for value in column) for column in fields):
        return None
    return Choice("/".join(parts), tuple(names))


def _field(column: Sequence[str], number: int) -> str:
    sides = sum(split_of(value) is not None for value in set(column))
    return "split" if sides * 2 > len(set(column)) else "array" if not number else f"array{number + 1}"


def _within(column: Sequence[str]) -> tuple[str, list[str]] | None:
    """A field in a part of the name beside a word that says `images`; None where the whole name tells cases apart."""
    tokens = [_TOKEN.findall(one) for one in column]
    if len({len(one) for one in tokens}) != 1:
        return None
    places = [place for place, column in enumerate(zip(*tokens, strict=True)) if len(set(column)) > 1]
    if len(places) != 1:
        return None
    place = places[0]
    values = [one[place] for one in tokens]
    rest = [token for at, token in enumerate(tokens[0]) if at != place]
    if not any(_ROLE.fullmatch(token) for token in rest):
        return None
    made = [*tokens[0]]
    made[place] = braces(_field(values, 0))
    return "".join(made), values


def _with_images(draft: Draft, survey: Survey) -> Draft:
    """Without files of values, such as `y_train.npy` beside `X_train.npy`, where a field tells them apart."""
    pieces = []
    end = time.monotonic() + _SECONDS
    for piece in draft.channels[0].pieces:
        if len(piece.files) <= _MOST_FILES:
            solid = {file: time.monotonic() > end or bool(held(survey.root / file).images) for file in piece.sample}
            for name in piece.fields if len(set(solid.values())) == 2 else ():
                column = list(zip(piece.column(name), solid.values(), strict=True))
                values = {value for value, image in column if image}
                if len(values) == 1 and not any(value in values for value, image in column if not image):
                    piece = piece.fixed(name, values.pop())
                    break
        pieces.append(piece)
    return draft.change(channels=(replace(draft.channels[0], pieces=tuple(pieces)),))


def partners(survey: Survey, file: str, masks: bool = False) -> list[str]:
    """Files of values (or of masks) for the entries of another: of a name that differs in one word, which says so."""
    folder, _, name = file.rpartition("/")
    near = [other for other in survey.listing.files if other.rpartition("/")[0] == folder and other != file]
    near = [other for other in near if other.lower().endswith(tuple(SUFFIXES))]
    mine = _TOKEN.findall(name)
    found = []
    for other in near if len(near) <= _MOST_NEAR else ():
        theirs = _TOKEN.findall(other.rpartition("/")[2])
        differ = [two for one, two in zip(mine, theirs, strict=False) if one != two]
        if len(mine) == len(theirs) and len(differ) == 1 and LABEL_ARRAY.search(differ[0]):
            found.append(other)
    return [other for other in found if bool(held(survey.root / other).images) == masks]


def _lengths(survey: Survey, file: str, inner: Held) -> set[int]:
    """Of what may be one value for each entry."""
    values = [*inner.values.values()]
    if not values:
        values = [value for other in partners(survey, file) for value in held(survey.root / other).values.values()]
    return {edge for value in values for edge in value.shape[:2] if value.size >= edge >= _FEWEST}


def _entries(draft: Draft, survey: Survey, choice: Choice, some: Mapping[str, Held]) -> Draft | None:
    """A draft whose cases are the entries of arrays; None where nothing beside an array is one for each entry."""
    told = False
    shaped: Shaped | None = None
    for file, one in some.items():
        lengths = _lengths(survey, file, one)
        for name in choice.names:
            if name not in one.images or len(one.images[name].shape) < 3:
                continue
            shaped = one.images[name]
            told = told or shaped.entries in lengths
    if shaped is None:
        return None
    # Few arrays that each were one case would be no dataset.
    arrays = len(choice.names) * sum(len(piece.files) for piece in draft.pieces)
    few = arrays <= _FEW and shaped.entries >= _MANY
    if not (told or few or _rows(survey, draft, choice, next(iter(some.values())))):
        return None
    dimensions = _dimensions(shaped)
    if dimensions is None:
        return None
    return _inside(draft.change(dimensions=dimensions), survey, choice, shaped)


def _rows(survey: Survey, draft: Draft, choice: Choice, inner: Held) -> bool:
    """Whether a table has a row for each entry of a single file."""
    if len(draft.pieces) > 1 or len(draft.pieces[0].files) > 1:
        return False
    many = sum(inner.images[name].entries for name in choice.names)
    return many >= _FEWEST and any(max(one.total, len(one.rows)) == many for one in survey.tables)


def _dimensions(shaped: Shaped) -> int | None:
    try:
        shape, colour = plain_shape(shaped.one, np.dtype(shaped.dtype))
    except BadImage:
        return None
    space = shape[:-1] if colour else shape
    return len(split_axis4(space)[1]) if len(space) == 4 else len(space)


def _inside(draft: Draft, survey: Survey, choice: Choice, entries: Shaped | None) -> Draft:
    """The draft with pieces whose patterns and files go on inside of the files."""
    template = f"/{choice.template}" if choice.template else ""
    end = "/{entry}" if entries else ""
    pieces = []
    for piece in draft.channels[0].pieces:
        files = [
            path
            for file in evenly(piece.files, _MOST_FILES)
            for path in _paths(file, held(survey.root / file), choice, entries is not None)
        ]
        pieces.append(Piece(piece.family, f"{piece.pattern}{template}{end}", tuple(files)))
    channel = replace(draft.channels[0], pieces=tuple(pieces), array=None, inside=f"{template}{end}".count("/"))
    made = draft.change(channels=(channel,), case="entry" if entries else tuple(pieces[0].fields), axis4="refuse")
    what = "each entry of" if entries else "each array"
    where = " of ".join(one for one in (choice.template, draft.pieces[0].pattern) if one)
    return made.said("case", f"a case is {what} {where}").change(prior=made.prior + 0.1)


def _paths(file: str, inner: Held, choice: Choice, entries: bool) -> list[str]:
    found = []
    for name, shaped in inner.images.items():
        if name not in choice.names and not _fits(choice, name):
            continue
        path = f"{file}/{name}" if name else file
        found += [f"{path}/{at}" for at in evenly(range(shaped.entries), _MOST_ENTRIES)] if entries else [path]
    return found


def _fits(choice: Choice, name: str) -> bool:
    return "{" in choice.template and compile(choice.template).match(name) is not None and not LABEL_ARRAY.search(name)


def beside(name: str, fields: Mapping[str, str]) -> str:
    """The name of an array with the fields of an image written where their values stand: `train_labels` beside
    `train_images` is `{split}_labels`."""
    parts = []
    for part in name.split("/"):
        whole = next((field for field, text in fields.items() if text == part), None)
        if whole is not None:
            parts.append(braces(whole))
            continue
        tokens = _TOKEN.findall(part)
        for field, text in fields.items():
            tokens = [braces(field) if token == text else token for token in tokens]
        parts.append("".join(tokens))
    return "/".join(parts)
