"""Files that look alike by place and name: how names generalise to patterns with fields part1, part2, ..."""

import re
from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby, islice, takewhile

import numpy as np

from shared.dataset.survey.naming import shared_start
from shared.dataset.survey.overlap import Fine, Places, Role, apart
from shared.dataset.survey.splits import SPLIT_WORDS
from shared.imaging.formats import BY_SUFFIX, suffix_of

MOST_WORDS = 60
"""Names of one folder that differ in more than their numbers are taken for free text beyond so many."""
MOST_GROUPS = 3000
_HELD_NAMES, _HELD_GROUPS = 5000, 10 * MOST_GROUPS
"""Signatures of one folder, and groups of all: beyond so many, those that were rare so far become free text."""
_AT_ONCE = 1000
# T1 and T2 are words of MRI, not a number behind a letter.
_DIGITS = re.compile(r"(?<![^A-Za-z0-9][tT](?=[12](?![0-9])))(?<![0-9])[0-9]+")
ANY = "\x00"
"""Stands for free text in a signature."""
NUMBER = "#"

_SUFFIXES = {_DIGITS.sub(NUMBER, suffix): suffix for suffix in BY_SUFFIX if re.search(r"\d", suffix)}


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


def fine_groups(files: Iterable[str]) -> list[Fine]:
    """Groups of a sorted listing, which is read twice."""
    crowded = _crowded(files)
    groups: dict[tuple[str, str], Places] = {}
    open_folders: list[tuple[str, dict[str, Places]]] = [("", {})]
    at = 0
    for kept, path, run in _by_folder(files):
        for sign, found in open_folders[kept + 1 :]:
            groups = _closed(groups, sign, found)
        del open_folders[kept + 1 :]
        for depth in range(kept, len(path)):
            own = ANY if "/".join(path[:depth]) in crowded else _numbered(path[depth])
            open_folders.append((f"{open_folders[-1][0]}/{own}" if depth else own, {}))
        sign, found = open_folders[-1]
        start = sum(map(len, path)) + len(path)
        while names := [file[start:] for file in islice(run, _AT_ONCE)]:
            # One substitution over many names: a million calls cost more than the work.
            for place, name in enumerate(_numbered("/" + "/".join(names))[1:].split("/"), at):
                found.setdefault(name, array("i")).append(place)
            at += len(names)
            if len(found) > _HELD_NAMES:
                open_folders[-1] = sign, (found := _coarse(found))
    for sign, found in open_folders:
        groups = _closed(groups, sign, found)
    if len(groups) > MOST_GROUPS:
        groups = _fewer(groups)
    fines: dict[tuple[tuple[str, ...], str], list[Places]] = defaultdict(list)
    for (folder, name), places in groups.items():
        suffix = _suffix(name)
        stem = name[: len(name) - len(suffix)] if suffix else name
        suffix = _SUFFIXES.get(suffix, suffix)
        fines[(*([*folder.split("/")] if folder else []), stem), suffix].append(places)
    every = [Fine(segments, suffix, together(parts)) for (segments, suffix), parts in fines.items()]
    return sorted(every, key=lambda one: one.at[0])


def together(parts: Iterable[Places]) -> Places:
    """All indices of several groups, sorted."""
    found = array("i")
    for one in parts:
        found.extend(one)
    np.frombuffer(found, np.int32).sort()
    return found


def _numbered(text: str) -> str:
    return _DIGITS.sub(NUMBER, text.lower())


def _by_folder(files: Iterable[str]) -> Iterator[tuple[int, list[str], Iterator[str]]]:
    """Files of one folder that stand together in the listing: how many of its names its path shares with the one
    before, these names, and the files."""
    before: list[str] = []
    for folder, run in groupby(files, lambda file: file.rpartition("/")[0]):
        path = folder.split("/") if folder else []
        shared = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(before, path, strict=False)))
        yield shared, path, run
        before = path


def _crowded(files: Iterable[str]) -> set[str]:
    """Folders that hold many folders of different words, which are free text."""
    found: set[str] = set()
    inside: list[set[str]] = [set()]
    for kept, path, _ in _by_folder(files):
        del inside[kept + 1 :]
        for depth in range(kept, len(path)):
            if len(inside[depth]) <= MOST_WORDS:
                inside[depth].add(_numbered(path[depth]))
            if len(inside[depth]) > MOST_WORDS:
                found.add("/".join(path[:depth]))
            inside.append(set())
    return found


def _closed(
    groups: dict[tuple[str, str], Places], sign: str, found: dict[str, Places]
) -> dict[tuple[str, str], Places]:
    """With the files of one more folder."""
    for name, places in (_coarse(found) if len(found) > MOST_WORDS else found).items():
        groups.setdefault((sign, name), array("i")).extend(places)
    return _fewer(groups) if len(groups) > _HELD_GROUPS else groups


@lru_cache(maxsize=4096)
def _suffix(name: str) -> str:
    """Of a name or its signature, in which the number of `.mp4` is no longer one."""
    name = name.replace(ANY, "x")
    end = name[name.rfind(".") :]
    return suffix_of(name) or (end if end in _SUFFIXES else "")


def _coarse(names: dict[str, Places]) -> dict[str, Places]:
    """Frequent signatures stay, the others are free text before their suffix."""
    total = sum(map(len, names.values()))
    found: dict[str, Places] = {}
    for name, places in names.items():
        sign = name if len(places) * 50 >= total else ANY + _suffix(name)
        found.setdefault(sign, array("i")).extend(places)
    return found


def _fewer(groups: dict[tuple[str, str], Places]) -> dict[tuple[str, str], Places]:
    """Rare names, then rare folders, become free text."""
    names: Counter[str] = Counter()
    for (_, name), places in groups.items():
        names[name] += len(places)
    total = names.total()
    found: dict[tuple[str, str], Places] = {}
    for (folder, name), places in groups.items():
        key = folder, name if names[name] * 100 >= total else ANY + _suffix(name)
        found.setdefault(key, array("i")).extend(places)
    if len(found) <= MOST_GROUPS:
        return found
    flat: dict[tuple[str, str], Places] = {}
    for (folder, name), places in found.items():
        key = "/".join([ANY] * (folder.count("/") + 1)) if folder else "", name
        flat.setdefault(key, array("i")).extend(places)
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
    elif (worded := _by_words(split)) is not None:
        merged = worded
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


def _by_words(split: Sequence[Sequence[str]]) -> list[str | None] | None:
    """A field for each word that differs, as in `BL_L` and `M24_L`; None where signs between words differ, too."""
    parts = [_in_words(tokens) for tokens in split]
    marks = parts[0][1]
    if not marks or any(own != marks for _, own in parts):
        return None
    found: list[str | None] = []
    for place, column in enumerate(zip(*(words for words, _ in parts), strict=True)):
        found += [marks[place - 1]] if place else []
        found += _plain(column[0]) if all(word == column[0] for word in column) else [None]
    return found


def _in_words(tokens: Sequence[str]) -> tuple[list[list[str]], list[str]]:
    """Tokens of each word, and the signs between words."""
    words: list[list[str]] = [[]]
    marks = []
    for token in tokens:
        if token[0].isalnum() or token in (NUMBER, ANY):
            words[-1].append(token)
        else:
            marks.append(token)
            words.append([])
    return words, marks


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
