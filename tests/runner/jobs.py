"""Jobs as tests give them to the runner's own code, which works in a process of its own."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from shared.bus import Bus
from shared.contracts.base import new_run_id
from shared.contracts.data import ViewManifest
from shared.contracts.training import JobSpec
from shared.settings import Settings
from shared.store import Store
from tests.cases import begun, dataset_facts, locked, prepared

DRIVER = Path(__file__).with_name("job_driver.py")
GIVEN = {
    "home", "nats_url", "s3_endpoint", "s3_access_key", "s3_bucket_prefix", "data_roots", "runner_uid", "isolation",
    "sandbox_memory_mb",
}  # fmt: skip


def as_words(settings: Settings, **changed: Any) -> str:
    """What a driver is told of the settings, as JSON."""
    told = settings.model_dump(mode="json", include=GIVEN) | changed
    return json.dumps(told | {"s3_secret_key": settings.s3_secret_key.get_secret_value()})


def runner_folder(settings: Settings, home: Path) -> Path:
    """The folder below `home` in which the runner keeps what is its own; others may pass through `home`."""
    folder = home / "runner"
    folder.mkdir(parents=True)
    home.chmod(0o755)
    if os.geteuid() == 0:
        os.chown(folder, settings.runner_uid, settings.runner_uid)
    return folder


async def ready_to_train(settings: Settings, bus: Bus) -> str:
    """The id of a run whose training may begin, with an empty training view."""
    store = Store.connect(settings)
    await asyncio.to_thread(store.ensure_buckets)
    run_id = new_run_id()
    view = ViewManifest(rows=(), stored=(), facts=dataset_facts(dimensions=2))
    kept = await asyncio.to_thread(store.put_bytes, "data", view.model_dump_json().encode())
    asked, planned = begun(run_id)
    for event in (asked, planned, prepared(run_id, planned), locked(run_id, planned, view=kept)):
        await bus.append(event)
    return run_id


async def run_jobs(settings: Settings, jobs: Iterable[JobSpec], seconds: float = 280) -> int:
    """One after the other, to their ends. -> megabytes that the runner itself held at most. Skips the test where no
    sandbox works."""
    argv = [sys.executable, str(DRIVER), as_words(settings), *(job.model_dump_json() for job in jobs)]
    done = await asyncio.to_thread(subprocess.run, argv, capture_output=True, text=True, timeout=seconds, check=False)
    skip_without_sandbox(done.stderr)
    assert done.returncode == 0, done.stderr[-3000:]
    return int(done.stdout)


def skip_without_sandbox(errors: str) -> None:
    if "no sandbox works here" in errors:
        pytest.skip(errors.strip().splitlines()[-1])
