"""A service as a process: ready, healthy, stopped by a signal, and honest about its end."""

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

from shared.embedded.nats import NatsHandle

SERVICE = """
import sys
from shared.service import Context, serve
from shared.settings import Settings

async def run(context: Context) -> None:
    if {fails}:
        raise RuntimeError("broken inside")
    await context.bus.listen("task_manager", nothing, 1, context.stop)

async def nothing(event: object) -> None:
    pass

sys.exit(serve("task_manager", Settings(), run))
"""


def start(tmp_path: Path, url: str, fails: bool = False) -> subprocess.Popen[str]:
    environment = os.environ | {
        "M3_NATS_URL": url,
        "M3_READY_FILE": str(tmp_path / "run" / "ready.json"),
        "M3_HOME": str(tmp_path),
    }
    command = [sys.executable, "-c", SERVICE.format(fails=fails)]
    return subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)


def wait_for(path: Path, process: subprocess.Popen[str]) -> dict[str, int]:
    deadline = time.monotonic() + 20
    while not path.exists():
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.02)
    found = json.loads(path.read_text())
    assert isinstance(found, dict)
    return found


def status(port: int, path: str) -> int:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


def test_a_service_comes_up_and_ends_on_a_signal(tmp_path: Path, nats_server: NatsHandle) -> None:
    process = start(tmp_path, nats_server.url)
    ready = wait_for(tmp_path / "run" / "ready.json", process)
    assert ready["pid"] == process.pid
    assert [status(ready["port"], path) for path in ("/healthz", "/readyz", "/else")] == [200, 200, 404]
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=10)
    assert process.returncode == 0
    lines = [json.loads(line) for line in errors.splitlines()]
    assert {line["service"] for line in lines} == {"task_manager"}
    assert "ERROR" not in {line["level"] for line in lines}


def test_a_service_that_breaks_says_so(tmp_path: Path, nats_server: NatsHandle) -> None:
    process = start(tmp_path, nats_server.url, fails=True)
    _, errors = process.communicate(timeout=20)
    assert process.returncode == 1
    assert "broken inside" in json.loads(errors.splitlines()[-1])["traceback"]
