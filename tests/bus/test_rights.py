"""A server with one user a service: each can do its work and nothing of the others'."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from pydantic import SecretStr

from shared.bus import Bus
from shared.bus.rights import rights, users
from shared.bus.streams import CARDS, EVENTS, TOOLS, kv_stream, kv_subject, results_bucket, tool_subject, turns_stream
from shared.contracts.base import AGENTS, SERVICES, AgentName, Event, Service, new_run_id
from shared.contracts.events import SAYS, AnyEvent
from shared.contracts.runs import RoleFailed, RunRequested
from shared.contracts.tools import CLASS_OF_ROLE, ToolCall, ToolResult
from shared.contracts.training import JobSpec
from shared.contracts.transcript import Observation
from shared.embedded.nats import NatsHandle, start_nats
from shared.errors import PermissionDenied
from shared.settings import Settings

PASSWORDS: dict[Service, str] = {name: secrets.token_hex(12) for name in SERVICES}
OPERATOR = ("m3builder", secrets.token_hex(12))
SECONDS = 30.0
LATER: tuple[AgentName, ...] = ("module_architect", "model_trainer")


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsHandle]:
    server = start_nats(tmp_path_factory.mktemp("guarded"), extra=users(OPERATOR, PASSWORDS))
    yield server
    server.stop()


@pytest.fixture
async def connect(guarded: NatsHandle, tmp_path: Path) -> AsyncIterator[Callable[[str], Awaitable[Bus]]]:
    async with AsyncExitStack() as stack:

        async def one(name: str) -> Bus:
            user, password = OPERATOR if name == "operator" else (name, PASSWORDS[name])  # type: ignore[index]
            settings = Settings(
                home=tmp_path,
                nats_url=guarded.url,
                nats_user=user,
                nats_password=SecretStr(password),
                ack_wait_seconds=3,
            )
            bus = await Bus.connect(settings, name)
            stack.push_async_callback(bus.close)
            return bus

        await (await one("operator")).provision()
        yield one


Connect = Callable[[str], Awaitable[Bus]]


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


@pytest.mark.parametrize("role", AGENTS)
async def test_an_agent_works_with_its_own_rights(connect: Connect, role: AgentName) -> None:
    run_id, stop = new_run_id(), asyncio.Event()
    gateway, agent, runner = await connect("gateway"), await connect(role), await connect("tool_runner")
    await gateway.append(RunRequested.make(run_id=run_id, sender="gateway", cause=None, requirement="x"))

    async def on_call(call: ToolCall) -> ToolResult:
        return ToolResult(call_id=call.call_id, tool=call.tool, ok=True, summary="seen")

    async def on_job(job: JobSpec, attempt: int) -> None:
        raise AssertionError("no job was asked for")

    kind = CLASS_OF_ROLE[role]
    serving = asyncio.create_task(runner.serve_tools(kind, on_call, on_job, 1, stop))
    assert (await agent.call(kind, a_call(run_id, role), SECONDS)).summary == "seen"
    stop.set()
    await asyncio.wait_for(serving, SECONDS)
    note = Observation(run_id=run_id, role=role, number=1, event_id="e", event={})
    assert await agent.append_entry(note, 0)
    assert (await gateway.entries(run_id, role))[0] == [note]
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
        f"turns.data_engineer.{run_id}",
        kv_subject(CARDS, "chest"),
        kv_subject("WORKSPACES", f"{run_id}.data"),
        kv_subject(results_bucket(role), f"{run_id}-{role}-1-0"),
        tool_subject("data", role, run_id, "x"),
        tool_subject("data", "data_engineer", run_id, "x"),
        tool_subject("train", "scorer", run_id, "x"),
        "_INBOX_scorer.reply.x",
        "log.x.y",
    ]
    for subject in forged:
        with pytest.raises(PermissionDenied):
            await agent.connection.publish(subject, b"{}", message_id=secrets.token_hex(8), seconds=5)
    assert (await gateway.state(run_id)).head == head


async def test_a_payload_that_says_more_than_its_subject_stops_the_run_instead_of_counting(connect: Connect) -> None:
    run_id = new_run_id()
    gateway, agent = await connect("gateway"), await connect("model_trainer")
    await gateway.append(RunRequested.make(run_id=run_id, sender="gateway", cause=None, requirement="x"))
    # On a subject that is its own to use, in words that are the keeper's.
    forged = RoleFailed.make(run_id=run_id, sender="scorer", cause="x", end="crashed", reason="x")
    await agent.connection.publish(
        f"evt.{run_id}.model_trainer.RoleFailed.all", forged.encode(), message_id="forged-1", seconds=5
    )
    with pytest.raises(ValueError, match="says it is RoleFailed of scorer"):
        await gateway.state(run_id)


async def test_a_wrong_password_is_refused(guarded: NatsHandle, tmp_path: Path) -> None:
    settings = Settings(
        home=tmp_path, nats_url=guarded.url, nats_user="scorer", nats_password=SecretStr(PASSWORDS["gateway"])
    )
    with pytest.raises(PermissionDenied, match="M3_NATS_PASSWORD"):
        await Bus.connect(settings, "scorer", seconds=5)
