"""The tools through the real sandbox, at both levels that isolate. The driver is a process of its own."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

UID = 64330
DRIVER = Path(__file__).with_name("sandboxed_tools.py")


LEVELS = ("bwrap", "landlock")


@pytest.fixture(scope="module")
def drivers() -> Iterator[dict[str, subprocess.Popen[str]]]:
    """One for each level, side by side."""
    started, bases = {}, []
    for level in LEVELS:
        base = Path(tempfile.mkdtemp(prefix="m3-tools-"))
        bases.append(base)
        if os.geteuid() == 0:
            os.chown(base, UID, UID)
        argv = [sys.executable, str(DRIVER), level, str(base), str(UID)]
        started[level] = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    yield started
    for process in started.values():
        process.kill()
        process.communicate()
    for base in bases:
        shutil.rmtree(base)


@pytest.fixture(scope="module", params=LEVELS)
def seen(request: pytest.FixtureRequest, drivers: dict[str, subprocess.Popen[str]]) -> dict[str, Any]:
    process = drivers[request.param]
    out, err = process.communicate(timeout=280)
    assert process.returncode == 0, err
    results: dict[str, Any] = json.loads(out)
    if "unavailable" in results:
        pytest.skip(results["unavailable"])
    return results | {"level": request.param}


def test_shell_is_parsed_in_the_sandbox(seen: dict[str, Any]) -> None:
    assert seen["shell"]["ok"]
    assert "line 2: syntax error" in seen["broken_shell"]["summary"]


def test_scripts_read_the_data_and_cannot_write_to_it(seen: dict[str, Any]) -> None:
    script = seen["script"]
    assert script["isolation"] == seen["level"] and script["exit_code"] == 1
    assert "1,a" in script["summary"]
    assert script["data"]["traceback"]["file"] == "/workspace/look.py"
    assert script["data"]["traceback"]["line"] == 4


def test_commands_and_time_limits(seen: dict[str, Any]) -> None:
    assert seen["command"]["ok"] and "hello" in seen["command"]["summary"]
    assert seen["slow"]["data"]["outcome"] == "timeout" and "training is a job" in seen["slow"]["summary"]


def test_previews_find_their_files_at_this_level(seen: dict[str, Any]) -> None:
    assert seen["dirs"]["data"]["total_files"] == 4
    assert {image["path"] for image in seen["dirs"]["data"]["images"]} == {"mask.nii.gz", "flat.png", "a/scan.nii.gz"}
    files = seen["files"]["data"]["files"]
    assert files["/data/labels.csv"]["rows"] == 2
    assert files["/data/a/scan.nii.gz"]["spacing"] == [1.0, 1.0, 3.0]
    assert files["/workspace/run.sh"]["head"].strip() == "echo hello"


def test_a_view_is_written_although_the_probe_cannot_write(seen: dict[str, Any]) -> None:
    assert seen["view"]["ok"], seen["view"]["summary"]
    assert seen["view"]["data"]["labels"] == {"1": 400}
    assert seen["view"]["data"]["view"] == "/workspace/views/a_scan_nii_gz-overlay.png"
