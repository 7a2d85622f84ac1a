"""Bus and store saved while they are in use, and made anew of the folder on other servers."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from shared.backup import MARK, load, save
from shared.bus import Bus
from shared.contracts.base import Event, new_run_id
from shared.contracts.runs import CancelRequested, RunRequested
from shared.embedded.nats import start_nats
from shared.embedded.s3 import start_s3
from shared.errors import UserError
from shared.settings import Settings
from shared.store import Store


@pytest.fixture
async def places(tmp_path: Path) -> AsyncIterator[list[Settings]]:
    """Two pairs of servers."""
    async with AsyncExitStack() as stack:
        made = []
        for name in ("old", "new"):
            bus = await asyncio.to_thread(start_nats, tmp_path / name / "nats")
            store = await asyncio.to_thread(start_s3, tmp_path / name / "s3")
            stack.callback(bus.stop)
            stack.callback(store.stop)
            made.append(
                Settings(
                    home=tmp_path / name,
                    nats_url=bus.url,
                    s3_endpoint=store.endpoint,
                    s3_access_key=store.access_key,
                    s3_secret_key=store.secret_key,
                )
            )
        yield made


async def heard_by(bus: Bus, durable: str, until: str) -> list[str]:
    """Ids of the events that are delivered, up to one."""
    stop, heard = asyncio.Event(), []

    async def hear(event: Event) -> None:
        heard.append(event.event_id)
        if event.event_id == until:
            stop.set()

    await asyncio.wait_for(bus.listen(durable, hear, 1, stop), 60)
    return heard


async def test_what_was_saved_is_there_again_and_nothing_is_heard_twice(places: list[Settings], tmp_path: Path) -> None:
    old, new = places
    folder, run_id = tmp_path / "backup", new_run_id()
    bus, store = await Bus.connect(old, "gateway"), Store.connect(old)
    await bus.provision()
    await asyncio.to_thread(store.ensure_buckets)
    asked = RunRequested.make(run_id=run_id, sender="gateway", cause=None, requirement="x")
    await bus.append(asked)
    assert await heard_by(bus, "keeper", asked.event_id) == [asked.event_id]
    refs = [await asyncio.to_thread(store.put_bytes, "packages", bytes([n]) * n * 1000) for n in range(4)]
    await bus.set_workspace_head(run_id, "build", refs[1])
    # More than the server sends before it wants an answer.
    for number in range(60):
        await bus.connection.publish("log.x.y", os.urandom(250_000), message_id=str(number))
    first = await save(old, folder, str)
    # Brought up to date: what was added comes, what was erased goes.
    cancelled = CancelRequested.make(run_id=run_id, sender="gateway", cause=asked)
    await bus.append(cancelled)
    await asyncio.to_thread(store.remove, "packages", refs[2].key)
    second = await save(old, folder, str)
    assert (second.messages, second.objects) == (first.messages + 1, 3)
    events = await bus.events(run_id)
    await bus.close()

    assert await load(new, folder, str) == second
    bus, store = await Bus.connect(new, "gateway"), Store.connect(new)
    await bus.prove_fence()
    assert await bus.events(run_id) == events and [event for _, event in events] == [asked, cancelled]
    assert await bus.workspace_head(run_id, "build") == refs[1]
    assert (await bus.connection.js.stream_info("LOG")).state.messages == 60
    for number in (0, 1, 3):
        assert await asyncio.to_thread(store.get_bytes, refs[number]) == bytes([number]) * number * 1000
    assert not await asyncio.to_thread(store.exists, refs[2])
    assert await heard_by(bus, "keeper", cancelled.event_id) == [cancelled.event_id]
    await bus.close()
    with pytest.raises(UserError, match=r"has a stream .* already"):
        await load(new, folder, str)


async def test_a_folder_that_is_no_backup_is_refused(places: list[Settings], tmp_path: Path) -> None:
    old, new = places
    bus, store = await Bus.connect(old, "gateway"), Store.connect(old)
    await bus.provision()
    await bus.close()
    await asyncio.to_thread(store.ensure_buckets)
    ref = await asyncio.to_thread(store.put_bytes, "work", b"content")
    (other := tmp_path / "other").mkdir()
    (other / "store").mkdir()
    (other / "store" / "letter").touch()  # as a backup is laid out, and none of ours
    with pytest.raises(UserError, match="something else"):
        await save(old, other, str)
    await save(old, folder := tmp_path / "backup", str)
    (folder / "store" / "work" / ref.key).write_bytes(b"CONTENT")
    with pytest.raises(UserError, match="is not what was saved"):
        await load(new, folder, str)
    (folder / MARK).unlink()
    with pytest.raises(UserError, match="not finished"):
        await load(new, folder, str)
