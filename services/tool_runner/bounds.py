"""What a job may use, and how much of what it wrote is read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from services.tool_runner.sandbox import Gpus, Limits
from shared.contracts.training import JobSpec

if TYPE_CHECKING:
    from shared.settings import Settings


def job_limits(spec: JobSpec, settings: Settings, gpus: Gpus) -> Limits:
    """With a GPU memory is bounded by what is resident: CUDA reserves address space far beyond what it uses."""
    return Limits(
        seconds=spec.seconds * 1.1 + 60,
        memory_mb=min(spec.memory_mb or settings.sandbox_memory_mb, settings.sandbox_memory_mb),
        disk_mb=settings.sandbox_disk_mb,
        threads=settings.sandbox_cpu_threads,
        grace=settings.stop_seconds / 2,
        cuda=bool(gpus.mounts),
        # Several GPUs are for several processes of one training, which meet on the sandbox's own loopback.
        loopback=spec.kind == "train" and gpus.count > 1,
    )


def read_json(root: Path, name: str, limit: int = 1 << 18) -> dict[str, Any]:
    """A JSON object that untrusted code wrote below `root`: bounded, no link out, and empty when it is none."""
    path = (root / name).resolve()
    if not path.is_relative_to(root.resolve()) or not path.is_file() or path.stat().st_size > limit:
        return {}
    try:
        # JSON has no NaN: it becomes null, which no reader takes for a figure.
        found = json.loads(path.read_bytes(), parse_constant=lambda _: None)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
