"""What a report is made from: events, transcripts, progress, the scorer's table of cases, and pictures of cases."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime

from services.gateway.parts import Parts, story_of
from services.gateway.report.facts import Details, Facts, training_job
from services.gateway.report.pictures import pictures
from services.gateway.trace import trace
from shared.bus.part import readable
from shared.bus.streams import LOG
from shared.contracts.base import Ref
from shared.contracts.state import RunState, fold
from shared.contracts.training import JobProgress
from shared.errors import NotFound, ToolBroken


async def gather(parts: Parts, run_id: str, wait: float | None = None) -> Facts:
    """Raises NotFound for a run without events; what else is missing is said in the report.

    `wait` is how many seconds pictures may take; None leaves them out.
    """
    events, entries = await story_of(parts, run_id)
    state, missing = fold(run_id, events), []
    details = Details()
    if state.scored and state.scored.details:
        try:
            details = await asyncio.to_thread(_details, parts, state.scored.details)
        except (NotFound, ToolBroken, ValueError):
            missing.append("The scorer's table of cases cannot be read from the store.")
    job_id = training_job(state, [event for _, event in events])
    progress = await _progress(parts, run_id, job_id) if job_id else ()
    facts = Facts.of(
        events,
        details=details,
        progress=progress,
        shares=trace(events, entries, datetime.now(UTC)).roles,
        warnings=await _warnings(parts, state),
        missing=tuple(missing),
    )
    if wait is None:
        return facts
    return replace(facts, pictures=await pictures(parts, facts, wait))


async def _warnings(parts: Parts, state: RunState) -> tuple[str, ...]:
    card = await parts.bus.card(state.planned.card.dataset_id) if state.planned else None
    return card.profile.warnings if card and card.profile else ()


def _details(parts: Parts, ref: Ref) -> Details:
    return Details.model_validate_json(parts.store.get_bytes(ref))


async def _progress(parts: Parts, run_id: str, job_id: str) -> tuple[JobProgress, ...]:
    """What the bus still keeps of it: the last thousand messages, for some months."""
    messages = parts.bus.connection.read(LOG, f"log.{run_id}.{job_id}")
    found = [readable(message, JobProgress.model_validate_json) async for message in messages]
    return tuple(filter(None, found))
