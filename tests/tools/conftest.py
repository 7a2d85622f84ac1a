"""Roots on real folders, and an Execute that runs plain subprocesses.

The tools' behaviour is tested here, not the sandbox's: it refuses to run as root, where test suites often run, and has
its own tests. The subprocesses get the environment of the `landlock` level, where nothing is remapped.
"""

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import services.tool_runner.tools as tools
from services.tool_runner.tools import Executed, Roots, run_tool
from shared.contracts.tools import MAX_READ_CHARS, MAX_RESULT_CHARS, ToolResult

PROBES = Path(tools.__file__).parents[1] / "probes"


@dataclass
class PlainExecute:
    roots: Roots
    runs: list[list[str]] = field(default_factory=list)

    def probe_argv(self, script: str, *args: str) -> list[str]:
        return [sys.executable, str(PROBES / script), *args]

    async def __call__(
        self, argv: Sequence[str], *, seconds: float, stdin: bytes = b"", probe: bool = False
    ) -> Executed:
        self.runs.append(list(argv))
        return await asyncio.to_thread(self._run, argv, seconds, stdin)

    def _run(self, argv: Sequence[str], seconds: float, stdin: bytes) -> Executed:
        env = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "M3_WORKSPACE": str(self.roots.workspace)}
        env["PYTHONPATH"] = str(PROBES.parents[2])
        env |= {"M3_DATA": str(self.roots.data)} if self.roots.data else {}
        env |= {"M3_TEMPLATES": str(self.roots.templates)} if self.roots.templates else {}
        started = time.monotonic()
        outcome: str
        code: int | None
        try:
            done = subprocess.run(
                argv,
                input=stdin,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                cwd=self.roots.workspace,
                env=env,
                timeout=seconds,
                check=False,
            )
            code, output = done.returncode, done.stdout
            outcome = "ok" if code == 0 else "failed"
        except subprocess.TimeoutExpired as error:
            outcome, code, output = "timeout", None, error.stdout or b""
        if len(output) > 400_000:
            output = output[:200_000] + b"\n... bytes left out ...\n" + output[-200_000:]
        return Executed(outcome, code, time.monotonic() - started, "none", output)


@dataclass
class Bench:
    roots: Roots
    execute: PlainExecute
    outside: Path
    """A folder that no tool may reach."""

    async def __call__(self, tool: str, **arguments: Any) -> ToolResult:
        result = await run_tool(tool, arguments, self.roots, self.execute, "run-role-1-1")
        assert result.summary.strip(), "a result is never empty"
        assert len(result.summary) <= (MAX_READ_CHARS if tool == "read_files" else MAX_RESULT_CHARS)
        assert len(result.model_dump_json()) < 256 * 1024
        return result

    @property
    def workspace(self) -> Path:
        return self.roots.workspace

    @property
    def data(self) -> Path:
        assert self.roots.data is not None
        return self.roots.data


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    for name in ("workspace", "workspace2", "data", "templates", "outside"):
        (tmp_path / name).mkdir()
    (tmp_path / "outside" / "secret.txt").write_text("the secret\n")
    (tmp_path / "workspace2" / "secret.txt").write_text("the secret\n")
    roots = Roots(tmp_path / "workspace", tmp_path / "data", tmp_path / "templates")
    return Bench(roots, PlainExecute(roots), tmp_path / "outside")
