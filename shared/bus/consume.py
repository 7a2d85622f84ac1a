"""The loop under `listen` and `serve_tools`: one message at a time a worker, kept alive, settled exactly once."""

import asyncio
import base64
import json
import logging
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain, repeat

import nats.errors
from nats.aio.msg import Msg

from shared import telemetry
from shared.bus.connection import Connection
from shared.errors import Conflict, HandedBack, PermissionDenied, StaleTranscript, Unavailable

log = logging.getLogger(__name__)

FETCH_SECONDS = 2.0
STOP_SECONDS = 2.0
RETRY_DELAYS = (1.0, 5.0, 15.0, 60.0)
"""Seconds until the next delivery after each failure; a failure after the last of them buries the message."""
AWAY_DELAYS, AWAY_DELAY = (0.5, 1.0, 2.0, 5.0), 10.0
"""Seconds between the calls of a handler that found a server away, and those after them for as long as it takes."""
MAX_CRASHES = 25
"""Deliveries that never came to an end, after which a message is taken for one that kills its handler."""


_RUN_TOKEN = {"tool": 3, "turns": 2}
"""Where in a subject the run stands."""


class Unreadable(Exception):
    """The payload is no message of ours, or not its sender's to say; delivering it again cannot help."""


@dataclass(frozen=True)
class Delivery:
    """One delivery of one message to one worker."""

    stream: str
    durable: str
    subject: str
    sequence: int
    attempt: int
    """1 for the first delivery."""
    run_id: str
    data: bytes
    message: Msg


@dataclass(frozen=True)
class Policy:
    """How a consumer's messages are handled and given up on."""

    handle: Callable[[Delivery], Awaitable[None]]
    on_dead: Callable[[Delivery, BaseException], Awaitable[None]] | None = None
    """Called before a message is buried; when it raises, the burial is put off."""
    delays: Sequence[float] = RETRY_DELAYS
    gives_up: bool = True
    """False: only what is unreadable is buried, everything else is delivered for ever."""
    stop_seconds: float = STOP_SECONDS
    """What a handler gets to finish once `stop` is set, before it is cancelled and its message handed back."""


class Consumer:
    """Binds `concurrency` workers to a durable and runs them until `stop`; with `once` until one message is done, or
    none came for so many seconds."""

    def __init__(self, connection: Connection, stream: str, durable: str, policy: Policy, ack_wait: float) -> None:
        self._connection = connection
        self._stream, self._durable = stream, durable
        self._policy, self._ack_wait = policy, ack_wait
        self._fetching: set[asyncio.Task[None]] = set()
        # The server's count of deliveries also grows with conflicts, stops and killed replicas, which are no failures.
        self._failures: Counter[int] = Counter()

    async def run(self, concurrency: int, stop: asyncio.Event, once: float | None = None) -> None:
        """Returns within a few seconds of `stop`. Raises PermissionDenied, or whatever else broke a worker."""
        workers = {asyncio.create_task(self._work(stop, once)) for _ in range(concurrency)}
        stopping = asyncio.create_task(stop.wait())
        try:
            done, _ = await asyncio.wait({stopping, *workers}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopping.cancel()
            for worker in workers & self._fetching:
                worker.cancel()
            _, late = await asyncio.wait(workers, timeout=self._policy.stop_seconds)
            for worker in late:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)
        for worker in workers & done:
            if error := worker.exception():
                raise error

    async def _work(self, stop: asyncio.Event, once: float | None) -> None:
        task = asyncio.current_task()
        assert task is not None
        subscription = await self._connection.js.pull_subscribe_bind(durable=self._durable, stream=self._stream)
        api = f"$js.api.consumer.msg.next.{self._stream}.{self._durable}".lower()
        idle_until = time.monotonic() + (once or 0.0)
        try:
            while not stop.is_set():
                if api in self._connection.denied:
                    raise PermissionDenied(f"NATS refuses the consumer {self._durable} to this service")
                self._fetching.add(task)
                began = time.monotonic()
                try:
                    # Never more than one: nats-py's larger fetches can stall for their whole timeout.
                    (message,) = await subscription.fetch(1, timeout=FETCH_SECONDS)
                except TimeoutError:
                    if once is not None and time.monotonic() > idle_until:
                        return
                    if time.monotonic() - began < 0.2:  # the server answered that it cannot serve just now
                        await asyncio.sleep(0.2)
                    continue
                except nats.errors.Error as error:
                    log.warning("cannot fetch from %s: %r", self._durable, error)
                    await asyncio.sleep(0.5)
                    continue
                finally:
                    self._fetching.discard(task)
                await self._settle(_delivery(message))
                if once is not None:
                    return
        finally:
            with suppress(nats.errors.Error, asyncio.TimeoutError):
                # A delivery that arrived while the fetch was being cancelled goes back at once.
                while subscription.pending_msgs and not self._connection.client.is_closed:
                    (message,) = await subscription.fetch(1, timeout=0.1)
                    await _hand_back(message)
                await subscription.unsubscribe()

    async def _settle(self, delivery: Delivery) -> None:
        message = delivery.message
        template = _template(delivery.subject)
        span = telemetry.process_span(
            template,
            message.headers,
            group=self._durable,
            sequence=delivery.sequence,
            deliveries=delivery.attempt,
        )
        with telemetry.bind_run(delivery.run_id), span:
            try:
                await self._handle(delivery)
            except StaleTranscript:
                # Another replica works on this and will acknowledge it; a nak from here would call in a third.
                log.info("left %s to the replica that holds it", template)
            except Conflict:
                await _hand_back(message, 1)
            except HandedBack as error:
                log.info("%s goes to another replica: %s", template, error)
                await _hand_back(message)
            except Unreadable as error:
                log.error("unreadable message on %s: %s", template, error)
                await self._bury(delivery, error)
            except asyncio.CancelledError as error:
                task = asyncio.current_task()
                if task is not None and task.cancelling():
                    await _hand_back(message)
                    raise
                await self._failed(delivery, error)
            except Exception as error:
                await self._failed(delivery, error)
            else:
                del self._failures[delivery.sequence]
                await self._acknowledge(message)

    async def _handle(self, delivery: Delivery) -> None:
        if delivery.attempt > MAX_CRASHES and self._policy.gives_up:
            await self._bury(delivery, RuntimeError(f"delivered {delivery.attempt} times without an end"))
            return
        heartbeat = asyncio.create_task(self._keep_alive(delivery.message))
        try:
            await self._patiently(delivery)
        finally:
            heartbeat.cancel()

    async def _patiently(self, delivery: Delivery) -> None:
        """While a server is away the message stays here: to fail is something else, and so is to be handed around."""
        for pause in chain(AWAY_DELAYS, repeat(AWAY_DELAY)):
            try:
                await self._policy.handle(delivery)
                return
            except Unavailable as error:
                log.warning("%s has to wait: %s", _template(delivery.subject), error)
            await asyncio.sleep(pause)

    async def _keep_alive(self, message: Msg) -> None:
        while True:
            await asyncio.sleep(self._ack_wait / 3)
            with suppress(nats.errors.Error):
                await message.in_progress()

    async def _failed(self, delivery: Delivery, error: BaseException) -> None:
        delays = self._policy.delays
        self._failures[delivery.sequence] += 1
        failures = self._failures[delivery.sequence]
        log.error("handling %s failed %d times", _template(delivery.subject), failures, exc_info=error)
        if self._policy.gives_up and failures > len(delays):
            await self._bury(delivery, error)
        else:
            await _hand_back(delivery.message, delays[min(failures, len(delays)) - 1])

    async def _bury(self, delivery: Delivery, error: BaseException) -> None:
        """Hook, dead letter, then term: a crash in between repeats all three, and each bears repetition."""
        try:
            if self._policy.on_dead:
                await self._policy.on_dead(delivery, error)
            await self._connection.publish(
                f"dlq.{delivery.stream}.{delivery.durable}.{delivery.run_id}",
                _letter(delivery, error),
                message_id=f"dlq:{delivery.stream}:{delivery.durable}:{delivery.sequence}",
                template=f"dlq.{delivery.stream}.{delivery.durable}.{{run}}",
            )
        except Exception:
            log.exception("could not bury %s, trying again later", _template(delivery.subject))
            await _hand_back(delivery.message, self._policy.delays[-1])
            return
        del self._failures[delivery.sequence]
        with suppress(nats.errors.Error):
            await delivery.message.term()

    async def _acknowledge(self, message: Msg) -> None:
        for seconds in (2.0, 5.0):
            try:
                await message.ack_sync(timeout=seconds)
            except (nats.errors.MsgAlreadyAckdError, nats.errors.ConnectionClosedError):
                return
            except (TimeoutError, nats.errors.Error):
                continue
            return
        log.warning("an acknowledgement was not confirmed; the message will come again")


async def _hand_back(message: Msg, delay: float | None = None) -> None:
    """Have it delivered again. What the server does not hear now, it does by itself after ack_wait."""
    with suppress(nats.errors.Error):
        await message.nak(delay=delay)


def _delivery(message: Msg) -> Delivery:
    about = message.metadata
    tokens = message.subject.split(".")
    where = _RUN_TOKEN.get(tokens[0], 1)
    return Delivery(
        stream=about.stream,
        durable=about.consumer,
        subject=message.subject,
        sequence=about.sequence.stream,
        attempt=about.num_delivered,
        run_id=tokens[where] if len(tokens) > where else "-",
        data=message.data,
        message=message,
    )


def _template(subject: str) -> str:
    tokens = subject.split(".")
    where = _RUN_TOKEN.get(tokens[0], 1)
    if len(tokens) > where:
        tokens[where] = "{run}"
    if tokens[0] == "tool":
        tokens[where + 1 :] = ["{id}"]
    return ".".join(tokens)


def _letter(delivery: Delivery, error: BaseException) -> bytes:
    small = len(delivery.data) <= 256 * 1024
    return json.dumps(
        {
            "stream": delivery.stream,
            "consumer": delivery.durable,
            "subject": delivery.subject,
            "sequence": delivery.sequence,
            "deliveries": delivery.attempt,
            "cause": f"{type(error).__name__}: {error}"[:2000],
            "payload": base64.b64encode(delivery.data).decode() if small else None,
        }
    ).encode()
