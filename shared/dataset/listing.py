"""Which files a dataset has: every regular file below a folder, with size and time."""

import hashlib
import os
import stat
from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from shared.imaging.formats import is_image, suffix_of

HIDDEN = "hidden file or folder: nothing to do"
SYSTEM = "file of an operating system (Thumbs.db, __MACOSX): nothing to do"
DANGLING = "link to a file that does not exist: copy the file, or delete the link"
OUTSIDE = "link that leaves the dataset: copy the file into the dataset"
LINKED_FOLDER = "link to a folder: copy the folder into the dataset if it is not there yet"
SPECIAL = "neither file nor folder: nothing to do"
CLOSED = "folder that cannot be opened: give read rights on it"
BAD_NAME = "name that is no valid UTF-8: rename the file"
MORE = "beyond the number of files that is looked at"
_JUNK = {"__macosx", "thumbs.db", "desktop.ini", "ehthumbs.db", "$recycle.bin", "system volume information"}


class Changing(Exception):
    """Files that do not rest for as long as it takes to look at them."""


@dataclass(frozen=True)
class Listing:
    """Files of a dataset, sorted by path; sizes and times stand at the same index."""

    root: Path
    files: list[str]
    """Relative to `root`, `/` as separator."""
    sizes: "array[int]"
    """Bytes."""
    mtimes: "array[int]"
    """Nanoseconds since 1970."""
    folders: dict[str, int]
    """Relative to `root`, with `/` at the end -> time of the last change in it, as of `mtimes`."""
    skipped: dict[str, int] = field(default_factory=dict)
    """Reason, with its remedy -> how many files or folders."""
    skipped_examples: dict[str, str] = field(default_factory=dict)
    complete: bool = True
    """False where `limit` ended the walk."""

    def __contains__(self, file: str) -> bool:
        return self.place(file) is not None

    def place(self, file: str) -> int | None:
        """Index of a file; None where there is none of this very path."""
        at = bisect_left(self.files, file)
        return at if at < len(self.files) and self.files[at] == file else None

    def changed(self, files: Iterable[str]) -> str | None:
        """A folder, or one of `files`, that is no longer as it was listed; None where all are.

        A file that came or went shows in its folder. Others than `files` may have other content by now.
        """
        places = {file: at for file in files if (at := self.place(file)) is not None}
        for name in (*self.folders, *places):
            try:
                now = os.stat(f"{self.root}/{name}")  # noqa: PTH116
            except OSError:
                return name or "."
            at = places.get(name)
            before = (self.folders[name],) if at is None else (self.mtimes[at], self.sizes[at])
            if before != (now.st_mtime_ns, now.st_size)[: len(before)]:
                return name or "."
        return None

    @cached_property
    def digest(self) -> str:
        """SHA-256 over names, sizes and times: another one means that the data have changed."""
        total = hashlib.sha256()
        for name, size, mtime in zip(self.files, self.sizes, self.mtimes, strict=True):
            total.update(f"{name}\0{size}\0{mtime}\n".encode())
        return total.hexdigest()

    @cached_property
    def images(self) -> list[str]:
        """Files that are read as images. Of a file whose suffix says nothing the first bytes do, as often of DICOM."""
        return [name for name in self.files if is_image(name) or self._sniffed(name)]

    def _sniffed(self, name: str) -> bool:
        base = name.rpartition("/")[2]
        _, dot, last = base.rpartition(".")
        # Other suffixes say what a file is; `IM0001` and `1.2.840.113619` do not. DICOMDIR is a list of files.
        if suffix_of(base) or (dot and not last.isdecimal()) or base.upper() == "DICOMDIR":
            return False
        return is_image(self.root / name)


def list_files(root: Path | str, limit: int | None = None) -> Listing:
    """All regular files below `root`, `limit` at most. Links to files inside `root` count as files; links that leave it
    are not followed. What is passed over is counted, never an error. Raises NotADirectoryError if `root` is none."""
    root = Path(root)
    if not root.is_dir():
        raise NotADirectoryError(f"{root} is no folder")
    return _Walk(root, limit).run()


class _Walk:
    def __init__(self, root: Path, limit: int | None) -> None:
        self.root = root
        self.real = os.path.realpath(root)
        self.limit = limit
        self.files: list[str] = []
        # Numbers in arrays: a million files are about 150 MB, most of it their names.
        self.sizes, self.mtimes = array("q"), array("q")
        self.skipped: Counter[str] = Counter()
        self.examples: dict[str, str] = {}
        self.folders: dict[str, int] = {}

    def run(self) -> Listing:
        waiting = [""]
        complete = True
        while waiting and complete:
            waiting += self._folder(waiting.pop())
            complete = self.limit is None or len(self.files) <= self.limit
        kept = len(self.files) if complete else self.limit
        if not complete:
            self.skipped[MORE] += 1
        order = sorted(range(len(self.files))[:kept], key=self.files.__getitem__)
        return Listing(
            root=self.root,
            files=[self.files[at] for at in order],
            sizes=array("q", (self.sizes[at] for at in order)),
            mtimes=array("q", (self.mtimes[at] for at in order)),
            folders=self.folders,
            skipped=dict(self.skipped),
            skipped_examples=self.examples,
            complete=complete,
        )

    def _folder(self, prefix: str) -> list[str]:
        """Takes in the files of one folder; its folders, each with `/` at the end."""
        inner: list[str] = []
        try:
            with os.scandir(f"{self.root}/{prefix}") as entries:
                self.folders[prefix] = os.stat(f"{self.root}/{prefix}").st_mtime_ns  # noqa: PTH116
                for entry in entries:
                    name = entry.name
                    path = prefix + name
                    if name[0] == ".":
                        self._skip(HIDDEN, path)
                    elif name.lower() in _JUNK:
                        self._skip(SYSTEM, path)
                    elif not name.isascii() and not _valid(name):
                        self._skip(BAD_NAME, path)
                    elif entry.is_symlink():
                        self._link(path)
                    elif entry.is_dir(follow_symlinks=False):
                        inner.append(path + "/")
                    elif entry.is_file(follow_symlinks=False):
                        self._add(path, entry.stat(follow_symlinks=False))
                    else:
                        self._skip(SPECIAL, path)
        except OSError:
            self._skip(CLOSED, prefix.rstrip("/") or ".")
        inner.sort(reverse=True)
        return inner

    def _link(self, path: str) -> None:
        target = os.path.realpath(f"{self.root}/{path}")
        try:
            facts = os.stat(target)  # noqa: PTH116 - of a path as text, a million times
        except OSError:
            return self._skip(DANGLING, path)
        if target != self.real and not target.startswith(self.real.rstrip("/") + "/"):
            self._skip(OUTSIDE, path)
        elif stat.S_ISREG(facts.st_mode):
            self._add(path, facts)
        else:
            self._skip(LINKED_FOLDER, path)

    def _add(self, path: str, facts: os.stat_result) -> None:
        self.files.append(path)
        self.sizes.append(facts.st_size)
        self.mtimes.append(facts.st_mtime_ns)

    def _skip(self, reason: str, path: str) -> None:
        self.skipped[reason] += 1
        self.examples.setdefault(reason, path.encode("utf-8", "replace").decode())


def _valid(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True
