"""The HTTP interface: thin over the bus and the store. Whoever can append a fact may run next to it.

Wrong input is a 422 with a sentence, an unknown name a 404, an unknown visitor a 401 and a missing right a 403, an
unreachable bus, store or OpenID provider a 503; never a traceback.
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

from services.gateway import answers, audit, bodies, datasets, erasures, fleet, health, runs, weights, who
from services.gateway.audit_log import Audit
from services.gateway.door import Door, problem
from services.gateway.identity import Identities, TurnedAway
from services.gateway.parts import Parts
from services.gateway.quiet import Quiet
from services.gateway.signing import Signer
from services.gateway.uploads import Uploads
from shared.bus import Bus
from shared.errors import NotFound, PermissionDenied, ServerUnfit, ToolBroken, Unavailable, UserError
from shared.settings import Settings
from shared.store import Store

log = logging.getLogger(__name__)
_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_EVERY_ADDRESS = ("", "0.0.0.0", "::")


def create_app(bus: Bus, store: Store, settings: Settings) -> FastAPI:
    """`bus` and `store` stay the caller's: it closes them after the app is done."""
    store.patience = 3.0  # a person rather hears that it is away
    app = FastAPI(
        title="M3Builder",
        description="From one sentence to a trained, independently scored, packaged medical imaging model.",
        version="0.1.0",
        docs_url=None,  # both pages run a foreign address's scripts
        redoc_url=None,
    )
    identities, visits, quiet = Identities(settings), Audit(settings), Quiet(settings.home)
    uploads, signer = Uploads(settings.home, settings.uploads_bytes), Signer.of(settings.signing_key)
    app.state.parts = Parts(bus, store, settings, uploads, identities, visits, quiet, signer)
    for part in (runs, answers, datasets, weights, erasures, fleet, health, audit, who):
        app.include_router(part.router)
    app.add_middleware(Door, settings=settings, identities=identities, audit=visits, quiet=quiet)
    host = urlsplit(settings.gateway_url).hostname or ""
    if host not in _EVERY_ADDRESS:
        # A page in the operator's browser must not reach us under a name of its own.
        app.add_middleware(TrustedHostMiddleware, allowed_hosts=[*_LOOPBACK, *(() if host in _LOOPBACK else (host,))])
    app.add_exception_handler(UserError, _answer(422))
    app.add_exception_handler(NotFound, _answer(404))
    app.add_exception_handler(TurnedAway, _turned_away)
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


async def _turned_away(request: Request, error: Exception) -> JSONResponse:
    away = cast(TurnedAway, error)
    request.state.note = str(away)
    return problem(away.status, str(away), away.hint)


async def _invalid(_: Request, error: Exception) -> JSONResponse:
    faults = cast(RequestValidationError, error).errors()
    told = "; ".join(
        f"{'.'.join(str(step) for step in fault['loc'][1:]) or 'body'}: {fault['msg']}" for fault in faults
    )
    return _problem(422, f"The request cannot be read: {told}.", "/openapi.json describes every field.")


async def _http(_: Request, error: Exception) -> JSONResponse:
    known = cast(HTTPException, error)
    return _problem(known.status_code, f"{known.detail}.", "/openapi.json lists what there is.")


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
