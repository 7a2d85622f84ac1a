"""Images and masks: which belong together, what is alone, whether both stand on one grid."""

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

from shared.trainkit import pairs as reasons
from shared.trainkit.collect import Collection, stem_of
from shared.trainkit.gate.dataset import Dataset
from shared.trainkit.gate.heads import Fault
from shared.trainkit.gate.tree import sample
from shared.trainkit.imagefile import PICTURE_SUFFIXES, suffix_of
from shared.trainkit.index import natural_key
from shared.trainkit.listings import DANGLING
from shared.trainkit.masks import MASK_SUFFIXES, grid_of, grid_problem, looks_like_mask
from shared.trainkit.names import words_of
from shared.trainkit.pairs import Pair, Pairing
from shared.trainkit.segments import FORMAT, PICTURE, find_pairs

MOST_PAIRED = 10_000
"""Files whose names are read for pairs."""
MOST_GRIDS = 2_000
_MOST_LOOKED_AT = 40
_KINDS = {
    reasons.NO_MASK: "image_without_mask",
    reasons.NO_IMAGE: "mask_without_image",
    reasons.UNLABELLED: "unlabelled_folder",
    reasons.OTHER_MASK: "other_mask",
    reasons.OTHER_IMAGE: "other_image",
    reasons.SECOND: "second_file",
    FORMAT: "other_format",
    PICTURE: "beside_volumes",
    DANGLING: "",  # told of all tables together
}


class _Files(Collection):
    """A collection of files that are known already."""

    def __init__(self, data: Path, files: Sequence[str]) -> None:
        self.data = data
        self.files = list(files)
        self.excluded = defaultdict(list)


def pair(data: Dataset) -> None:
    """Fills `pairs` and `masks`; nothing is said of pairs where the dataset has no masks."""
    tree = data.tree
    usable = tree.images
    named = {name for name in usable if _says_mask(name)}
    if not named and not _hold_masks(data, usable):
        return
    files = _cases(usable)
    if len(files) < len(usable):
        tree.skipped.append(f"names read for pairs: {len(files):,} of {len(usable):,}, whole cases")
    volumes = sum(suffix_of(name) not in PICTURE_SUFFIXES for name in files)
    found = _Files(tree.root, files)
    pairing = find_pairs(found, tree.tables[:50], 3 if 2 * volumes > len(files) else 2, "")
    if not pairing.pairs and not (named and len(named) < len(usable)):
        return
    if pairing.pairs and not named & {pair.mask for pair in pairing.pairs} and not _by_content(data, pairing):
        return
    data.pairs = pairing.pairs
    data.masks = named | {pair.mask for pair in data.pairs}
    for reason in (reasons.NO_IMAGE, reasons.OTHER_MASK):
        data.masks |= set(found.excluded.get(reason, ()))
    data.masks -= {pair.image for pair in data.pairs}
    data.aside = set(found.excluded.get(PICTURE, ()))
    data.masks -= data.aside
    data.facts["pairs"] = len(data.pairs)
    if data.pairs:
        data.facts["paired_by"] = pairing.says
    _tell(data, found.excluded)
    _names(data, pairing)


def _cases(names: Sequence[str]) -> list[str]:
    """All names, or some that are chosen by the number of the case, so that image and mask are both among them."""
    if len(names) <= MOST_PAIRED:
        return list(names)
    step = -(-len(names) // MOST_PAIRED)
    return [name for name in names if _number(name) % step == 0]


def _number(name: str) -> int:
    """The longest number of the file's name, else of its path; the first of several."""
    found = re.findall(r"\d+", stem_of(name)) or re.findall(r"\d+", name)
    return int(max(found, key=len)) if found else 0


def _says_mask(name: str) -> bool:
    """By the words nearest to the file."""
    folder, _, base = name.rpartition("/")
    return suffix_of(base) in MASK_SUFFIXES and (words_of(stem_of(base)) or _folder_says(folder)) == "mask"


@cache
def _folder_says(folder: str) -> str | None:
    return next((word for part in reversed(folder.split("/")) if (word := words_of(part))), None)


def _hold_masks(data: Dataset, names: Sequence[str]) -> bool:
    """Whether any of a few files looks like a mask by what it holds."""
    for name in sample([name for name in names if suffix_of(name) in MASK_SUFFIXES], _MOST_LOOKED_AT):
        try:
            if looks_like_mask(data.tree.root / name):
                return True
        except Exception:  # a damaged file is told elsewhere
            continue
    return False


def _by_content(data: Dataset, pairing: Pairing) -> bool:
    """Masks that no word gives away: at least three pairs, and few values in what is taken for masks."""
    return len(pairing.pairs) >= 3 and len({suffix_of(pair.mask) for pair in pairing.pairs}) == 1


def _tell(data: Dataset, excluded: Mapping[str, Sequence[str]]) -> None:
    alone = {reason: sorted(names, key=natural_key) for reason, names in excluded.items() if names}
    loose = _loose(alone.get(reasons.NO_MASK, []), alone.get(reasons.NO_IMAGE, []))
    for image, mask in loose:
        data.findings.add("loose_pair", image, f"and {mask}")
    told = {name for two in loose for name in two}
    shared = {name for names in alone.values() for name in names}
    for reason, names in alone.items():
        kind = _KINDS.get(reason, "off_list")
        if kind == "unlabelled_folder":
            for folder, count in Counter(name.rpartition("/")[0] for name in names).items():
                data.findings.add(kind, folder or ".", f"{count} images", count)
        elif kind:
            data.findings.add_all(kind, [name for name in names if name not in told])
    if data.pairs:
        total = len({pair.image for pair in data.pairs} | (shared - data.masks))
        data.findings.measure("image_without_mask", pairs=len(data.pairs), images=total)
        data.findings.measure("mask_without_image", pairs=len(data.pairs))


def _loose(images: Sequence[str], masks: Sequence[str]) -> list[tuple[str, str]]:
    """What is left over on both sides and agrees in its numbers, where just one image and one mask do."""
    sides: dict[tuple[int, ...], tuple[list[str], list[str]]] = defaultdict(lambda: ([], []))
    for side, names in enumerate((images, masks)):
        for name in names:
            sides[_numbers(name)][side].append(name)
    return [(one[0], other[0]) for key, (one, other) in sides.items() if key and len(one) == len(other) == 1]


def _numbers(name: str) -> tuple[int, ...]:
    stem = re.sub(r"_000\d$", "", stem_of(name))
    return tuple(int(number) for number in re.findall(r"\d+", stem))


def _names(data: Dataset, pairing: Pairing) -> None:
    """Whether a program that looks for the same name would miss the pairs."""
    differ = [pair for pair in data.pairs if stem_of(pair.image) != stem_of(pair.mask)]
    for one in differ:
        data.findings.add("pair_names", one.image, f"and {one.mask}")
    data.findings.measure("pair_names", f"pair by this rule: {pairing.says}", len(data.pairs))


def check_grids(data: Dataset) -> None:
    """Shape, axes and affine (to 0.01 mm) of image and mask, by their headers."""
    taken = data.taken(data.pairs_names(), MOST_GRIDS, "pairs whose grids were compared")
    known = {pair.image: pair for pair in data.pairs}
    looked = [known[name] for name in taken if not {name, known[name].mask} & data.bad]
    with ThreadPoolExecutor(2) as pool:
        seen = list(pool.map(lambda pair: _compare(data, pair), looked))
    worst = 0.0
    for one, found in zip(looked, seen, strict=True):
        if isinstance(found, Fault):
            data.findings.add(found.kind, one.mask, found.detail)
            if apart := re.search(r"by up to ([\d.e+-]+) mm", found.detail):
                worst = max(worst, float(apart[1]))
    for kind in ("shape_mismatch", "orientation_mismatch", "affine_mismatch"):
        data.findings.measure(kind, looked_at=len(looked))
    data.findings.measure("affine_mismatch", largest_difference_mm=worst)


def _compare(data: Dataset, pair: Pair) -> Fault | None:
    try:
        image, mask = grid_of(data.tree.root / pair.image), grid_of(data.tree.root / pair.mask)
    except Exception:  # told when the file itself is looked at
        return None
    problem = grid_problem(image, mask)
    if problem is None or len([size for size in image.shape if size > 1]) > 3:
        return None
    if image.shape != mask.shape:
        if sorted(image.shape) != sorted(mask.shape):
            return Fault("shape_mismatch", problem)
        kind = "orientation_mismatch" if image.orientation != mask.orientation else "shape_mismatch"
        axes = f" ({mask.orientation} and {image.orientation})" if mask.orientation else ""
        return Fault(kind, f"{problem}: the same sizes in another order{axes}")
    return Fault("orientation_mismatch" if "orientation" in problem else "affine_mismatch", problem)
