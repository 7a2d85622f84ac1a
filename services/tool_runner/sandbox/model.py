"""What a caller of the sandbox hands in and gets back."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Level = Literal["bwrap", "landlock", "none"]
Outcome = Literal["ok", "failed", "timeout", "memory", "cancelled"]


@dataclass(frozen=True)
class Mount:
    """A folder or file (or a character device) that the child sees besides its workspace.

    Under `bwrap` it stands at `target`; under `landlock` and `none` nothing is remapped and the child finds it only
    through the variable `env`, which holds the real path there. A mount whose target is `/m3` is put on PYTHONPATH.
    """

    source: Path
    target: str
    writable: bool = False
    env: str | None = None


@dataclass(frozen=True)
class Limits:
    """Bounds of one run. Memory, processes and time hold for the whole tree, the file size for each file."""

    seconds: float
    """Wall time, without a warning before the kill; `cancel` is the way that warns."""
    memory_mb: int
    """Resident memory of the tree, looked at four times a second; under `bwrap` tmpfs and sockets count too."""
    processes: int = 256
    """Processes and threads together."""
    file_mb: int = 4096
    disk_mb: int = 100 * 1024
    """Held by the workspace, looked at from the third second on; only where the child may write it."""
    output_mb: int = 64
    """Kept of stdout and stderr together; the child runs on beyond it."""
    threads: int = 2
    """Given to OpenMP, MKL and the like through their variables."""
    cuda: bool = False
    """No bound on address space, since CUDA reserves far more than it uses; binds what `gpu_mounts` does not cover."""
    grace: float = 10.0
    """From the SIGTERM of `cancel` to the kill."""
    loopback: bool = False
    """Internet sockets on the sandbox's own loopback, for several training processes; under `bwrap` only."""


@dataclass(frozen=True)
class Finished:
    """How a run ended. `exit_code` is 128 + n for a death by signal n, and None where the sandbox killed it."""

    outcome: Outcome
    exit_code: int | None
    seconds: float
    level: Level
    peak_memory_mb: float
    log: Path
    log_bytes: int
    output_cut: bool
    reason: str = ""
    """Why the sandbox ended it; empty where the child ended by itself."""
