"""Everything is killed in the course of one run, and the run takes no notice."""

import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from shared.contracts.state import fold
from shared.contracts.training import JobFinished, JobStarted
from shared.store import Store
from shared.training.checkpoints import NEEDED, SENTINEL
from tests.e2e.conftest import REQUEST, Running
from tests.e2e.systems import Watch, apart, eventually, kill, recorded, start_again

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

AWAY = 10.0
"""Seconds that a supervisor may need to start something again."""

FACTS = [
    "RunRequested", "TaskPlanned", "DatasetPrepared", "JobFinished", "DatasetLocked", "ModuleAssembled", "JobFinished",
    "TrainingFinished", "JobFinished", "RunScored", "RunFinished",
]  # fmt: skip


def test_a_run_survives_the_death_of_each_process(
    running: Running, main_job: Mapping[str, Any], tmp_path: Path
) -> None:
    script = tmp_path / "turns.jsonl"
    script.write_text(recorded(running, main_job["run_id"], epochs=8))
    # What a killed process held is handed to the next after this time.
    with apart(tmp_path, M3_ACK_WAIT_SECONDS="6") as running:
        command = _ask_by_command(running, script)
        try:
            assert command.stdout is not None
            run_id = command.stdout.readline().split()[-1]
            watch = Watch(running, run_id)
            newest = _kill_everything(running, watch)
            told = command.communicate(timeout=300)[0]
        finally:
            command.kill()
            command.wait()
        log = _training_log(running, watch)

    kinds = [event.kind for event in watch.events]
    assert [kind for kind in kinds if kind != "JobStarted"] == FACTS
    assert len({event.event_id for event in watch.events}) == len(kinds)
    state = fold(run_id, enumerate(watch.events, 1))
    assert state.finished is not None and state.finished.end == "succeeded", state.finished
    assert state.scored is not None and all(gate.passed for gate in state.scored.gates)
    ends = [event for event in watch.events if isinstance(event, JobFinished)]
    assert [(end.job, end.outcome) for end in ends] == [("intake", "ok"), ("train", "ok"), ("predict", "ok")]
    starts = [event for event in watch.events if isinstance(event, JobStarted)]
    assert Counter(start.job for start in starts)["train"] == 2
    assert [start.attempt for start in starts if start.job == "train"] == [1, 2]
    found = re.search(r"attempt 2 goes on from checkpoint-(\d+)", log)
    assert found and int(found[1]) >= newest, log[-2000:]
    # The command was left alone by its gateway and has come to the end with the run.
    assert command.returncode == 0, told[-2000:]
    assert "the run ended: succeeded" in told and told.count("scored: ") == 1


def _kill_everything(running: Running, watch: Watch) -> int:
    """Returns the number of the checkpoint that was the newest when the training was killed."""
    watch.until("turn", '"role": "data_engineer"')
    kill(running, "data_engineer")
    start_again(running)
    watch.until("DatasetPrepared")
    kill(running, "scorer")
    start_again(running)
    watch.until("DatasetLocked")
    kill(running, "module_architect")
    start_again(running)
    watch.until("JobStarted", '"train"')
    kill(running, "gateway", "model_trainer")
    time.sleep(AWAY)
    start_again(running)
    checkpoints = running.system.home.runner / "ws" / watch.run_id / "build" / "checkpoints"
    eventually(lambda: _whole(checkpoints))
    newest = max(_whole(checkpoints))
    kill(running, "tool_runner")
    start_again(running)
    watch.until("JobStarted", '"train"', '"attempt":2')
    # Both servers are away when the runner has something to store and to say.
    kill(running, "s3")
    eventually(lambda: (checkpoints.parent / "package" / "predict.py").exists())
    kill(running, "nats")
    time.sleep(AWAY)
    start_again(running)
    watch.until("JobStarted", '"predict"')
    kill(running, "task_manager")
    watch.until("RunScored")
    kill(running, "scorer")
    time.sleep(1)
    start_again(running)
    watch.end()
    return newest


def _ask_by_command(running: Running, script: Path) -> "subprocess.Popen[str]":
    argv = [sys.executable, "-m", "services.command.cli", "run", REQUEST, "--core", f"scripted:{script}"]
    environment = {
        "M3_GATEWAY_URL": running.system.settings.gateway_url,
        "M3_HOME": str(running.system.home.root),
        "PATH": "/usr/bin:/bin",
        "PYTHONUNBUFFERED": "1",
    }
    return subprocess.Popen(argv, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def _whole(checkpoints: Path) -> set[int]:
    """Numbers of the checkpoints that are complete."""
    return {
        int(folder.name.rpartition("-")[2])
        for folder in checkpoints.glob("checkpoint-*")
        if not (folder / SENTINEL).exists() and all((folder / name).exists() for name in NEEDED)
    }


def _training_log(running: Running, watch: Watch) -> str:
    end = next(event for event in watch.events if isinstance(event, JobFinished) and event.job == "train")
    assert end.log is not None
    return Store.connect(running.system.settings).get_bytes(end.log).decode()
