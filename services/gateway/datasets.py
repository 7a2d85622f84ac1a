"""Datasets over HTTP: cards, folders below the data roots, and archives that are sent. Nothing is unpacked here."""

import asyncio
import logging
import tempfile
from collections.abc import Callable
from typing import BinaryIO

from fastapi import APIRouter, Request

from services.gateway import bodies, checks
from services.gateway.identity import Visitor
from services.gateway.parts import PROBLEMS, Known, Parts, Who, needs
from shared.agent.cards import profiled
from shared.bus import Bus
from shared.contracts.base import Ref
from shared.contracts.runs import DataCard, DatasetAdded
from shared.errors import DataUnusable, NotFound, ToolBroken, UserError
from shared.store.archive_rules import Limits
from shared.store.client import ref_of

log = logging.getLogger(__name__)
router = APIRouter(responses=PROBLEMS, dependencies=needs("data"))
_WRITE = 1 << 20


@router.post("/datasets", status_code=201, tags=["datasets"])
async def add_dataset(body: bodies.NewDataset, parts: Known, who: Who) -> bodies.DatasetsAdded:
    """Register a dataset by its card; the same name again replaces the card. Runs that wait for data are woken."""
    if body.archive:
        cards = checks.uploaded_card(body.card, body.path, await _stored(body.archive, parts))
    else:
        cards = await asyncio.to_thread(checks.cards, body.card, body.path, body.here, parts.settings)
    cards = [await _looked_at(card, parts) for card in cards]
    for card in cards:
        await parts.bus.put_card(card)
        if card.archive:
            parts.uploads.taken(card.archive)
    resumed = await _wake_waiting(parts.bus, [card for card in cards if card.here], who)
    return bodies.DatasetsAdded(dataset_ids=tuple(card.dataset_id for card in cards), resumed=resumed)


@router.get("/datasets", tags=["datasets"])
async def list_datasets(parts: Known) -> list[DataCard]:
    """All cards; `path` and `archive` are null where only the description is registered."""
    return sorted(await parts.bus.cards(), key=lambda card: card.dataset_id)


@router.get("/archives/limits", tags=["datasets"])
async def get_limits(parts: Known) -> bodies.ArchiveLimits:
    """What an archive may hold, for whoever wants to look before sending."""
    limits = Limits.of(parts.settings)
    return bodies.ArchiveLimits(sent=limits.sent, unpacked=limits.unpacked, files=limits.files)


@router.post("/archives", status_code=201, tags=["datasets"])
async def store_archive(request: Request, parts: Known) -> Ref:
    """Store the body, a zip or tar; the answer is what POST /datasets takes as `archive`. It is not looked into."""
    bound = parts.settings.archive_bytes
    stated = request.headers.get("Content-Length", "")
    if stated.isdecimal() and int(stated) > bound:
        raise _too_large(bound)
    folder = parts.settings.home / "uploads"
    folder.mkdir(parents=True, exist_ok=True)
    # Its name is its content's hash, so it is here as a whole before the store gets it.
    with tempfile.TemporaryFile(dir=folder) as file, parts.uploads.coming() as add:
        size = await _receive(request, file, bound, add)
        if not size:
            raise UserError("The archive is empty. Send the bytes of a zip or tar as the body.")
        stored = await asyncio.to_thread(parts.store.put_stream, "data", file)
        parts.uploads.sent(stored)
        return stored


async def _receive(request: Request, file: BinaryIO, bound: int, add: Callable[[int], None]) -> int:
    size, held = 0, bytearray()
    async for chunk in request.stream():
        size += len(chunk)
        add(len(chunk))
        if size > bound:
            raise _too_large(bound)
        held += chunk
        if len(held) >= _WRITE:
            await asyncio.to_thread(file.write, bytes(held))
            held.clear()
    await asyncio.to_thread(file.write, bytes(held))
    return size


def _too_large(bound: int) -> UserError:
    return UserError(
        f"The archive has more than the {bound} bytes that are taken. Put the dataset below a data root of the "
        "operator, or have M3_ARCHIVE_BYTES raised."
    )


async def _looked_at(card: DataCard, parts: Parts) -> DataCard:
    """The card with a profile; without one where no runner looks in time, and then a run's Task Manager asks again."""
    if not card.here or not parts.settings.profile_seconds:
        return card
    try:
        return await profiled(card, parts.bus, "gateway", parts.settings.profile_seconds)
    except ToolBroken:
        log.warning("no runner looked at %s in time; it is registered without a profile", card.dataset_id)
        return card
    except DataUnusable as error:
        raise UserError(f"The dataset {card.name} was not registered: {error}") from None


async def _stored(archive: Ref, parts: Parts) -> Ref:
    """The archive as this gateway stores one, if its bytes are there with that hash."""
    known = ref_of("data", archive.sha256, archive.size)
    if not await asyncio.to_thread(parts.store.exists, known):
        raise NotFound("The archive is not in the store with that content. Send it again: POST /archives.")
    return known


async def _wake_waiting(bus: Bus, cards: list[DataCard], who: Visitor) -> tuple[str, ...]:
    """The runs that the visitor may see of those woken. Also woken is a run whose Task Manager is just deciding: it may
    have read the cards before there was this one."""
    woken = []
    for run in await bus.runs() if cards else []:
        if run.status != "waiting_for_answer" and run.stage != "task_manager":
            continue
        state = await bus.state(run.run_id)
        if not state.wants_dataset:
            continue
        event = DatasetAdded.make(
            run_id=run.run_id,
            sender="gateway",
            cause=state.question or (state.resumed.order if state.resumed else state.requested),
            salt=cards[0].dataset_id,
            dataset_id=cards[0].dataset_id,
        )
        await bus.append(event, unless=lambda now: not now.wants_dataset)
        if state.question and who.may_see(run.asked_by):
            woken.append(run.run_id)
    return tuple(woken)
