"""Detached processes that outlive the command that started them, and are stopped only if they are still ours.

A process is known by pid, start time and boot id together: a pid alone may meanwhile belong to somebody else.
"""

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True)
class Record:
    """What is remembered about a started process, as `<home>/run/<name>.json`."""

    name: str
    pid: int
    start_ticks: int
    """Clock ticks since boot at which it started (field 22 of /proc/<pid>/stat)."""
    boot_id: str
    fingerprint: str
    """Of command and settings; another value means that it runs with settings of yesterday."""
    restarts: int = 0

    @property
    def alive(self) -> bool:
        """True only while this very process runs; a zombie is dead."""
        return self.start_ticks > 0 and self.boot_id == boot_id() and start_ticks(self.pid) == self.start_ticks

    def resident_mb(self) -> float | None:
        """Resident memory in MiB, None when the process is gone."""
        try:
            lines = Path(f"/proc/{self.pid}/status").read_text().splitlines()
        except OSError:
            return None
        return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS:")), None)


def boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def start_ticks(pid: int) -> int:
    """0 when there is no such process, or only its zombie."""
    with contextlib.suppress(OSError, ChildProcessError):
        os.waitpid(pid, os.WNOHANG)
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0
    return 0 if fields[0] in "ZX" else int(fields[19])


def start(
    name: str, argv: Sequence[str], env: Mapping[str, str], log: Path, cwd: Path, fingerprint: str, restarts: int = 0
) -> Record:
    """Start detached, in a session of its own, its output appended to `log`, its files closed to other users."""
    with log.open("ab") as output:
        process = subprocess.Popen(
            argv, env=dict(env), stdin=subprocess.DEVNULL, stdout=output, stderr=output, cwd=cwd,
            start_new_session=True, umask=0o077,
        )  # fmt: skip
    # The handle is dropped on purpose: the process is found again by its record.
    process.returncode = 0
    return Record(name, process.pid, start_ticks(process.pid), boot_id(), fingerprint, restarts)


def save(record: Record, folder: Path) -> None:
    write_private(folder / f"{record.name}.json", json.dumps(asdict(record)))
    write_private(folder / f"{record.name}.pid", f"{record.pid}\n")


def load(name: str, folder: Path) -> Record | None:
    """None when nothing was started under this name, or its record cannot be read."""
    try:
        return Record(**json.loads((folder / f"{name}.json").read_text()))
    except (OSError, ValueError, TypeError):
        return None


def load_all(folder: Path) -> list[Record]:
    """Everything that was started and not stopped by us, dead or alive."""
    found = (load(path.stem, folder) for path in sorted(folder.glob("[!.]*.json")))
    return [record for record in found if record]


def stop(records: Iterable[Record], patience: float = 45.0) -> list[str]:
    """SIGTERM to all of them, SIGKILL to the group of whoever still runs after `patience` seconds: by default more than
    a training needs to store its checkpoint.

    Returns the names of those that had to be killed. What is not ours any more is left alone.
    """
    waiting = [record for record in records if record.alive]
    for record in waiting:
        _signal(record, signal.SIGTERM)
    until = time.monotonic() + patience
    while waiting and time.monotonic() < until:
        time.sleep(0.05)
        waiting = [record for record in waiting if record.alive]
    for record in waiting:
        _signal(record, signal.SIGKILL, group=True)
    for record in waiting:
        while record.alive and time.monotonic() < until + 5:
            time.sleep(0.02)
    return [record.name for record in waiting]


def tail(log: Path, lines: int = 15) -> str:
    """The last lines of a log; empty when there is none."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - 64 * 1024))
            text = file.read().decode(errors="replace")
    except OSError:
        return ""
    return "\n".join(text.splitlines()[-lines:])


def write_private(path: Path, text: str) -> None:
    """Replace the file at once, readable by its owner only."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.write(text)
    temporary.replace(path)


def _signal(record: Record, number: int, group: bool = False) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(record.pid, number) if group else os.kill(record.pid, number)
