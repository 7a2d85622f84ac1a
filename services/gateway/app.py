"""The HTTP interface: thin over the bus and the store. Whoever can append a fact may run next to it.

Wrong input is a 422 with a sentence, an unknown name a 404, an unreachable bus or store a 503; never a traceback.
"""

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, cast
from urllib.parse import urlsplit

from fastapi import APIRouter, Depends, FastAPI, Header, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from nats.errors import Error as NatsError
from starlette.exceptions import HTTPException
from starlette.middleware.trustedhost import TrustedHostMiddleware

from services.gateway import bodies, checks
from services.gateway.archive import FolderTar
from services.gateway.feed import server_sent
from services.gateway.record import Record, record
from services.gateway.trace import Trace, trace
from shared.bus import Bus
from shared.contracts.base import AGENTS, AgentName, Ref, new_run_id
from shared.contracts.events import AnyEvent
from shared.contracts.runs import CancelRequested, DataCard, DatasetAdded, RunRequested, RunSummary
from shared.contracts.state import RunState
from shared.contracts.transcript import Observation, Turn
from shared.errors import NotFound, PermissionDenied, ServerUnfit, ToolBroken, UserError
from shared.settings import Settings
from shared.store import FolderManifest, Store

log = logging.getLogger(__name__)
router = APIRouter(responses={422: {"model": bodies.Problem}, 503: {"model": bodies.Problem}})
_LOOPBACK = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True)
class Parts:
    bus: Bus
    store: Store
    settings: Settings


def create_app(bus: Bus, store: Store, settings: Settings) -> FastAPI:
    """`bus` and `store` stay the caller's: it closes them after the app is done."""
    app = FastAPI(
        title="M3Builder",
        description="From one sentence to a trained, independently scored, packaged medical imaging model.",
        version="0.1.0",
    )
    app.state.parts = Parts(bus, store, settings)
    app.include_router(router)
    host = urlsplit(settings.gateway_url).hostname or ""
    if host in _LOOPBACK:
        # A page in the operator's browser must not reach us under a name of its own.
        app.add_middleware(TrustedHostMiddleware, allowed_hosts=list(_LOOPBACK))
    app.add_exception_handler(UserError, _answer(422))
    app.add_exception_handler(NotFound, _answer(404))
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http)
    for unreachable in (NatsError, TimeoutError, ConnectionError, ServerUnfit, ToolBroken, PermissionDenied):
        app.add_exception_handler(unreachable, _unreachable)
    app.add_exception_handler(Exception, _broken)
    return app


def _any_parts(request: Request) -> Parts:
    return cast(Parts, request.app.state.parts)


def _parts(request: Request) -> Parts:
    parts = _any_parts(request)
    if not parts.bus.connection.client.is_connected:
        # A call would wait for a reconnect; a person rather hears at once.
        raise ServerUnfit("not connected to the bus")
    return parts


def _run_id(run_id: str) -> str:
    # It becomes a subject of the bus, where dots and wildcards mean something.
    if not re.fullmatch(r"[A-Za-z0-9_-]{1,80}", run_id):
        raise NotFound(f"There is no run {run_id!r}. `m3builder runs` lists them.")
    return run_id


Known = Annotated[Parts, Depends(_parts)]
Run = Annotated[str, Depends(_run_id)]


@router.post("/runs", status_code=201, tags=["runs"])
async def request_run(body: bodies.NewRun, parts: Known) -> bodies.RunCreated:
    """Ask for a model. The answer comes as events of the run."""
    wanted, core = checks.requirement(body.requirement), checks.core(body.core)
    run_id = new_run_id()
    await parts.bus.append(
        RunRequested.make(
            run_id=run_id,
            sender="gateway",
            cause=None,
            requirement=wanted,
            core=core,
            budget=body.budget,
            seed=body.seed,
        )
    )
    return bodies.RunCreated(run_id=run_id)


@router.get("/runs", tags=["runs"])
async def list_runs(parts: Known) -> list[RunSummary]:
    """All runs, newest last."""
    return sorted(await parts.bus.runs(), key=lambda run: run.run_id)


@router.get("/runs/{run_id}", tags=["runs"])
async def show_run(run_id: Run, parts: Known) -> bodies.RunDetail:
    """Where a run stands, folded from its events."""
    state = await _state(parts, run_id)
    return bodies.RunDetail(summary=state.summary(), state=state.model_dump(mode="json", exclude={"seen"}))


@router.get("/runs/{run_id}/events", tags=["runs"], response_class=StreamingResponse)
async def follow_run(run_id: Run, parts: Known, last_event_id: Annotated[str | None, Header()] = None) -> Response:
    """Server-sent events from the first on, or from after Last-Event-ID; the stream ends after RunFinished.

    `event` is the kind of a fact, `turn` (role, number, calls, text) or `progress` (epoch, loss, metric, ETA).
    """
    state = await _state(parts, run_id)
    if last_event_id is not None and not last_event_id.isdecimal():
        raise UserError("Last-Event-ID must be the `id` of an event of this stream, a whole number.")
    if state.finished and int(last_event_id or 0) >= state.head:
        # Tells a browser's EventSource not to come back.
        return Response(status_code=204)
    return StreamingResponse(
        server_sent(parts.bus, run_id, int(last_event_id or 0)),
        media_type="text/event-stream",
        headers={"Cache-Control": "no-cache", "X-Accel-Buffering": "no"},
    )


@router.post("/runs/{run_id}/cancel", tags=["runs"])
async def cancel_run(run_id: Run, parts: Known, body: bodies.CancelRun | None = None) -> bodies.RunStatus:
    """Ask for the end of a run; asking again changes nothing. A run that has ended cannot be cancelled."""
    state = await _state(parts, run_id)
    if state.finished:
        raise UserError(f"Run {run_id} has already ended ({state.status}); there is nothing to cancel.")
    event = CancelRequested.make(
        run_id=run_id, sender="gateway", cause=state.requested, reason=body.reason if body else ""
    )
    state = await parts.bus.append(event, unless=lambda now: now.finished is not None)
    for job_id in state.jobs:
        await parts.bus.desire(job_id, "cancel")
    return bodies.RunStatus(run_id=run_id, status=state.status)


@router.get("/runs/{run_id}/transcript", tags=["runs"], response_class=PlainTextResponse)
async def get_transcript(run_id: Run, parts: Known) -> PlainTextResponse:
    """Every role's turns as JSON Lines, which the core `scripted:` replays."""
    _, entries = await _story(parts, run_id)
    turns = [entry for found in entries.values() for entry in found if isinstance(entry, Turn)]
    return PlainTextResponse("".join(turn.model_dump_json() + "\n" for turn in turns), media_type="application/jsonl")


@router.get("/runs/{run_id}/trace", tags=["runs"])
async def get_trace(run_id: Run, parts: Known) -> Trace:
    """Where the time went: hand-offs with the turns and jobs that led to them, and each role's share."""
    return trace(*await _story(parts, run_id), datetime.now(UTC))


@router.post("/datasets", status_code=201, tags=["datasets"])
async def add_dataset(body: bodies.NewDataset, parts: Known) -> bodies.DatasetsAdded:
    """Register a dataset by its card; the same name again replaces the card. Runs that wait for data are woken."""
    cards = await asyncio.to_thread(checks.cards, body.card, body.path, body.here, parts.settings.data_roots)
    for card in cards:
        await parts.bus.put_card(card)
    resumed = await _wake_waiting(parts.bus, [card for card in cards if card.path])
    return bodies.DatasetsAdded(dataset_ids=tuple(card.dataset_id for card in cards), resumed=resumed)


@router.get("/datasets", tags=["datasets"])
async def list_datasets(parts: Known) -> list[DataCard]:
    """All cards; `path` is null where only the description is registered."""
    return sorted(await parts.bus.cards(), key=lambda card: card.dataset_id)


@router.get("/runs/{run_id}/artifacts", tags=["artifacts"])
async def list_artifacts(run_id: Run, parts: Known) -> list[bodies.Artifact]:
    """What a run left behind so far."""
    refs = {**_artifacts(await _state(parts, run_id)), "record": None}
    return [bodies.Artifact(name=name, ref=ref, url=f"/runs/{run_id}/artifacts/{name}") for name, ref in refs.items()]


@router.get("/runs/{run_id}/artifacts/record", tags=["artifacts"])
async def get_record(run_id: Run, parts: Known) -> Record:
    """The whole story as one document, as far as the run got."""
    return record(*await _story(parts, run_id))


@router.get("/runs/{run_id}/artifacts/{name}", tags=["artifacts"], response_class=StreamingResponse)
async def get_artifact(run_id: Run, name: str, parts: Known) -> StreamingResponse:
    """`package.tar` is the delivered package as a tar; other artifacts come as they are stored."""
    refs = _artifacts(await _state(parts, run_id))
    if name not in refs:
        raise NotFound(f"Run {run_id} has no {name}. It has: {', '.join((*refs, 'record'))}.")
    content = await asyncio.to_thread(parts.store.get_bytes, refs[name])
    if name != "package.tar":
        return StreamingResponse(iter([content]), media_type=refs[name].media_type)
    tar = FolderTar.of(FolderManifest.decode(content))
    return StreamingResponse(
        tar.stream(parts.store),
        media_type="application/x-tar",
        headers={
            "Content-Length": str(tar.size),
            "Content-Disposition": f'attachment; filename="{run_id}-package.tar"',
        },
    )


@router.get("/healthz", tags=["health"])
async def alive() -> dict[str, str]:
    """The process answers."""
    return {"status": "ok"}


@router.get("/readyz", tags=["health"], responses={503: {"model": bodies.Health}})
async def ready(parts: Annotated[Parts, Depends(_any_parts)]) -> JSONResponse:
    """Whether bus and store answer; 503 and what is wrong when one does not."""

    async def store() -> None:
        await asyncio.to_thread(
            parts.store.exists, Ref(bucket="work", key=f"sha256/00/{'0' * 64}", sha256="0" * 64, size=0)
        )

    async def bus() -> None:
        await parts.bus.cards()

    found = {name: await _trouble(probe) for name, probe in (("bus", bus), ("store", store))}
    unhealthy = {name: text for name, text in found.items() if text}
    health = bodies.Health(ready=not unhealthy, unhealthy=unhealthy)
    return JSONResponse(health.model_dump(), 503 if unhealthy else 200)


async def _trouble(probe: Callable[[], Awaitable[None]]) -> str:
    try:
        await asyncio.wait_for(probe(), 5)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


async def _state(parts: Parts, run_id: str) -> RunState:
    try:
        return await parts.bus.state(run_id)
    except NotFound:
        raise NotFound(f"There is no run {run_id}. `m3builder runs` lists them.") from None


async def _story(
    parts: Parts, run_id: str
) -> tuple[list[tuple[int, AnyEvent]], dict[AgentName, list[Turn | Observation]]]:
    """Events and transcripts of a run that has at least one event."""
    await _state(parts, run_id)
    entries = {role: (await parts.bus.entries(run_id, role))[0] for role in AGENTS}
    # Read last: a fact that answers a turn comes after it.
    return cast(list[tuple[int, AnyEvent]], await parts.bus.events(run_id)), entries


async def _wake_waiting(bus: Bus, cards: list[DataCard]) -> tuple[str, ...]:
    woken = []
    for run in await bus.runs() if cards else []:
        if run.status != "waiting_for_dataset":
            continue
        state = await bus.state(run.run_id)
        for card in cards:
            event = DatasetAdded.make(
                run_id=run.run_id,
                sender="gateway",
                cause=state.needed,
                salt=card.dataset_id,
                dataset_id=card.dataset_id,
            )
            await bus.append(event, unless=lambda now: now.needed is None or now.finished is not None)
        woken.append(run.run_id)
    return tuple(woken)


def _artifacts(state: RunState) -> dict[str, Ref]:
    package = (state.finished.package if state.finished else None) or (state.trained.package if state.trained else None)
    found = {
        "package.tar": package,
        "cases": state.scored.details if state.scored else None,
        "index": state.prepared.index if state.prepared else None,
    }
    return {name: ref for name, ref in found.items() if ref}


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
