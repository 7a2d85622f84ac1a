"""Runners that take one job each, and are told to end in the middle of it."""

import asyncio
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from shared.bus import Bus
from shared.contracts.training import JobFinished, JobSpec
from shared.embedded.nats import start_nats
from shared.settings import Settings
from tests.processes import environment, start
from tests.runner.jobs import ready_to_train, runner_folder, skip_without_sandbox

SECONDS = 100.0
TRAINING = """
import json, pathlib, signal, sys, time
kept = pathlib.Path("checkpoint")
if kept.exists():
    pathlib.Path("package").mkdir()
    pathlib.Path("package/predict.py").write_text("1")
    pathlib.Path("metrics.json").write_text(kept.read_text())
    sys.exit()
begun = time.monotonic()
def save(*_):
    kept.write_text(json.dumps({"seconds": time.monotonic() - begun}))
    sys.exit(143)
signal.signal(signal.SIGTERM, save)
pathlib.Path("progress.jsonl").write_text('{"epoch": 1}\\n')
time.sleep(900)
"""


@pytest.fixture
async def own_bus(settings: Settings, tmp_path: Path) -> AsyncIterator[tuple[Settings, Bus]]:
    """A bus without jobs of other tests. What a runner does not hand back comes again after ten minutes."""
    server = start_nats(tmp_path / "nats")
    told = settings.model_copy(update={"nats_url": server.url, "ack_wait_seconds": 600.0})
    bus = await Bus.connect(told, "gateway")
    await bus.provision()
    yield told, bus
    await bus.close()
    server.stop()


async def test_a_training_moves_to_another_machine_with_its_checkpoint(
    own_bus: tuple[Settings, Bus], tmp_path: Path
) -> None:
    settings, bus = own_bus
    run_id = await ready_to_train(settings, bus)
    job = JobSpec(
        job_id="train-1", run_id=run_id, kind="train", asked_by="model_trainer", caused_by="x",
        command=("python", "-c", TRAINING),
    )  # fmt: skip
    await bus.submit_job("train", job)

    def runner(name: str, wait: float) -> Any:
        runner_folder(settings, home := tmp_path / name)
        env = environment(settings, home=str(home))
        return start("services.tool_runner", env, "--once", "--class", "train", "--wait", str(wait))

    async def ended(process: Any) -> str:
        _, errors = await asyncio.to_thread(process.communicate, timeout=SECONDS)
        skip_without_sandbox(errors)
        assert process.returncode == 0, errors
        return str(errors)

    first = runner("one", SECONDS)
    async with asyncio.timeout(SECONDS):
        async for _ in bus.follow_log(run_id, job.job_id):
            break
    first.send_signal(signal.SIGTERM)
    assert "its checkpoint is stored" in await ended(first)
    assert not (await bus.state(run_id)).jobs_done

    await ended(runner("two", SECONDS))
    done = (await bus.state(run_id)).jobs_done[job.job_id]
    assert isinstance(done, JobFinished) and (done.outcome, done.attempts) == ("ok", 2), done.summary
    assert done.metrics["seconds"] and "package" in done.outputs
    # There is none any more.
    await ended(runner("three", 0.5))
