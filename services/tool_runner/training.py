"""What goes on beside a training: its progress is told, its workspace is stored, and its end is put into words."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import shutil
import stat
import time
import unicodedata
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from services.tool_runner.sandbox import Finished
from services.tool_runner.tools.text import tidy_output
from services.tool_runner.workspaces import Workspaces
from shared.contracts.training import JobProgress, JobSpec
from shared.errors import M3Error, Unavailable
from shared.failures import Ended, diagnose

if TYPE_CHECKING:
    from shared.bus import Bus

log = logging.getLogger(__name__)

SAVE_SECONDS = 60.0
"""How often the workspace is stored: another machine that takes the job over goes on from what it finds there."""
RESULTS = ("package", "fitted", "metrics.json", "tiers.json", "problems.json", "worst")
TAIL = 6000
"""Characters of a failed job's output that its end carries."""
LOOKED_AT = 1 << 16
"""Bytes of the end of an output, or of new progress, that are looked at."""
LINES = 100
"""Of progress, told at a time."""
TIERS = 8
"""Of the evidence of a training, tiers that are kept."""
BAD_SAMPLES = 100
"""Of the samples that a training refused, those that are told."""


async def follow(bus: Bus, spec: JobSpec, path: Path) -> None:
    """Publish the lines that training appends to its progress file, of many at once the last. Never ends: cancel it."""
    offset, rest = size_of(path), b""
    while True:
        await asyncio.sleep(0.5)
        size = size_of(path)
        if size < offset:  # begun anew
            offset, rest = 0, b""
        if size <= offset:
            continue
        if size - offset > LOOKED_AT:
            offset, rest = size - LOOKED_AT, b""
        chunk = _read(path, offset)
        offset += len(chunk)
        *lines, rest = (rest + chunk)[-LOOKED_AT:].split(b"\n")
        for line in lines[-LINES:]:
            try:
                fields = {k: v for k, v in json.loads(line).items() if k in JobProgress.model_fields}
                await bus.progress(JobProgress(**(fields | {"run_id": spec.run_id, "job_id": spec.job_id})))
            except (ValueError, AttributeError, RecursionError):
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


def remove_results(workspace: Path) -> None:
    """Those of an earlier job must not be taken for this one's; what was delivered is in the store."""
    for name in RESULTS:
        path = workspace / name
        with suppress(OSError):
            path.unlink()
        shutil.rmtree(path, ignore_errors=True)
        if os.path.lexists(path):  # a folder that its maker closed
            path.rename(path.with_name(f"{name}.{time.time_ns()}.old"))


def progress_lines(progress: Path, since: int, most: int = LOOKED_AT) -> list[dict[str, Any]]:
    """What a training told of itself: objects of the last `most` bytes of its progress file, which had `since` bytes
    before it began."""
    size = size_of(progress)
    begin = max(since if since <= size else 0, size - most)
    lines = []
    for line in _read(progress, begin, most).splitlines():
        with suppress(ValueError, RecursionError):
            found = json.loads(line)
            lines += [found] if isinstance(found, dict) else []
    return lines


def known_failure(done: Finished, lines: Sequence[Mapping[str, Any]], metrics: Mapping[str, Any]) -> str:
    """In two lines cause and direction, where the end of a training is one of the known failures, else nothing.

    `lines` are its progress, `metrics` is its metrics.json.
    """
    found = diagnose(
        Ended(
            outcome=done.outcome,
            exit_code=done.exit_code,
            output=last_words(done, LOOKED_AT),
            reason=done.reason,
            progress=list(lines),
            metrics=metrics,
        )
    )
    return str(found) if found else ""


def last_words(done: Finished, characters: int = TAIL) -> str:
    """The end of a job's output as a screen would show it, without what turns or hides text."""
    with done.log.open("rb") as handle:
        handle.seek(max(0, done.log_bytes - LOOKED_AT))
        return shown(tidy_output(handle.read())).strip()[-characters:]


def shown(text: str) -> str:
    return "".join(c if c in "\n\t" or unicodedata.category(c)[0] != "C" else " " for c in text)


def evidence(found: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The tiers that a training climbed, of its tiers.json: text and numbers, bounded."""
    listed = found.get("tiers")
    kept = []
    for tier in listed[:TIERS] if isinstance(listed, list) else []:
        if isinstance(tier, dict):
            numbers = {key: value for key, value in tier.items() if isinstance(value, int | float)}
            figures = {str(key)[:40]: value for key, value in numbers.items() if abs(value) < 1e15}
            words = {key: in_line(tier.get(key, ""), 300) for key in ("tier", "text")}
            kept.append(dict(list(figures.items())[:20]) | words)
    return kept


def bad_samples(found: Mapping[str, Any]) -> dict[str, str]:
    """The samples that a training refused, of its problems.json: plain text, bounded."""
    some = list(found.items())[:BAD_SAMPLES]
    return {in_line(name, 200): in_line(wrong, 300) for name, wrong in some}


def in_line(text: object, characters: int) -> str:
    return " ".join(shown(str(text)).split())[:characters]


def _read(path: Path, offset: int, most: int = LOOKED_AT) -> bytes:
    """A part of a regular file; nothing of what took its place: a link leads elsewhere, a pipe is waited for."""
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as handle:  # noqa: PTH123
            if not stat.S_ISREG(os.fstat(handle.fileno()).st_mode):
                return b""
            handle.seek(offset)
            return handle.read(most)
    except OSError:
        return b""


def size_of(path: Path) -> int:
    """Of a regular file; 0 for anything else that a training may have put in its place."""
    try:
        found = path.lstat()
    except OSError:
        return 0
    return found.st_size if stat.S_ISREG(found.st_mode) else 0
