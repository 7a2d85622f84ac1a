"""Files that look alike by place and name: how names generalise to patterns with fields part1, part2, ..."""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from shared.dataset.naming import shared_start
from shared.dataset.overlap import apart
from shared.dataset.splits import SPLIT_WORDS
from shared.imaging.formats import BY_SUFFIX, suffix_of

MOST_WORDS = 60
"""Names of one folder that differ in more than their numbers are taken for free text beyond so many."""
MOST_GROUPS = 3000
_SPLITTER = re.compile(r"\d+|[^\W\d_]+|[\W_]")
# T1 and T2 are words of MRI, not a number behind a letter.
_DIGITS = re.compile(r"(?<![^A-Za-z0-9][tT](?=[12](?![0-9])))(?<![0-9])[0-9]+")
ANY = "\x00"
"""Stands for free text in a signature."""
NUMBER = "#"

_NUMBERED = {_DIGITS.sub(NUMBER, suffix): suffix for suffix in BY_SUFFIX if re.search(r"\d", suffix)}
Role = str
"""`image`, `mask`, `other`, or empty where nothing tells."""


@dataclass
class Fine:
    """Files whose names differ in numbers only: the smallest group."""

    segments: tuple[str, ...]
    """A signature each folder and the stem: digits are `#`, lower case."""
    suffix: str
    at: list[int] = field(default_factory=list)
    """Indices of the files."""
    role: Role = ""


@dataclass
class Group:
    """Fine groups that make one family, and its segments as tokens: text, or None for a field."""

    segments: list[list[str | None]]
    suffix: str
    members: list[Fine]
    role: Role = ""

    @property
    def size(self) -> int:
        return sum(len(one.at) for one in self.members)


def fine_groups(files: Sequence[str]) -> list[Fine]:
    """Groups of a sorted listing, in about a microsecond a file."""
    folders: dict[str, list[int]] = defaultdict(list)
    for at, file in enumerate(files):
        folders[file.rpartition("/")[0]].append(at)
    signed = _folder_signatures(folders)
    groups: dict[tuple[str, str], list[int]] = defaultdict(list)
    for folder, places in folders.items():
        start = len(folder) + 1 if folder else 0
        # One substitution over all names of a folder: a million calls cost more than the work.
        joined = "\n".join([files[at][start:] for at in places]).lower()
        names = _DIGITS.sub(NUMBER, joined).split("\n")
        if len(names) != len(places):
            names = [_DIGITS.sub(NUMBER, files[at][start:].lower()) for at in places]
        if len(places) > MOST_WORDS and len(set(names)) > MOST_WORDS:
            names = _coarse(names)
        sign = signed[folder]
        if len(set(names)) == 1:
            groups[sign, names[0]] += places
        else:
            for at, name in zip(places, names, strict=True):
                groups[sign, name].append(at)
    if len(groups) > MOST_GROUPS:
        groups = _fewer(groups)
    found: dict[tuple[tuple[str, ...], str], Fine] = {}
    for (folder, name), places in groups.items():
        suffix = _suffix(name)
        stem = name[: len(name) - len(suffix)] if suffix else name
        suffix = _NUMBERED.get(suffix, suffix)
        segments = (*([*folder.split("/")] if folder else []), stem)
        one = found.setdefault((segments, suffix), Fine(segments, suffix))
        one.at += places
    return list(found.values())


@lru_cache(maxsize=4096)
def _suffix(name: str) -> str:
    """Of a name or its signature, in which the number of `.mp4` is no longer one."""
    name = name.replace(ANY, "x")
    end = name[name.rfind(".") :]
    return suffix_of(name) or (end if end in _NUMBERED else "")


def _folder_signatures(folders: Iterable[str]) -> dict[str, str]:
    """Folder -> its signature; where one folder holds many of different words, they are free text."""
    children: dict[str, set[str]] = defaultdict(set)
    known: dict[str, None] = {"": None}
    for folder in folders:
        while folder not in known:
            known[folder] = None
            parent, _, name = folder.rpartition("/")
            children[parent].add(name)
            folder = parent
    crowded = {
        parent
        for parent, names in children.items()
        if len(names) > MOST_WORDS and len({_DIGITS.sub(NUMBER, name.lower()) for name in names}) > MOST_WORDS
    }
    signed = {"": ""}
    for folder in sorted(known, key=lambda one: one.count("/")):
        if not folder:
            continue
        parent, _, name = folder.rpartition("/")
        own = ANY if parent in crowded else _DIGITS.sub(NUMBER, name.lower())
        signed[folder] = f"{signed[parent]}/{own}" if parent else own
    return signed


def _coarse(names: Sequence[str]) -> list[str]:
    """Frequent signatures stay, the others are free text before their suffix."""
    counts = Counter(names)
    usual = {name for name, count in counts.items() if count * 50 >= len(names)}
    return [name if name in usual else ANY + _suffix(name) for name in names]


def _fewer(groups: dict[tuple[str, str], list[int]]) -> dict[tuple[str, str], list[int]]:
    """Rare names, then rare folders, become free text."""
    names: Counter[str] = Counter()
    for (_, name), places in groups.items():
        names[name] += len(places)
    total = sum(names.values())
    found: dict[tuple[str, str], list[int]] = defaultdict(list)
    for (folder, name), places in groups.items():
        found[folder, name if names[name] * 100 >= total else ANY + _suffix(name)] += places
    if len(found) <= MOST_GROUPS:
        return found
    flat: dict[tuple[str, str], list[int]] = defaultdict(list)
    for (folder, name), places in found.items():
        flat["/".join([ANY] * (folder.count("/") + 1)) if folder else "", name] += places
    return flat


def join(fines: Sequence[Fine], files: Sequence[str], structures: Callable[[Sequence[Fine]], bool]) -> list[Group]:
    """Families: fine groups of equal depth and suffix whose names differ where a class, a patient or a split may stand.

    What differs in role (mask or image), or is one of several files of each case (channels), stays apart.
    `structures` says whether groups of masks hold one structure each, which a field may tell.
    """
    shapes: dict[tuple[int, str], list[Fine]] = defaultdict(list)
    for one in fines:
        shapes[len(one.segments), one.suffix].append(one)
    found: list[Group] = []
    for (_, suffix), members in shapes.items():
        for segments, group in _level(members, 0, files, structures):
            roles = {one.role for one in group if one.role}
            found.append(Group(segments, suffix, group, roles.pop() if len(roles) == 1 else ""))
    return sorted(found, key=lambda group: (-group.size, str(group.segments)))


def _level(
    members: list[Fine], level: int, files: Sequence[str], structures: Callable[[Sequence[Fine]], bool]
) -> list[tuple[list[list[str | None]], list[Fine]]]:
    if level == len(members[0].segments):
        return [([], members)]
    found = []
    for part in apart(members, level, files, structures):
        template = template_of([one.segments[level] for one in part])
        found += [([template, *rest], group) for rest, group in _level(part, level + 1, files, structures)]
    return found


def tokens_of(segment: str) -> list[str]:
    """`case-#a` -> case, -, #, a."""
    return [token for token in re.findall(rf"{ANY}|#|t[12](?![0-9])|[^\W\d_]+|[\W_]|\d", segment)]


def template_of(segments: Iterable[str]) -> list[str | None]:
    """Tokens of what segments share; None is a field. No two fields stand side by side."""
    split = [tokens_of(segment) for segment in dict.fromkeys(segments)]
    if len({len(tokens) for tokens in split}) == 1 and _same_separators(split):
        merged = [token for column in zip(*split, strict=True) for token in _merged(column)]
    else:
        head = _shared(split)
        tail = _shared([tokens[head:][::-1] for tokens in split])
        merged = [*_plain(split[0][:head]), None, *_plain(split[0][len(split[0]) - tail :])]
    return _joined(merged)


def _merged(column: Sequence[str]) -> list[str | None]:
    """One token, a field, or both: `imagesTr` and `imagesTs` share a word."""
    if len(set(column)) == 1:
        return [None] if column[0] in (NUMBER, ANY) else [column[0]]
    head = shared_start(column)
    for short in range(len(head), 2, -1):  # `imagesTr` and `imagesTs` end in words of their own
        if all(token[short:] in SPLIT_WORDS for token in column):
            return [head[:short], None]
    rest = [token[len(head) :] for token in column]
    if len(head) >= 3 and head.isalpha() and all(0 < len(one) <= 3 for one in rest):
        return [head, None]
    return [None]


def _same_separators(split: Sequence[Sequence[str]]) -> bool:
    def shape(tokens: Sequence[str]) -> list[str]:
        return ["w" if token[0].isalnum() or token in (NUMBER, ANY) else token for token in tokens]

    return len({tuple(shape(tokens)) for tokens in split}) == 1


def _plain(tokens: Iterable[str]) -> list[str | None]:
    return [None if token in (NUMBER, ANY) else token for token in tokens]


def _shared(split: Sequence[Sequence[str]]) -> int:
    """How many first tokens are the same in all, at a boundary of words."""
    count = 0
    for column in zip(*split, strict=False):
        if len(set(column)) > 1:
            break
        count += 1
    while count and any(len(tokens) > count and tokens[count][0].isalnum() and tokens[count - 1][0].isalnum()
                        and tokens[count - 1] != NUMBER for tokens in split):  # fmt: skip
        count -= 1
    return count


def _joined(tokens: Sequence[str | None]) -> list[str | None]:
    found: list[str | None] = []
    for token in tokens:
        if token is None and found and found[-1] is None:
            continue
        found.append(token)
    return found
