"""What a run delivered, fetched as `m3builder fetch` does it."""

import os
from pathlib import Path

from services.gateway.cli import fetch_run
from tests.e2e.conftest import Running


def fetch(running: Running, run_id: str, folder: Path) -> None:
    before = os.environ.get("M3_GATEWAY_URL")
    os.environ["M3_GATEWAY_URL"] = running.system.settings.gateway_url
    try:
        fetch_run(run_id, folder)
    finally:
        if before is None:
            del os.environ["M3_GATEWAY_URL"]
        else:
            os.environ["M3_GATEWAY_URL"] = before
