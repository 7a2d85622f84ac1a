"""One connection to NATS: publishes that are retried until acknowledged, and reads by sequence."""

import asyncio
import contextlib
import itertools
import json
import logging
import re
import secrets
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Self

import nats.errors
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.js.api import PubAck, RawStreamMsg
from nats.js.errors import APIError, NoStreamResponseError, NotFoundError, ServiceUnavailableError

from shared import telemetry, tls
from shared.errors import PermissionDenied, ServerUnfit, Unavailable
from shared.settings import Settings

log = logging.getLogger(__name__)

EXPECTED_SEQUENCE = "Nats-Expected-Last-Subject-Sequence"
EXPECTED_SUBJECT = "Nats-Expected-Last-Subject-Sequence-Subject"
MESSAGE_ID = "Nats-Msg-Id"

TRY_SECONDS = 2.0
GIVE_UP_SECONDS = 30.0
READ_SECONDS = 10.0
RECONNECT_WAIT, RECONNECT_TRIES = 0.25, 480
_NO_STREAM = 10059
_WRONG_SEQUENCE = (10071, 10164)
_TRANSIENT = (
    asyncio.TimeoutError,
    nats.errors.NoRespondersError,
    nats.errors.OutboundBufferLimitError,
    nats.errors.ConnectionReconnectingError,
    nats.errors.StaleConnectionError,
    NoStreamResponseError,
    ServiceUnavailableError,
)


_PLAIN = "the server speaks plain text"


def inbox_of(service: str) -> str:
    """Prefix of a service's replies: with the common `_INBOX` everybody could read everybody's."""
    return f"_INBOX_{service}"


def lost_race(error: APIError) -> bool:
    """True when an append was refused because the subject has moved on."""
    return error.err_code in _WRONG_SEQUENCE


class _Client(Client):  # type: ignore[misc]  # nats-py is untyped
    def _connect_command(self) -> bytes:
        # nats-py itself would tell the password to a server that offers no TLS, whatever the address says.
        server, offer = self._current_server, self._server_info
        if server and server.uri.scheme == "tls" and not offer.get("tls_required"):
            raise nats.errors.Error(_PLAIN)
        return bytes(super()._connect_command())


class Connection:
    """Owns the client. `lost` is set when the connection is gone for good; a service then has to exit."""

    def __init__(self, client: Client, service: str) -> None:
        self.client = client
        self.service = service
        self.url = ""
        self.inbox = inbox_of(service)
        self.js = client.jetstream(timeout=TRY_SECONDS)
        self.lost = asyncio.Event()
        self.denied: set[str] = set()
        """Subjects that the server refused to this user, lower case."""
        self._acks = f"{self.inbox}.ack.{secrets.token_hex(8)}"
        self._counter = itertools.count()
        self._publishing: dict[str, tuple[str, asyncio.Future[Msg]]] = {}
        """Reply token -> subject in lower case and the answer to come."""
        self._closing = False
        self._last_error: Exception | None = None
        self._refused = False
        self._unsafe: Exception | None = None
        """Why the server could not be trusted."""

    @classmethod
    async def open(cls, settings: Settings, service: str, seconds: float = GIVE_UP_SECONDS) -> Self:
        """Connect, waiting up to `seconds` for a server that comes up. Raises ServerUnfit, PermissionDenied or, for
        settings that cannot work, UserError."""
        servers = [url.strip() for url in settings.nats_url.split(",")]
        for url in servers:
            tls.refuse_plain_text(settings, "M3_NATS_URL", url, "tls")
        self = cls(_Client(), service)
        self.url = settings.nats_url
        secret = settings.nats_password.get_secret_value() if settings.nats_password else None
        attempt = self.client.connect(
            servers=servers,
            name=service,
            user=settings.nats_user,
            password=secret,
            inbox_prefix=self.inbox,
            tls=tls.context(settings) if servers[0].startswith("tls://") else None,
            connect_timeout=2,
            reconnect_time_wait=RECONNECT_WAIT,
            max_reconnect_attempts=RECONNECT_TRIES,
            ping_interval=20,
            error_cb=self._on_error,
            disconnected_cb=self._on_disconnect,
            reconnected_cb=self._on_reconnect,
            closed_cb=self._on_closed,
        )
        try:
            await asyncio.wait_for(attempt, seconds)
        except (TimeoutError, OSError, nats.errors.Error) as error:
            cause = self._last_error or error
            if self._refused:
                raise PermissionDenied(
                    f"NATS at {settings.nats_url} refused the user {settings.nats_user!r}: check M3_NATS_USER"
                    " and M3_NATS_PASSWORD"
                ) from error
            if self._unsafe:
                raise ServerUnfit(
                    f"NATS at {settings.nats_url} cannot be trusted ({self._unsafe}): check M3_NATS_URL, M3_TLS_CA_FILE"
                    " for its authority, and M3_TLS_CERTIFICATE if it asks for ours"
                ) from error
            raise ServerUnfit(
                f"no NATS server answers at {settings.nats_url} ({cause!r}): check M3_NATS_URL"
            ) from error
        await self.client.subscribe(f"{self._acks}.*", cb=self._on_ack)
        return self

    @property
    def usual_replicas(self) -> int:
        """3 where the server says that it belongs to a cluster, else 1."""
        return 3 if self.client._server_info.get("cluster") else 1

    async def close(self) -> None:
        """Flush and close; a second call does nothing."""
        # Never drain: after a fetch that timed out nats-py waits for its whole drain timeout.
        self._closing = True
        if self.client.is_closed:
            return
        if self.client.is_connected:
            try:
                await self.client.flush(timeout=2)
            except (TimeoutError, nats.errors.Error):
                log.warning("not everything was flushed to NATS before closing")
        # nats-py writes a last farewell, also to a server that is gone.
        with contextlib.suppress(OSError):
            await self.client.close()

    async def publish(
        self,
        subject: str,
        data: bytes,
        *,
        message_id: str | None = None,
        expected: int | None = None,
        expected_subject: str | None = None,
        template: str | None = None,
        seconds: float = GIVE_UP_SECONDS,
    ) -> PubAck:
        """Publish to a stream, again and again with the same id, until it is acknowledged.

        A publish that timed out may still be stored later, so `message_id` or `expected` must make a repetition
        harmless. Raises APIError when the server refuses (see `lost_race`), PermissionDenied, or Unavailable after
        `seconds`, when it is not known whether the message was stored.
        """
        headers: dict[str, str] = {}
        if message_id:
            headers[MESSAGE_ID] = message_id
        if expected is not None:
            headers[EXPECTED_SEQUENCE] = str(expected)
        if expected_subject:
            headers[EXPECTED_SUBJECT] = expected_subject
        if template is None:
            return await self.insist(lambda: self._publish(subject, data, headers), f"publish to {subject}", seconds)
        with telemetry.publish_span(template, message_id, len(data)):
            telemetry.inject(headers)
            return await self.insist(lambda: self._publish(subject, data, headers), f"publish to {subject}", seconds)

    async def announce(self, subject: str, data: bytes) -> None:
        """Plain publish: whoever listens right now gets it, nobody else ever does."""
        await self.client.publish(subject, data, headers=telemetry.inject({}) or None)

    async def message(self, stream: str, sequence: int) -> RawStreamMsg | None:
        """The message with this sequence, or None when the stream no longer holds it."""
        return await self._read(lambda: self.js.get_msg(stream, seq=sequence), stream)

    async def last(self, stream: str, subject: str) -> RawStreamMsg | None:
        return await self._read(lambda: self.js.get_last_msg(stream, subject), stream)

    async def newest(self, stream: str, subject: str) -> RawStreamMsg | None:
        """The last message on one subject of a stream with direct access, for services that may read no other."""
        return await self._read(lambda: self.js.get_msg(stream, subject=subject, direct=True), stream)

    async def after(self, stream: str, subject: str, sequence: int) -> RawStreamMsg | None:
        """The first message on `subject` (wildcards allowed) past `sequence`, fresh from the stream's leader."""
        return await self._read(lambda: self.js.get_msg(stream, seq=sequence + 1, subject=subject, next=True), stream)

    async def read(self, stream: str, subject: str, sequence: int = 0) -> AsyncIterator[RawStreamMsg]:
        """All messages on `subject` past `sequence` that are stored by now, in order."""
        while message := await self.after(stream, subject, sequence):
            yield message
            sequence = int(message.seq)

    async def tail(self, stream: str, subject: str, sequence: int = 0) -> AsyncIterator[RawStreamMsg]:
        """Like `read`, but goes on for ever. The server may be away for any time: it keeps no consumer there."""
        changed = asyncio.Event()

        async def wake(_: Msg) -> None:
            changed.set()

        subscription = await self.client.subscribe(subject, cb=wake)
        pause = _FIRST_PAUSE
        try:
            while True:
                changed.clear()
                try:
                    message = await self.after(stream, subject, sequence)
                except Unavailable as error:
                    log.warning("%s; waiting for the server", error)
                    continue
                if message:
                    sequence, pause = int(message.seq), _FIRST_PAUSE
                    yield message
                elif await _is_set(changed, pause):
                    # The wake-up overtakes the write to the stream: look again soon.
                    pause = _FIRST_PAUSE
                else:
                    pause = min(pause * 3, 2.0)
        finally:
            if not self.client.is_closed:
                await subscription.unsubscribe()

    async def _read(self, ask: Callable[[], Awaitable[RawStreamMsg]], stream: str) -> RawStreamMsg | None:
        try:
            return await self.insist(ask, f"read from {stream}", READ_SECONDS)
        except NotFoundError as error:
            if error.err_code == _NO_STREAM:
                raise ServerUnfit(f"the stream {stream} does not exist: run `python -m shared.bus` once") from None
            return None

    async def insist(self, ask: Callable[[], Awaitable[Any]], what: str, seconds: float) -> Any:
        """Repeat `ask` while the server is away or busy. Raises Unavailable that names `what` after `seconds`."""
        deadline = time.monotonic() + seconds
        pause = 0.05
        while True:
            try:
                return await ask()
            except _TRANSIENT as error:
                if time.monotonic() + pause > deadline:
                    raise Unavailable(f"{what} was not answered within {seconds:.0f} s ({error!r})") from error
            await asyncio.sleep(pause)
            pause = min(pause * 2, 1.0)

    async def _publish(self, subject: str, data: bytes, headers: dict[str, str]) -> PubAck:
        # nats-py's own publish() cannot be told of a refusal, and its publish_async() never returns after an API error.
        token = f"{next(self._counter)}"
        future: asyncio.Future[Msg] = asyncio.get_running_loop().create_future()
        self._publishing[token] = (subject.lower(), future)
        try:
            await self.client.publish(subject, data, reply=f"{self._acks}.{token}", headers=headers or None)
            answer = await asyncio.wait_for(future, TRY_SECONDS)
        finally:
            del self._publishing[token]
        if answer.headers and answer.headers.get("Status") == "503":
            raise NoStreamResponseError
        found = json.loads(answer.data)
        if "error" in found:
            raise APIError.from_error(found["error"])
        return PubAck.from_response(found)

    async def _on_ack(self, message: Msg) -> None:
        _, future = self._publishing.get(message.subject.rsplit(".", 1)[-1], ("", None))
        if future and not future.done():
            future.set_result(message)

    async def _on_error(self, error: Exception) -> None:
        self._last_error = error
        # Kept over later tries: the server closes at once, and a later try may end as a reset connection.
        self._refused |= "authorization violation" in str(error).lower()
        if isinstance(error, ssl.SSLError) or _PLAIN in str(error):
            self._unsafe = error
        # A forbidden publish only times out for its caller; the reason comes here, in no connection with it.
        found = re.search(r'permissions violation for (publish|subscription) to "([^"]+)"', str(error), re.IGNORECASE)
        if found:
            subject = found[2].lower()
            self.denied.add(subject)
            refusal = f"NATS refuses {found[1]} on {found[2]} to the service {self.service}"
            log.error("%s", refusal)
            for tried, future in self._publishing.values():
                if tried == subject and not future.done():
                    future.set_exception(PermissionDenied(refusal))
        elif isinstance(error, OSError):
            log.debug("NATS: %r", error)  # four times a second while the server is away, which has been said
        else:
            log.warning("NATS: %r", error)

    async def _on_disconnect(self) -> None:
        if not self._closing:
            log.warning("disconnected from NATS")

    async def _on_reconnect(self) -> None:
        log.info("connected to NATS again")

    async def _on_closed(self) -> None:
        if not self._closing:
            log.error("the connection to NATS is lost for good")
            self.lost.set()


_FIRST_PAUSE = 0.005


async def _is_set(event: asyncio.Event, seconds: float) -> bool:
    try:
        await asyncio.wait_for(event.wait(), seconds)
    except TimeoutError:
        return False
    return True
