"""Families of images that only repeat what other images of the dataset show, and are no cases beside them."""

import math
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from filecmp import cmp
from itertools import permutations

import numpy as np

from shared.dataset.files.looking import Looker
from shared.dataset.files.patterns import compile
from shared.dataset.survey.family import Family
from shared.dataset.survey.naming import evenly
from shared.imaging.formats import suffix_of

PREVIEW = re.compile(
    r"(?:^|[^a-z])(?:previews?|snap(?:shot)?s?|snp|thumb(?:nail)?s?|screen(?:shot)?s?|qc|overview|montage|derivatives"
    r"|figures?|overlays?|pngs?|jpe?gs?)(?=[^a-z]|$)",
    re.IGNORECASE,
)
_MOST_FAMILIES = 30
_PAIRS = 6
"""Files of a family that are compared with those of the same name in another."""
_FEWEST = 4
_SAME = 0.7
"""Correlation of what is special about two pictures of the same; of others it is about 0."""


def set_aside(families: Sequence[Family], looker: Looker) -> None:
    """Gives families that repeat others the role `other` and marks them as previews: pictures that show volumes, exact
    copies of files, and pictures made smaller."""
    _pictures_of_volumes(families)
    images = [one for one in families if one.role == "image" and not one.folders][:_MOST_FAMILIES]
    for one, other in permutations(images, 2):
        if one.role == other.role == "image" and _repeats(one, other, looker):
            one.role, one.preview = "other", True


def _pictures_of_volumes(families: Sequence[Family]) -> None:
    """By their words and because each shows one."""
    volumes = [one for one in families if one.role == "image" and one.kind in ("volume", "slices")]
    for family in families:
        if family.role == "image" and family.kind == "picture" and PREVIEW.search(family.pattern):
            words = _numbers(family)
            if any(len(words & _numbers(one)) >= 0.8 * len(words) for one in volumes):
                family.role, family.preview = "other", True


def _numbers(family: Family) -> set[tuple[str, ...]]:
    """Numbers in the names: whose they are."""
    return {tuple(re.findall(r"\d+", file)) for file in evenly(family.files, 2000)}


def _repeats(one: Family, other: Family, looker: Looker) -> bool:
    """Whether each file of `one` that is looked at has one of its name in `other` with the same bytes, and `other` has
    more files or lies higher; or with the same picture, in more pixels or not called a preview."""
    last = compile(other.pattern.rpartition("/")[2])
    names = {stem(file): file for file in evenly(one.files, _PAIRS)}
    alike = all(last.match(f"{name}{suffix_of(other.files[0])}") is not None for name in names)
    if one.kind != other.kind or len(names) < min(_FEWEST, len(one)) or not alike:
        return False
    twins: dict[str, list[str]] = defaultdict(list)
    for file in other.files:
        if (name := stem(file)) in names:
            twins[name].append(file)
    pairs = [(file, twins[name][0]) for name, file in names.items() if len(twins[name]) == 1]
    if len(pairs) < len(names):
        return False
    if _same_bytes(pairs, looker):
        return _place(one) > _place(other)
    named = bool(PREVIEW.search(one.pattern)) and not PREVIEW.search(other.pattern)
    return (named or math.prod(one.shape) < math.prod(other.shape)) and same_pictures(pairs, looker)


def repeated(groups: Mapping[str, Sequence[str]], looker: Looker) -> set[str]:
    """Which of the groups of files (folder -> files) hold, by the same names, the same files as larger ones, or, where
    the folder's name says so, pictures of them."""
    known: dict[str, str] = {}
    found: set[str] = set()
    for folder in sorted(groups, key=lambda one: (bool(PREVIEW.search(one)), -len(groups[one]), one)):
        some = evenly(groups[folder], _PAIRS)
        pairs = [(file, known[stem(file)]) for file in some if stem(file) in known]
        shown = PREVIEW.search(folder) is not None and same_pictures(pairs, looker)
        if len(pairs) == len(some) >= _FEWEST and (shown or _same_bytes(pairs, looker)):
            found.add(folder)
        else:
            known |= {stem(file): file for file in groups[folder]}
    return found


def _same_bytes(pairs: Sequence[tuple[str, str]], looker: Looker) -> bool:
    try:
        return all(cmp(looker.root / one, looker.root / other, shallow=False) for one, other in pairs)
    except OSError:
        return False


def stem(file: str) -> str:
    """Its name without the suffix."""
    name = file.rpartition("/")[2]
    return name[: len(name) - len(suffix_of(name))]


def _place(family: Family) -> tuple[int, int, int]:
    return -len(family), family.pattern.count("/"), family.number


def same_pictures(pairs: Sequence[tuple[str, str]], looker: Looker) -> bool:
    """Whether the files of each pair show the same, by what sets them apart from those of the other pairs."""
    seen = []
    for files in pairs:
        looks = [looker.pixels(file) for file in files]
        thumbs = [look.pixels.thumb for look in looks if look and look.pixels]
        if len(thumbs) == 2 and thumbs[0].shape == thumbs[1].shape:
            seen.append(thumbs)
    if len(seen) < _FEWEST or len({thumb.shape for thumbs in seen for thumb in thumbs}) > 1:
        return False
    own, their = (np.stack([thumbs[side].ravel() for thumbs in seen]) for side in (0, 1))
    own, their = own - own.mean(axis=0), their - their.mean(axis=0)
    scale = np.outer(np.linalg.norm(own, axis=1), np.linalg.norm(their, axis=1))
    like = own @ their.T / np.maximum(scale, 1e-9)
    twins = np.arange(len(seen))
    surely = bool((np.diag(like) > _SAME).all())
    return surely and bool((like.argmax(axis=0) == twins).all() and (like.argmax(axis=1) == twins).all())
