"""One run of driver.py for each level; the tests look at what it saw."""

import functools
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

DRIVER = Path(__file__).with_name("driver.py")
PASSWORD = "not-for-the-child-83472"


@functools.cache
def drive(level: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, str(DRIVER), level],
        capture_output=True,
        text=True,
        timeout=240,
        env=os.environ | {"M3_S3_SECRET_KEY": PASSWORD},
    )
    assert done.returncode == 0, done.stderr
    seen: dict[str, Any] = json.loads(done.stdout)
    shutil.rmtree(seen["base"])
    return seen


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
