"""Uploaded datasets: unpacked once for each content, before the first call that needs one. No archive is trusted."""

import asyncio
import fcntl
import logging
import os
import shutil
from pathlib import Path

from shared.contracts.base import Ref
from shared.errors import ToolBroken
from shared.settings import Settings
from shared.store import Store
from shared.store.archive_rules import Limits, Rules
from shared.store.archives import check_listing, members

log = logging.getLogger(__name__)


async def unpacked(archive: Ref, store: Store, settings: Settings) -> Path:
    """A read-only folder with the archive's files. Raises ArchiveRefused, which names the member, and keeps nothing.

    Made by whichever caller comes first, also over several processes; the others wait.
    """
    folder = settings.home / "runner" / "datasets" / archive.sha256
    if folder.is_dir():
        return folder
    return await asyncio.to_thread(_unpack_once, archive, store, folder, Limits.of(settings))


def _unpack_once(archive: Ref, store: Store, folder: Path, limits: Limits) -> Path:
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_suffix(".lock").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if folder.is_dir():
            return folder
        # What is there was left by a runner that was killed; we hold the lock, so nobody else is at it.
        partial, packed = folder.with_suffix(".part"), folder.with_suffix(".archive")
        _remove(partial)
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
            _remove(partial)
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
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise ToolBroken(f"{folder} has {free} bytes free and the uploaded dataset needs {needed}. Free some space.")


def _remove(folder: Path) -> None:
    if not folder.exists():
        return
    for place, folders, _ in os.walk(folder):
        for name in (".", *folders):
            Path(place, name).chmod(0o700)
    shutil.rmtree(folder)
