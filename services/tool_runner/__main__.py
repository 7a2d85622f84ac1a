"""`python -m services.tool_runner`: serve the classes of M3_RUNNER_CLASSES until told to stop.

`--once --class train` takes one job, runs it to its end and exits with 0, also when none came within `--wait` seconds:
for a scheduler that starts a process for each job.
"""

import argparse
import os
from functools import partial
from pathlib import Path

import services
from shared.settings import Settings, from_environment


def main() -> int:
    parser = argparse.ArgumentParser(description="Run what cores write, in the sandbox.")
    parser.add_argument("--class", dest="name", choices=["data", "build", "train"], help="serve this class alone")
    parser.add_argument("--once", action="store_true", help="end after one job or call (with --class)")
    parser.add_argument("--wait", type=float, default=60.0, help="seconds to wait for it (60)")
    given = parser.parse_args()
    if given.once and not given.name:
        parser.error("--once takes one job of one class: say which with --class")
    settings = from_environment()
    if given.name:
        settings = settings.model_copy(update={"runner_classes": (given.name,)})
    if os.geteuid() == 0:
        _drop_root(settings)
    from services.tool_runner.runner import run
    from shared.service import serve

    once = given.wait if given.once else None
    return serve("tool_runner", settings, partial(run, once=once), ready_at_once=False)


def _drop_root(settings: Settings) -> None:
    from services.tool_runner.sandbox import drop_root

    keep = [settings.home / "runner", Path(services.__file__).parents[1], *settings.data_roots]
    if settings.ready_file:
        keep.append(settings.ready_file.parent)
    drop_root(settings.runner_uid, keep)


if __name__ == "__main__":
    raise SystemExit(main())
