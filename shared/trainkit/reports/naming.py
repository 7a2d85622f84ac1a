"""Which images a word of a table names: a path, a file's name, a folder, the head of a name. Runs in the sandbox."""

import re
from collections import defaultdict
from collections.abc import Sequence
from pathlib import PurePosixPath

from shared.trainkit.imagefile import IMAGE_SUFFIXES, suffix_of
from shared.trainkit.listings import Places

FILE, FOLDER, HEAD, PARTS = range(4)
"""How a word names images, the surest first: the file itself; a folder; the head of names; parts of paths in order."""
HOW = ("the name of the file", "the name of the folder", "the head of the file's name", "parts of the file's path")

Found = tuple[int, tuple[str, ...]]
"""How, and the files in the order of `files`."""


def bare(name: str) -> str:
    """File name without folders and all its image suffixes: `1_IM-1.dcm.png` -> `1_IM-1`."""
    last = name.replace("\\", "/").rstrip("/").rsplit("/", 1)[-1]
    while suffix_of(last) in IMAGE_SUFFIXES and len(last) > len(suffix_of(last)):
        last = last[: -len(suffix_of(last))]
    return last


def tokens_of(text: str) -> tuple[str, ...]:
    """Lower case, without leading zeros: `GE3T_0100` -> ge3t, 100."""
    return tuple(token.lower().lstrip("0") or "0" for token in re.split(r"[^A-Za-z0-9]+", text) if token)


class Names:
    """`files` are paths below the dataset, in natural order."""

    def __init__(self, files: Sequence[str]) -> None:
        self.order = {file: number for number, file in enumerate(files)}
        self.places = Places(files)
        self.stems: dict[str, list[str]] = defaultdict(list)
        self.folders: dict[str, list[str]] = defaultdict(list)
        self.heads: dict[tuple[str, ...], list[str]] = defaultdict(list)
        self.having: dict[str, list[str]] = defaultdict(list)
        self.tokens: dict[str, tuple[str, ...]] = {}
        self.known: dict[tuple[str, str], Found | None] = {}
        for file in files:
            path = PurePosixPath(file.lower())
            stem = bare(path.name)
            self.stems[stem].append(file)
            for parent in path.parents[:-1]:
                for name in {str(parent), parent.name}:
                    self.folders[name].append(file)
            head = tokens_of(stem)
            for length in range(1, len(head)):
                self.heads[head[:length]].append(file)
            self.tokens[file] = tokens_of(str(path.parent / stem))
            for token in set(self.tokens[file]):
                self.having[token].append(file)

    def find(self, value: str, base: str = "") -> Found | None:
        """The images that `value` names; `base` is the folder that a path in it may be relative to."""
        key = (value, base)
        if key not in self.known:
            self.known[key] = self._find(value.strip(), base)
        return self.known[key]

    def _find(self, value: str, base: str) -> Found | None:
        if not value or len(value) > 1000:
            return None
        low = value.replace("\\", "/").lower().rstrip("/")
        if file := self.places.find(value, PurePosixPath(base or ".")):
            return FILE, (file,)
        if len(same := self.stems.get(bare(low), [])) == 1:
            return FILE, (same[0],)
        listed = [piece for piece in re.split(r"[;|,\[\]'\"\s]+", value) if piece]
        if len(listed) > 1 and all("." in piece for piece in listed):
            each = [self.places.find(piece, PurePosixPath(base or ".")) for piece in listed]
            if found := tuple(dict.fromkeys(file for file in each if file)):
                return FILE, found
        if suffix_of(low) in IMAGE_SUFFIXES:
            return None  # one file, which is not there
        for folder in (f"{base.lower()}/{low}", low, low.rsplit("/", 1)[-1]):
            if files := self.folders.get(folder):
                return FOLDER, tuple(files)
        tokens = tokens_of(bare(low))
        if files := self.heads.get(tokens):
            return HEAD, tuple(files)
        # A short number alone is in too many paths to mean one of them.
        if tokens and (len(tokens) > 1 or (len(tokens[0]) > 2 and re.search(r"\d", tokens[0]))):
            candidates = min((self.having.get(token, []) for token in tokens), key=len)
            if files := [file for file in candidates if _in_order(tokens, self.tokens[file])]:
                return PARTS, tuple(files)
        return None

    def lacks(self, value: str, base: str = "") -> bool:
        """Whether `value` is the name of an image file that does not exist."""
        return suffix_of(value.strip()) in IMAGE_SUFFIXES and self.find(value, base) is None

    def sorted(self, files: Sequence[str]) -> list[str]:
        return sorted(dict.fromkeys(files), key=self.order.__getitem__)


def _in_order(wanted: Sequence[str], given: Sequence[str]) -> bool:
    rest = iter(given)
    return all(token in rest for token in wanted)
