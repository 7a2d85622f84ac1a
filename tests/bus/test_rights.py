"""A server with one user a service: each can do its work and nothing of the others'."""

import asyncio
import secrets
from datetime import UTC, datetime
from pathlib import Path

import pytest
from nats.js.errors import APIError
from pydantic import SecretStr

from shared.bus import Bus
from shared.bus.rights import rights
from shared.bus.streams import (
    CARDS,
    DURABLES,
    EVENTS,
    TOOLS,
    kv_stream,
    kv_subject,
    results_bucket,
    tool_subject,
    turns_stream,
)
from shared.contracts.base import AGENTS, SERVICES, AgentName, Event, new_run_id
from shared.contracts.disclosure import Disclosed
from shared.contracts.erasure import Tombstone
from shared.contracts.events import AnyEvent
from shared.contracts.flow import ASKS, GOES_ON, SAYS
from shared.contracts.runs import RoleFailed, RunRequested
from shared.contracts.tools import ToolCall, ToolResult
from shared.contracts.training import JobSpec
from shared.contracts.transcript import Observation
from shared.embedded.nats import NatsHandle, start_nats
from shared.errors import PermissionDenied, ServerUnfit
from shared.settings import Settings
from tests.bus.conftest import PASSWORDS, SECONDS, Connect
from tests.cases import told_until

LATER: tuple[AgentName, ...] = ("module_architect", "model_trainer")


async def ask(bus: Bus, subject: str, payload: bytes) -> object:
    return await bus.connection.client.request(subject, payload, timeout=1)


def a_call(run_id: str, role: AgentName) -> ToolCall:
    return ToolCall(call_id=f"{run_id}-{role}-1-0", run_id=run_id, role=role, tool="list_files", reply="")


def test_every_fact_is_somebodys_and_every_service_has_rights() -> None:
    kinds = {one.model_fields["kind"].default for one in AnyEvent.__args__[0].__args__}  # type: ignore[attr-defined]
    assert kinds == {kind for said in SAYS.values() for kind in said}
    assert set(SAYS) == set(SERVICES)
    assert not any("$JS.API.>" in rights(name).publish or ">" in rights(name).publish for name in SERVICES)


async def test_every_service_proves_the_fence_and_reads_a_run(connect: Connect) -> None:
    run_id = new_run_id()
    gateway = await connect("gateway")
    await gateway.append(RunRequested.make(run_id=run_id, sender="gateway", cause=None, requirement="x"))
    for name in SERVICES:
        bus = await connect(name)
        await bus.prove_fence()
        assert (await bus.state(run_id)).requested
        # Who may write there cannot fill the server's memory.
        with pytest.raises(APIError, match="maximum"):
            await bus.connection.publish(f"fence.{run_id}.a", bytes(2000))
    kept = (await (await connect("operator")).connection.js.stream_info("FENCE")).config
    assert kept.max_msgs == 4096 and kept.max_age == 60


@pytest.mark.parametrize("role", AGENTS)
async def test_an_agent_works_with_its_own_rights(connect: Connect, role: AgentName) -> None:
    run_id, stop = new_run_id(), asyncio.Event()
    gateway, agent, runner = await connect("gateway"), await connect(role), await connect("tool_runner")
    for fact in told_until(run_id, role):
        await (await connect(fact.sender)).append(fact)

    async def on_call(call: ToolCall) -> ToolResult:
        return ToolResult(call_id=call.call_id, tool=call.tool, ok=True, summary="seen")

    async def on_job(job: JobSpec, attempt: int) -> None:
        raise AssertionError("no job was asked for")

    kind = ASKS[role][0]
    serving = asyncio.create_task(runner.serve_tools(kind, on_call, on_job, 1, stop))
    assert (await agent.call(kind, a_call(run_id, role), SECONDS)).summary == "seen"
    stop.set()
    await asyncio.wait_for(serving, SECONDS)
    note = Observation(run_id=run_id, role=role, number=1, event_id="e", event={})
    assert await agent.append_entry(note, 0)
    assert (await gateway.entries(run_id, role))[0] == [note]
    told = Disclosed(run_id=run_id, role=role, turn=1, at=datetime.now(UTC), core="a:b", sha256="0", size=1)
    await agent.put_disclosed(told)
    assert await gateway.disclosed(run_id) == [told]
    with pytest.raises(PermissionDenied):
        await agent.put_disclosed(told.model_copy(update={"role": AGENTS[AGENTS.index(role) - 1]}))
    assert await agent.secret(run_id) == await (await connect(LATER[0])).secret(run_id)
    failed = RoleFailed.make(run_id=run_id, sender=role, cause="x", end="crashed", reason="x")
    heard: list[Event] = []

    async def hear(event: Event) -> None:
        heard.append(event)
        if event.run_id == run_id and event.kind == "RoleFailed":
            listened.set()

    stop, listened = asyncio.Event(), asyncio.Event()
    keeper = await connect("task_manager")
    listening = asyncio.create_task(keeper.listen("keeper", hear, 1, stop))
    await agent.append(failed)
    await asyncio.wait_for(listened.wait(), SECONDS)
    stop.set()
    await asyncio.wait_for(listening, SECONDS)


async def test_the_gateway_alone_sees_how_the_bus_is_doing(connect: Connect) -> None:
    gateway, scorer = await connect("gateway"), await connect("scorer")
    assert {queue.name for queue in await gateway.queues()} == {durable.name for durable in DURABLES}
    assert await gateway.dead() == {} or min((await gateway.dead()).values()) > 0
    assert (await gateway.sizes()).keys() >= {EVENTS, TOOLS}
    with pytest.raises(TimeoutError):
        await scorer.queues()


async def test_a_runner_has_another_one_decode_a_batch(connect: Connect) -> None:
    asker, other, stop = await connect("tool_runner"), await connect("tool_runner"), asyncio.Event()

    async def on_call(call: ToolCall) -> ToolResult:
        return ToolResult(call_id=call.call_id, tool=call.tool, ok=True, summary="decoded")

    async def on_job(job: JobSpec, attempt: int) -> None:
        raise AssertionError("no job was asked for")

    serving = asyncio.create_task(other.serve_tools("intake", on_call, on_job, 1, stop))
    call = ToolCall(call_id="batch-1", run_id=new_run_id(), role="tool_runner", tool="decode_batch", reply="")
    assert (await asker.call("intake", call, SECONDS)).summary == "decoded"
    stop.set()
    await asyncio.wait_for(serving, SECONDS)


@pytest.mark.parametrize("role", LATER)
async def test_a_later_role_reads_nothing_of_an_earlier_one(connect: Connect, role: AgentName) -> None:
    run_id = new_run_id()
    engineer, agent = await connect("data_engineer"), await connect(role)
    note = Observation(run_id=run_id, role="data_engineer", number=1, event_id="e", event={"label": "secret"})
    await engineer.append_entry(note, 0)
    own = f"$JS.API.STREAM.MSG.GET.{EVENTS}"
    # What the server refuses it drops in silence, so a time-out is the refusal; this one is answered.
    assert await ask(agent, own, b'{"seq": 1}')
    streams = [
        turns_stream("data_engineer"),
        kv_stream(results_bucket("data_engineer")),
        kv_stream(CARDS),
        TOOLS,
        "LOG",
    ]
    asked = (
        "STREAM.MSG.GET",
        "STREAM.INFO",
        "STREAM.PURGE",
        "STREAM.DELETE",
        "CONSUMER.CREATE",
        "CONSUMER.DURABLE.CREATE",
    )
    requests = [
        ask(agent, f"$JS.API.{kind}.{stream}", b'{"seq": 1}')
        for kind in asked
        for stream in (*streams, kv_stream("WORKSPACES"), "DLQ")
    ]
    heard = [
        (await agent.connection.client.subscribe(subject)).next_msg(timeout=1)
        for subject in ("turns.>", "tool.>", "_INBOX_data_engineer.>", "$KV.>", ">")
    ]
    answers = await asyncio.gather(*requests, *heard, return_exceptions=True)
    assert all(isinstance(answer, TimeoutError) for answer in answers), answers
    with pytest.raises(TimeoutError):
        await agent.connection.js.pull_subscribe("evt.>", durable="data_engineer", stream=EVENTS)


async def test_a_conversation_goes_on_within_a_side_of_the_lock_only(connect: Connect) -> None:
    assert GOES_ON == {"data_engineer": "task_manager", "model_trainer": "module_architect"}
    for role, earlier in GOES_ON.items():
        run_id = new_run_id()
        note = Observation(run_id=run_id, role=earlier, number=1, event_id="e", event={"said": "before"})
        await (await connect(earlier)).append_entry(note, 0)
        assert (await (await connect(role)).entries(run_id, earlier))[0] == [note]
    refused = ask(
        await connect("module_architect"), "$JS.API.STREAM.MSG.GET." + turns_stream("task_manager"), b'{"seq": 1}'
    )
    with pytest.raises(TimeoutError):
        await refused


@pytest.mark.parametrize("role", LATER)
async def test_a_later_role_cannot_speak_for_another(connect: Connect, role: AgentName) -> None:
    run_id = new_run_id()
    gateway, agent = await connect("gateway"), await connect(role)
    await gateway.append(RunRequested.make(run_id=run_id, sender="gateway", cause=None, requirement="x"))
    head = (await gateway.state(run_id)).head
    forged = [
        f"evt.{run_id}.scorer.RunScored.all",
        f"evt.{run_id}.{role}.RunScored.all",
        f"evt.{run_id}.task_manager.RunFinished.all",
        f"evt.{run_id}.gateway.QuestionAnswered.all",
        f"evt.{run_id}.{role}.QuestionAnswered.all",
        f"turns.data_engineer.{run_id}",
        kv_subject(CARDS, "chest"),
        kv_subject("WORKSPACES", f"{run_id}.data"),
        kv_subject(results_bucket(role), f"{run_id}-{role}-1-0"),
        tool_subject("data", role, run_id, "x"),
        tool_subject("data", "data_engineer", run_id, "x"),
        tool_subject("train", "scorer", run_id, "x"),
        tool_subject("intake", "tool_runner", run_id, "x"),
        "_INBOX_scorer.reply.x",
        "log.x.y",
    ]
    for subject in forged:
        with pytest.raises(PermissionDenied):
            await agent.connection.publish(subject, b"{}", message_id=secrets.token_hex(8), seconds=5)
    assert (await gateway.state(run_id)).head == head


async def test_a_wrong_password_is_refused(guarded: NatsHandle, tmp_path: Path) -> None:
    settings = Settings(
        home=tmp_path, nats_url=guarded.url, nats_user="scorer", nats_password=SecretStr(PASSWORDS["gateway"])
    )
    with pytest.raises(PermissionDenied, match="M3_NATS_PASSWORD"):
        await Bus.connect(settings, "scorer", seconds=5)


async def test_the_gateway_alone_deletes_a_message(connect: Connect) -> None:
    gateway, run_id = await connect("gateway"), new_run_id()
    await gateway.append(RunRequested.make(run_id=run_id, sender="gateway", cause=None, requirement="x"))
    event = [one async for one in gateway.messages_of([run_id], [])][-1]
    assert event.stream == EVENTS
    for name in SERVICES:
        if name != "gateway":
            with pytest.raises(TimeoutError):
                await ask(await connect(name), f"$JS.API.STREAM.MSG.DELETE.{EVENTS}", b'{"seq": 1}')
    await gateway.put_tombstone(Tombstone(id=run_id, kind="run", at=datetime.now(UTC), by="somebody"))
    for name in SERVICES:
        assert run_id in [stone.id for stone in await (await connect(name)).tombstones()]
    for _ in range(2):  # one that is gone is fine
        await gateway.delete(event)
    assert await gateway.events(run_id) == []


async def test_a_stream_that_was_made_to_keep_everything_says_so(tmp_path: Path) -> None:
    server = start_nats(tmp_path)
    bus = await Bus.connect(Settings(home=tmp_path, nats_url=server.url), "gateway")
    try:
        await bus.connection.js.add_stream(name=EVENTS, subjects=["evt.>"], deny_delete=True)
        await bus.provision()
        await bus.append(
            RunRequested.make(run_id=(run_id := new_run_id()), sender="gateway", cause=None, requirement="x")
        )
        found = [one async for one in bus.messages_of([run_id], [])]
        with pytest.raises(ServerUnfit, match="made by an earlier version"):
            await bus.delete(found[-1])
    finally:
        await bus.close()
        server.stop()
