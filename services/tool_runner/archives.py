"""Uploaded datasets: unpacked once for each content, before the first call that needs one. No archive is trusted.

A copy is kept for the next run. Where the disk is too small for another one, those that no live run uses go, the one
that was used longest ago first.
"""

import asyncio
import fcntl
import logging
import os
import re
import shutil
import time
from collections.abc import Awaitable, Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from services.tool_runner.sandbox import remove_tree
from shared.contracts.base import Ref
from shared.errors import ToolBroken
from shared.settings import Settings
from shared.store import Store
from shared.store.archive_rules import Limits, Rules
from shared.store.archives import check_listing, members

log = logging.getLogger(__name__)


IDLE_SECONDS = 3600.0
"""A copy that was asked for since is never removed: whoever asked may be about to mount it."""

InUse = Callable[[], Awaitable[Collection[str]]]
"""SHA-256s of the archives that live runs work on."""


class NoRoom(ToolBroken):
    """The disk cannot take the archive, or what is in it."""

    def __init__(self, folder: Path, needed: int) -> None:
        free = shutil.disk_usage(folder).free
        super().__init__(
            f"{folder} has {free} bytes free and the uploaded dataset needs {needed}. Free some space; copies of "
            "datasets that no run uses were removed already."
        )
        self.needed = needed


async def unpacked(archive: Ref, store: Store, settings: Settings, in_use: InUse | None = None) -> Path:
    """A read-only folder with the archive's files. Raises ArchiveRefused, which names the member, and keeps nothing.

    Made by whichever caller comes first, also over several processes; the others wait. Copies of other archives are
    removed for want of room if `in_use` can say which are not needed.
    """
    folder = settings.home / "runner" / "datasets" / archive.sha256
    lock = folder.with_suffix(".lock")
    with suppress(FileNotFoundError):
        os.utime(lock)  # before it is looked at: whoever removes copies looks at this time
    if folder.is_dir():
        return folder
    try:
        return await asyncio.to_thread(_unpack_once, archive, store, folder, Limits.of(settings))
    except NoRoom as short:
        needed, keep = short.needed, None if in_use is None else {archive.sha256, *await in_use()}
    if keep is not None:
        await asyncio.to_thread(make_room, folder.parent, needed, keep)
    return await asyncio.to_thread(_unpack_once, archive, store, folder, Limits.of(settings))


def make_room(datasets: Path, needed: int, keep: Collection[str]) -> None:
    """Remove copies until `needed` bytes are free, the longest unused first, none of `keep`; blocks.

    Only what `unpacked` made is touched: a folder of this user's that is called by a digest and has its lock beside it.
    """
    copies = [path for path in datasets.iterdir() if re.fullmatch("[0-9a-f]{64}", path.name)]
    for folder in sorted(copies, key=_used):
        if shutil.disk_usage(datasets).free >= needed:
            return
        mine = not folder.is_symlink() and folder.lstat().st_uid == os.geteuid()
        if folder.name in keep or not mine or not _idle(folder):
            continue
        with _locked(folder, wait=False) as ours:
            if ours and _idle(folder):
                log.info("removing the unpacked copy %s for want of room", folder.name)
                gone = folder.with_suffix(".part")
                folder.chmod(0o700)
                folder.rename(gone)
                remove_tree(gone)


def _used(folder: Path) -> float:
    """When it was asked for last; now for a copy without a lock, which is none of ours."""
    try:
        return folder.with_suffix(".lock").stat().st_mtime
    except FileNotFoundError:
        return time.time()


def _idle(folder: Path) -> bool:
    return time.time() - _used(folder) > IDLE_SECONDS


@contextmanager
def _locked(folder: Path, wait: bool) -> Iterator[bool]:
    """Hold a copy's lock over all processes; False when another holds it and we do not wait."""
    with folder.with_suffix(".lock").open("ab") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            yield False
        else:
            yield True


def _unpack_once(archive: Ref, store: Store, folder: Path, limits: Limits) -> Path:
    folder.parent.mkdir(parents=True, exist_ok=True)
    with _locked(folder, wait=True):
        if folder.is_dir():
            return folder
        # What is there was left by a runner that was killed; we hold the lock, so nobody else is at it.
        partial, packed = folder.with_suffix(".part"), folder.with_suffix(".archive")
        remove_tree(partial)
        try:
            _room(folder.parent, archive.size)
            store.get_file(archive, packed)
            found = check_listing(packed, limits)
            _room(folder.parent, found.bytes)
            log.info("unpacking %d files, %d bytes", found.files, found.bytes)
            _unpack(packed, partial, limits)
            partial.rename(folder)
        finally:
            packed.unlink(missing_ok=True)
            remove_tree(partial)
        return folder


def _unpack(packed: Path, folder: Path, limits: Limits) -> None:
    """Nobody else writes below `folder`, and no link is ever made in it: an admitted path stays inside."""
    folder.mkdir()
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    for member in members(packed, Rules(limits, packed.stat().st_size)):
        place = folder / member.path
        (place if member.folder else place.parent).mkdir(parents=True, exist_ok=True)
        if not member.folder:
            with os.fdopen(os.open(place, flags, 0o444), "wb") as file:
                for chunk in member.chunks():
                    file.write(chunk)
                os.fchmod(file.fileno(), 0o444)
    for inner, _, _ in os.walk(folder, topdown=False):
        Path(inner).chmod(0o555)


def _room(folder: Path, needed: int) -> None:
    if shutil.disk_usage(folder).free < needed:
        raise NoRoom(folder, needed)
