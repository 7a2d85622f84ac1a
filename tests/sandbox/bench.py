"""What the cases of the driver work with: folders, commands at one level, and a look at them from outside."""

import asyncio
import contextlib
import os
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from services.tool_runner import sandbox
from services.tool_runner.sandbox import proc

UIDS: dict[sandbox.Level, int] = {"bwrap": 64329, "landlock": 64331, "none": 64332}
"""Level -> the user of its driver."""
CASES: dict[str, Callable[["Bench"], Awaitable[Any]]] = {}


def case(function: Callable[["Bench"], Awaitable[Any]]) -> Callable[["Bench"], Awaitable[Any]]:
    CASES[function.__name__] = function
    return function


class Bench:
    """Folders, and commands that run in them at one level."""

    def __init__(self, level: sandbox.Level, base: Path, small: Path | None = None) -> None:
        self.level: sandbox.Level = level
        self.base = base
        self.small = small
        self.data = base / "data"
        self.packages = base / "packages"
        self.number = 0

    def token(self, number: int) -> str:
        """A length of sleep that no other command line has: other levels are tried at the same time."""
        return f"{86400 + number}.{UIDS[self.level]}"

    async def run(self, *argv: str, **options: Any) -> dict[str, Any]:
        self.number += 1
        name = f"run{self.number}"
        workspace = options.pop("workspace", None) or self.base / "workspaces" / name
        workspace.mkdir(parents=True, exist_ok=True)
        log = self.base / "logs" / name
        mounts: tuple[sandbox.Mount, ...] = (
            sandbox.Mount(self.data, "/data", env="M3_DATA"),
            sandbox.Mount(self.packages, "/m3"),
        )
        mounts += options.pop("extra", ())
        fields = {"seconds": 30, "memory_mb": 1500, "processes": 128}
        fields |= {name: options.pop(name) for name in list(options) if name in sandbox.Limits.__dataclass_fields__}
        limits = sandbox.Limits(**fields)
        done = await sandbox.run(
            argv, workspace=workspace, mounts=mounts, limits=limits, log=log, level=self.level, **options
        )
        text = log.read_text(errors="replace")
        result = {key: getattr(done, key) for key in done.__dataclass_fields__ if key != "log"}
        return result | {
            "run": name,
            "text": text[-3000:],
            "size": log.stat().st_size,
            "files": [path.name for path in workspace.iterdir()],
        }

    async def python(self, code: str, *args: str, **options: Any) -> dict[str, Any]:
        return await self.run("python", "-c", code, *args, **options)


def alive(token: str) -> list[int]:
    """Processes that carry the token in their command line."""
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            other = entry.name.isdigit() and int(entry.name) != os.getpid()
            if other and token.encode() in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
    return found


def identities() -> list[dict[str, Any]]:
    """Of every process below this one, as seen from outside: name, and real, effective, saved and file system ids."""
    found = []
    for pid in proc.descendants(os.getpid()):
        with contextlib.suppress(OSError):
            fields = dict(line.split(":\t", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
            ids = {key: [int(word) for word in fields[key].split()] for key in ("Uid", "Gid", "Groups")}
            found.append({"name": fields["Name"], **ids})
    return found


def sleeping(token: str) -> list[int]:
    """Those of them that are the command itself, not the launcher that carries it in its specification."""
    return [pid for pid in alive(token) if b"sleep" in Path(f"/proc/{pid}/cmdline").read_bytes()]


async def until(condition: Callable[[], Any], seconds: float = 10) -> Any:
    end = time.monotonic() + seconds
    while not (value := condition()) and time.monotonic() < end:  # noqa: ASYNC110 - what is waited for happens outside
        await asyncio.sleep(0.05)
    return value
