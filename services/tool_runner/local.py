"""The profile of a dataset without a running system: one probe in this machine's sandbox, its answer as JSON on stdout.

    python -m services.tool_runner.local DIR

A process of its own, since a runner that is root drops to its own user first, which cannot be undone.
"""

import asyncio
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from services.tool_runner.sandbox import Limits, Mount, detect, drop_root, run
from shared.errors import M3Error, ToolBroken
from shared.settings import Settings

SECONDS = 1800.0
NO_SANDBOX = 3
"""Exit code: the dataset was not looked at."""


async def check(folder: Path, settings: Settings) -> dict[str, Any]:
    """{"profile", "text"} of the folder, and the level of `isolation`. Writes to a temporary folder only."""
    from services.tool_runner.mounts import PROBES, code_mounts  # not above: it starts threads

    level = await asyncio.to_thread(detect, settings.isolation)
    with tempfile.TemporaryDirectory(prefix="m3-check-") as name:
        scratch = Path(name)
        (scratch / "workspace").mkdir()
        script = "/probes/profile_dataset.py" if level == "bwrap" else str(PROBES / "profile_dataset.py")
        done = await run(
            ["python", script],
            workspace=scratch / "workspace",
            mounts=[Mount(source=folder, target="/data", env="M3_DATA"), *code_mounts(scratch, probes=True)],
            limits=Limits(seconds=SECONDS, memory_mb=settings.sandbox_memory_mb, threads=settings.sandbox_cpu_threads),
            log=scratch / "log",
            level=level,
            writable_workspace=False,
        )
        lines = (scratch / "log").read_text(errors="replace").splitlines()
    try:
        found = json.loads(lines[-1])
        said = {"profile": found["data"], "text": found["summary"]}
    except (IndexError, ValueError, KeyError, TypeError):
        why = {"timeout": f"took more than {SECONDS:.0f} s", "memory": "needed too much memory"}.get(
            done.outcome, "failed"
        )
        raise ToolBroken(f"The check of {folder} {why}. " + " ".join(lines[-3:])[-600:]) from None
    return said | {"path": str(folder), "isolation": done.level, "peak_memory_mb": round(done.peak_memory_mb)}


def main(arguments: Sequence[str]) -> int:
    folder, settings = Path(arguments[0]).resolve(), Settings()
    try:
        drop_root(settings.runner_uid, [folder])
        print(json.dumps(asyncio.run(check(folder, settings))))
    except (M3Error, OSError) as error:
        print(error, file=sys.stderr)
        return NO_SANDBOX
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
