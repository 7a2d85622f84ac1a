"""Runs over HTTP: asking, following, cancelling, and what a run left behind."""

import asyncio
from datetime import UTC, datetime
from typing import Annotated, Literal

from fastapi import APIRouter, Header, Query
from fastapi.responses import HTMLResponse, PlainTextResponse, Response, StreamingResponse

from services.gateway import bodies, checks
from services.gateway.archive import FolderTar
from services.gateway.feed import server_sent
from services.gateway.parts import PROBLEMS, Known, Run, Who, needs, state_of, story_of
from services.gateway.provenance import added
from services.gateway.record import Record, record
from services.gateway.report.card import card
from services.gateway.report.gather import gather
from services.gateway.report.page import page
from services.gateway.report.text import text
from services.gateway.trace import trace
from services.gateway.trace_model import Trace
from shared.agent.brief import Brief
from shared.contracts.base import AGENTS, AgentName, Ref
from shared.contracts.disclosure import Disclosed
from shared.contracts.flow import GOES_ON
from shared.contracts.runs import CancelRequested, RunSummary
from shared.contracts.state import RunState
from shared.contracts.transcript import Observation
from shared.disclosure.again import text_of_turn
from shared.errors import NotFound, UserError
from shared.models.diverged import kept
from shared.pages import POLICY
from shared.store import FolderManifest

router = APIRouter(responses=PROBLEMS)


@router.post("/runs", status_code=201, tags=["runs"], dependencies=needs("ask"))
async def request_run(body: bodies.NewRun, parts: Known, who: Who, response: Response) -> bodies.RunCreated:
    """Ask for a model. The answer comes as events of the run."""
    core, notes = await checks.core(body.core, body.budget, parts.settings.models_file)
    event = checks.request(
        body, core, who.name, await parts.bus.cards() if body.dataset else (), parts.settings.train_seconds
    )
    await parts.bus.append(event)
    response.headers["Location"] = f"/runs/{event.run_id}"
    return bodies.RunCreated(run_id=event.run_id, notes=notes)


@router.get("/runs", tags=["runs"])
async def list_runs(parts: Known, who: Who) -> list[RunSummary]:
    """The visitor's runs, all of them for an operator; newest last."""
    return sorted((run for run in await parts.bus.runs() if who.may_see(run.asked_by)), key=lambda run: run.run_id)


@router.get("/runs/{run_id}", tags=["runs"])
async def show_run(run_id: Run, parts: Known) -> bodies.RunDetail:
    """Where a run stands, folded from its events."""
    state = await state_of(parts, run_id)
    return bodies.RunDetail(
        summary=state.summary(),
        question=state.question.question if state.question and state.live else None,
        waiting=await parts.bus.waiting(run_id, state.stage) if state.live and state.stage in AGENTS else None,
        state=state.model_dump(mode="json", exclude={"seen"}),
    )


@router.get("/runs/{run_id}/events", tags=["runs"], response_class=StreamingResponse)
async def follow_run(run_id: Run, parts: Known, last_event_id: Annotated[str | None, Header()] = None) -> Response:
    """Server-sent events from the first on, or from after Last-Event-ID; the stream ends after RunFinished.

    `event` is the kind of a fact, `turn` (role, number, calls, text) or `progress` (epoch, loss, metric, ETA).
    """
    state = await state_of(parts, run_id)
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
    state = await state_of(parts, run_id)
    if state.finished:
        raise UserError(f"Run {run_id} has already ended ({state.status}); there is nothing to cancel.")
    event = CancelRequested.make(
        run_id=run_id, sender="gateway", cause=state.requested, reason=body.reason if body else ""
    )
    state = await parts.bus.append(event, unless=lambda now: now.finished is not None)
    for job_id in state.jobs:
        await parts.bus.desire(job_id, "cancel")
    return bodies.RunStatus(run_id=run_id, status=state.status)


@router.get("/runs/{run_id}/transcript", tags=["runs"], response_class=PlainTextResponse, dependencies=needs("data"))
async def get_transcript(run_id: Run, parts: Known) -> PlainTextResponse:
    """Every role's turns as JSON Lines, which the core `scripted:` replays, with what came of them."""
    _, entries = await story_of(parts, run_id)
    lines = [kept(entry).model_dump_json() + "\n" for found in entries.values() for entry in found]
    return PlainTextResponse("".join(lines), media_type="application/jsonl")


@router.get("/runs/{run_id}/disclosure", tags=["runs"], dependencies=needs("data"))
async def get_disclosure(run_id: Run, parts: Known) -> list[Disclosed]:
    """Each request of the run to a language model outside of the hospital, the oldest first."""
    return await parts.bus.disclosed(run_id)


@router.get("/runs/{run_id}/disclosure/{number}", tags=["runs"], dependencies=needs("data"))
async def get_disclosed_text(run_id: Run, number: int, parts: Known) -> str:
    """What of the run left with a request of that list, counted from 1: made again from the transcript."""
    told = await parts.bus.disclosed(run_id)
    if not 0 < number <= len(told):
        raise NotFound(f"Run {run_id} has made {len(told)} requests to models outside of the hospital.")
    one = told[number - 1]
    entries, _ = await parts.bus.entries(run_id, one.role)
    asked = (await parts.bus.state(run_id)).requested
    before = GOES_ON.get(one.role) if asked and "collaboration" in asked.without else None
    earlier, _ = await parts.bus.entries(run_id, before) if before else ([], 0)
    return await asyncio.to_thread(text_of_turn, one, entries, earlier)


@router.get("/runs/{run_id}/briefs", tags=["runs"], dependencies=needs("data"))
async def get_briefs(run_id: Run, parts: Known) -> dict[AgentName, Brief]:
    """What each role was woken with last; `m3builder prompt` shows it as a core reads it."""
    _, entries = await story_of(parts, run_id)
    opened = {
        role: [one for one in found if isinstance(one, Observation) and one.opens] for role, found in entries.items()
    }
    # Who has the secret of its surrogates could undo what left for a model outside.
    return {
        role: Brief.model_validate(found[-1].event).model_copy(update={"secret": ""})
        for role, found in opened.items()
        if found
    }


@router.get("/runs/{run_id}/trace", tags=["runs"])
async def get_trace(run_id: Run, parts: Known) -> Trace:
    """Where the time went: hand-offs with the turns and jobs that led to them, and each role's share."""
    return trace(*await story_of(parts, run_id), datetime.now(UTC))


@router.get("/runs/{run_id}/report", tags=["runs"], response_class=PlainTextResponse)
async def get_report(
    run_id: Run,
    parts: Known,
    who: Who,
    form: Annotated[Literal["text", "html", "card"], Query(alias="format")] = "text",
    wait: Annotated[float, Query(ge=0, le=600)] = 20,
) -> Response:
    """The result with its evidence, as far as the run got. `card` is Markdown and names no test sample, others do.

    `html` has pictures of test cases, for which it waits at most `wait` seconds.
    """
    if form != "card" and "data" not in who.rights:
        raise parts.identities.lacks("data", who)
    facts = await gather(parts, run_id, wait if form == "html" else None)
    if form == "html":
        return HTMLResponse(page(facts), headers={"Content-Security-Policy": POLICY})
    if form == "card":
        return PlainTextResponse(card(facts), media_type="text/markdown")
    return PlainTextResponse(text(facts))


@router.get("/runs/{run_id}/artifacts", tags=["artifacts"])
async def list_artifacts(run_id: Run, parts: Known) -> list[bodies.Artifact]:
    """What a run left behind so far."""
    refs = {**_artifacts(await state_of(parts, run_id)), "record": None}
    return [bodies.Artifact(name=name, ref=ref, url=f"/runs/{run_id}/artifacts/{name}") for name, ref in refs.items()]


@router.get("/runs/{run_id}/artifacts/record", tags=["artifacts"], dependencies=needs("data"))
async def get_record(run_id: Run, parts: Known) -> Record:
    """The whole story as one document, as far as the run got."""
    return record(*await story_of(parts, run_id))


@router.get("/runs/{run_id}/artifacts/{name}", tags=["artifacts"], response_class=StreamingResponse)
async def get_artifact(run_id: Run, name: str, parts: Known, who: Who) -> StreamingResponse:
    """`package.tar` is the delivered package as a tar, with its provenance; other artifacts come as they are stored."""
    if name != "package.tar" and "data" not in who.rights:
        raise parts.identities.lacks("data", who)
    refs = _artifacts(await state_of(parts, run_id))
    if name not in refs:
        raise NotFound(f"Run {run_id} has no {name}. It has: {', '.join((*refs, 'record'))}.")
    content = await asyncio.to_thread(parts.store.get_bytes, refs[name])
    if name != "package.tar":
        return StreamingResponse(iter([content]), media_type=refs[name].media_type)
    manifest, told = FolderManifest.decode(content), card(await gather(parts, run_id))
    events = await parts.bus.events(run_id)
    more = await asyncio.to_thread(added, run_id, events, manifest, told, parts.store, parts.signer)
    tar = FolderTar.of(manifest, more)
    return StreamingResponse(
        tar.stream(parts.store),
        media_type="application/x-tar",
        headers={
            "Content-Length": str(tar.size),
            "Content-Disposition": f'attachment; filename="{run_id}-package.tar"',
        },
    )


def _artifacts(state: RunState) -> dict[str, Ref]:
    found = {
        "package.tar": state.package,
        "cases": state.scored.details if state.scored else None,
        "rules": state.prepared.rules if state.prepared else None,
    }
    return {name: ref for name, ref in found.items() if ref}
