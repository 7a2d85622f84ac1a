"""The scorer's service: seals prepared datasets, orders predictions and scores them. It executes nothing itself.

Nothing is remembered between events: job ids follow from the event that asked for the job, and the seal is derived
again from the index and the packs, so any replica can take any event, also twice.
"""

import asyncio
import hashlib
import json
import logging
from collections.abc import Mapping, Sequence

from pydantic import JsonValue

from services.scorer.answers import MAX_BYTES
from services.scorer.lock.complete import MAX_VALUE
from services.scorer.lock.copies import find_copies
from services.scorer.lock.seal import Sealed, check_and_seal, read_index
from services.scorer.masks.reader import damage
from services.scorer.names import METRICS, canonical
from services.scorer.scoring import score
from shared.bus import Bus
from shared.contracts.base import SEGMENTATIONS, AgentName, Event, TaskKind
from shared.contracts.data import DatasetLocked, DatasetPrepared, IndexMeta, IndexRow, PackList
from shared.contracts.runs import MAX_RETURNS, RoleFailed, WorkReturned
from shared.contracts.scoring import Gate, RunScored
from shared.contracts.state import RunState
from shared.contracts.training import JobFinished, JobKind, JobSpec, TrainingFinished
from shared.store import Store

MERGES = 500
"""Pairs that a returned dataset names at most."""

A_CASE: Mapping[TaskKind, float] = {
    "diagnosis": 20.0,
    "organ_segmentation": 300.0,
    "anomaly_detection": 300.0,
    "report_generation": 60.0,
}
"""Seconds that a package may take for a test sample, on average."""

log = logging.getLogger(__name__)


class Scorer:
    """Handles the events that concern the scorer. Never waits for a job: its end is another event."""

    def __init__(self, bus: Bus, store: Store) -> None:
        self.bus = bus
        self.store = store

    async def handle(self, event: Event) -> None:
        match event:
            case DatasetPrepared():
                await self._prepared(event)
            case TrainingFinished():
                await self._trained(event)
            case JobFinished(job="pack", asked_by="scorer"):
                await self._packed(event)
            case JobFinished(job="predict", asked_by="scorer"):
                await self._predicted(event)

    async def _prepared(self, event: DatasetPrepared) -> None:
        state = await self.bus.state(event.run_id)
        if not _to_lock(state, event):
            return
        plan = state.planned.plan if state.planned else None
        if plan and event.meta.task != plan.task:
            reason = (
                f"the index is for {event.meta.task}, the plan asks for {plan.task}: prepare it for the plan's task"
            )
            await self._give_back(event, event, "data_engineer", reason, {"task": event.meta.task})
        elif plan and canonical(plan.metric, plan.task) is None:
            reason = f"the scorer knows no metric {plan.metric!r}; plan one of {', '.join(METRICS[plan.task])}"
            await self._give_back(event, event, "task_manager", reason, {"metric": plan.metric})
        else:
            await self.bus.submit_job(
                "data",
                JobSpec(
                    job_id=job_id("pack", event),
                    run_id=event.run_id,
                    kind="pack",
                    asked_by="scorer",
                    caused_by=event.event_id,
                    inputs={"index": event.index},
                ),
            )

    async def _packed(self, event: JobFinished) -> None:
        state = await self.bus.state(event.run_id)
        prepared = state.prepared
        if not prepared or not _to_lock(state, prepared) or event.job_id != job_id("pack", prepared):
            return
        if event.outcome != "ok":
            await self._job_failed(event, prepared)
            return
        try:
            sealed = await asyncio.to_thread(self._seal, prepared, event, True)
        except ValueError as error:
            await self._give_back(event, prepared, "data_engineer", f"the index cannot be read: {error}", {})
            return
        if sealed.problems:
            evidence: dict[str, JsonValue] = {
                "gates": dict(sealed.problems),
                "leakage": sealed.leakage.model_dump(mode="json"),
            }
            reason = "the dataset cannot be locked: " + "; ".join(sealed.problems.values())
            await self._give_back(event, prepared, "data_engineer", reason, evidence)
            return
        returned = state.returned.get("scorer>data_engineer", 0)
        if sealed.merge and returned < MAX_RETURNS and not await self._asked_to_merge(event.run_id):
            pairs = [list(pair) for pair in sealed.leakage.pairs if pair[0] == "near_duplicate"]
            merge: list[JsonValue] = [list(pair) for pair in sealed.merge[:MERGES]]
            reason = (
                f"{sealed.leakage.checks['near_duplicate']} pairs of samples of different patients on two sides of the "
                f"split show the same image, such as {pairs[0][1]} and {pairs[0][2]}: treat their patients as one and "
                "make the split again"
            )
            found: JsonValue = sealed.leakage.model_dump(mode="json")
            await self._give_back(event, prepared, "data_engineer", reason, {"leakage": found, "merge": merge})
            return
        manifest = sealed.view.model_dump_json().encode()
        view = await asyncio.to_thread(self.store.put_bytes, "data", manifest, "application/json")
        locked = DatasetLocked.make(
            run_id=event.run_id,
            sender="scorer",
            cause=event,
            index_sha256=prepared.index.sha256,
            manifest_sha256=sealed.manifest_sha256,
            view=view,
            leakage=sealed.told,
            locks=state.locks + 1,
            counts=sealed.counts,
            patients=sealed.patients,
            label_names=prepared.meta.label_names,
            label_values=sealed.view.label_values,
        )
        await self.bus.append(locked, unless=lambda now: not _to_lock(now, prepared))

    async def _asked_to_merge(self, run_id: str) -> bool:
        """Near-duplicates send a dataset back once; what is left of them then is on record and holds down the level."""
        events = [event for _, event in await self.bus.events(run_id)]
        return any(isinstance(event, WorkReturned) and "merge" in event.evidence for event in events)

    async def _trained(self, event: TrainingFinished) -> None:
        state = await self.bus.state(event.run_id)
        if not _to_score(state, event):
            return
        sealed = await asyncio.to_thread(self._sealed_again, state)
        # Where the masks lie is nothing that a prediction needs to know.
        images = tuple(pack.model_copy(update={"target": None}) for pack in sealed.test_packs)
        samples = PackList(samples=images).model_dump_json().encode()
        a_case = A_CASE[sealed.view.task]
        inputs = {
            "package": event.package,
            "samples": await asyncio.to_thread(self.store.put_bytes, "sealed", samples, "application/json"),
        }
        if any(row.attributes for row in sealed.test):
            rows = [{"sample_id": row.sample_id, "attributes": row.attributes} for row in sealed.test]
            data = json.dumps(rows).encode()
            inputs["attributes"] = await asyncio.to_thread(self.store.put_bytes, "sealed", data, "application/json")
        await self.bus.submit_job(
            "train",
            JobSpec(
                job_id=job_id("predict", event),
                run_id=event.run_id,
                kind="predict",
                asked_by="scorer",
                caused_by=event.event_id,
                inputs=inputs,
                seconds=min(600 + a_case * len(sealed.test), 6 * 3600),
            ),
        )

    async def _predicted(self, event: JobFinished) -> None:
        state = await self.bus.state(event.run_id)
        trained, prepared, locked, planned = state.trained, state.prepared, state.locked, state.planned
        if not (trained and prepared and locked and planned) or not _to_score(state, trained):
            return
        if event.job_id != job_id("predict", trained):
            return
        plan = planned.plan
        sealed = await asyncio.to_thread(self._sealed_again, state)
        answers = await asyncio.to_thread(self._answers, event)
        metric = canonical(plan.metric, plan.task) or plan.metric
        found = await asyncio.to_thread(score, sealed, prepared, locked, metric, plan.acceptable, answers, self.store)
        details = json.dumps(found.details, allow_nan=False).encode()
        scored = RunScored.make(
            run_id=event.run_id,
            sender="scorer",
            cause=event,
            metric=found.metric,
            others=found.others,
            per_class=found.per_class,
            controls=found.controls,
            permutation_p=found.permutation_p,
            gates=found.gates,
            level=found.verdict.level,
            locks=state.locks,
            scorings=state.scorings + 1,
            details=await asyncio.to_thread(self.store.put_bytes, "packages", details, "application/json"),
        )
        await self.bus.append(scored, unless=lambda now: not _to_score(now, trained))
        log.info("run %s scored: %s", event.run_id, found.verdict.level)

    async def dead(self, event: Event, error: BaseException) -> None:
        """What could not be handled after all deliveries ends the run instead of leaving it hanging."""
        reason = f"the scorer could not handle {event.kind}: {type(error).__name__}: {error}"
        failed = RoleFailed.make(run_id=event.run_id, sender="scorer", cause=event, end="crashed", reason=reason[:2000])
        await self.bus.append(failed, unless=lambda now: not now.live or now.stage != "scorer")

    def _seal(self, prepared: DatasetPrepared, packed: JobFinished, compare: bool) -> Sealed:
        """Blocks. ValueError when index or pack list cannot be read. `compare` also looks into the packs."""
        rows = read_index(self.store.get_bytes(prepared.index))
        packs = PackList.model_validate_json(self.store.get_bytes(packed.outputs["packs"]))
        copies = find_copies(self.store, rows, packs) if compare else None
        damaged = self._damaged(prepared.meta, rows, packs) if compare else None
        return check_and_seal(rows, prepared.meta, packs, prepared.handoff, copies, damaged)

    def _damaged(self, meta: IndexMeta, rows: Sequence[IndexRow], packs: PackList) -> dict[str, str]:
        """Test samples whose mask nothing can be scored against: better known before anything is trained."""
        test = {row.sample_id for row in rows if row.split == "test" and meta.task in SEGMENTATIONS}
        values = [value for value in meta.label_values.values() if 1 <= value <= MAX_VALUE]
        found = {pack.sample_id: damage(self.store, pack, values) for pack in packs.samples if pack.sample_id in test}
        return {sample: why for sample, why in found.items() if why}

    def _sealed_again(self, state: RunState) -> Sealed:
        """What was locked, derived from the same inputs; contents were compared then and are not again."""
        if not state.prepared:
            raise ValueError(f"run {state.run_id} has no prepared dataset")
        return self._seal(state.prepared, state.jobs_done[job_id("pack", state.prepared)], False)

    def _answers(self, event: JobFinished) -> bytes | Gate:
        """The bytes of the predictions, or the gate that says why there are none to read."""
        ref = event.outputs.get("predictions")
        if event.outcome != "ok" or ref is None:
            # The first line is the runner's; what follows is output of the package.
            said = event.summary.split("\n")[0][:300] or "its log says more"
            reason = f"the predict job ended as {event.outcome} after {event.seconds:.0f} s: {said}"
            return Gate(name="predictions_made", passed=False, evidence=reason)
        if ref.size > MAX_BYTES:
            return Gate(name="predictions_readable", passed=False, evidence=f"{ref.size} bytes of predictions")
        return self.store.get_bytes(ref)

    async def _job_failed(self, event: JobFinished, prepared: DatasetPrepared) -> None:
        reason = f"the dataset could not be packed ({event.outcome}): {event.summary[:1000]}"
        if event.outcome == "failed":
            await self._give_back(event, prepared, "data_engineer", reason, {"job_id": event.job_id})
        else:
            await self._fail(event, prepared, gate=None, reason=reason)

    async def _give_back(
        self,
        event: Event,
        prepared: DatasetPrepared,
        target: AgentName,
        reason: str,
        evidence: dict[str, JsonValue],
    ) -> None:
        """Return the work, or end the run when it has been returned often enough."""
        state = await self.bus.state(event.run_id)
        if state.returned.get(f"scorer>{target}", 0) >= MAX_RETURNS:
            gates = evidence.get("gates")
            gate = next(iter(gates), None) if isinstance(gates, dict) else None
            await self._fail(event, prepared, gate=gate or "dataset_lockable", reason=reason)
            return
        returned = WorkReturned.make(
            run_id=event.run_id, sender="scorer", cause=event, target=target, reason=reason, evidence=evidence
        )
        await self.bus.append(returned, unless=lambda now: not _to_lock(now, prepared))

    async def _fail(self, event: Event, prepared: DatasetPrepared, *, gate: str | None, reason: str) -> None:
        failed = RoleFailed.make(
            run_id=event.run_id,
            sender="scorer",
            cause=event,
            end="failed_gate" if gate else "crashed",
            gate=gate,
            reason=reason,
        )
        await self.bus.append(failed, unless=lambda now: not _to_lock(now, prepared))


def job_id(kind: JobKind, asked_for: Event) -> str:
    """The same event always asks for the same job."""
    return f"{kind}-{hashlib.sha256(asked_for.event_id.encode()).hexdigest()[:20]}"


def _to_lock(state: RunState, prepared: DatasetPrepared) -> bool:
    """Is this preparation the newest, and still to be locked?"""
    newest = state.prepared is not None and state.prepared.event_id == prepared.event_id
    return state.live and newest and state.locked is None


def _to_score(state: RunState, trained: TrainingFinished) -> bool:
    newest = state.trained is not None and state.trained.event_id == trained.event_id
    return state.live and newest and state.locked is not None and state.scored is None
