"""The truth: each run's events, appended under a fence, folded into its state, and delivered to the roles."""

import asyncio
import logging
import random
import secrets
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

import pydantic
from nats.js.api import RawStreamMsg
from nats.js.errors import APIError

from shared import telemetry
from shared.bus.connection import EXPECTED_SUBJECT, GIVE_UP_SECONDS, Connection, lost_race
from shared.bus.consume import RETRY_DELAYS, Consumer, Delivery, Policy, Unreadable
from shared.bus.part import Part, readable
from shared.bus.streams import ERASED, EVENTS, kv_stream, kv_subject
from shared.contracts.base import Event
from shared.contracts.erasure import Tombstone
from shared.contracts.events import read_event
from shared.contracts.flow import KEEPER
from shared.contracts.runs import DataCard, RunFinished, RunSummary
from shared.contracts.state import RunState, fold
from shared.errors import Conflict, NotFound, ServerUnfit, Unavailable
from shared.settings import Settings

log = logging.getLogger(__name__)

_REMEMBERED_RUNS = 256
_READ_AT_ONCE = 64


class RunLog(Part):
    """Folded states are remembered, so that each look at a run reads only what is new."""

    def __init__(
        self, connection: Connection, settings: Settings, retry_delays: Sequence[float] = RETRY_DELAYS
    ) -> None:
        super().__init__(connection, settings, retry_delays)
        self._states: OrderedDict[str, RunState] = OrderedDict()
        self._summaries: dict[str, RunState] = {}
        self._summed_up_to = self._erased_up_to = 0

    async def append(self, event: Event, unless: Callable[[RunState], bool] | None = None) -> RunState:
        """Append one fact to its run and return the state after it.

        An event whose id the run already has is not appended again, nor is one for which `unless(state)` holds in
        the newest state; both return that state. Safe to repeat after any failure. Raises ValueError when the event
        is too large, PermissionDenied when this service may not say it, Unavailable when no server acknowledged.
        """
        if telemetry.in_trace():
            return await self._append(event, unless)
        # No message is being handled, as in the gateway: the trace goes on from the run's newest event.
        newest = await self.connection.last(EVENTS, _all_of(event.run_id))
        with telemetry.continued(newest.headers if newest else None):
            return await self._append(event, unless)

    async def _append(self, event: Event, unless: Callable[[RunState], bool] | None) -> RunState:
        data = event.encode()
        deadline = time.monotonic() + GIVE_UP_SECONDS
        state = self._states.get(event.run_id) or await self._fresh(event.run_id)
        fresh, message_id = False, event.event_id
        while True:
            if state.knows(event) or (unless and unless(state)):
                if fresh:
                    return state
                newest = await self._fresh(event.run_id)
                fresh, state = newest.head == state.head, newest
                continue
            try:
                ack = await self.connection.publish(
                    event.subject(),
                    data,
                    message_id=message_id,
                    expected=state.head,
                    expected_subject=f"evt.{event.run_id}.>",
                    template=f"evt.{{run}}.{event.sender}.{event.kind}.{event.recipient()}",
                    seconds=max(0.1, deadline - time.monotonic()),
                )
            except APIError as error:
                if not lost_race(error):
                    raise
                # Either somebody else was faster, or this very event landed in an earlier try: the fold tells.
                if time.monotonic() > deadline:
                    raise Conflict(f"run {event.run_id} keeps moving on; {event.kind} could not be appended") from None
                await asyncio.sleep(random.uniform(0, 0.005))
                state, fresh = await self._fresh(event.run_id), True
                continue
            if ack.duplicate:
                state = await self._fresh(event.run_id)
                if state.knows(event):
                    return state
                # Ids can be foretold: another message was given this one, so that ours would be dropped.
                message_id = f"{event.event_id}.{secrets.token_hex(4)}"
                continue
            return self._remember(fold(event.run_id, [(int(ack.seq), event)], state))

    async def state(self, run_id: str) -> RunState:
        """The run as of now. Raises NotFound when it has no event."""
        state = await self._fresh(run_id)
        if not state.seen:
            raise NotFound(f"there is no run {run_id}; `m3builder runs` lists those there are")
        return state

    async def events(self, run_id: str) -> list[tuple[int, Event]]:
        """All events of the run with their sequence numbers, oldest first, without those that came out of turn; empty
        when there is no such run."""
        messages = self.connection.read(EVENTS, _all_of(run_id))
        found = [(int(message.seq), event) async for message in messages if (event := _event(message))]
        passed_over = fold(run_id, found).passed_over
        return [(sequence, event) for sequence, event in found if sequence not in passed_over]

    async def follow(self, run_id: str, after: int = 0) -> AsyncIterator[tuple[int, Event]]:
        """Events past the sequence `after` as they come; ends after RunFinished, also when that lies before `after`."""
        over = (await self._fresh(run_id)).finished is not None
        source = self.connection.read if over else self.connection.tail
        async for message in source(EVENTS, _all_of(run_id), after):
            event, sequence = _event(message), int(message.seq)
            if event is None or sequence in (await self._fresh(run_id)).passed_over:
                continue
            yield sequence, event
            if isinstance(event, RunFinished):
                return

    async def runs(self) -> list[RunSummary]:
        """One line a run, newest first."""
        return [state.summary() for state in await self.states()]

    async def states(self) -> list[RunState]:
        """All runs but erased ones, newest first. The first call reads the whole log, later ones what was added."""
        async for message in self._everything_after(self._summed_up_to):
            self._summed_up_to = int(message.seq)
            run_id = message.subject.split(".")[1]
            if event := _event(message):
                self._summaries[run_id] = fold(run_id, [(int(message.seq), event)], self._summaries.get(run_id))
        async for message in self.connection.read(kv_stream(ERASED), kv_subject(ERASED, ">"), self._erased_up_to):
            self._erased_up_to = int(message.seq)
            stone = Tombstone.model_validate_json(message.data or b"")
            if stone.done:
                self._states.pop(stone.id, None)
                self._summaries.pop(stone.id, None)
        newest = sorted(self._summaries.values(), key=lambda state: state.first_at, reverse=True)
        return [state for state in newest if state.seen]

    async def of_dataset(self, card: DataCard) -> list[RunState]:
        """The runs that were planned on a dataset, known by its id or by the digest of its files."""
        digest = card.profile.digest if card.profile else None
        return [
            state
            for state in await self.states()
            if state.planned
            and (
                state.planned.card.dataset_id == card.dataset_id
                or (digest and state.planned.card.profile and state.planned.card.profile.digest == digest)
            )
        ]

    async def listen(
        self,
        durable: str,
        handler: Callable[[Event], Awaitable[None]],
        concurrency: int,
        stop: asyncio.Event,
        on_dead: Callable[[Event, BaseException], Awaitable[None]] | None = None,
    ) -> None:
        """Hand the events that concern `durable` to `handler`, `concurrency` at a time, until `stop`.

        The handler may be called twice for one event, and on two replicas at once. It may take hours: the message is
        kept alive while it runs. Unavailable keeps the message and calls again, until the server is back; Conflict
        delivers again after a second; StaleTranscript leaves the event to the replica that holds it; any other error
        delivers again with growing delay, and at the fifth `on_dead(event, error)` is called and the event goes to
        `dlq.EVENTS.<durable>.<run>`. An event that came out of turn reaches no handler; it goes there once, from the
        keeper, who hears all events.
        """

        def read(delivery: Delivery) -> Event:
            try:
                return read_event(delivery.subject, delivery.data)
            except ValueError as error:
                raise Unreadable(_first(error)) from error

        async def handle(delivery: Delivery) -> None:
            event = read(delivery)
            if delivery.sequence not in (await self._fresh(event.run_id)).passed_over:
                await handler(event)
            elif durable == KEEPER.name:
                raise Unreadable(f"{event.kind} is not for {event.sender} to say now")

        async def dead(delivery: Delivery, error: BaseException) -> None:
            if on_dead and not isinstance(error, Unreadable):
                await on_dead(read(delivery), error)

        policy = Policy(handle, dead, self.retry_delays)
        consumer = Consumer(self.connection, EVENTS, durable, policy, self.settings.ack_wait_seconds)
        await consumer.run(concurrency, stop)

    async def prove_fence(self) -> None:
        """Raise ServerUnfit unless the server refuses an append behind a run's head, whatever the kind of event."""
        scratch = f"fence.{secrets.token_hex(8)}"
        publish = self.connection.publish
        try:
            first = await publish(f"{scratch}.a", b"", seconds=self.settings.start_seconds)
        except Unavailable as error:
            raise ServerUnfit(
                f"the NATS server holds no streams of ours ({error}): run `python -m shared.bus`"
            ) from error
        if await self._accepts(f"{scratch}.b", scratch, 0) or not await self._accepts(
            f"{scratch}.c", scratch, int(first.seq)
        ):
            version = self.connection.client.connected_server_version
            raise ServerUnfit(
                f"the NATS server ({version}) does not honour the header {EXPECTED_SUBJECT}, without which two services"
                " could both move a run on: nats-server 2.11 or newer is needed, 2.12 in production"
            )

    async def _everything_after(self, sequence: int) -> AsyncIterator[RawStreamMsg]:
        newest = await self.connection.last(EVENTS, "evt.>")
        end = int(newest.seq) + 1 if newest else 0
        for start in range(sequence + 1, end, _READ_AT_ONCE):
            numbers = range(start, min(start + _READ_AT_ONCE, end))
            for message in await asyncio.gather(*(self.connection.message(EVENTS, number) for number in numbers)):
                if message:
                    yield message

    async def _accepts(self, subject: str, scratch: str, expected: int) -> bool:
        try:
            await self.connection.publish(subject, b"", expected=expected, expected_subject=f"{scratch}.>", seconds=5)
        except APIError as error:
            if lost_race(error):
                return False
            raise
        return True

    async def _fresh(self, run_id: str) -> RunState:
        known = self._states.get(run_id)
        messages = self.connection.read(EVENTS, _all_of(run_id), known.head if known else 0)
        new = [(int(message.seq), _event(message)) async for message in messages]
        return self._remember(fold(run_id, new, known))

    def _remember(self, state: RunState) -> RunState:
        known = self._states.get(state.run_id)
        if state.head and (known is None or known.head < state.head):
            self._states[state.run_id] = state
        if state.run_id in self._states:
            self._states.move_to_end(state.run_id)
        while len(self._states) > _REMEMBERED_RUNS:
            self._states.popitem(last=False)
        return state


def _event(message: RawStreamMsg) -> Event | None:
    """None for what is no event of ours, or a forgery: every reader passes it over, and the keeper's consumer keeps it
    in `dlq.EVENTS.keeper.<run>` with the subject that names its sender."""
    return readable(message, lambda data: read_event(message.subject, data))


def _first(error: ValueError) -> str:
    if isinstance(error, pydantic.ValidationError):
        return f"{error.error_count()} problems, first: {error.errors()[0]['msg']}"
    return str(error)


def _all_of(run_id: str) -> str:
    return f"evt.{run_id}.>"
