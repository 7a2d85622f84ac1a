"""The probe in this process, as the sandbox starts it in one of its own."""

import hashlib
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import services.tool_runner.tools as tools

PROBES = Path(tools.__file__).parents[1] / "probes"
Check = Callable[[Path], dict[str, Any]]


@pytest.fixture
def check(monkeypatch: pytest.MonkeyPatch) -> Check:
    """Root of a dataset -> overview, findings by their kind, summary."""
    monkeypatch.syspath_prepend(str(PROBES))

    def look(root: Path) -> dict[str, Any]:
        from check_dataset import check as probe  # type: ignore[import-not-found]

        monkeypatch.setenv("M3_DATA", str(root))
        found = probe("/data")
        kinds = {one["kind"]: one for one in found["data"]["findings"]}
        assert len(kinds) == len(found["data"]["findings"])
        return {**found["data"], "kinds": kinds, "summary": found["summary"]}

    return look


def call(environment: dict[str, str], *arguments: str, code: int = 0) -> str:
    """What `m3builder` prints."""
    argv = [sys.executable, "-m", "services.gateway.cli", *arguments]
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == code and "Traceback" not in done.stderr, done.stdout + done.stderr
    return done.stdout + done.stderr


def snapshot(root: Path) -> dict[str, tuple[int, int, int, str]]:
    """Name -> size, mode, mtime and content of everything in a folder."""
    found = {}
    for path in sorted([root, *root.rglob("*")]):
        status = path.lstat()
        content = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
        found[str(path)] = (status.st_size, status.st_mode, status.st_mtime_ns, content)
    return found
