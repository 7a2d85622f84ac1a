"""Calls and jobs: carried out, recorded once, answered to whoever asks."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from shared.bus import Bus
from shared.bus.streams import DLQ, TOOLS, tool_subject
from shared.bus.tools import CallMessage
from shared.contracts.base import new_run_id
from shared.contracts.runs import RunRequested
from shared.contracts.tools import ToolCall, ToolClass, ToolResult
from shared.contracts.training import JobFinished, JobSpec
from shared.errors import ToolBroken
from shared.settings import Settings

SECONDS = 20.0


def a_call(run_id: str, number: int = 1) -> ToolCall:
    return ToolCall(
        call_id=f"{run_id}-data_engineer-1-{number}", run_id=run_id, role="data_engineer", tool="list_files", reply=""
    )


def queued(tool_class: ToolClass, call: ToolCall) -> str:
    return tool_subject(tool_class, call.role, call.run_id, call.call_id)


class Runner:
    """Serves one class in the background and counts what it was made to do."""

    def __init__(self, bus: Bus) -> None:
        self.bus = bus
        self.calls: list[str] = []
        self.jobs: list[tuple[str, int]] = []
        self.news = asyncio.Event()

    async def on_call(self, call: ToolCall) -> ToolResult:
        self.calls.append(call.call_id)
        return ToolResult(call_id=call.call_id, tool=call.tool, ok=True, summary=f"time {len(self.calls)}")

    async def on_job(self, job: JobSpec, attempt: int) -> None:
        self.jobs.append((job.job_id, attempt))
        self.news.set()

    async def until_jobs(self, count: int) -> None:
        async with asyncio.timeout(SECONDS):
            while len(self.jobs) < count:
                self.news.clear()
                await self.news.wait()

    @asynccontextmanager
    async def serving(self, tool_class: ToolClass) -> AsyncIterator[None]:
        stop = asyncio.Event()
        task = asyncio.create_task(self.bus.serve_tools(tool_class, self.on_call, self.on_job, 4, stop))
        try:
            yield
        finally:
            stop.set()
            await asyncio.wait_for(task, 5)


async def test_a_call_is_answered_and_the_answer_kept(bus: Bus, bus_settings: Settings) -> None:
    run_id = new_run_id()
    caller = await Bus.connect(bus_settings, "data_engineer")
    runner = Runner(bus)
    async with runner.serving("data"):
        results = await asyncio.gather(*(caller.call("data", a_call(run_id, n), SECONDS) for n in range(5)))
    assert [result.call_id for result in results] == [a_call(run_id, n).call_id for n in range(5)]
    # Nobody serves any more: the record answers, also to another replica.
    assert await caller.call("data", a_call(run_id, 3), 0.1) == results[3]
    assert await bus.result("data_engineer", a_call(run_id, 3).call_id) == results[3]
    await caller.close()


async def test_a_doubled_message_gives_one_result(bus: Bus) -> None:
    run_id = new_run_id()
    call = a_call(run_id).model_copy(update={"reply": "_INBOX_nobody.reply.x"})
    data = CallMessage(call=call).model_dump_json().encode()
    for message_id in ("first", "second"):
        await bus.connection.publish(queued("build", call), data, message_id=f"{run_id}{message_id}")
    runner = Runner(bus)
    async with runner.serving("build"):
        result = await bus.call("build", a_call(run_id), SECONDS)
        again = await bus.call("build", a_call(run_id), SECONDS)
        other = ToolResult(call_id=call.call_id, tool=call.tool, ok=False, summary="late")
        assert await bus.record_result(other, call) == result
    assert result == again == await bus.result(call.role, call.call_id)


async def test_two_replicas_of_a_role_ask_for_the_same_call(bus: Bus, bus_settings: Settings) -> None:
    run_id = new_run_id()
    one, two = [await Bus.connect(bus_settings, "data_engineer") for _ in range(2)]
    runner = Runner(bus)
    waiting = [asyncio.create_task(one.call("data", a_call(run_id), SECONDS)) for one in (one, two)]
    await asyncio.sleep(0.1)
    async with runner.serving("data"):
        first, second = await asyncio.gather(*waiting)
    assert first == second
    assert runner.calls == [a_call(run_id).call_id]
    await one.close()
    await two.close()


async def test_a_call_that_fell_out_of_the_queue_is_queued_again(bus: Bus) -> None:
    run_id = new_run_id()
    call = a_call(run_id)
    ack = await bus.connection.publish(queued("build", call), b"{}", message_id=call.call_id)
    await bus.connection.js.delete_msg(TOOLS, ack.seq)
    runner = Runner(bus)
    async with runner.serving("build"):
        assert (await bus.call("build", call, SECONDS)).ok


async def test_a_call_in_the_name_of_another_role_is_not_carried_out(bus: Bus) -> None:
    run_id = new_run_id()
    call = a_call(run_id)  # of the Data Engineer, on a subject that only the Model Trainer may publish on
    subject = tool_subject("build", "model_trainer", run_id, call.call_id)
    data = CallMessage(call=call).model_dump_json().encode()
    await bus.connection.publish(subject, data, message_id=f"{run_id}-forged")
    runner = Runner(bus)
    async with runner.serving("build"), asyncio.timeout(SECONDS):
        async for message in bus.connection.tail(DLQ, f"dlq.TOOLS.build.{run_id}"):
            assert "somebody else" in json.loads(message.data)["cause"]
            break
    assert runner.calls == []


async def test_a_runner_that_always_fails_is_answered_for(bus: Bus) -> None:
    run_id = new_run_id()

    class Broken(Runner):
        async def on_call(self, call: ToolCall) -> ToolResult:
            self.calls.append(call.call_id)
            raise OSError("no space left")

    runner = Broken(bus)
    async with runner.serving("data"):
        result = await bus.call("data", a_call(run_id), SECONDS)
        async with asyncio.timeout(SECONDS):
            async for message in bus.connection.tail(DLQ, f"dlq.TOOLS.data.{run_id}"):
                assert "no space left" in json.loads(message.data)["cause"]
                break
    assert not result.ok and result.data == {"error": "ToolBroken"} and "no space left" in result.summary
    assert len(runner.calls) == 5


async def test_nobody_serves(bus: Bus) -> None:
    with pytest.raises(ToolBroken, match="class build"):
        await bus.call("build", a_call(new_run_id()), 0.3)


async def test_a_job_is_started_once_and_not_after_its_end(bus: Bus) -> None:
    run_id = new_run_id()
    job = JobSpec(job_id=f"{run_id}-train-1", run_id=run_id, kind="train", asked_by="model_trainer", caused_by="x")
    await bus.append(RunRequested.make(run_id=run_id, sender="gateway", cause=None, requirement="x"))
    runner = Runner(bus)
    await bus.submit_job("train", job)
    await bus.submit_job("train", job)
    async with runner.serving("train"):
        await runner.until_jobs(1)
        await asyncio.sleep(0.2)
        assert runner.jobs == [(job.job_id, 1)]
        await bus.append(
            JobFinished.make(
                run_id=run_id,
                sender="tool_runner",
                cause="x",
                job_id=job.job_id,
                job="train",
                asked_by="model_trainer",
                outcome="ok",
            )
        )
        data = job.model_dump_json()
        await bus.connection.publish(
            tool_subject("train", job.asked_by, run_id, job.job_id),
            f'{{"type": "job", "job": {data}}}'.encode(),
            message_id=f"{run_id}-late",
        )
        await asyncio.sleep(0.3)
    assert runner.jobs == [(job.job_id, 1)]


async def test_train_is_tried_for_ever(bus: Bus) -> None:
    run_id = new_run_id()
    job = JobSpec(job_id=f"{run_id}-train-1", run_id=run_id, kind="train", asked_by="model_trainer", caused_by="x")

    class Fails(Runner):
        async def on_job(self, job: JobSpec, attempt: int) -> None:
            await super().on_job(job, attempt)
            if attempt < 8:
                raise RuntimeError("card fell off the bus")

    runner = Fails(bus)
    await bus.submit_job("train", job)
    async with runner.serving("train"):
        await runner.until_jobs(8)
    assert [attempt for _, attempt in runner.jobs] == list(range(1, 9))


async def test_once_takes_one_message_and_returns(bus: Bus) -> None:
    run_id = new_run_id()
    for number in (1, 2):
        job = JobSpec(job_id=f"{run_id}-{number}", run_id=run_id, kind="train", asked_by="model_trainer", caused_by="x")
        await bus.submit_job("train", job)
    runner = Runner(bus)
    for expected in (1, 2):
        await asyncio.wait_for(
            bus.serve_tools("train", runner.on_call, runner.on_job, 1, asyncio.Event(), once=SECONDS), SECONDS
        )
        assert len(runner.jobs) == expected
