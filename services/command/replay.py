"""A run by a recorded transcript: asked on the bus, by who has the operator's credentials, then compared with it.

Never over HTTP, where the name of a file would be an order to read it, and its calls an order to make them.
"""

import asyncio
from pathlib import Path

from services.gateway import checks
from services.gateway.bodies import NewRun
from services.gateway.identity import user
from shared.agent.brief import Brief
from shared.bus import Bus
from shared.contracts.base import AGENTS
from shared.contracts.transcript import Observation
from shared.errors import UserError
from shared.models import make_core
from shared.models.diverged import Divergence, Entries, divergences
from shared.models.scripted import read_transcript
from shared.settings import Settings


def replay(settings: Settings, body: NewRun) -> str:
    """The id of the new run, whose core is `scripted:<file>`. Blocks; no event loop may run.

    Raises UserError for a file that is no transcript, PermissionDenied without the operator's credentials.
    """
    make_core(body.core)
    return asyncio.run(_ask(settings, body))


def recorded_request(file: Path) -> NewRun:
    """What was asked in the recorded run. Raises UserError for a file that does not tell."""
    for entry in read_transcript(file).get("task_manager", []):
        if isinstance(entry, Observation) and entry.event:
            asked = Brief.model_validate(entry.event).requested
            return NewRun(
                requirement=asked.requirement,
                core=f"scripted:{file.absolute()}",
                seed=asked.seed,
                budget=asked.budget,
                dataset=asked.dataset,
                unattended=asked.unattended,
            )
    raise UserError(
        f"{file} does not tell what was asked: write it anew with `m3builder record`, or give the sentence yourself: "
        f'`m3builder run "..." --core scripted:{file}`'
    )


def diverged(settings: Settings, file: Path, run_id: str) -> list[Divergence]:
    """Where the run went another way than its record. Blocks; no event loop may run.

    The record is the file; where the recorded run is on this system, its own transcript, which holds more.
    """
    return asyncio.run(_compared(settings, read_transcript(file), run_id))


async def _compared(settings: Settings, recorded: Entries, run_id: str) -> list[Divergence]:
    bus = await Bus.connect(settings, "gateway")
    try:
        found: dict[str, Entries] = {}
        for run in (next(entry.run_id for entries in recorded.values() for entry in entries), run_id):
            found[run] = {role: (await bus.entries(run, role))[0] for role in AGENTS}
    finally:
        await bus.close()
    before, now = found.values() if len(found) == 2 else (recorded, found[run_id])
    return list(divergences(before if any(before.values()) else recorded, now))


async def _ask(settings: Settings, body: NewRun) -> str:
    bus = await Bus.connect(settings, "gateway")
    try:
        event = checks.request(body, body.core, user(), await bus.cards(), settings.train_seconds)
        await bus.append(event)
    finally:
        await bus.close()
    return event.run_id
