"""Where structures are marked: mask families beside image families, arrays, run-length codes, annotation files."""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from shared.contracts.cases import CaseSpec
from shared.contracts.rules import MaskKind
from shared.dataset.files.looking import Looker
from shared.dataset.files.packed import Picked
from shared.dataset.survey.box_looks import regions_in
from shared.dataset.survey.evidence import Units
from shared.dataset.survey.family import MASK_WORD, Family
from shared.dataset.survey.mark_files import kind_of_marks, listed_in, runs_in
from shared.dataset.survey.naming import evenly
from shared.dataset.survey.table_looks import TableLook, plain
from shared.imaging.errors import BadImage
from shared.imaging.formats import suffix_of
from shared.imaging.grid import Grid, difference, within

_WORD = re.compile(r"\d+|[^\W\d_]+")
_CHANNELS = 8
"""Images of one family that may share a mask."""
_PAIRS = 100
_MOST, _MOST_MASKS = 10_000, 200_000
"""Images and masks that are compared by their names."""
_ANNOTATIONS: dict[MaskKind, str] = {
    "voc": "VOC", "labelme": "labelme", "yolo": "YOLO", "coco": "COCO", "label_studio": "Label Studio", "cvat": "CVAT",
    "via": "VIA",
}  # fmt: skip

GRIDS = 8
"""Pairs of image and mask whose grids are compared before rules are proposed."""

Key = tuple[str, ...]
Paired = tuple[dict[str, str], list[str], set[str]]
"""Image -> mask, images without mask, masks without image."""


def off_grid(image: str, mask: str, looker: Looker) -> str | None:
    """Why a mask does not lie on an image's grid, to be put after "it"; empty where it does, None where their headers
    do not say."""
    heads = [look.header for look in map(looker.header, (image, mask)) if look and look.header]
    if len(heads) < 2 or heads[0].kind != heads[1].kind:
        return None
    grids = [Grid(tuple(head.shape), head.affine) for head in heads]
    try:
        return "" if within(grids[1], grids[0]) else difference(grids[1], grids[0]) or ""
    except BadImage as error:
        return str(error)


def all_off_grid(pairs: Sequence[tuple[str, str]], looker: Looker) -> bool:
    """Whether of some pairs of image and mask, three at least, not one lies on the same grid: names alone have put them
    together."""
    found = [why for pair in evenly(pairs, GRIDS) if (why := off_grid(*pair, looker)) is not None]
    return len(found) >= min(3, len(pairs)) > 0 and all(found)


def channel_of_masks(cases: Sequence[CaseSpec], looker: Looker) -> int:
    """Which of the channels the masks were drawn on, by their grids: the first one if several or none may be."""
    lie: Counter[int] = Counter()
    for case in evenly([case for case in cases if case.masks and case.images], GRIDS):
        mask, parts = case.masks[0].files, case.images[0]
        if len(mask) == 1:
            lie.update(
                at for at, part in enumerate(parts) if part.files and off_grid(part.files[0], mask[0], looker) == ""
            )
    return min(lie, key=lambda at: (-lie[at], at), default=0)


@dataclass(frozen=True)
class MaskLook:
    """Masks of one kind, and the images they belong to."""

    kind: MaskKind
    where: str
    share: float
    """Of the image files that have one."""
    family: int | None = None
    shares: dict[int, float] = field(default_factory=dict)
    """Image family -> share of its images that have one; of families of masks and arrays."""
    values: tuple[int, ...] = ()
    """That occur in the files looked at, without 0; of colours 0xRRGGBB."""
    table: str | None = None
    column: str | None = None
    """Of run-length codes; of an array its name."""
    pairs: tuple[tuple[str, str], ...] = ()
    """Some images with their masks."""
    without: int = 0
    """Images that have no mask where most have one, of those compared."""
    without_example: str = ""
    alone: int = 0
    """Masks without an image."""
    alone_example: str = ""

    @property
    def images(self) -> tuple[int, ...]:
        """Image families whose files have masks here."""
        return tuple(self.shares)


def masks_of(
    families: Sequence[Family], tables: Sequence[TableLook], units: Units, root: Path, looker: Looker
) -> list[MaskLook]:
    """Best first: by the share of images that have one."""
    images = list(units.families.values())
    found = [_family(one, images, units) for one in families if one.role == "mask"]
    found += [look for one in images if (look := _array(one))]
    found += [look for table in tables if (look := _runs(table, units))]
    found += [look for table in tables if table.key for look in _regions(table, units, looker)]
    for one in families:
        found += _annotations(one, units, root)
    return sorted(found, key=lambda one: -one.share)


def _family(masks: Family, images: Sequence[Family], units: Units) -> MaskLook:
    known = {(look.header.modality or "").upper() for look in masks.looks if look.header}
    if known & {"SEG", "RTSTRUCT"}:
        kind: MaskKind = "rtstruct" if "RTSTRUCT" in known else "dicom_seg"
        each = {one.number: min(1.0, len(masks) / len(one.units)) for one in images}
        share = min(1.0, len(masks) / max(1, units.total))
        return MaskLook(kind, f"{masks.pattern} (DICOM {' '.join(sorted(known))})", share, masks.number, each)
    values = tuple(sorted({v for look in masks.looks if look.pixels for v in look.pixels.values} - {0}))
    shares: dict[int, float] = {}
    pairs: list[tuple[str, str]] = []
    hit = 0.0
    without, without_example = 0, ""
    left: set[str] | None = None
    for one in images:
        found = _paired(masks, one)
        if found is None:
            continue
        both, missing, alone = found
        shares[one.number] = len(both) / (len(both) + len(missing))
        hit += shares[one.number] * len(one.units)
        pairs += evenly(list(both.items()), _PAIRS)
        if missing and len(both) * 2 > len(missing):
            without += len(missing)
            without_example = without_example or missing[0]
        left = alone if left is None else left & alone
    colours = any(value > 255 for value in values)
    said = " (colours)" if colours else f" (values {short(values)})" if values else ""
    beside = " and ".join(_of(units, number).pattern for number in list(shares)[:2])
    return MaskLook(
        "palette" if colours else "file",
        f"{masks.pattern}{said}" + (f" beside {beside}" if beside else ""),
        min(1.0, hit / max(1, units.total)),
        masks.number,
        shares,
        values,
        pairs=tuple(pairs[:_PAIRS]),
        without=without,
        without_example=without_example,
        alone=len(left or ()),
        alone_example=min(left or (), default=""),
    )


def _of(units: Units, number: int) -> Family:
    return units.families[number]


def short(values: Sequence[int]) -> str:
    """`1, 2, 3 ... 35`"""
    shown = ", ".join(map(str, values[:6]))
    return shown + (f" ... {values[-1]}" if len(values) > 6 else "")


def key_of(file: str, drop: frozenset[str]) -> Key:
    """Words of a path that say whose it is: without the words that only masks or only images have."""
    path = file.lower()
    words = _WORD.findall(path[: len(path) - len(suffix_of(path))])
    return tuple(word.lstrip("0") or "0" for word in words if word not in drop)


def _paired(masks: Family, images: Family) -> Paired | None:
    """By what names share, the strictest reading that pairs nearly all. None where few agree."""
    found = _read_alike(masks, images, images.units)
    flat = all(look.header is None or look.header.dimensions == 2 for look in masks.looks)
    if images.folders and flat:  # a mask a slice
        slices = _read_alike(masks, images, images.at)
        found = slices if slices and (found is None or len(slices[0]) > len(found[0])) else found
    return found


def _read_alike(masks: Family, images: Family, places: Sequence[int]) -> Paired | None:
    files = images.listing.files
    ours = Picked(files, evenly(masks.at, _MOST_MASKS))
    theirs = [files[at] for at in evenly(places, _MOST)]
    # Of a sample of images nobody can say which masks are alone.
    whole = len(theirs) == len(places)
    mine, other = (set(_WORD.findall(re.sub(r"\{\w+\}", " ", one.pattern).lower())) for one in (masks, images))
    # Words that only one side's pattern has say what a file is, not whose: `labels`, and a channel such as `_0000`.
    drop = frozenset((mine ^ other) | {word for word in mine | other if MASK_WORD.fullmatch(word)})

    def name(file: str) -> str:
        return file.rpartition("/")[2]

    def numbers(key: Key) -> Key:
        return tuple(word for word in key if word.isdigit())

    readings: tuple[Callable[[str], Key], ...] = (
        lambda file: key_of(file, drop),
        lambda file: key_of(name(file), drop),
        lambda file: numbers(key_of(file, drop)),
        lambda file: numbers(key_of(name(file), drop)),
    )
    channel = _channel(images, theirs)
    best: Paired | None = None
    for read, theirs_read in [(read, read) for read in readings] + [
        (read, lambda file, read=read: read(channel(file))) for read in readings if channel
    ]:
        found = _matched(ours, theirs, read, theirs_read, len(ours) if whole else len(theirs))
        fewest = min(len(ours), len(theirs))
        if len(found[0]) >= 0.5 * min(fewest, len(found[0]) + len(found[2])) and (
            best is None or len(found[0]) > len(best[0])
        ):
            best = found
        if best and len(best[0]) >= 0.95 * fewest:
            break
    if best is None or not best[0]:
        return None
    return best if whole else (best[0], best[1], set())


def _channel(images: Family, files: Sequence[str]) -> Callable[[str], str] | None:
    """Takes the last field out of a path, where it is one of a few that each image has, as `_0000` and `_0001`."""
    if len(images.fields) < 2:
        return None
    regex, last = images.regex, images.fields[-1]
    values = {found[last] for file in files if (found := regex.fullmatch(file))}
    if not 1 < len(values) <= _CHANNELS:
        return None

    def without(file: str) -> str:
        found = regex.fullmatch(file)
        return file[: found.start(last)] + file[found.end(last) :] if found else file

    return without


def _matched(
    masks: Sequence[str], images: Sequence[str], read: Callable[[str], Key], read_image: Callable[[str], Key], most: int
) -> Paired:
    """Of the masks without an image `most`."""
    of_image: dict[Key, list[str]] = {}
    for file in images:
        of_image.setdefault(read_image(file), []).append(file)
    of_mask: dict[Key, str] = {}
    alone: dict[Key, str] = {}
    for file in masks:
        key = read(file)
        if key in of_image:
            of_mask.setdefault(key, file)
        elif len(alone) < most:
            alone.setdefault(key, file)
    both = {file: of_mask[key] for key, files in of_image.items() if key and key in of_mask and len(files) <= _CHANNELS
            for file in files}  # fmt: skip
    missing = [file for files in of_image.values() for file in files if file not in both]
    return both, missing, set(alone.values())


def _array(images: Family) -> MaskLook | None:
    """An array of the image's own file that is a label map."""
    looks = [look for look in images.looks if look.arrays]
    for name, _ in looks[0].arrays if looks else ():
        held = [one for look in looks for other, one in look.arrays if other == name]
        if sum(one.mask for one in held) * 2 > len(held):
            values = tuple(sorted({value for one in held for value in one.values} - {0}))
            where = f"array {name} of {images.pattern} (values {short(values)})"
            return MaskLook("array", where, 1.0, images.number, {images.number: 1.0}, values, column=name)
    return None


def _runs(table: TableLook, units: Units) -> MaskLook | None:
    """A column of run-length codes."""
    column = runs_in(table) if table.key is not None else None
    if column is None:
        return None
    having = sum(any(row[column] for row in table.rows_of(units, unit)) for unit in units.files)
    where = f"run-length codes in column {column} of {table.said}"
    return MaskLook("rle", where, having / max(1, len(units.files)), table=table.file, column=column)


def _regions(table: TableLook, units: Units, looker: Looker) -> list[MaskLook]:
    """Columns of boxes or polygons."""
    looks = regions_in(table, units, looker)
    having = sum(bool(table.rows_of(units, unit)) for unit in units.files) if looks else 0
    share = having / max(1, len(units.files))
    return [
        MaskLook(one.kind, f"{one.kind} in {', '.join(one.columns)} of {table.said}", share, table=table.file)
        for one in looks
    ]


def _annotations(family: Family, units: Units, root: Path) -> list[MaskLook]:
    """COCO, Label Studio, CVAT and VIA in one file; VOC, labelme and YOLO in a file an image."""
    if family.suffix not in (".json", ".xml", ".txt", ".csv"):
        return []
    stems = {plain(file) for _, file in units.files}
    if family.suffix != ".txt" and len(family) <= 20:
        found = [look for file in family.files if (look := _listed(root, file, units))]
        if found:
            return found
    files = evenly(family.files, 10)
    kinds = [kind for file in files if (kind := kind_of_marks(root / file, family.suffix))]
    held = {name for file in family.files if (name := plain(file)) in stems}
    if len(kinds) * 2 <= len(files) or not held:
        return []
    share = sum(plain(file) in held for _, file in units.files) / max(1, len(units.files))
    return [MaskLook(kinds[0], f"{family.pattern} ({_ANNOTATIONS[kinds[0]]})", share, family.number)]


def _listed(root: Path, file: str, units: Units) -> MaskLook | None:
    held = listed_in(root / file)
    if held is None:
        return None
    names = set(map(plain, held.marked))
    share = sum(plain(name) in names for _, name in units.files) / max(1, len(units.files))
    name = _ANNOTATIONS[held.kind]
    return MaskLook(held.kind, f"{file} ({name}: {', '.join(sorted(held.structures)[:6])})", share)
