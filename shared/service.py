"""The runner under every service: bus, health, readiness, signals and a clean end."""

import asyncio
import json
import logging
import os
import signal
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from shared import telemetry
from shared.bus import Bus
from shared.bus.consume import STOP_SECONDS
from shared.contracts.base import Service
from shared.errors import M3Error
from shared.settings import Settings
from shared.store.rights import RIGHTS

if TYPE_CHECKING:
    from shared.store import Store

log = logging.getLogger(__name__)

UNWIND_SECONDS = 10.0
"""What `run` gets to clean up once it is cancelled."""


@dataclass
class Context:
    """What a service is given. `stop` is set on SIGTERM, SIGINT and when the bus is lost: return soon after."""

    name: Service
    settings: Settings
    bus: Bus
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    is_ready: bool = False
    port: int = 0
    """Of /healthz and /readyz."""
    _store: "Store | None" = None

    @property
    def store(self) -> "Store":
        """The object store, connected at first use. Its calls block: use asyncio.to_thread."""
        if self._store is None:
            from shared.store import Store

            self._store = Store.connect(self.settings)
        return self._store

    def ready(self) -> None:
        """Say that work is taken from now on: /readyz turns 200 and the ready file is written. May be repeated."""
        self.is_ready = True
        if self.settings.ready_file:
            _write_atomically(self.settings.ready_file, json.dumps({"pid": os.getpid(), "port": self.port}))


Run = Callable[[Context], Awaitable[None]]


def serve(name: Service, settings: Settings, run: Run, *, ready_at_once: bool = True) -> int:
    """Run a service until it returns or is told to stop, and return the exit code of the process.

    Not 0 when `run` raised, when the bus could not be reached or was lost for good. With `ready_at_once=False` the
    service itself calls `context.ready()`, for one that has a port of its own to open first. Files that it writes are
    closed to other users.
    """
    os.umask(0o077)
    telemetry.setup(name, settings)
    try:
        return asyncio.run(serve_async(name, settings, run, ready_at_once=ready_at_once))
    except KeyboardInterrupt:
        return 130
    finally:
        telemetry.shutdown()


async def serve_async(name: Service, settings: Settings, run: Run, *, ready_at_once: bool = True) -> int:
    """`serve` inside a running loop, without telemetry."""
    try:
        bus = await Bus.connect(settings, name, seconds=settings.start_seconds)
    except M3Error as error:
        log.error("%s", error)
        return 1
    context = Context(name, settings, bus)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, context.stop.set)
    health = None
    try:
        await _look_around(context)
        # A given port is probed from outside the pod; a free one only concerns this machine.
        host = "0.0.0.0" if settings.health_port else "127.0.0.1"
        health = await asyncio.start_server(lambda r, w: _answer(context, r, w), host, settings.health_port)
        context.port = int(health.sockets[0].getsockname()[1])
        if ready_at_once:
            context.ready()
        log.info("ready")
        return await _until_done(context, run)
    except M3Error as error:
        log.error("%s", error)
        return 1
    finally:
        if health:
            health.close()
        await bus.close()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)


async def _look_around(context: Context) -> None:
    """Raise M3Error, with what to change, unless bus and store are there and let this service do its work."""
    name, settings, rights = context.name, context.settings, RIGHTS.get(context.name)
    if settings.nats_user is None:
        # A bus without users is a trial one: whoever comes first sets it up.
        await context.bus.provision()
    await context.bus.prove_fence()
    if rights:
        if settings.nats_user is None:
            await asyncio.to_thread(context.store.ensure_buckets, settings.start_seconds)
        await asyncio.to_thread(context.store.check, name, rights, settings.start_seconds)


async def _until_done(context: Context, run: Run) -> int:
    lost = context.bus.connection.lost
    work = asyncio.ensure_future(run(context))
    events = [asyncio.create_task(event.wait()) for event in (context.stop, lost)]
    try:
        await asyncio.wait([work, *events], return_when=asyncio.FIRST_COMPLETED)
        context.stop.set()
        seconds = context.settings.stop_seconds + STOP_SECONDS
        if not work.done():
            await asyncio.wait([work], timeout=seconds)
        if not work.done():
            log.warning("the service did not end within %.0f s of the signal and is cancelled", seconds)
            work.cancel()
            await asyncio.wait([work], timeout=UNWIND_SECONDS)
    finally:
        for event in events:
            event.cancel()
    if work.done() and not work.cancelled() and (error := work.exception()):
        if isinstance(error, M3Error):
            log.error("%s", error)
        else:
            log.error("the service failed", exc_info=error)
        return 1
    return 1 if lost.is_set() else 0


async def _answer(context: Context, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """The least HTTP that a kubelet or a supervisor understands."""
    try:
        line = await asyncio.wait_for(reader.readline(), 5)
        path = line.split()[1].split(b"?")[0] if len(line.split()) >= 2 else b""
        ready = context.is_ready and context.bus.connection.client.is_connected and not context.stop.is_set()
        status, text = {
            b"/healthz": ("200 OK", "alive"),
            b"/readyz": ("200 OK", "ready") if ready else ("503 Service Unavailable", "not ready"),
        }.get(path, ("404 Not Found", "only /healthz and /readyz"))
        head = (
            f"HTTP/1.1 {status}\r\nContent-Type: text/plain\r\nContent-Length: {len(text)}\r\nConnection: close\r\n\r\n"
        )
        writer.write((head + text).encode())
        await writer.drain()
    except (OSError, TimeoutError, ValueError):
        pass  # a probe that went away concerns nobody
    finally:
        writer.close()


def _write_atomically(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_text(text)
    temporary.replace(path)
