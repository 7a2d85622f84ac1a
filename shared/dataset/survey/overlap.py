"""Which names that differ are one thing with a field (class, patient, split), and which stay apart (mask, channel)."""

import re
from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from shared.dataset.survey.naming import shared_start
from shared.dataset.tables.words import ROLE

Places: TypeAlias = "array[int]"
"""Indices of files, of four bytes each."""
Role = str
"""`image`, `mask`, `other`, or empty where nothing tells."""
MOST_ROLES = 12
"""More names than this are no channels."""
_MOST_KEYS = 5_000
_MUCH = 0.8
_SOME = 0.5
_FEW = 0.05
_FEWEST_FOLDERS = 4
_WORD = re.compile(r"(?<![^\W_])t[12](?![0-9])|\d+|[^\W\d_]+")


@dataclass
class Fine:
    """Files whose names differ in numbers only: the smallest group."""

    segments: tuple[str, ...]
    """A signature each folder and the stem: digits are `#`, lower case."""
    suffix: str
    at: Places
    """Sorted."""
    role: Role = ""


def apart(
    members: list[Fine], level: int, files: Sequence[str], structures: Callable[[Sequence[Fine]], bool]
) -> list[list[Fine]]:
    """Parts of groups that differ in the segment `level`; the groups of a part share a template."""
    by_segment: dict[str, list[Fine]] = defaultdict(list)
    for one, known in zip(members, _told(members, level), strict=True):
        by_segment[_without(one.segments[level], known)].append(one)
    if len(by_segment) == 1:
        return [members]
    last = level == len(members[0].segments) - 1
    found: list[list[Fine]] = []
    for segments in _by_role(by_segment):
        groups = {segment: by_segment[segment] for segment in segments}
        for part in _distinct(groups, last, files, structures):
            found += (
                _without_odd([one for segment in part for one in groups[segment]], level)
                if last
                else [[one for segment in part for one in groups[segment]]]
            )
    return found


def _without(segment: str, known: set[str]) -> str:
    return _WORD.sub(lambda word: "~" if word[0] in known else word[0], segment)


def _told(members: Sequence[Fine], level: int) -> list[set[str]]:
    """Words of each group's folders above that are not in all of them: a file name may repeat these."""
    words = [set(_WORD.findall("/".join(one.segments[:level]))) for one in members]
    common = set.intersection(*words)
    return [found - common for found in words]


def _by_role(by_segment: dict[str, list[Fine]]) -> list[list[str]]:
    """Names of masks apart from names of images, unless one name holds both."""
    roles = {segment: {one.role for one in group if one.role} for segment, group in by_segment.items()}
    if any(len(found) > 1 for found in roles.values()):
        return [list(by_segment)]
    parts: dict[str, list[str]] = defaultdict(list)
    for segment, found in roles.items():
        parts[next(iter(found), "")].append(segment)
    if "" in parts and len(parts) == 2:  # what could not be looked at is like the rest
        return [list(by_segment)]
    return list(parts.values())


def _distinct(
    groups: dict[str, list[Fine]], last: bool, files: Sequence[str], structures: Callable[[Sequence[Fine]], bool]
) -> list[list[str]]:
    """Names that are one of several files of each case, each by itself; the others together."""
    if not 1 < len(groups) <= MOST_ROLES:
        return [list(groups)]
    fines = [one for group in groups.values() for one in group]
    masks = all(one.role == "mask" for one in fines)
    if masks and structures(fines):
        return [list(groups)]
    words = {segment: set(_WORD.findall(segment)) for segment in groups}
    common = set.intersection(*words.values())
    own = {segment: found - common for segment, found in words.items()}
    keys = {segment: _keys(group, own[segment], files) for segment, group in groups.items()}
    folders = {segment: _folders(group, files) for segment, group in groups.items()} if last and not masks else {}
    parts: list[list[str]] = []
    for segment in sorted(groups, key=lambda one: (-len(keys[one]), one)):
        free = [
            part for part in parts
            if not any(_siblings(segment, other, keys, own, last, masks) or _beside(segment, other, folders)
                       for other in part)
        ]  # fmt: skip
        if free:  # to the names it is most like, as `masksTs` to `masksTr`
            max(free, key=lambda part: max(len(shared_start((segment, other))) for other in part)).append(segment)
        else:
            parts.append([segment])
    return parts


def _keys(group: Sequence[Fine], own: set[str], files: Sequence[str]) -> set[str]:
    """What is left of the paths without the words that only this name has."""
    found: set[str] = set()
    for one in group:
        for at in one.at[: _MOST_KEYS // len(group) + 1]:
            found.add(" ".join([word for word in _WORD.findall(files[at].lower()) if word not in own]))
    return found


def _siblings(
    one: str, other: str, keys: dict[str, set[str]], own: dict[str, set[str]], last: bool, masks: bool
) -> bool:
    """Whether two names hold files of the same cases."""
    same = len(keys[one] & keys[other]) / min(len(keys[one]), len(keys[other]))
    if masks and same >= _SOME:
        return True
    words = own[one] | own[other]
    if all(len(word) == 1 for word in words):  # a, b and c count, as numbers do
        return False
    if last and same >= _SOME and _at_end(one, own[one]) and _at_end(other, own[other]):
        return True
    if same < _MUCH:
        return False
    return any(ROLE.fullmatch(word) for word in words) or not dense(keys[one] | keys[other])


def _folders(group: Sequence[Fine], files: Sequence[str]) -> Counter[str]:
    """Folder -> files in it, as far as they are looked at."""
    return Counter(files[at].rpartition("/")[0] for one in group for at in one.at[: _MOST_KEYS // len(group) + 1])


def _beside(one: str, other: str, folders: dict[str, Counter[str]]) -> bool:
    """Whether one of two names stands once in each folder, beside several of the other, as `case1_4d` beside
    `case1_frame01` and `case1_frame12`: it is another kind of image."""
    few, many = sorted((folders.get(one, Counter()), folders.get(other, Counter())), key=lambda held: held.total())
    both = few.keys() & many.keys()
    if len(both) < max(_FEWEST_FOLDERS, _MUCH * len(few)) or set(few.values()) != {1}:
        return False
    return sum(many[folder] > 1 for folder in both) >= _MUCH * len(both)


def _at_end(segment: str, own: set[str]) -> bool:
    """Whether what is special about a name stands behind its number, as `flair` in `case_#_flair`."""
    return "#" in segment and set(_WORD.findall(segment.rpartition("#")[2])) >= own - {""}


def dense(keys: set[str]) -> bool:
    """Whether all numbers of keys count from 0 or 1 on, so that the same ones say nothing."""
    rows = [re.findall(r"\d+", key) for key in keys]
    most = max(map(len, rows))
    columns = [{int(row[place][:18]) for row in rows if len(row) > place} for place in range(most)]
    varied = [column for column in columns if len(column) > 1]
    return all(max(column) <= 1.5 * len(column) + 2 for column in varied)


def _without_odd(members: list[Fine], level: int) -> list[list[Fine]]:
    """A few files of another structure of names do not spoil the pattern of the others."""
    shapes: dict[str, list[Fine]] = defaultdict(list)
    for one in members:
        shapes[re.sub(r"[^\W_]+", "w", one.segments[level].replace("#", "w"))].append(one)
    if len(shapes) == 1:
        return [members]
    sizes = Counter({shape: sum(len(one.at) for one in group) for shape, group in shapes.items()})
    total = sum(sizes.values())
    odd = [shape for shape, size in sizes.items() if size < _FEW * total]
    usual = [one for shape, group in shapes.items() if shape not in odd for one in group]
    rest = [one for shape in odd for one in shapes[shape]]
    return [part for part in (usual, rest) if part]
