"""Relative paths that cannot leave their folder, and opening files below a folder that others may write to."""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from shared.errors import UserError

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Not blocking: opening a named pipe would otherwise wait for its writer for ever.
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class UnsafePath(UserError):
    """The path leaves its folder, is absolute, or goes through a link or something that is no plain file."""


def parts_of(relative: str) -> tuple[str, ...]:
    """Split a `/`-separated relative path. Raises UnsafePath for anything that could mean another place."""
    parts = tuple(relative.split("/"))
    if "\0" in relative or any(part in ("", ".", "..") for part in parts):
        raise UnsafePath(f"{relative!r} is not a plain relative path; use names separated by `/`, without `..`")
    return parts


@contextmanager
def open_inside(root: Path, relative: str) -> Iterator[BinaryIO]:
    """Open a regular file below `root` without following any link on the way.

    Raises UnsafePath for a link or a special file, FileNotFoundError when it is missing.
    """
    *folders, name = parts_of(relative)
    descriptor = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for folder in folders:
            inner = os.open(folder, _DIRECTORY, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = inner
        file = os.open(name, _FILE, dir_fd=descriptor)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise UnsafePath(f"{relative!r} goes through a link or a non-folder ({error.strerror})") from None
    finally:
        os.close(descriptor)
    with os.fdopen(file, "rb") as stream:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            raise UnsafePath(f"{relative!r} is no regular file")
        yield stream


def make_parents(root: Path, relative: str) -> Path:
    """Make the folders above `root/relative` and return its path. A link among them is refused with UnsafePath."""
    *folders, name = parts_of(relative)
    place = root
    for folder in folders:
        place = place / folder
        try:
            mode = place.lstat().st_mode
        except FileNotFoundError:
            place.mkdir(exist_ok=True)
            continue
        if not stat.S_ISDIR(mode):
            raise UnsafePath(f"{relative!r}: {folder!r} is no folder; it would lead elsewhere")
    return place / name
