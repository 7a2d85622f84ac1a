"""What a run delivered, fetched as `m3builder fetch` does it."""

import os
from pathlib import Path

from services.command.cli import fetch_run
from tests.e2e.conftest import Running


def fetch(running: Running, run_id: str, folder: Path) -> None:
    before = os.environ.get("M3_HOME")
    os.environ["M3_HOME"] = str(running.system.home.root)
    try:
        fetch_run(run_id, folder)
    finally:
        if before is None:
            del os.environ["M3_HOME"]
        else:
            os.environ["M3_HOME"] = before
