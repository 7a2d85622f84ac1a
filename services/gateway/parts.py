"""What every route of the gateway is given, and what several of them look up."""

import re
from dataclasses import dataclass
from typing import Annotated, Any, cast

from fastapi import Depends, Request

from services.gateway.bodies import Problem
from shared.bus import Bus
from shared.contracts.base import AGENTS, AgentName
from shared.contracts.events import AnyEvent
from shared.contracts.state import RunState
from shared.contracts.transcript import Observation, Turn
from shared.errors import NotFound, ServerUnfit
from shared.settings import Settings
from shared.store import Store

PROBLEMS: dict[int | str, dict[str, Any]] = {422: {"model": Problem}, 503: {"model": Problem}}


@dataclass(frozen=True)
class Parts:
    bus: Bus
    store: Store
    settings: Settings


def any_parts(request: Request) -> Parts:
    return cast(Parts, request.app.state.parts)


def _parts(request: Request) -> Parts:
    parts = any_parts(request)
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


async def state_of(parts: Parts, run_id: str) -> RunState:
    try:
        return await parts.bus.state(run_id)
    except NotFound:
        raise NotFound(f"There is no run {run_id}. `m3builder runs` lists them.") from None


async def story_of(
    parts: Parts, run_id: str
) -> tuple[list[tuple[int, AnyEvent]], dict[AgentName, list[Turn | Observation]]]:
    """Events and transcripts of a run that has at least one event."""
    await state_of(parts, run_id)
    entries = {role: (await parts.bus.entries(run_id, role))[0] for role in AGENTS}
    # Read last: a fact that answers a turn comes after it.
    return cast(list[tuple[int, AnyEvent]], await parts.bus.events(run_id)), entries
