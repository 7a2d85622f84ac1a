"""The server goes and comes back: whoever waits goes on waiting, and nobody takes it for a failure."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from shared.bus import Bus, connection, consume
from shared.contracts.base import Event, new_run_id
from shared.contracts.runs import RunRequested
from shared.contracts.tools import ToolCall, ToolResult
from shared.contracts.training import JobProgress, JobSpec
from shared.embedded.nats import start_nats
from shared.errors import Unavailable
from shared.settings import Settings

SECONDS = 60.0


@asynccontextmanager
async def server_of_ones_own(folder: Path) -> AsyncIterator[tuple[Settings, Callable[[float], Awaitable[None]]]]:
    """Settings of a fresh server, and a function that kills it and starts it again so many seconds later."""
    server = start_nats(folder / "nats")

    async def away(seconds: float) -> None:
        nonlocal server
        await asyncio.to_thread(server.kill)
        await asyncio.sleep(seconds)
        server = await asyncio.to_thread(start_nats, folder / "nats", server.port)

    try:
        yield Settings(home=folder, nats_url=server.url, ack_wait_seconds=3.0), away
    finally:
        server.stop()


async def test_calls_jobs_wishes_and_progress_outlast_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Away for longer than any single read is willing to wait.
    monkeypatch.setattr(connection, "READ_SECONDS", 1.0)
    run_id = new_run_id()
    call = ToolCall(call_id=f"{run_id}-1", run_id=run_id, role="data_engineer", tool="list_files", reply="")
    job = JobSpec(job_id=f"{run_id}-2", run_id=run_id, kind="train", asked_by="model_trainer", caused_by="x")
    is_back, ended, both = asyncio.Event(), asyncio.Event(), asyncio.Barrier(3)

    async def on_call(made: ToolCall) -> ToolResult:
        await both.wait()
        await is_back.wait()
        return ToolResult(call_id=made.call_id, tool=made.tool, ok=True, summary="made while you were away")

    async def on_job(spec: JobSpec, attempt: int) -> None:
        await both.wait()
        await is_back.wait()
        ended.set()

    async def first_wish(bus: Bus) -> str:
        async for wish in bus.watch_desired(job.job_id):
            return wish
        raise AssertionError

    async def first_progress(bus: Bus) -> JobProgress:
        async for progress in bus.follow_log(run_id, job.job_id):
            return progress
        raise AssertionError

    async with server_of_ones_own(tmp_path) as (settings, away):
        caller, runner = await Bus.connect(settings, "data_engineer"), await Bus.connect(settings, "tool_runner")
        await caller.provision()
        stop = asyncio.Event()
        serving = [
            asyncio.create_task(runner.serve_tools(name, on_call, on_job, 1, stop)) for name in ("data", "train")
        ]
        waiting = [asyncio.create_task(first_wish(runner)), asyncio.create_task(first_progress(caller))]
        asked = asyncio.create_task(caller.call("data", call, SECONDS))
        await caller.submit_job("train", job)
        async with asyncio.timeout(SECONDS):
            await both.wait()
            await away(4.0)
            is_back.set()
            assert (await asked).summary == "made while you were away"
            await caller.desire(job.job_id, "stop")
            await runner.progress(JobProgress(run_id=run_id, job_id=job.job_id, epoch=3))
            wish, progress = await asyncio.gather(*waiting)
            await ended.wait()
        stop.set()
        await asyncio.gather(*serving)
        await caller.close()
        await runner.close()
    assert (wish, progress.epoch) == ("stop", 3)


async def test_a_handler_that_finds_a_server_away_keeps_its_event(bus: Bus, monkeypatch: pytest.MonkeyPatch) -> None:
    """More often than a failing one is called, and without being delivered again."""
    monkeypatch.setattr(consume, "AWAY_DELAYS", (0.01, 0.02))
    monkeypatch.setattr(consume, "AWAY_DELAY", 0.02)
    run_id, calls, dead = new_run_id(), 0, []
    stop = asyncio.Event()

    async def handle(event: Event) -> None:
        nonlocal calls
        if event.run_id != run_id:
            return
        calls += 1
        if calls < 20:
            raise Unavailable("the store is being started")
        stop.set()

    async def on_dead(event: Event, error: BaseException) -> None:
        dead.append(error)

    await bus.append(RunRequested.make(run_id=run_id, sender="gateway", cause=None, requirement="x"))
    async with asyncio.timeout(SECONDS):
        await bus.listen("task_manager", handle, 1, stop, on_dead=on_dead)
    assert calls == 20 and not dead
