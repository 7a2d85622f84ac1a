"""Which files a dataset has: every regular file below a folder, with size and time."""

import hashlib
import heapq
import os
import stat
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain, islice
from pathlib import Path

from shared.dataset.files.packed import Names, Numbers
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
_SORTED = 20_000
"""Entries of one folder that are sorted at a time."""
_AT_ONCE = 1000
_JUNK = {"__macosx", "thumbs.db", "desktop.ini", "ehthumbs.db", "$recycle.bin", "system volume information"}


class Changing(Exception):
    """Files that do not rest for as long as it takes to look at them."""


@dataclass(frozen=True)
class Listing:
    """Files of a dataset, sorted by path; sizes and times stand at the same index. 10 to 20 bytes a file."""

    root: Path
    files: Names
    """Relative to `root`, `/` as separator."""
    sizes: Numbers
    """Bytes."""
    mtimes: Numbers
    """Nanoseconds since 1970."""
    folders: Names
    """Relative to `root`, with `/` at the end; sorted."""
    changes: Numbers
    """Of each folder: time of the last change in it, as of `mtimes`."""
    skipped: dict[str, int] = field(default_factory=dict)
    """Reason, with its remedy -> how many files or folders."""
    skipped_examples: dict[str, str] = field(default_factory=dict)
    complete: bool = True
    """False where `limit` ended the walk."""

    def __contains__(self, file: str) -> bool:
        return self.place(file) is not None

    def place(self, file: str) -> int | None:
        """Index of a file; None where there is none of this very path."""
        return self.files.place(file)

    def changed(self, files: Iterable[str]) -> str | None:
        """A folder, or one of `files`, that is no longer as it was listed; None where all are.

        A file that came or went shows in its folder. Others than `files` may have other content by now.
        """
        folders = ((name, (time,)) for name, time in zip(self.folders, self.changes, strict=True))
        places = ((file, at) for file in files if (at := self.place(file)) is not None)
        for name, before in chain(folders, ((file, (self.mtimes[at], self.sizes[at])) for file, at in places)):
            try:
                now = os.stat(f"{self.root}/{name}")  # noqa: PTH116
            except OSError:
                return name or "."
            if before != (now.st_mtime_ns, now.st_size)[: len(before)]:
                return name or "."
        return None

    @cached_property
    def digest(self) -> str:
        """SHA-256 over names, sizes and times: another one means that the data have changed."""
        total = hashlib.sha256()
        for one in (self.files, self.sizes, self.mtimes):
            for part in one.parts():
                total.update(part + b"\0")
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


Row = tuple[str, int, int]
"""Path, size and time of a file; of a folder its path with `/` at the end, and nothing."""


class _Walk:
    def __init__(self, root: Path, limit: int | None) -> None:
        self.root = root
        self.real = os.path.realpath(root)
        self.limit = limit
        self.skipped: Counter[str] = Counter()
        self.examples: dict[str, str] = {}
        self.folders, self.changes = Names(), Numbers()

    def run(self) -> Listing:
        files, sizes, mtimes = Names(), Numbers(), Numbers()
        rows = self._files()
        kept = islice(rows, self.limit)
        while part := list(islice(kept, _AT_ONCE)):
            names, bytes_of, times = zip(*part, strict=True)
            files.extend(names)
            sizes.extend(bytes_of)
            mtimes.extend(times)
        if self.limit is not None and (more := next(rows, None)) is not None:
            self._skip(MORE, more[0])
        return Listing(
            root=self.root,
            files=files,
            sizes=sizes,
            mtimes=mtimes,
            folders=self.folders,
            changes=self.changes,
            skipped=dict(self.skipped),
            skipped_examples=self.examples,
            complete=MORE not in self.skipped,
        )

    def _files(self) -> Iterator[Row]:
        """Sorted by path: a folder's own files stand between its folders, by the `/` at the end of these."""
        open_folders = [self._folder("")]
        while open_folders:
            row = next(open_folders[-1], None)
            if row is None:
                open_folders.pop()
            elif row[0].endswith("/"):
                open_folders.append(self._folder(row[0]))
            else:
                yield row

    def _folder(self, prefix: str) -> Iterator[Row]:
        """Files and folders in one folder, sorted; of a large one the part that was read is kept packed."""
        rows: list[Row] = []
        parts: list[Iterable[Row]] = []
        try:
            with os.scandir(f"{self.root}/{prefix}") as entries:
                changed = os.stat(f"{self.root}/{prefix}").st_mtime_ns  # noqa: PTH116
                self.folders.append(prefix)
                self.changes.append(changed)
                for entry in entries:
                    path = prefix + entry.name
                    row = self._row(entry, path)
                    if isinstance(row, str):
                        self._skip(row, path)
                    else:
                        rows.append(row)
                    if len(rows) == _SORTED:
                        parts.append(_packed(sorted(rows)))
                        rows = []
        except OSError:
            self._skip(CLOSED, prefix.rstrip("/") or ".")
        rows.sort()
        return heapq.merge(*parts, rows) if parts else iter(rows)

    def _row(self, entry: "os.DirEntry[str]", path: str) -> Row | str:
        """Or why it is passed over."""
        name = entry.name
        if name[0] == ".":
            return HIDDEN
        if name.lower() in _JUNK:
            return SYSTEM
        if not name.isascii() and not _valid(name):
            return BAD_NAME
        if entry.is_file(follow_symlinks=False):
            facts = entry.stat(follow_symlinks=False)
            return path, facts.st_size, facts.st_mtime_ns
        if entry.is_symlink():
            return self._link(path)
        return (path + "/", 0, 0) if entry.is_dir(follow_symlinks=False) else SPECIAL

    def _link(self, path: str) -> Row | str:
        target = os.path.realpath(f"{self.root}/{path}")
        try:
            facts = os.stat(target)  # noqa: PTH116 - of a path as text, a million times
        except OSError:
            return DANGLING
        if target != self.real and not target.startswith(self.real.rstrip("/") + "/"):
            return OUTSIDE
        return (path, facts.st_size, facts.st_mtime_ns) if stat.S_ISREG(facts.st_mode) else LINKED_FOLDER

    def _skip(self, reason: str, path: str) -> None:
        self.skipped[reason] += 1
        self.examples.setdefault(reason, path.encode("utf-8", "replace").decode())


def _packed(rows: list[Row]) -> Iterable[Row]:
    names, sizes, mtimes = zip(*rows, strict=True)
    return zip(Names(names), Numbers(sizes), Numbers(mtimes), strict=True)


def _valid(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True
