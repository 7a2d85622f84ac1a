"""Runners of one class each, in homes of their own, as on different machines: they share nothing but bus and store."""

import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from shared.contracts.training import JobFinished, JobStarted
from shared.embedded import processes
from shared.embedded.system import environment, inherited
from shared.settings import Settings
from shared.store import Store
from tests.e2e.conftest import Running
from tests.e2e.systems import Watch, apart, eventually
from tests.runner.jobs import runner_folder

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


@contextmanager
def runner(running: Running, kind: str, home: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """A runner of this class with the rights of the embedded one. Only one of class `data` sees the data root."""
    system, memory = running.system, running.system.home.recall()
    assert memory is not None
    runner_folder(Settings(), home)
    own = {"M3_HOME": str(home), "M3_READY_FILE": str(home / "runner" / "ready"), "M3_STOP_SECONDS": "90"}
    if kind != "data":
        own["M3_DATA_ROOTS"] = "[]"
    env = inherited("tool_runner") | environment(system.home, "tool_runner", system.settings, memory) | own
    with (home / "log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "services.tool_runner", "--class", kind], env=env, cwd="/", stdout=log, stderr=log
        )
    try:
        eventually(lambda: (home / "runner" / "ready").exists())
        yield process
    finally:
        process.kill()
        process.wait()


def test_a_run_goes_through_machines_that_share_no_disk(tmp_path: Path) -> None:
    (homes := tmp_path / "homes").mkdir()
    with apart(tmp_path) as running, ExitStack() as stack:
        embedded = processes.load("tool_runner", running.system.home.run)
        assert embedded
        processes.stop([embedded])
        first = {kind: stack.enter_context(runner(running, kind, homes / kind)) for kind in ("data", "build", "train")}
        watch = Watch(running, run_id := running.ask(train_seconds=50))
        watch.until("JobStarted", '"train"')
        progress = homes / "train" / "runner" / "ws" / run_id / "build" / "progress.jsonl"
        eventually(lambda: progress.exists() and b'"epoch"' in progress.read_bytes())
        first["train"].send_signal(signal.SIGTERM)
        assert first["train"].wait(120) == 0
        stack.enter_context(runner(running, "train", homes / "other"))
        end = watch.end()
        ends = [event for event in watch.events if isinstance(event, JobFinished) and event.job == "train"]
        assert ends[0].log
        log = Store.connect(running.system.settings).get_bytes(ends[0].log).decode()
    assert end.end == "succeeded", end.reason
    assert "attempt 2 goes on from checkpoint-" in log, log[-2000:]
    starts = Counter(event.job for event in watch.events if isinstance(event, JobStarted))
    assert starts == {"intake": 1, "train": 2, "predict": 1}
    # Each has only what its calls were about.
    assert not (homes / "data" / "runner" / "views").exists()
    assert not list((homes / "train" / "runner").glob("datasets/*"))
    assert (homes / "build" / "runner" / "ws" / run_id).is_dir()
