"""Erasing runs and datasets: from the bus here, from the store and the runners' disks by a runner.

First a tombstone is put, then messages go, events last, then what nothing names any more; a call that was cut off is
finished by the same call again. Content that something else names stays, and is told.
"""

import asyncio
import secrets
from collections.abc import Collection, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Literal

from pydantic import BaseModel

from services.gateway.bodies import Erasure
from services.gateway.logs import blank_lines
from services.gateway.parts import Parts
from shared.bus.erasing import Found
from shared.bus.streams import CARDS, EVENTS, INTAKE, WORKSPACES, kv_stream
from shared.contracts.base import AGENTS, Ref
from shared.contracts.erasure import Amount, References, Sweep, Swept, Tombstone
from shared.contracts.runs import TaskPlanned
from shared.contracts.state import RunState
from shared.contracts.tools import ToolCall
from shared.errors import NotFound, ToolBroken, UserError
from shared.store.sweep import references_in

SWEEP_SECONDS = 3600.0
STOPPING = timedelta(minutes=10)
"""What jobs of a cancelled run get to stop before they count for lost."""


async def erase(parts: Parts, ids: Sequence[str], older_than: float | None, who: str, dry_run: bool) -> Erasure:
    """Erase these, and what is older than so many days: runs by their end, archives that no dataset took by their
    coming. Raises NotFound for an id of nothing, UserError while anything is at work."""
    as_of = {stream: await parts.bus.newest(stream) for stream in (EVENTS, kv_stream(CARDS))}
    states = {state.run_id: state for state in await parts.bus.states()}
    cards = {card.dataset_id for card in await parts.bus.cards()}
    stones = {stone.id: stone for stone in await parts.bus.tombstones()}
    chosen = [*dict.fromkeys((*ids, *(() if older_than is None else _ended(states.values(), older_than))))]
    if unknown := [one for one in chosen if one not in states and one not in cards and one not in stones]:
        raise NotFound(f"There is no run or dataset {', '.join(unknown)}. `m3builder runs` and `dataset list` tell.")
    _refuse_at_work(states.values(), chosen)
    archives = parts.uploads.older_than(older_than)
    if not dry_run:
        for archive in archives:
            parts.uploads.taken(archive)
        for one in chosen:
            if one not in stones or (stones[one].done and one in {*states, *cards}):
                kind: Literal["run", "dataset"] = "dataset" if one in cards else "run"
                stones[one] = Tombstone(id=one, kind=kind, at=datetime.now(UTC), by=who)
                await parts.bus.put_tombstone(stones[one])
    staying = states.keys() - set(chosen)
    gone = [found async for found in parts.bus.messages_of(chosen, staying)]
    named = [ref for found in gone for ref in references_in(found.message.data or b"")]
    kept = await _named_by_the_rest(parts, [states[one] for one in staying], cards - set(chosen), archives)
    erased = _counted(gone)
    if not dry_run:
        for found in gone:
            await parts.bus.delete(found)
    references = References(kept=tuple(kept), gone=tuple(dict.fromkeys(named)))
    swept = await _sweep(parts, chosen, references, as_of, dry_run)
    lines = blank_lines(parts.settings.home, chosen, dry_run)
    erased |= {place: amount for place, amount in {**swept.erased, "lines of logs": lines}.items() if amount.count}
    if not dry_run:
        for one in chosen:
            await parts.bus.put_tombstone(stones[one].model_copy(update={"done": True}))
        await parts.bus.states()  # drops what this process remembers of them
    return Erasure(
        ids=tuple(chosen), at=datetime.now(UTC), by=who, dry_run=dry_run, erased=erased,
        archives=len(archives), left=tuple(_left(parts, chosen, cards, states.values(), swept)),
    )  # fmt: skip


def _ended(states: Collection[RunState], days: float) -> Iterator[str]:
    before = datetime.now(UTC) - timedelta(days=days)
    yield from (state.run_id for state in states if state.finished and state.finished.at < before)


def _refuse_at_work(states: Collection[RunState], chosen: Collection[str]) -> None:
    if going := [state.run_id for state in states if state.run_id in chosen and not state.finished]:
        raise UserError(f"{', '.join(going)} has not ended: `m3builder cancel {going[0]}` first.")
    if busy := sorted(state.run_id for state in states if _at_work(state)):
        raise UserError(
            f"{', '.join(busy)} is at work, and what it is just storing cannot be told from what nobody needs. Wait "
            "until it has ended, or cancel it; runs that wait for an answer do not matter."
        )


def _at_work(state: RunState) -> bool:
    if state.finished:
        return bool(state.jobs) and datetime.now(UTC) - state.finished.at < STOPPING
    return state.question is None or bool(state.jobs)


async def _named_by_the_rest(
    parts: Parts, states: Collection[RunState], cards: Collection[str], dropped: Collection[Ref]
) -> list[Ref]:
    """What stays in the store for other runs and datasets, and for archives that wait to be registered."""
    found = [archive for archive in parts.uploads.waiting() if archive not in dropped]
    found += [weights.file for weights in await parts.bus.weights()]
    for card in await parts.bus.cards():
        if card.dataset_id in cards and card.archive:
            found.append(card.archive)
    for bucket, owners in ((INTAKE, cards), (WORKSPACES, {state.run_id for state in states})):
        async for message in parts.bus.connection.read(kv_stream(bucket), f"$KV.{bucket}.>"):
            if message.subject.split(".")[2] in owners:
                found += references_in(message.data or b"")
    for state in states:
        for _, event in await parts.bus.events(state.run_id):
            # A run that has ended needs the raw data no more.
            if not (state.finished and isinstance(event, TaskPlanned)):
                found += _typed(event)
        if not state.finished:
            for role in AGENTS:
                for entry in (await parts.bus.entries(state.run_id, role))[0]:
                    found += references_in(entry.model_dump_json().encode())
    return list(dict.fromkeys(found))


def _typed(value: object) -> Iterator[Ref]:
    """Every `Ref` in a field that is one: what a job or an agent wrote into a free field names nothing."""
    if isinstance(value, Ref):
        yield value
    elif isinstance(value, BaseModel):
        for name in type(value).model_fields:
            yield from _typed(getattr(value, name))
    elif isinstance(value, dict):
        for one in value.values():
            yield from _typed(one)
    elif isinstance(value, tuple):
        for one in value:
            yield from _typed(one)


async def _sweep(
    parts: Parts, erased: Sequence[str], references: References, as_of: dict[str, int], dry_run: bool
) -> Swept:
    content = references.model_dump_json().encode()
    listed = await asyncio.to_thread(parts.store.put_bytes, "data", content, "application/json")
    call = ToolCall(
        call_id=f"sweep-{secrets.token_hex(8)}",
        run_id="erasure",
        role="gateway",
        tool=Sweep.tool,
        arguments=Sweep(erased=tuple(erased), references=listed, as_of=as_of, dry_run=dry_run).model_dump(mode="json"),
        reply="",
    )
    done = await parts.bus.call("data", call, SWEEP_SECONDS)
    if not done.ok:
        raise ToolBroken(f"the store was not swept: {done.summary}")
    return Swept.model_validate(done.data)


def _counted(gone: Sequence[Found]) -> dict[str, Amount]:
    counts: dict[str, Amount] = {}
    for found in gone:
        one = Amount(count=1, bytes=len(found.message.data or b""))
        counts[found.place] = counts.get(found.place, Amount()) + one
    return counts


def _left(
    parts: Parts, chosen: Sequence[str], cards: Collection[str], states: Collection[RunState], swept: Swept
) -> Iterator[str]:
    for one in chosen:
        yield f"{one}: a tombstone (id, date, who) and lines of the audit log, as proof of the erasure"
    for one in (one for one in chosen if one in cards):
        planned = [state.run_id for state in states if state.planned and state.planned.card.dataset_id == one]
        if on := sorted(set(planned) - set(chosen)):
            yield (
                f"{one}: the runs {', '.join(on)} were made on it; their splits, cases and packages stay, and so does "
                f"what their plans say of it: m3builder forget {' '.join(on)}"
            )
    if swept.shared.count:
        yield (
            f"{swept.shared.count} stored objects ({swept.shared.bytes} bytes) that other runs or datasets name too, "
            "such as cases of the same dataset or unchanged files of a template"
        )
    yield "files below a data root, packages that were fetched, and backups: they are not ours to erase"
    if parts.settings.otlp_endpoint:
        yield f"spans at {parts.settings.otlp_endpoint}: they hold ids and kinds, no names"
    yield "folders of other runners, if there are any: each removes its own within ten minutes"
    yield "on the disks of the servers: what was overwritten there earlier, until they compact their files"
