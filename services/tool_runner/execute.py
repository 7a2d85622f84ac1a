"""Running a command in the sandbox for one call: mounts, limits, log, and what came of it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from services.tool_runner.mounts import PROBES, Mounted, code_mounts
from services.tool_runner.sandbox import Level, Limits, run
from services.tool_runner.tools import Executed

if TYPE_CHECKING:
    from shared.service import Context

KEPT = 200_000
"""Bytes of head and of tail of an output that stay in memory; the whole goes to the store."""


class SandboxExecute:
    """The tools' way into the sandbox (`services.tool_runner.tools.Execute`)."""

    def __init__(
        self, context: Context, level: Level, run_id: str, call_id: str, workspace: Path, mounted: Mounted
    ) -> None:
        self._context = context
        self._level = level
        self._log = context.settings.home / "runner" / "logs" / run_id / f"{call_id}.log"
        self._workspace = workspace
        self._mounted = mounted
        self._count = 0

    def probe_argv(self, script: str, *arguments: str) -> list[str]:
        folder = "/probes" if self._level == "bwrap" else str(PROBES)
        return ["python", f"{folder}/{script}", *arguments]

    async def __call__(
        self, argv: Sequence[str], *, seconds: float, stdin: bytes = b"", probe: bool = False
    ) -> Executed:
        settings = self._context.settings
        self._count += 1
        log = self._log.with_suffix(f".{self._count}.log")
        log.parent.mkdir(parents=True, exist_ok=True)
        done = await run(
            argv,
            workspace=self._workspace,
            mounts=[*self._mounted.mounts(), *code_mounts(settings.home, probe)],
            limits=Limits(
                seconds=seconds,
                memory_mb=settings.sandbox_memory_mb,
                disk_mb=settings.sandbox_disk_mb,
                threads=settings.sandbox_cpu_threads,
            ),
            log=log,
            level=self._level,
            stdin=stdin,
            writable_workspace=not probe,
        )
        output = _head_and_tail(log)
        ref = None
        if done.log_bytes > 2 * KEPT:
            ref = await asyncio.to_thread(self._context.store.put_file, "work", log, "text/plain")
        return Executed(
            outcome=done.outcome,
            exit_code=done.exit_code,
            seconds=done.seconds,
            isolation=done.level,
            output=output,
            log=ref,
            peak_memory_mb=done.peak_memory_mb,
        )


def last_json(output: bytes) -> dict[str, Any] | None:
    """The last line that is a JSON object, which is how our own programs answer."""
    for line in reversed(output.decode(errors="replace").splitlines()):
        if line.startswith("{"):
            try:
                found = json.loads(line)
            except (json.JSONDecodeError, RecursionError):
                continue
            if isinstance(found, dict):
                return found
    return None


def _head_and_tail(log: Path) -> bytes:
    size = log.stat().st_size
    with log.open("rb") as handle:
        if size <= 2 * KEPT:
            return handle.read()
        head = handle.read(KEPT)
        handle.seek(size - KEPT)
        return head + b"\n... %d bytes left out ...\n" % (size - 2 * KEPT) + handle.read()
