"""What every route of the gateway is given, and what several of them look up."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, cast

from fastapi import Depends, Request, params

from services.gateway.audit_log import Audit
from services.gateway.bodies import Problem
from services.gateway.identity import Identities, Visitor
from services.gateway.quiet import Quiet
from services.gateway.signing import Signer
from services.gateway.uploads import Uploads
from shared.bus import Bus
from shared.contracts.base import AGENTS, AgentName
from shared.contracts.events import AnyEvent
from shared.contracts.state import RunState
from shared.contracts.transcript import Observation, Turn
from shared.errors import NotFound, ServerUnfit
from shared.settings import Right, Settings
from shared.store import Store

PROBLEMS: dict[int | str, dict[str, Any]] = {422: {"model": Problem}, 503: {"model": Problem}}


@dataclass(frozen=True)
class Parts:
    bus: Bus
    store: Store
    settings: Settings
    uploads: Uploads
    identities: Identities
    audit: Audit
    quiet: Quiet
    signer: Signer | None


def any_parts(request: Request) -> Parts:
    return cast(Parts, request.app.state.parts)


def _parts(request: Request) -> Parts:
    parts = any_parts(request)
    if not parts.bus.connection.client.is_connected:
        # A call would wait for a reconnect; a person rather hears at once.
        raise ServerUnfit("not connected to the bus")
    return parts


def _visitor(request: Request) -> Visitor:
    return cast(Visitor, request.state.visitor)


Known = Annotated[Parts, Depends(_parts)]
Who = Annotated[Visitor, Depends(_visitor)]
"""The visitor as the door knows it."""


async def _run_id(run_id: str, request: Request, parts: Known, who: Who) -> str:
    # It becomes a subject of the bus, where dots and wildcards mean something.
    if not re.fullmatch(r"[A-Za-z0-9_-]{1,80}", run_id):
        raise _no_run(run_id)
    if not who.may_see((await state_of(parts, run_id)).summary().asked_by):
        request.state.note = "the run of somebody else"
        raise _no_run(run_id)
    return run_id


Run = Annotated[str, Depends(_run_id)]
"""The id of a run that there is and that the visitor may see."""


def needs(right: Right) -> Sequence[params.Depends]:
    """What a route is given as its dependencies where only visitors with a right may go."""

    def look(parts: Annotated[Parts, Depends(any_parts)], who: Who) -> None:
        if right not in who.rights:
            raise parts.identities.lacks(right, who)

    return [Depends(look)]


async def state_of(parts: Parts, run_id: str) -> RunState:
    try:
        return await parts.bus.state(run_id)
    except NotFound:
        raise _no_run(run_id) from None


def _no_run(run_id: str) -> NotFound:
    return NotFound(f"There is no run {run_id}. `m3builder runs` lists them.")


async def story_of(
    parts: Parts, run_id: str
) -> tuple[list[tuple[int, AnyEvent]], dict[AgentName, list[Turn | Observation]]]:
    """Events and transcripts of a run that has at least one event."""
    await state_of(parts, run_id)
    entries = {role: (await parts.bus.entries(run_id, role))[0] for role in AGENTS}
    # Read last: a fact that answers a turn comes after it.
    return cast(list[tuple[int, AnyEvent]], await parts.bus.events(run_id)), entries
