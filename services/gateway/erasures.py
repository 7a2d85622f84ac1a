"""Erasing over HTTP."""

from fastapi import APIRouter

from services.gateway import bodies
from services.gateway.erase import erase
from services.gateway.parts import PROBLEMS, Known, Who, needs
from shared.contracts.erasure import Tombstone
from shared.errors import UserError

router = APIRouter(responses=PROBLEMS)


@router.post("/erasures", tags=["erasures"], dependencies=needs("operate"))
async def post_erasure(body: bodies.NewErasure, parts: Known, who: Who) -> bodies.Erasure:
    """Erase runs and datasets everywhere; the answer says what went and what is left. Asking again changes nothing.

    While it lasts nothing else can be asked for. `dry_run` only tells.
    """
    if not body.ids and body.older_than_days is None:
        raise UserError("Name what to erase: ids of runs and datasets, or older_than_days.")
    with parts.quiet.alone():
        told = await erase(parts, body.ids, body.older_than_days, who.name, body.dry_run)
    if not body.dry_run:
        for one in told.ids:
            parts.audit.add(who.name, f"erased {one}", 200)
    return told


@router.get("/erasures", tags=["erasures"], dependencies=needs("operate"))
async def list_erasures(parts: Known) -> list[Tombstone]:
    """What was erased, when and by whom; `done` is false where an erasure was cut off."""
    return await parts.bus.tombstones()
