"""What goes on beside a training while it runs: its progress is told, its workspace is stored now and then."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import shutil
import stat
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from services.tool_runner.workspaces import Workspaces
from shared.contracts.training import JobProgress, JobSpec
from shared.errors import M3Error, Unavailable

if TYPE_CHECKING:
    from shared.bus import Bus

log = logging.getLogger(__name__)

SAVE_SECONDS = 60.0
"""How often the workspace is stored: another machine that takes the job over goes on from what it finds there."""


async def follow(bus: Bus, spec: JobSpec, path: Path) -> None:
    """Publish the lines that training appends to its progress file. Never ends: cancel it."""
    offset, rest = _size(path), b""
    while True:
        await asyncio.sleep(0.5)
        size = _size(path)
        if size < offset:  # begun anew
            offset, rest = 0, b""
        if size <= offset:
            continue
        chunk = _read(path, offset)
        offset += len(chunk)
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            try:
                fields = {k: v for k, v in json.loads(line).items() if k in JobProgress.model_fields}
                await bus.progress(JobProgress(**(fields | {"run_id": spec.run_id, "job_id": spec.job_id})))
            except (ValueError, AttributeError):
                continue  # a line that is no progress is the script's own affair
            except Unavailable as error:
                log.warning("a line of progress is lost: %s", error)


async def save_now_and_then(workspaces: Workspaces, run_id: str, area: str, over: asyncio.Event) -> None:
    """Store the workspace of a running training until `over`. To be awaited: a save must not be cut off."""
    while True:
        with suppress(TimeoutError):
            await asyncio.wait_for(over.wait(), SAVE_SECONDS)
        if over.is_set():
            return
        try:
            await workspaces.save(run_id, area)
        except M3Error as error:  # the save at the end is the one that counts
            log.warning("the workspace of a running training could not be stored: %s", error)


def remove_package(package: Path) -> None:
    """One of an earlier attempt must not be taken for this one's; what was delivered is in the store."""
    shutil.rmtree(package, ignore_errors=True)
    if os.path.lexists(package):  # no folder, or one that its maker closed
        package.rename(package.with_name(f"package.{time.time_ns()}.old"))


def _read(path: Path, offset: int) -> bytes:
    """Up to 1 MiB of a regular file; nothing of what took its place: a link leads elsewhere, a pipe is waited for."""
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as handle:  # noqa: PTH123
            if not stat.S_ISREG(os.fstat(handle.fileno()).st_mode):
                return b""
            handle.seek(offset)
            return handle.read(1 << 20)
    except OSError:
        return b""


def _size(path: Path) -> int:
    """Of a regular file; 0 for anything else that a training may have put in its place."""
    try:
        found = path.lstat()
    except OSError:
        return 0
    return found.st_size if stat.S_ISREG(found.st_mode) else 0
