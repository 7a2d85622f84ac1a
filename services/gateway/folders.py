"""Is a path a dataset folder that the runner will be able to read? What is wrong is one sentence with the remedy."""

import os
import stat
from itertools import islice
from pathlib import Path

from shared.errors import UserError
from shared.settings import Settings

_LOOKED_AT, _OF_ONE = 2000, 50
"""Entries of a dataset, and of one folder in it, whose permissions are looked at: closed ones are rarely alone."""


def check(path: str, settings: Settings) -> Path:
    """The real folder behind `path`, symbolic links followed, below one of the operator's data roots.

    Of a root that only runners see, as in a cluster, the spelling is checked: a runner looks before it is registered.
    """
    given = Path(path)
    if not given.is_absolute():
        raise UserError(f"The dataset path {path} is not absolute. Give the whole path, starting with /.")
    normal = Path(os.path.normpath(path))
    if any(normal.is_relative_to(root) for root in settings.data_roots if not root.exists()):
        return normal
    try:
        real = given.resolve(strict=True)
    except PermissionError:
        raise _closed(path, "one of the folders above it cannot be entered") from None
    except (OSError, RuntimeError, ValueError):
        raise UserError(
            f"The dataset path {path} does not exist on the gateway's machine. Check the spelling, or send the dataset "
            "from this machine with --upload."
        ) from None
    if not real.is_dir():
        raise UserError(
            f"The dataset path {path} is a file. Give the folder that holds the dataset, or send an archive with "
            "--upload."
        )
    roots = [root.resolve() for root in settings.data_roots]
    root = next((root for root in roots if real.is_relative_to(root)), None)
    if root is None:
        named = ", ".join(str(root) for root in settings.data_roots) or "none is set"
        raise UserError(
            f"{real} lies outside the data roots ({named}). Move the dataset below one of them, name its folder with "
            "`m3builder up --data-root FOLDER`, or send it with --upload."
        )
    # The embedded runner drops from root to a user of its own, so what root may read says nothing.
    uid = settings.runner_uid if os.geteuid() == 0 else os.geteuid()
    above = [folder for folder in (real, *real.parents) if folder.is_relative_to(root)]
    for folder in reversed(above):
        if not _open_to(folder, folder.stat(), uid, 0o1 if folder != real else 0o5):
            raise _closed(path, f"{_who(uid)} may not enter {folder}")
    _look_into(path, real, uid)
    return real


def _look_into(path: str, real: Path, uid: int) -> None:
    files, waiting, looked, whole = False, [real], 0, True
    while waiting and looked < _LOOKED_AT:
        folder = waiting.pop()
        try:
            with os.scandir(folder) as listing:
                entries = list(islice(listing, _OF_ONE))
                whole &= next(listing, None) is None
        except OSError as error:
            raise _closed(path, f"{folder} cannot be listed ({error.strerror})") from None
        for entry in entries:
            looked += 1
            try:
                found = entry.stat()
            except OSError:
                continue  # a link to nowhere is no file of the dataset
            inner = stat.S_ISDIR(found.st_mode)
            if not _open_to(Path(entry.path), found, uid, 0o5 if inner else 0o4):
                raise _closed(path, f"{_who(uid)} may not read {entry.path}")
            files |= not inner
            if entry.is_dir(follow_symlinks=False):
                waiting.append(Path(entry.path))
    if whole and not waiting and not files:
        raise UserError(f"The dataset folder {path} is empty: there is no file in it. Give the folder with the files.")


def _open_to(path: Path, found: os.stat_result, uid: int, wanted: int) -> bool:
    """Whether the user may do all of `wanted` (4 read, 1 enter)."""
    if uid == os.geteuid():
        return os.access(path, wanted)
    shift = 6 if found.st_uid == uid else 3 if found.st_gid == uid else 0
    return found.st_mode >> shift & wanted == wanted


def _who(uid: int) -> str:
    return f"user {uid}, as which the runner reads it,"


def _closed(path: str, why: str) -> UserError:
    return UserError(f"The dataset path {path} cannot be read: {why}. Open it with `chmod -R o+rX {path}`.")
