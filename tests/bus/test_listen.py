"""Delivery to handlers: again after a failure, to the DLQ in the end, with the publisher's trace."""

import asyncio
import io
import json
import logging
from collections.abc import Iterator

import pytest
from opentelemetry import trace

from shared import telemetry
from shared.bus import Bus
from shared.bus.streams import DLQ, EVENTS
from shared.contracts.base import Event, new_run_id
from shared.contracts.runs import CancelRequested, DatasetAdded, RunRequested
from shared.errors import Conflict, StaleTranscript
from shared.settings import Settings

SECONDS = 20.0


class Listener:
    """A handler on one durable that keeps what it gets of one run and acknowledges what is of other tests."""

    def __init__(self, bus: Bus, run_id: str, durable: str, concurrency: int = 1) -> None:
        self.bus, self.run_id, self.durable, self.concurrency = bus, run_id, durable, concurrency
        self.got: list[Event] = []
        self.dead: list[tuple[Event, BaseException]] = []
        self.stop = asyncio.Event()
        self.news = asyncio.Event()

    async def on_event(self, event: Event) -> None:
        self.got.append(event)

    async def _handle(self, event: Event) -> None:
        if event.run_id == self.run_id:
            try:
                await self.on_event(event)
            finally:
                self.news.set()

    async def _dead(self, event: Event, error: BaseException) -> None:
        self.dead.append((event, error))

    async def __aenter__(self) -> "Listener":
        self.task = asyncio.create_task(
            self.bus.listen(self.durable, self._handle, self.concurrency, self.stop, on_dead=self._dead)
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        self.stop.set()
        await asyncio.wait_for(self.task, 5)

    async def until(self, count: int) -> None:
        async with asyncio.timeout(SECONDS):
            while len(self.got) < count:
                self.news.clear()
                await self.news.wait()


def requested(run_id: str) -> RunRequested:
    return RunRequested.make(run_id=run_id, sender="gateway", cause=None, requirement="x")


def added(run_id: str, salt: str = "") -> DatasetAdded:
    return DatasetAdded.make(run_id=run_id, sender="gateway", cause=None, salt=salt, dataset_id="chest")


async def letters(bus: Bus, subject: str) -> list[dict[str, str]]:
    return [json.loads(message.data) async for message in bus.connection.read(DLQ, subject)]


async def wait_for_letter(bus: Bus, subject: str) -> dict[str, str]:
    async with asyncio.timeout(SECONDS):
        async for message in bus.connection.tail(DLQ, subject):
            found = json.loads(message.data)
            assert isinstance(found, dict)
            return found
    raise AssertionError


async def test_a_role_is_woken_by_what_concerns_it(bus: Bus) -> None:
    run_id = new_run_id()
    async with Listener(bus, run_id, "task_manager") as listener:
        await bus.append(requested(run_id))
        # Addressed to nobody in particular and of no kind that wakes the role.
        await bus.append(CancelRequested.make(run_id=run_id, sender="gateway", cause=None))
        await bus.append(added(run_id))
        await listener.until(2)
    assert [event.kind for event in listener.got] == ["RunRequested", "DatasetAdded"]


async def test_delivered_again_after_a_crash_of_the_handler(bus: Bus) -> None:
    run_id = new_run_id()

    class Fails(Listener):
        async def on_event(self, event: Event) -> None:
            self.got.append(event)
            if len(self.got) == 1:
                raise RuntimeError("first time")

    async with Fails(bus, run_id, "task_manager") as listener:
        await bus.append(requested(run_id))
        await listener.until(2)
    assert [event.event_id for event in listener.got] == [requested(run_id).event_id] * 2
    assert await letters(bus, f"dlq.EVENTS.task_manager.{run_id}") == []


async def test_dead_letter_after_five_deliveries(bus: Bus, caplog: pytest.LogCaptureFixture) -> None:
    run_id = new_run_id()

    class Fails(Listener):
        async def on_event(self, event: Event) -> None:
            self.got.append(event)
            raise RuntimeError("always the same")

    async with Fails(bus, run_id, "task_manager") as listener:
        await bus.append(requested(run_id))
        letter = await wait_for_letter(bus, f"dlq.EVENTS.task_manager.{run_id}")
        await asyncio.sleep(0.3)
    assert len(listener.got) == 5
    assert letter["cause"] == "RuntimeError: always the same"
    assert [(event.kind, str(error)) for event, error in listener.dead] == [("RunRequested", "always the same")]
    assert any(record.exc_info for record in caplog.records if record.levelno == logging.ERROR)


async def test_what_cannot_be_read_is_buried_at_once(bus: Bus) -> None:
    run_id = new_run_id()
    await bus.connection.publish(f"evt.{run_id}.gateway.RunRequested.all", b'{"kind": "Nonsense"}', message_id=run_id)
    async with Listener(bus, run_id, "task_manager") as listener:
        letter = await wait_for_letter(bus, f"dlq.EVENTS.task_manager.{run_id}")
    assert letter["stream"] == EVENTS
    assert letter["cause"].startswith("Unreadable")
    assert listener.got == []


async def test_a_conflict_is_tried_again_and_never_buried(bus: Bus) -> None:
    run_id = new_run_id()

    class Races(Listener):
        async def on_event(self, event: Event) -> None:
            self.got.append(event)
            if len(self.got) < 3:
                raise Conflict("moved on")

    async with Races(bus, run_id, "task_manager") as listener:
        await bus.append(requested(run_id))
        await listener.until(3)
    assert listener.dead == []


async def test_a_stale_replica_leaves_the_event_to_the_other(bus: Bus, bus_settings: Settings) -> None:
    """Unacknowledged, it comes again only when the holder is gone, that is after ack_wait."""
    run_id = new_run_id()
    times: list[float] = []

    class Stale(Listener):
        async def on_event(self, event: Event) -> None:
            self.got.append(event)
            times.append(asyncio.get_running_loop().time())
            if len(self.got) == 1:
                raise StaleTranscript("elsewhere")

    async with Stale(bus, run_id, "task_manager") as listener:
        await bus.append(requested(run_id))
        await listener.until(2)
    assert times[1] - times[0] > bus_settings.ack_wait_seconds * 0.9


async def test_a_long_handler_keeps_its_message(bus: Bus, bus_settings: Settings) -> None:
    run_id = new_run_id()

    class Slow(Listener):
        async def on_event(self, event: Event) -> None:
            self.got.append(event)
            await asyncio.sleep(bus_settings.ack_wait_seconds * 1.7)

    async with Slow(bus, run_id, "task_manager", concurrency=2) as listener:
        await bus.append(requested(run_id))
        await listener.until(1)
        async with asyncio.timeout(SECONDS):
            await listener.news.wait()
        await asyncio.sleep(0.2)
    assert len(listener.got) == 1


async def test_handlers_run_side_by_side(bus: Bus) -> None:
    run_id = new_run_id()
    together = asyncio.Barrier(3)

    class Meets(Listener):
        async def on_event(self, event: Event) -> None:
            async with asyncio.timeout(SECONDS):
                await together.wait()
            self.got.append(event)

    async with Meets(bus, run_id, "task_manager", concurrency=3) as listener:
        for salt in "abc":
            await bus.append(added(run_id, salt))
        await listener.until(3)
    assert len({event.event_id for event in listener.got}) == 3


async def test_stopping_hands_unfinished_work_to_the_next(bus: Bus, bus_settings: Settings) -> None:
    run_id = new_run_id()

    class Hangs(Listener):
        async def on_event(self, event: Event) -> None:
            self.got.append(event)
            self.news.set()
            await asyncio.sleep(3600)

    async with Hangs(bus, run_id, "task_manager") as first:
        await bus.append(requested(run_id))
        await first.until(1)
    loop = asyncio.get_running_loop()
    stopped = loop.time()
    async with Listener(bus, run_id, "task_manager") as second:
        await second.until(1)
    assert loop.time() - stopped < bus_settings.ack_wait_seconds * 0.9


@pytest.fixture
def traced(bus_settings: Settings) -> Iterator[None]:
    before = logging.getLogger().handlers[:]
    telemetry.setup("scorer", bus_settings)
    yield
    logging.getLogger().handlers = before


async def test_the_trace_reaches_the_handler(bus: Bus, traced: None) -> None:
    run_id = new_run_id()
    seen: list[trace.SpanContext] = []

    class Traced(Listener):
        async def on_event(self, event: Event) -> None:
            self.got.append(event)
            seen.append(trace.get_current_span().get_span_context())

    async with Traced(bus, run_id, "task_manager") as listener:
        with telemetry.tracer().start_as_current_span("request") as publisher:
            await bus.append(requested(run_id))
        await listener.until(1)
    assert seen[0].trace_id == publisher.get_span_context().trace_id
    assert seen[0].span_id != publisher.get_span_context().span_id


async def test_log_lines_carry_trace_and_run(traced: None) -> None:
    stream = io.StringIO()
    (handler,) = [one for one in logging.getLogger().handlers if isinstance(one.formatter, telemetry.JsonLines)]
    assert isinstance(handler, logging.StreamHandler)
    handler.setStream(stream)
    with telemetry.bind_run("r1"), telemetry.tracer().start_as_current_span("work") as span:
        logging.getLogger("x").warning("said")
    line = json.loads(stream.getvalue())
    assert (line["service"], line["level"], line["message"], line["run_id"]) == ("scorer", "WARNING", "said", "r1")
    assert line["trace_id"] == f"{span.get_span_context().trace_id:032x}"
