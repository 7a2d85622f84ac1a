"""Backup of a system that is up, everything gone, and a new one made of the folder: same runs, reports and packages."""

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from services.gateway.client import Gateway
from shared.contracts.questions import YES, approve
from shared.contracts.runs import Budget
from shared.embedded.home import Home
from shared.embedded.system import attach, down
from shared.settings import Settings
from tests.e2e.conftest import REQUEST, Running
from tests.e2e.systems import Watch, eventually

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


def command(home: Path, *words: str) -> str:
    env = {name: value for name, value in os.environ.items() if not name.startswith("M3_")} | {"M3_HOME": str(home)}
    argv = [sys.executable, "-m", "services.command.cli", *words]
    done = subprocess.run(argv, env=env, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def handed_over(home: Path, run_id: str, folder: Path) -> dict[str, bytes]:
    """Everything that a person can fetch of a run."""
    command(home, "fetch", run_id, str(folder / "fetched"))
    command(home, "report", run_id, "--output", str(folder / "report"))
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def restored(running: Running, main_job: Mapping[str, Any], tmp_path: Path) -> Iterator[tuple[Running, str]]:
    """A second system, of a backup of the first, and a run that waited for a yes when the backup was made."""
    waiting = running.gateway.request_run(REQUEST, budget=Budget(train_seconds=60), approvals=("plan",))
    eventually(lambda: running.gateway.question(waiting))
    told = command(running.system.home.root, "backup", str(tmp_path / "backup"))
    assert told.startswith("saved")
    home = tmp_path / "home"
    try:
        command(home, "restore", str(tmp_path / "backup"), "--data-root", str(running.replica.parent))
        system = attach(Settings(home=home))
        assert system
        with Gateway(system.settings) as gateway:
            yield Running(system, gateway, running.replica), waiting
    finally:
        down(Home(home))
        running.gateway.cancel(waiting)


def test_a_restored_system_has_the_same_and_goes_on(
    running: Running, restored: tuple[Running, str], main_job: Mapping[str, Any], tmp_path: Path
) -> None:
    again, waiting = restored
    run_id = main_job["run_id"]
    assert again.gateway.runs() == running.gateway.runs()
    assert again.gateway.datasets() == running.gateway.datasets()
    assert again.gateway.record(run_id) == running.gateway.record(run_id)
    before, after = (
        handed_over(system.system.home.root, run_id, tmp_path / name)
        for name, system in (("before", running), ("after", again))
    )
    assert before == after and any(name.endswith("predict.py") for name in after)
    assert [line["did"] for line in running.gateway.audit()][:5] == [line["did"] for line in again.gateway.audit()][:5]
    # A run that was open goes on where it was.
    again.gateway.answer(waiting, approve("plan"), YES)
    Watch(again, waiting).until("DatasetPrepared")
    again.gateway.cancel(waiting)
