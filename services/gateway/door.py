"""The door in front of every route: who comes, from which page, with how large a body; and a record of each visit."""

from contextlib import nullcontext
from urllib.parse import urlsplit

from fastapi import HTTPException
from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from services.gateway.audit_log import Audit
from services.gateway.identity import Identities, TurnedAway, Visitor
from services.gateway.quiet import Quiet
from shared.errors import ServerUnfit, Unavailable, UserError
from shared.settings import Settings

BODY_BYTES = 4 << 20
"""Of every body but an archive's, which its route bounds."""
_OPEN = ("/healthz", "/readyz", "/login")
_ARCHIVES, _ERASURES = "/archives", "/erasures"


class Door:
    """ASGI middleware. Routes find the `Visitor` in the request's state, and may leave a `note` there for the audit."""

    def __init__(self, app: ASGIApp, settings: Settings, identities: Identities, audit: Audit, quiet: Quiet) -> None:
        self._app, self._identities, self._audit, self._quiet = app, identities, audit, quiet
        address = urlsplit(settings.gateway_url)
        self._origin = f"{address.scheme}://{address.netloc}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in _OPEN:
            await self._app(scope, receive, send)
            return
        headers, state = Headers(scope=scope), scope.setdefault("state", {})
        did = f"{scope['method']} {scope['path']}"[:300]
        found, who = await self._visitor(headers.get("Authorization", ""), state)

        async def told(message: Message) -> None:
            if message["type"] == "http.response.start":
                made = Headers(raw=message["headers"]).get("Location")
                self._audit.add(who, did, message["status"], made=made, note=state.get("note"))
            await send(message)

        refusal = self._refusal(headers, scope["path"]) if isinstance(found, Visitor) else found
        if refusal:
            await refusal(scope, receive, told)
            return
        state["visitor"] = found
        receive = receive if scope["path"] == _ARCHIVES else _bounded(receive)
        changes = scope["method"] == "POST" and scope["path"] != _ERASURES
        try:
            with self._quiet.asking() if changes else nullcontext():
                await self._app(scope, receive, told)
        except UserError as busy:
            await problem(503, str(busy), "An erasure lasts as long as the store is read.")(scope, receive, told)
        except Exception:
            self._audit.add(who, did, 500)
            raise

    async def _visitor(self, authorization: str, state: dict[str, object]) -> tuple[Visitor | JSONResponse, str]:
        """The visitor, or what to answer instead; and the name for the audit."""
        try:
            visitor = await self._identities.visitor(authorization)
            return visitor, visitor.name
        except TurnedAway as away:
            state["note"] = str(away)
            return problem(away.status, str(away), away.hint), away.who
        except (Unavailable, ServerUnfit) as error:
            # Nobody is let in whom nobody vouches for.
            state["note"] = str(error)
            return problem(503, str(error), "Try again; if it stays so, the operator looks at M3_OIDC_ISSUER."), ""

    def _refusal(self, headers: Headers, path: str) -> JSONResponse | None:
        page = headers.get("Origin")
        if (page and page != self._origin) or headers.get("Sec-Fetch-Site") in ("cross-site", "same-site"):
            return problem(403, "Pages of other sites may not talk to this gateway.", "Use the command m3builder.")
        stated = headers.get("Content-Length", "0")
        if path != _ARCHIVES and (not stated.isdecimal() or int(stated) > BODY_BYTES):
            return problem(413, f"The body has more than {BODY_BYTES} bytes.", "Send a dataset to POST /archives.")
        return None


def _bounded(receive: Receive) -> Receive:
    """`receive` that refuses a body which grows beyond the bound, as one of an unstated length may."""
    size = 0

    async def counted() -> Message:
        nonlocal size
        message = await receive()
        size += len(message.get("body", b""))
        if size > BODY_BYTES:
            raise HTTPException(413, f"The body has more than {BODY_BYTES} bytes")
        return message

    return counted


def problem(status: int, error: str, hint: str) -> JSONResponse:
    headers = {"WWW-Authenticate": "Bearer"} if status == 401 else None
    return JSONResponse({"error": error, "hint": hint}, status, headers)
