"""One batch of an intake job, by whichever runner took it: through the sandbox, then into the store."""

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from services.tool_runner.intake.cache import BUCKET, Kept, Segment, digests_of
from services.tool_runner.intake.sandbox import IntakeSandbox, Shard
from services.tool_runner.sandbox import remove_tree
from services.tool_runner.views import SUFFIXES
from shared.contracts.base import Contract, Ref
from shared.contracts.cases import CaseSpec
from shared.dataset.intake.intake_records import Order, Taken
from shared.looks import RECORD
from shared.store import Store
from shared.store.client import THREADS
from shared.store.paths import UnsafePath

ENDED = "the sandbox was ended while it was read; its files need too much memory or disk: make them smaller"
CHANGED = "changed while it was read; let the files rest, then take the dataset in again"
LOST = "could not be written in canonical form; save its files again with another program"
_MEDIA_TYPES = {suffix: media_type for media_type, suffix in SUFFIXES.items()}
_NO_LOOK = bytes(RECORD.itemsize)


class Batch(Contract):
    order: Order
    specs: tuple[CaseSpec, ...]
    digests: tuple[str, ...]
    """Of each case, as its files were when the job began (`digests_of`)."""


@dataclass(frozen=True)
class Made:
    """What became of a case."""

    kept: Kept
    look: bytes = _NO_LOOK
    """One `shared.looks.RECORD`."""


async def decode_batch(batch: Batch, sandbox: IntakeSandbox, store: Store, data: Path, stamp: str | None) -> Segment:
    """Decode and store. A case whose files are no longer those of its digest is left out. Raises Cancelled."""
    order = batch.order.model_copy(update={"workers": sandbox.workers, "seconds": sandbox.seconds})
    made = await _made(sandbox, store, data, batch.specs, order)
    after = await asyncio.to_thread(digests_of, batch.specs, data, order, stamp)
    kept = [
        (item.kept if now == digest else Kept(left_out=CHANGED, lasting=False)).model_copy(update={"digest": digest})
        for item, now, digest in zip(made, after, batch.digests, strict=True)
    ]
    lines = b"".join(item.model_dump_json(exclude_defaults=True).encode() + b"\n" for item in kept)
    return Segment(
        records=await asyncio.to_thread(store.put_bytes, "sealed", lines, "application/x-ndjson"),
        looks=await asyncio.to_thread(store.put_bytes, BUCKET, b"".join(item.look for item in made)),
    )


async def _made(
    sandbox: IntakeSandbox, store: Store, data: Path, specs: Sequence[CaseSpec], order: Order
) -> list[Made]:
    """One for each case, its canonical files stored. What takes too much memory beside others is tried alone."""
    made: dict[int, Made] = {}
    left = list(range(len(specs)))
    while left:
        shard = await sandbox.decode(data, [specs[number] for number in left], order)
        try:
            new = await asyncio.to_thread(_stored, shard, store)
        finally:
            await asyncio.to_thread(remove_tree, shard.folder)
        if order.workers > 1:
            new = {place: item for place, item in new.items() if shard.taken[place].ended != "memory"}
        elif not new:
            new = {0: Made(Kept(left_out=ENDED, lasting=False))}
        made |= {left[place]: item for place, item in new.items()}
        left = [number for number in left if number not in made]
        order = order.model_copy(update={"workers": 1})
    return [made[number] for number in range(len(specs))]


def _stored(shard: Shard, store: Store) -> dict[int, Made]:
    """Of cases that the program came to."""

    def put(place: int, name: str) -> Ref:
        with shard.opened(place, name) as stream:
            return store.put_stream(BUCKET, stream, _MEDIA_TYPES[name[name.index(".") :]])

    def one(taken: Taken) -> Made:
        if taken.left_out:
            return Made(Kept(left_out=taken.left_out, lasting=not taken.ended))
        try:
            images = tuple(put(taken.n, name) for name in taken.images)
            mask = put(taken.n, taken.mask) if taken.mask else None
        except (FileNotFoundError, UnsafePath):
            return Made(Kept(left_out=LOST, lasting=False))
        kept = Kept(images=images, mask=mask, values=taken.values, facts=taken.facts, wrapping=taken.wrapping)
        return Made(kept, shard.look(taken.n))

    with ThreadPoolExecutor(THREADS) as pool:
        return dict(zip(shard.taken, pool.map(one, shard.taken.values()), strict=True))
