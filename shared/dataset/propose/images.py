"""Which families are the images: one channel or several, files or folders of slices, two dimensions or three."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import prod
from statistics import median

from shared.contracts.base import SEGMENTATIONS, TaskKind
from shared.dataset.files.looking import Looker
from shared.dataset.propose.acquired import kinds_of_series
from shared.dataset.propose.draft import Channel, Draft
from shared.dataset.propose.drawn_on import drawn_on
from shared.dataset.propose.legend import Legend
from shared.dataset.propose.meant import meant_pieces
from shared.dataset.propose.phases import with_phase
from shared.dataset.propose.unions import MOST_CHANNELS, SEQUENCE, STRAY, sets
from shared.dataset.propose.uploads import by_upload
from shared.dataset.survey.derived import repeated, stem
from shared.dataset.survey.family import Family
from shared.dataset.survey.naming import evenly
from shared.dataset.survey.pieces import Piece, align, braces, piece_of
from shared.dataset.survey.survey import Survey
from shared.dataset.tables.words import overlap

_SHOWN = re.compile(
    r"(?:^|[/_-])(?:docs?|figures?|assets|static|logos?|icons?|thumb(?:nail)?s?|previews?|screenshots?|demo)(?=[/_-])",
    re.IGNORECASE,
)
_STUDY = re.compile(r"(?:study|studie|exam|examination)(?![^\W\d_])", re.IGNORECASE)
"""What a folder of the pictures of one examination is called."""
_PLANE = re.compile(r"ax(?:ial)?|tra(?:ns(?:vers(?:al|e)?)?)?|cor(?:onal)?|[ck]oronar|sag(?:it{1,2}al)?", re.IGNORECASE)
"""A direction in which an examination is sliced."""
_NAMES = 24
"""Names of a piece that are sought a second time before its folders are compared."""
_BIDS = frozenset(("anat", "func", "dwi", "fmap", "perf", "pet", "meg", "eeg", "swi"))
"""Folders that hold one kind of image each in the brain imaging data structure."""


_MIXED = 0.25
"""What it costs to take images of several such folders for one kind."""
_FORMS = 6
"""Kinds of names that are taken apart."""
FINER = 1.5
"""Times as many voxels, of channels that lie on different grids."""
_DERIVED = frozenset(("derivatives", "derived"))
"""Folders of what was computed from the images."""


def image_drafts(
    survey: Survey, task: TaskKind, wish: int | None, legends: Sequence[Legend], target: str = ""
) -> list[Draft]:
    """Candidates for the images, best first: the files' own dimensions unless slices can be taken both ways. `target`
    ranks kinds of images of one examination."""
    pieces = [part for family in survey.images for one in _by_modality(family) for part in _by_channel(one)]
    pieces = [part for one in pieces if one.files for part in _without_copies(one, survey.looker)]
    # Masks are no images where they are the target.
    others = [
        one for one in survey.families if one.role == "other" or (one.role == "mask" and task not in SEGMENTATIONS)
    ]
    found: list[Draft] = []
    groups = ((at, kind, part) for at, kind, group in _groups(pieces) for part in by_upload(group, survey.tables))
    for dimensions, kind, group in groups:
        kinds = kinds_of_series(group[0], survey) if len(group) == 1 else {}
        found += _series(task, kinds, group[0], target, legends)
        whole = _of_group(group, others, task, dimensions, kind, wish, legends, target)
        if drawn := drawn_on(group, survey) if task in SEGMENTATIONS else []:
            whole = [one for one in whole if len(one.channels) > 1]
            whole += _of_group(drawn, others, task, dimensions, kind, wish, legends, target)
        found += [one.decided("image", "all series").change(prior=one.prior - 0.1) if kinds else one for one in whole]
        found += [made for one in whole if (made := with_phase(one, survey, target)) is not None]
        if some := meant_pieces(group, target):
            # The others are images that it leaves aside on purpose.
            aside = 1 - sum(len(one.files) for one in some) / sum(len(one.files) for one in group)
            for one in _of_group(some, others, task, dimensions, kind, wish, legends, target):
                found.append(one.change(prior=one.prior + 0.55 * aside + 0.1).decided("image", in_words(one.pieces)))
        forms = [part for piece in group for part in _by_form(piece)] if task in SEGMENTATIONS and not drawn else group
        if len(group) < len(forms) <= _FORMS:  # a common pattern may hide what masks have in common with each
            apart = _of_group(forms, others, task, dimensions, kind, wish, legends, target)
            found += [one.change(prior=one.prior - 0.02) for one in apart]
    total = max((draft.images for draft in found), default=0)
    for at, draft in enumerate(found):
        # A few odd files beside the images are no set of their own.
        weight = 0.15 * min(1.0, len(draft.channels[0].pieces[0].files) / max(1, total))
        fits = 0.1 if wish in (None, draft.dimensions) else -0.1
        derived = [bool(_DERIVED & set(one.pattern.lower().split("/"))) for one in draft.pieces]
        # Beside what they were made of they are the same images again.
        fits -= 0.06 * any(derived) + 0.1 * (any(derived) and not all(derived))
        fits -= _MIXED * (len(_modalities(draft)) > 1)
        found[at] = draft.change(prior=draft.prior + weight + fits)
    return sorted(found, key=lambda draft: -draft.prior)


def _of_group(
    group: Sequence[Piece], others: Sequence[Family], task: TaskKind, dimensions: int, kind: str, wish: int | None,
    legends: Sequence[Legend], target: str,
) -> list[Draft]:  # fmt: skip
    found = []
    for channels in sets(group, others):
        whole = _drafts(task, dimensions, kind, channels, wish, legends)
        views = [made for one in whole for made in (_views(one, target), _studies(one, target)) if made is not None]
        found += [*whole, *views]
        if kind == "slices" and wish == 2:
            flat = [replace(c, pieces=tuple(_all_slices(p) for p in c.pieces)) for c in channels]
            found += _drafts(task, 2, "picture", flat, wish, legends)
    return found


def _series(
    task: TaskKind, kinds: Mapping[str, Piece], whole: Piece, target: str, legends: Sequence[Legend]
) -> list[Draft]:
    """One series of each examination; which one is a question unless the request's words name it."""
    found = []
    for text, piece in kinds.items():
        for draft in _drafts(task, 3, "slices", [Channel("", (piece,))], None, legends):
            # The other series are images that it leaves aside on purpose.
            prior = draft.prior + 0.55 * (1 - len(piece.files) / len(whole.files)) + 0.2 * overlap(target, text)
            said = draft.said("case", f"{draft.says['case']} (the series {text})").change(prior=prior)
            found.append(said.decided("image", f"series {text}"))
    return found


def _views(draft: Draft, target: str) -> Draft | None:
    """With all kinds of images of an examination as its views, where the request names each of them, or where they are
    the planes of slices; else None."""
    piece = draft.pieces[0]
    if len(draft.pieces) > 1 or draft.case != "file" or "kind" not in piece.fields:
        return None
    kinds = sorted(set(piece.column("kind")))
    case = tuple(name for name in piece.fields if name != "kind")
    planes = draft.task not in SEGMENTATIONS and all(map(_PLANE.fullmatch, kinds))
    if not case or not (planes or all(overlap(target, one) == 1.0 for one in kinds)):
        return None
    what = f"a case is the files of {', '.join(kinds)} with the same {' and '.join(case)} (views of one examination)"
    return draft.change(case=case, several="views", prior=draft.prior + 0.1).said("case", what)


def _studies(draft: Draft, target: str) -> Draft | None:
    """With all pictures of a folder such as `study1_positive` as the views of one case, where the request speaks of
    studies; else None."""
    folders, _, name = draft.pieces[0].pattern.rpartition("/")
    called = _STUDY.match(re.sub(r"\{\w+\}", "", folders.rpartition("/")[2]))
    alone = draft.task == "diagnosis" and draft.dimensions == 2 and draft.case == "file" and len(draft.pieces) == 1
    if not alone or called is None or "{" not in name:
        return None
    case = tuple(dict.fromkeys(re.findall(r"\{(\w+)\}", folders)))
    if not case or not overlap(target, called[0]):
        return None
    what = f"a case is all pictures of a folder {folders.rpartition('/')[2]} (views of one {called[0].lower()})"
    return draft.change(case=case, several="views", prior=draft.prior + 0.1).said("case", what)


def _all_slices(piece: Piece) -> Piece:
    return replace(piece, files=tuple(piece.family.files))


def _by_form(piece: Piece) -> list[Piece]:
    """The kinds of names that a family has."""
    forms = piece.family.variants
    if (
        piece.pattern != piece.family.pattern
        or piece.family.folders
        or sum(len(one.at) for one in forms) < len(piece.files)
    ):
        return [piece]
    listed = piece.family.listing.files
    return [replace(piece, pattern=one.pattern, files=tuple(listed[at] for at in one.at)) for one in forms] or [piece]


def _by_modality(family: Family) -> list[Piece]:
    """A family; of a BIDS dataset whose names differ between `anat` and `func`, the images of each."""
    whole = piece_of(family)
    for name in whole.fields if not family.folders else ():
        if len(values := set(whole.column(name))) > 1 and values <= _BIDS:
            return [_settled(part) for part in whole.split(name).values()]
    kinds: dict[str, list[Piece]] = defaultdict(list)
    for one in family.variants if not family.folders else ():
        said = _BIDS & set(one.pattern.split("/")[:-1])
        files = tuple(family.listing.files[at] for at in one.at)
        kinds[min(said, default="")].append(replace(whole, pattern=one.pattern, files=files))
    if len(kinds) < 2 or "" in kinds or sum(len(one.at) for one in family.variants) < len(family.at):
        return [whole]
    return [piece for some in kinds.values() for piece in some]


def _modalities(draft: Draft) -> set[str]:
    """Kinds of images that a draft takes for one, by their folders in a BIDS dataset."""
    files = (file for piece in draft.channels[0].pieces for file in evenly(piece.files, _NAMES))
    return {kind for file in files for kind in _BIDS & set(file.split("/")[:-1])}


def _settled(piece: Piece) -> Piece:
    """With fields of one value as that value, once a part of the files is left."""
    for name in piece.fields:
        if len(values := set(piece.column(name))) == 1:
            piece = piece.fixed(name, values.pop())
    return piece


def _by_channel(piece: Piece) -> list[Piece]:
    """Parts of a family whose names say `_0000`, `_0001` or `T1`, `T2` of the same case."""
    for name in piece.fields:
        values = Counter(piece.column(name))
        if not 2 <= len(values) <= MOST_CHANNELS or not _name_channels(piece, name, values):
            continue
        cases: dict[tuple[str, ...], set[str]] = defaultdict(set)
        for row in piece.rows:
            cases[tuple(text for field, text in row.items() if field != name)].add(row[name])
        full = sum(len(held) == len(values) for held in cases.values())
        if full * 2 > len(cases):
            return list(piece.split(name).values())
    # A single `_0000` is a constant of the pattern already.
    return [piece]


def _without_copies(piece: Piece, looker: Looker) -> list[Piece]:
    """The parts of a piece that are left where some of its folders hold the same as others; else the piece."""
    folders = re.findall(r"(?:^|/)\{(\w+)\}(?=/)", piece.pattern)
    some = {stem(file) for file in evenly(piece.files, _NAMES)}
    again = Counter(name for file in piece.files if (name := stem(file)) in some)
    if piece.family.kind == "slices" or not folders or max(again.values()) < 2:
        return [piece]
    for name in folders:
        if 2 <= len(set(piece.column(name))) <= MOST_CHANNELS:
            parts = piece.split(name)
            if copies := repeated({value: part.files for value, part in parts.items()}, looker):
                return [part for value, part in parts.items() if value not in copies]
    return [piece]


def _name_channels(piece: Piece, name: str, values: Iterable[str]) -> bool:
    """Sequences (of `t1n` and `t1c` the last letter), or `0000`, `0001` at the end of a name after a field, as nnU-Net
    has them."""
    lead = (re.search(rf"([^\W_{{}}]*){re.escape(braces(name))}", piece.pattern) or [""] * 2)[1].lower()
    if all(SEQUENCE.fullmatch(lead + value.lower()) and not (lead + value).isdigit() for value in values):
        return True
    last = f"}}_{braces(name)}{piece.family.suffix}"
    counted = sorted(values) == [f"{number:04d}" for number in range(len(list(values)))]
    return counted and piece.pattern.lower().endswith(last.lower())


def _groups(pieces: Sequence[Piece]) -> list[tuple[int, str, list[Piece]]]:
    """Pieces of one dimension and kind, those with most images first."""
    found: dict[tuple[int, str], list[Piece]] = defaultdict(list)
    for one in pieces:
        kind = one.family.kind if one.family.kind in ("slices", "picture") else "volume"
        if one.family.looks and all(look.fault for look in one.family.looks):
            continue  # files of another use, such as checkpoints
        # Where no header could be read in time, the format tells.
        found[one.family.dimensions or (2 if kind == "picture" else 3), kind].append(one)
    folders = [one for one in found[3, "slices"] if one.family.folders]
    alone = [one for one in found[3, "volume"] if _alone(one)]
    if folders and alone and len(alone) == len(found[3, "volume"]):
        # A folder with one file is a volume as well as a folder of slices is.
        found[3, "slices "] = [*folders, *alone]
    found = defaultdict(list, {key: _without_strays(group) for key, group in found.items() if group})
    ranked = sorted(found.items(), key=lambda item: -sum(len(one.files) for one in item[1]))
    return [(dimensions, kind.strip(), group) for (dimensions, kind), group in ranked]


def _without_strays(group: list[Piece]) -> list[Piece]:
    """Without a few files of names of their own, such as a logo or a preview beside hundreds of images, or figures."""
    most = max(len(one.files) for one in group)

    def stray(one: Piece) -> bool:
        return len(one.files) * STRAY <= most and (not one.fields or bool(_SHOWN.search(one.pattern)))

    return [one for one in group if not stray(one)]


def _alone(piece: Piece) -> bool:
    folders = [file.rpartition("/")[0] for file in piece.files]
    return len(set(folders)) == len(folders) and "/" in piece.pattern


def _drafts(
    task: TaskKind, dimensions: int, kind: str, channels: Sequence[Channel], wish: int | None, legends: Sequence[Legend]
) -> list[Draft]:
    what = {"slices": "each folder of slices", "volume": "each volume", "picture": "each picture"}[kind]
    channels = _finest_first(channels) if dimensions == 3 else channels
    draft = Draft(task=task, dimensions=dimensions, channels=tuple(channels))
    first = channels[0].pieces[0]
    if kind == "slices":
        draft = draft.change(case="folder" if first.family.folders else "series")
        what = what if first.family.folders else "each DICOM series"
    if len(channels) > 1:
        joined = _joined(channels, kind)
        if joined is None:
            return []
        draft = draft.change(channels=joined[0], case=joined[1], prior=0.06 * len(channels) ** 0.5)
        names = _named_by(legends, [one.name for one in channels])
        draft = draft.change(channels=tuple(replace(c, name=n) for c, n in zip(draft.channels, names, strict=True)))
        what = f"the files of {', '.join(names)} with the same {' and '.join(joined[1])} (channels)"
    return [_four_axes(draft, first, legends).said("case", f"a case is {what} of {in_words(draft.pieces)}")]


def _finest_first(channels: Sequence[Channel]) -> Sequence[Channel]:
    """All are brought to the grid of the first, so one with far more voxels than that goes before it."""

    def voxels(channel: Channel) -> float:
        files = set(channel.pieces[0].files)
        looks = channel.pieces[0].family.looks
        sizes = [prod(one.header.shape) for one in looks if one.header and one.file in files]
        return median(sizes) if sizes else 0

    finest = max(channels, key=voxels)
    if voxels(finest) < FINER * voxels(channels[0]):
        return channels
    return [finest, *(one for one in channels if one is not finest)]


def in_words(pieces: Iterable[Piece]) -> str:
    names = list(dict.fromkeys(piece.pattern for piece in pieces))
    return " and ".join(names[:2]) + (f" and {len(names) - 2} more" if len(names) > 2 else "")


def _named_by(legends: Sequence[Legend], names: list[str]) -> list[str]:
    """Names of numbered channels from a file that lists as many."""
    if all(re.fullmatch(r"000\d", name) for name in names):
        for one in legends:
            if len(one.channels) == len(names) and len(set(one.channels)) == len(names):
                return list(one.channels)
    return names


def _joined(channels: Sequence[Channel], kind: str) -> tuple[tuple[Channel, ...], tuple[str, ...]] | None:
    """Channels whose common fields have common names, and these fields."""
    base = channels[0].pieces[0]
    shared = set(_key_fields(base, kind))
    made = [replace(channels[0], pieces=(base,))]
    for number, channel in enumerate(channels[1:], 2):
        piece = channel.pieces[0]
        found = align(piece, base)
        if found is None or found.share < 0.3:
            return None
        names = {name: found.names.get(name, f"{name}_{number}") for name in piece.fields}
        made.append(replace(channel, pieces=(piece.renamed(names),)))
        shared &= set(found.names.values())
    case = tuple(name for name in base.fields if name in shared)
    return (tuple(made), case) if case else None


def _key_fields(piece: Piece, kind: str) -> list[str]:
    """Fields that tell cases apart: of slices those of the folders."""
    part = piece.pattern.rpartition("/")[0] if kind == "slices" and piece.family.folders else piece.pattern
    return list(dict.fromkeys(re.findall(r"\{(\w+)\}", part)))


def _four_axes(draft: Draft, first: Piece, legends: Sequence[Legend]) -> Draft:
    """What a fourth axis holds: channels where a file names as many or the axis is short, else times."""
    frames = [look.header.frames for look in first.family.looks if look.header]
    if draft.dimensions != 3 or not frames or sorted(frames)[len(frames) // 2] < 2:
        return draft
    usual = Counter(frames).most_common(1)[0][0]
    named = next((one.channels for one in legends if len(one.channels) == usual), ())
    timed = re.search(r"bold|fmri|func|rest|dsc|dce|perf|cine|dynamic|4d", first.pattern, re.IGNORECASE)
    if named or (usual <= MOST_CHANNELS and not timed):
        return draft.change(axis4="channels", channel_names=named).said("axis", "the fourth axis holds channels")
    return draft.change(axis4="first").said("axis", "of the fourth axis the first is taken")
