"""What an archive of a dataset may hold. The same rules are applied where it is sent and where it is unpacked."""

import re
import unicodedata
from dataclasses import dataclass, field

from shared.errors import UserError
from shared.settings import Settings

MAX_DEPTH = 32
MAX_NAME = 255
"""Bytes of one name: what a file system takes."""
MAX_PATH = 1000
MAX_RATIO = 200
RATIO_FROM = 64 << 20
"""Unpacked bytes from which on the ratio counts: a small text file may compress as well as it likes."""
_OVERRIDES = frozenset("\u2028\u2029\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


class ArchiveRefused(UserError):
    """The archive holds what no dataset needs, or is none; the message names the member."""


@dataclass(frozen=True)
class Limits:
    """Upper bounds of one archive."""

    sent: int
    """Bytes as they are sent."""
    unpacked: int
    files: int

    @classmethod
    def of(cls, settings: Settings) -> "Limits":
        return cls(settings.archive_bytes, settings.unpacked_bytes, settings.unpacked_files)


@dataclass
class Rules:
    """Asked about every member in order, before anything of it is written. `sent` is the archive's own size."""

    limits: Limits
    sent: int | None = None
    """None where it is not compressed, as for a folder that is being sent."""
    files: int = 0
    bytes: int = 0
    _files: set[int] = field(default_factory=set)
    """Hashes of case-folded paths: the names of a million files would fill the memory."""
    _folders: dict[str, str] = field(default_factory=dict)
    """Case-folded path -> path."""

    def admit(self, name: str, size: int, folder: bool) -> str:
        """The member's plain relative path, empty for the archive's own root. Raises ArchiveRefused."""
        parts = _parts(name)
        if size < 0:
            raise refused(name, "states a size below nothing; pack it again")
        if not parts:
            if folder:
                return ""
            raise refused(name, "has no name")
        for depth in range(1, len(parts) + folder):
            self._admit_folder(name, "/".join(parts[:depth]))
        path = "/".join(parts)
        if folder:
            return path
        mark = _mark(path)
        if mark in self._files or _fold(path) in self._folders:
            raise refused(name, "occurs twice (upper and lower case count as the same); rename one of them")
        self._files.add(mark)
        self.files += 1
        self.bytes += size
        self._bounds(name)
        return path

    def finish(self) -> None:
        if not self.files:
            raise ArchiveRefused("There is no file in it. Send the folder or archive that holds the dataset.")

    def _admit_folder(self, name: str, path: str) -> None:
        if self._folders.setdefault(_fold(path), path) != path:
            raise refused(name, f"lies in a folder whose name {path!a} occurs in another case, too; rename one of them")
        if _mark(path) in self._files:
            raise refused(name, "lies below a name that is a file; rename one of them")

    def _bounds(self, name: str) -> None:
        if self.files > self.limits.files:
            raise refused(name, f"is one file more than the {self.limits.files} allowed (M3_UNPACKED_FILES)")
        if self.bytes > self.limits.unpacked:
            raise refused(name, f"exceeds the {self.limits.unpacked} bytes allowed unpacked (M3_UNPACKED_BYTES)")
        if self.sent is not None and self.bytes > max(RATIO_FROM, MAX_RATIO * self.sent):
            raise refused(name, f"makes it unpack to more than {MAX_RATIO} times its size; pack it less tightly")


def refused(name: str, what: str) -> ArchiveRefused:
    shown = ascii(name)
    return ArchiveRefused(f"The member {shown if len(shown) <= 200 else shown[:199] + '…'} {what}.")


def _parts(name: str) -> list[str]:
    try:
        long = len(name.encode()) > MAX_PATH
    except UnicodeEncodeError:
        raise refused(name, "has a name that is not UTF-8; rename it") from None
    if any(unicodedata.category(letter) == "Cc" or letter in _OVERRIDES for letter in name):
        raise refused(name, "has a control character in its name; rename it")
    if "\\" in name:
        raise refused(name, "has a backslash in its name; pack it with / between folders")
    if name.startswith("/") or re.match(r"[A-Za-z]:", name):
        raise refused(name, "has an absolute name; pack the folder from inside")
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise refused(name, "has '..' in its name and would leave the dataset's folder; pack the folder from inside")
    if long or any(len(part.encode()) > MAX_NAME for part in parts):
        raise refused(name, f"has a name that is too long (at most {MAX_NAME} bytes, {MAX_PATH} with its folders)")
    if len(parts) > MAX_DEPTH:
        raise refused(name, f"lies more than {MAX_DEPTH} folders deep; pack an inner folder")
    return parts


def _fold(path: str) -> str:
    return unicodedata.normalize("NFC", path).casefold()


def _mark(path: str) -> int:
    # Keyed for each process, so that nobody can make two names meet.
    return hash(_fold(path))
