"""The app on its port, ended by the service's stop signal instead of uvicorn's own handlers."""

import asyncio
import contextlib
import socket
from collections.abc import Callable, Iterator
from urllib.parse import urlsplit

import uvicorn

from services.gateway.app import create_app
from services.gateway.fleet_metrics import FleetMetrics
from shared.errors import ServerUnfit
from shared.service import Context

STREAMS_END_SECONDS = 1
"""What open event streams get at the end; clients come back with Last-Event-ID."""


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, started: Callable[[], None]) -> None:
        super().__init__(config)
        self._tell_started = started

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._tell_started()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def run(context: Context) -> None:
    if not context.settings.gateway_token and not context.settings.oidc_issuer:
        raise ServerUnfit("the gateway would let everybody in: set M3_GATEWAY_TOKEN or M3_OIDC_ISSUER")
    address = urlsplit(context.settings.gateway_url)
    config = uvicorn.Config(
        create_app(context.bus, context.store, context.settings),
        lifespan="off",
        log_config=None,
        access_log=False,
        timeout_graceful_shutdown=STREAMS_END_SECONDS,
    )
    server = _Server(config, context.ready)

    async def stop() -> None:
        await context.stop.wait()
        server.should_exit = True

    waiting = [asyncio.create_task(stop())]
    if context.settings.otlp_endpoint:
        waiting.append(asyncio.create_task(FleetMetrics().look(context)))
    try:
        await server.serve([_listen(address.hostname or "127.0.0.1", address.port or 80)])
    finally:
        for task in waiting:
            task.cancel()


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise ServerUnfit(
            f"the gateway cannot listen on {host}:{port} ({error.strerror}): set M3_GATEWAY_URL"
        ) from None
    return listener
