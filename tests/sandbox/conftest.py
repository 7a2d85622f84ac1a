"""One run of driver.py for each level; the tests look at what it saw.

Most of a run is waiting, so those of all levels go on side by side, each as a user of its own; as one and the same user
they would share a limit of processes, and take turns.
"""

import functools
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

DRIVER = Path(__file__).with_name("driver.py")
PASSWORD = "not-for-the-child-83472"


LEVELS = ("bwrap", "landlock", "none")


STARTED: dict[str, subprocess.Popen[str]] = {}


def start(level: str) -> None:
    if level not in STARTED:
        STARTED[level] = subprocess.Popen(
            [sys.executable, str(DRIVER), level],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | {"M3_S3_SECRET_KEY": PASSWORD},
        )


@functools.cache
def drive(level: str) -> dict[str, Any]:
    for side_by_side in LEVELS if os.geteuid() == 0 else (level,):
        start(side_by_side)
    out, err = STARTED[level].communicate(timeout=600)
    assert STARTED[level].returncode == 0, err
    seen: dict[str, Any] = json.loads(out)
    shutil.rmtree(seen["base"])
    return seen


@pytest.fixture(scope="session", autouse=True)
def ended() -> Iterator[None]:
    """A driver whose tests were not run, or broke off, does not outlive the session."""
    yield
    for process in STARTED.values():
        process.kill()
        process.wait()


def results(level: str) -> dict[str, Any]:
    seen = drive(level)
    if "unavailable" in seen:
        pytest.skip(seen["unavailable"])
    return seen


@pytest.fixture(scope="session", params=["bwrap", "landlock"])
def seen(request: pytest.FixtureRequest) -> dict[str, Any]:
    """What the driver saw at the levels that isolate."""
    return results(request.param)


@pytest.fixture(scope="session", params=["bwrap", "landlock", "none"])
def ends(request: pytest.FixtureRequest) -> dict[str, Any]:
    """The same at every level; about how runs end, which isolation does not change."""
    return results(request.param)
