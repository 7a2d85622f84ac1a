"""The HTTP interface: thin over the bus and the store. Whoever can append a fact may run next to it.

Wrong input is a 422 with a sentence, an unknown name a 404, an unreachable bus or store a 503; never a traceback.
"""

import logging
from collections.abc import Awaitable, Callable
from typing import cast
from urllib.parse import urlsplit

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from nats.errors import Error as NatsError
from starlette.exceptions import HTTPException
from starlette.middleware.trustedhost import TrustedHostMiddleware

from services.gateway import bodies, datasets, health, runs
from services.gateway.parts import Parts
from shared.bus import Bus
from shared.errors import NotFound, PermissionDenied, ServerUnfit, ToolBroken, Unavailable, UserError
from shared.settings import Settings
from shared.store import Store

log = logging.getLogger(__name__)
_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_UNREACHABLE = (NatsError, TimeoutError, ConnectionError, ServerUnfit, ToolBroken, Unavailable, PermissionDenied)


def create_app(bus: Bus, store: Store, settings: Settings) -> FastAPI:
    """`bus` and `store` stay the caller's: it closes them after the app is done."""
    store.patience = 3.0  # a person rather hears that it is away
    app = FastAPI(
        title="M3Builder",
        description="From one sentence to a trained, independently scored, packaged medical imaging model.",
        version="0.1.0",
    )
    app.state.parts = Parts(bus, store, settings)
    for part in (runs, datasets, health):
        app.include_router(part.router)
    host = urlsplit(settings.gateway_url).hostname or ""
    if host in _LOOPBACK:
        # A page in the operator's browser must not reach us under a name of its own.
        app.add_middleware(TrustedHostMiddleware, allowed_hosts=list(_LOOPBACK))
    app.add_exception_handler(UserError, _answer(422))
    app.add_exception_handler(NotFound, _answer(404))
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http)
    for unreachable in (
        NatsError,
        TimeoutError,
        ConnectionError,
        ServerUnfit,
        ToolBroken,
        Unavailable,
        PermissionDenied,
    ):
        app.add_exception_handler(unreachable, _unreachable)
    app.add_exception_handler(Exception, _broken)
    return app


def _answer(status: int) -> Callable[[Request, Exception], Awaitable[JSONResponse]]:
    async def handle(_: Request, error: Exception) -> JSONResponse:
        return _problem(status, str(error))

    return handle


async def _invalid(_: Request, error: Exception) -> JSONResponse:
    faults = cast(RequestValidationError, error).errors()
    told = "; ".join(
        f"{'.'.join(str(step) for step in fault['loc'][1:]) or 'body'}: {fault['msg']}" for fault in faults
    )
    return _problem(422, f"The request cannot be read: {told}.", "/docs describes every field.")


async def _http(_: Request, error: Exception) -> JSONResponse:
    known = cast(HTTPException, error)
    return _problem(known.status_code, f"{known.detail}.", "/docs lists what there is.")


async def _unreachable(request: Request, error: Exception) -> JSONResponse:
    log.warning("%s %s: %r", request.method, request.url.path, error)
    return _problem(
        503, f"Bus or store does not answer ({type(error).__name__}).", "`m3builder status` shows what is down."
    )


async def _broken(request: Request, error: Exception) -> JSONResponse:
    log.error("%s %s", request.method, request.url.path, exc_info=error)
    return _problem(500, "The gateway failed at this request.", "`m3builder logs gateway` has the cause.")


def _problem(status: int, error: str, hint: str | None = None) -> JSONResponse:
    return JSONResponse(bodies.Problem(error=error, hint=hint).model_dump(exclude_none=True), status)
