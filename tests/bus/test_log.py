"""The run log: fenced, idempotent, followed to its end."""

import asyncio
from pathlib import Path

import pytest

from shared.bus import Bus
from shared.contracts.base import Event, Service, new_run_id
from shared.contracts.runs import CancelRequested, RunFinished, RunRequested
from shared.contracts.state import RunState
from shared.embedded.nats import start_nats
from shared.errors import NotFound, PermissionDenied, ServerUnfit
from shared.settings import Settings


def requested(run_id: str) -> RunRequested:
    return RunRequested.make(run_id=run_id, sender="gateway", cause=None, requirement="tell the two classes apart")


def cancel(run_id: str, salt: str) -> CancelRequested:
    return CancelRequested.make(run_id=run_id, sender="gateway", cause=None, salt=salt)


def finished(run_id: str) -> RunFinished:
    return RunFinished.make(run_id=run_id, sender="task_manager", cause=None, end="cancelled")


async def test_two_writers_lose_nothing(bus: Bus, bus_settings: Settings) -> None:
    run_id = new_run_id()
    other = await Bus.connect(bus_settings, "scorer")

    async def write(writer: Bus, name: str) -> None:
        for number in range(50):
            await writer.append(cancel(run_id, f"{name}{number}"))

    await asyncio.gather(write(bus, "a"), write(other, "b"))
    await other.close()

    events = await bus.events(run_id)
    ids = [event.event_id for _, event in events]
    for name in "ab":
        mine = [cancel(run_id, f"{name}{number}").event_id for number in range(50)]
        assert [one for one in ids if one in set(mine)] == mine
    assert len(ids) == len(set(ids)) == 100
    assert (await bus.state(run_id)).head == events[-1][0]


async def test_decisions_are_made_on_the_head_of_the_run(bus: Bus, bus_settings: Settings) -> None:
    """Three writers of different events fill a run up to a bound; without the fence they would overshoot."""
    run_id = new_run_id()
    others = [await Bus.connect(bus_settings, name) for name in ("tool_runner", "task_manager")]
    await bus.append(requested(run_id))  # after which these three have a say in it

    async def fill(writer: Bus, sender: Service) -> None:
        for number in range(20):
            # Of different senders, so that no two writers share a subject.
            event = cancel(run_id, f"{sender}{number}").model_copy(update={"sender": sender})
            await writer.append(event, unless=lambda state: len(state.seen) >= 31)

    await asyncio.gather(fill(bus, "gateway"), fill(others[0], "tool_runner"), fill(others[1], "task_manager"))
    for other in others:
        await other.close()
    assert len(await bus.events(run_id)) == 31


async def test_an_event_is_appended_once(bus: Bus, bus_settings: Settings) -> None:
    run_id = new_run_id()
    first = await bus.append(requested(run_id))
    assert await bus.append(requested(run_id)) == first
    # A process that knows nothing of the first append, past the server's memory of message ids or not.
    other = await Bus.connect(bus_settings, "gateway")
    assert (await other.append(requested(run_id))).head == first.head
    await other.close()
    assert len(await bus.events(run_id)) == 1


async def test_unless_is_asked_of_the_newest_state(bus: Bus, bus_settings: Settings) -> None:
    run_id = new_run_id()
    await bus.append(requested(run_id))
    other = await Bus.connect(bus_settings, "task_manager")
    await other.append(cancel(run_id, ""))
    await other.close()

    asked: list[RunState] = []

    def is_cancelled(state: RunState) -> bool:
        asked.append(state)
        return state.cancel is not None

    after = await bus.append(finished(run_id), unless=is_cancelled)
    assert after.cancel and not after.finished
    assert len(asked) >= 2, "the remembered state did not know of the cancellation"


async def test_nothing_is_lost_or_doubled_when_the_server_is_killed(tmp_path: Path) -> None:
    server = start_nats(tmp_path / "nats")
    settings = Settings(home=tmp_path, nats_url=server.url)
    writer, reader = await Bus.connect(settings, "gateway"), await Bus.connect(settings, "task_manager")
    await writer.provision()
    run_id = new_run_id()
    events = [requested(run_id), *(cancel(run_id, str(number)) for number in range(60)), finished(run_id)]
    seen: list[str] = []
    delivered: set[str] = set()
    stop = asyncio.Event()

    async def keep(event: Event) -> None:
        delivered.add(event.event_id)
        if event.kind == "RunFinished":
            stop.set()

    async def follow() -> None:
        async for _, event in reader.follow(run_id):
            seen.append(event.event_id)

    async def write() -> None:
        for number, event in enumerate(events):
            if number == 20:
                killed.set()
            await writer.append(event)

    killed = asyncio.Event()
    following, writing = asyncio.create_task(follow()), asyncio.create_task(write())
    listening = asyncio.create_task(reader.listen("keeper", keep, 1, stop))
    await killed.wait()
    await asyncio.to_thread(server.kill)
    await asyncio.sleep(0.3)
    server = await asyncio.to_thread(start_nats, tmp_path / "nats", server.port)
    try:
        await asyncio.wait_for(asyncio.gather(following, writing, listening), 60)
        expected = [event.event_id for event in events]
        assert [event.event_id for _, event in await reader.events(run_id)] == expected
        assert seen == expected
        assert delivered == set(expected)
        # The restarted server appends nothing for an event that it had acknowledged before.
        await reader.append(events[3])
        assert len(await reader.events(run_id)) == len(events)
    finally:
        await writer.close()
        await reader.close()
        server.stop()


async def test_follow_starts_after_a_sequence_and_ends_with_the_run(bus: Bus) -> None:
    run_id = new_run_id()
    head = (await bus.append(requested(run_id))).head
    got: list[str] = []

    async def follow() -> None:
        async for _, event in bus.follow(run_id, after=head):
            got.append(event.kind)

    task = asyncio.create_task(follow())
    await bus.append(cancel(run_id, ""))
    await bus.append(finished(run_id))
    await asyncio.wait_for(task, 10)
    assert got == ["CancelRequested", "RunFinished"]
    # A reader that comes back after the end is not kept waiting.
    end = (await bus.state(run_id)).head
    assert [event async for event in bus.follow(run_id, after=end)] == []


async def test_runs_are_listed_newest_first_and_kept_up(bus: Bus) -> None:
    first, second = new_run_id(), new_run_id()
    await bus.append(requested(first))
    await bus.append(requested(second))
    listed = {one.run_id: one.status for one in await bus.runs()}
    assert listed[first] == listed[second] == "running"
    assert list(listed).index(second) < list(listed).index(first)
    await bus.append(finished(first))
    assert {one.run_id: one.status for one in await bus.runs()}[first] == "cancelled"


async def test_a_run_that_is_not_there(bus: Bus) -> None:
    with pytest.raises(NotFound):
        await bus.state(new_run_id())
    assert await bus.events(new_run_id()) == []


async def test_too_large_an_event_is_refused(bus: Bus) -> None:
    run_id = new_run_id()
    with pytest.raises(ValueError, match="store"):
        await bus.append(requested(run_id).model_copy(update={"asked_by": "x" * 300_000}))
    assert await bus.events(run_id) == []


async def test_the_fence_is_proved_and_provisioning_repeats(bus: Bus) -> None:
    await bus.prove_fence()
    await bus.provision()
    await bus.prove_fence()


async def test_no_server_is_said_plainly(tmp_path: Path) -> None:
    with pytest.raises(ServerUnfit, match="M3_NATS_URL"):
        await Bus.connect(Settings(home=tmp_path, nats_url="nats://127.0.0.1:9"), "scorer", seconds=1)


async def test_a_forbidden_event_raises_at_once(tmp_path: Path) -> None:
    users = """
    authorization { users: [
      { user: admin, password: a },
      { user: runner, password: t, permissions: {
          publish: ["evt.*.tool_runner.>", "$JS.API.STREAM.MSG.GET.EVENTS"], subscribe: "_INBOX_tool_runner.>" } }
    ] }
    """
    server = start_nats(tmp_path / "nats", extra=users)
    admin = await Bus.connect(Settings(nats_url=server.url, nats_user="admin", nats_password="a"), "gateway")
    await admin.provision()
    runner = await Bus.connect(Settings(nats_url=server.url, nats_user="runner", nats_password="t"), "tool_runner")
    try:
        run_id = new_run_id()
        forged = cancel(run_id, "").model_copy(update={"sender": "scorer"})
        with pytest.raises(PermissionDenied, match=r"evt\..*scorer"):
            await asyncio.wait_for(runner.append(forged), 1.5)
        await runner.append(forged.model_copy(update={"sender": "tool_runner"}))
        assert [event.sender for _, event in await admin.events(run_id)] == ["tool_runner"]
        with pytest.raises(PermissionDenied, match="M3_NATS_USER"):
            wrong = Settings(nats_url=server.url, nats_user="runner", nats_password="x")
            await Bus.connect(wrong, "tool_runner", seconds=2)
    finally:
        await runner.close()
        await admin.close()
        server.stop()
