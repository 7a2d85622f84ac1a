"""The intake job: from raw data and rules to cases in the store, decoded once and known again afterwards."""

from __future__ import annotations

import asyncio
import hashlib
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from services.tool_runner.intake.apart import FEW, Compared, is_among
from services.tool_runner.intake.batch import Batch
from services.tool_runner.intake.cache import Cache, Kept, Segment, digests_of, files_of
from services.tool_runner.intake.rules import choose_by, grouped, handed_back, read_rules
from services.tool_runner.intake.sandbox import Cancelled, IntakeSandbox, search_words
from services.tool_runner.intake.search import Search
from shared.contracts.base import SEGMENTATIONS, Ref
from shared.contracts.cases import CaseRecord, CaseSpec, CaseTable, Coverage
from shared.contracts.rules import Rules
from shared.contracts.state import RunState
from shared.contracts.tools import DecodeBatch, ToolCall
from shared.contracts.training import JobProgress, JobSpec
from shared.dataset.intake.intake_records import Order
from shared.dataset.intake.wrapping import placed, places
from shared.errors import ToolBroken, UserError

if TYPE_CHECKING:
    from services.tool_runner.mounts import Mounts
    from shared.bus import Bus
    from shared.store import Store

MAX_CASES, MAX_BYTES = 2000, 512 << 20
"""Of one batch: cases, and bytes of their files as they lie in the dataset."""
WAITING = 32
"""Batches of one job that wait for runners or are with them at a time."""

MISSING = "a file of it is missing; correct the rules or bring the file back"
HANDED_BACK = "a later role handed it back; see what it said, and mend its files or labels"


async def intake(
    spec: JobSpec, state: RunState, bus: Bus, store: Store, mounts: Mounts, sandbox: IntakeSandbox
) -> dict[str, Any]:
    """Take a dataset in; the fields of its JobFinished. What was decoded before, in any run, is not decoded again.

    Raises ToolRefused where the rules cannot be carried out, DataUnusable where the dataset cannot be reached.
    """
    if state.planned is None:
        raise UserError("no dataset has been planned for this run")
    plan, card = state.planned.plan, state.planned.card
    rules = read_rules(await asyncio.to_thread(store.get_bytes, spec.inputs["rules"]))
    data = await mounts.dataset(state)
    try:
        listed = await _optional(store, spec.inputs.get("listed"))
        request = state.requested.requirement if state.requested else ""
        stamp = card.archive.sha256 if card.archive else None
        cache = Cache(bus, store, card.dataset_id)
        search = Search(sandbox.beside("search"), cache, store, data, stamp)
        searched = asyncio.create_task(search.proposals(search_words(plan, request)))
        try:
            # What an agent wrote of a case goes no further than its key.
            specs, coverage, persons = await sandbox.resolve(data, rules.model_copy(update={"leave_out": {}}), listed)
            gone = handed_back(rules, await _optional(store, spec.inputs.get("sealed")))
            there = [case for case in specs if case.key not in gone]
            chosen = choose_by(plan, there, spec.run_id)
            work = _Work(
                job=spec, bus=bus, store=store, sandbox=sandbox, data=data,
                order=Order(dimensions=rules.dimensions, axis4=rules.axis4, masks=rules.task in SEGMENTATIONS),
                stamp=stamp,
                cache=cache,
            )  # fmt: skip
            kept = await work.all(chosen)
            proposals = await searched
        finally:
            searched.cancel()
            await asyncio.gather(searched, return_exceptions=True)
        told = [set(one.coverage.label_names) for one in proposals]
        part = set(coverage.label_names) not in told and set(coverage.label_names) < set().union(*told)
        limited = await search.proposals(search_words(plan, request, coverage.label_names)) if part else ()
        if not is_among(rules, (*proposals, *limited)) and len(specs) <= FEW:
            lost = {case.images for case in specs if case.key in gone}

            def taken(cases: Iterable[CaseSpec]) -> list[CaseSpec]:
                return choose_by(plan, [case for case in cases if case.images not in lost], spec.run_id)

            compared = Compared(rules, chosen, coverage.label_values, taken, sandbox, data)
            proposals, limited = await compared.all(proposals), await compared.all(limited)
        await search.keep()
    except Cancelled:
        return {"outcome": "cancelled", "summary": "intake was stopped; what was decoded is kept for the next time"}
    left = [(HANDED_BACK, case.key) for case in specs if case.key in gone]
    left += [(item.left_out, case.key) for case, item in zip(chosen, kept, strict=True) if item.left_out]
    table = await asyncio.to_thread(work.table, chosen, kept, coverage, grouped(left), rules)
    table = table.model_copy(
        update={
            "persons": persons, "rules": rules, "proposals": proposals, "limited": limited,
            "by_script": rules.listed is not None,
        }
    )  # fmt: skip
    ref = await asyncio.to_thread(
        store.put_bytes, "sealed", table.model_dump_json(exclude_defaults=True).encode(), "application/json"
    )
    counts: dict[str, Any] = {"cases": len(table.cases), "decoded": work.decoded}
    counts["left_out"] = {reason: len(keys) for reason, keys in table.left_out.items()}
    summary = (
        f"took in {len(table.cases)} cases of {len(specs)} that the rules find; {work.decoded} were decoded now, "
        f"{len(left)} left out"
    )
    return {"outcome": "ok", "summary": summary, "metrics": counts, "outputs": {"cases": ref}}


async def _optional(store: Store, ref: Ref | None) -> bytes | None:
    return None if ref is None else await asyncio.to_thread(store.get_bytes, ref)


@dataclass
class _Work:
    """Decoding the cases of one job."""

    job: JobSpec
    bus: Bus
    store: Store
    sandbox: IntakeSandbox
    data: Path
    order: Order
    stamp: str | None
    cache: Cache
    total: int = 0
    """Cases in all batches."""
    done: int = 0
    """Of them in batches that are done."""
    decoded: int = 0
    """Of these not in an earlier attempt of this job."""
    segments: list[Segment] = field(default_factory=list)
    room: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(WAITING))

    async def all(self, specs: Sequence[CaseSpec]) -> list[Kept]:
        """What became of each case, decoded by all runners that are free. Raises Cancelled; what was decoded is kept.

        Which batches there are follows from the dataset and what was known of it before the job: whoever takes the job
        over asks for the same ones again and finds the results of those that are done.
        """
        await self.cache.load()
        digests = await asyncio.to_thread(self._digests, specs)
        # Cases of the same files and masks are decoded once.
        first = {digest: number for number, digest in reversed(list(enumerate(digests))) if digest}
        todo = sorted(number for digest, number in first.items() if digest not in self.cache)
        self.total = len(todo)
        batches = [
            asyncio.create_task(
                self._batch([specs[number] for number in batch], [str(digests[number]) for number in batch])
            )
            for batch in await asyncio.to_thread(list, self._batches(specs, todo))
        ]
        stopped = asyncio.create_task(self.sandbox.cancel.wait())
        try:
            work = asyncio.gather(*batches)
            waiting: set[asyncio.Future[Any]] = {stopped, work}
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            if stopped.done():
                raise Cancelled
            await work
        finally:
            for task in (stopped, *batches):
                task.cancel()
            if self.segments:
                await self.cache.add(self.segments)
        return [self._found(digest) for digest in digests]

    def _digests(self, specs: Sequence[CaseSpec]) -> list[str | None]:
        return digests_of(specs, self.data, self.order, self.stamp)

    def _found(self, digest: str | None) -> Kept:
        return Kept(left_out=MISSING) if digest is None else self.cache[digest]

    def _batches(self, specs: Sequence[CaseSpec], todo: Iterable[int]) -> Iterator[list[int]]:
        batch: list[int] = []
        size = 0
        counted: set[str] = set()
        for number in todo:
            # A file that holds many cases counts once.
            files = set(files_of(specs[number], self.data))
            grown = self._size(files - counted)
            if batch and (len(batch) == MAX_CASES or size + grown > MAX_BYTES):
                yield batch
                batch, size, counted = [], 0, set()
                grown = self._size(files)
            batch.append(number)
            size += grown
            counted |= files
        if batch:
            yield batch

    def _size(self, files: Iterable[str]) -> int:
        try:
            return sum((self.data / file).stat().st_size for file in files)
        except OSError:
            return 0

    async def _batch(self, specs: Sequence[CaseSpec], digests: Sequence[str]) -> None:
        """Have some cases, whose files have these digests, decoded by any runner. Raises Cancelled and ToolBroken."""
        async with self.room:
            batch = Batch(order=self.order, specs=tuple(specs), digests=tuple(digests)).model_dump_json().encode()
            given = DecodeBatch(
                job_id=self.job.job_id, batch=await asyncio.to_thread(self.store.put_bytes, "sealed", batch)
            )
            named = hashlib.sha256("|".join((self.job.job_id, *digests)).encode()).hexdigest()[:32]
            call = ToolCall(
                call_id=f"batch-{named}", run_id=self.job.run_id, role="tool_runner", tool=given.tool,
                arguments=given.model_dump(mode="json"), reply="",
            )  # fmt: skip
            known = await self.bus.result(call.role, call.call_id)
            done = known or await self.bus.call("intake", call, math.inf)
        if not done.ok:
            raise Cancelled if done.data.get("cancelled") else ToolBroken(done.summary)
        segment = Segment.model_validate(done.data)
        await asyncio.to_thread(self.cache.learn, segment, lasting=False)
        self.segments.append(segment)
        self.decoded += 0 if known else len(specs)
        self.done += len(specs)
        text = f"decoded {self.done} of {self.total} cases"
        await self.bus.progress(JobProgress(run_id=self.job.run_id, job_id=self.job.job_id, text=text))

    def table(
        self, specs: Sequence[CaseSpec], kept: Sequence[Kept], coverage: Coverage, left_out: dict[str, tuple[str, ...]],
        rules: Rules,
    ) -> CaseTable:  # fmt: skip
        """Blocks: stores the looks."""
        found = [(case, item) for case, item in zip(specs, kept, strict=True) if not item.left_out]
        order = places(rules, [case for case, _ in found])
        return CaseTable(
            cases=tuple(_record(*each, rules, place) for each, place in zip(found, order, strict=True)),
            coverage=coverage,
            left_out=left_out,
            looks=self.cache.looks([item.digest for _, item in found], self.sandbox.scratch),
        )


def _record(case: CaseSpec, kept: Kept, rules: Rules, order: int) -> CaseRecord:
    return CaseRecord(
        key=case.key, patient=case.patient, label=case.label, text=case.text, split=case.split, images=kept.images,
        mask=kept.mask, values=kept.values, facts=kept.facts, wrapping=placed(rules, case, kept.wrapping, order),
    )  # fmt: skip
