"""The scorer's service: splits and seals cases, orders predictions and scores them. It executes nothing itself.

Nothing is remembered between events: job ids follow from the event that asked for the job, and the split, once made, is
an object of the bucket `sealed` that `DatasetLocked` names. Any replica can take any event, also twice.
"""

import asyncio
import json
import logging
import secrets
from collections.abc import Mapping

from pydantic import JsonValue

from services.scorer.altered import with_controls
from services.scorer.answers import MAX_BYTES
from services.scorer.history import approved, counted, job_id, package_of_this_lock, taken_in_for_locks
from services.scorer.isolation import isolated
from services.scorer.lock.copies import find_copies
from services.scorer.lock.left_out import BOUND, left_out
from services.scorer.lock.seal import CannotLock, Lock, manifest_sha256, seal
from services.scorer.names import KAPPA, METRICS, canonical
from services.scorer.residual import Residual, residual
from services.scorer.scoring import Score, score
from services.scorer.shortcuts import judge
from shared import telemetry
from shared.bus import Bus
from shared.contracts.base import AgentName, Event, Ref, TaskKind
from shared.contracts.cases import CaseRecord, CaseTable
from shared.contracts.data import DatasetLocked, DatasetPrepared, SealedSplit
from shared.contracts.runs import MAX_RETURNS, RoleFailed, TaskPlan, WorkReturned
from shared.contracts.scoring import Gate, RunScored
from shared.contracts.state import RunState, order_for, out_of_turn
from shared.contracts.training import JobFinished, JobSpec, TrainingFinished
from shared.store import Store

A_CASE: Mapping[TaskKind, float] = {
    "diagnosis": 20.0,
    "organ_segmentation": 300.0,
    "anomaly_detection": 300.0,
    "report_generation": 60.0,
}
"""Seconds that a package may take for a test case, on average."""
INTAKE = 5.0
"""Seconds for a case, beside an hour for all."""

log = logging.getLogger(__name__)


class Scorer:
    """Handles the events that concern the scorer. Never waits for a job: its end is another event."""

    def __init__(self, bus: Bus, store: Store, left_out_bound: float = BOUND) -> None:
        self.bus = bus
        self.store = store
        self.left_out_bound = left_out_bound

    async def handle(self, event: Event) -> None:
        match event:
            case DatasetPrepared():
                await self._prepared(event)
            case TrainingFinished():
                await self._trained(event)
            case JobFinished(job="intake", asked_by="scorer"):
                await self._taken_in(event)
            case JobFinished(job="predict", asked_by="scorer"):
                await self._predicted(event)

    async def _prepared(self, event: DatasetPrepared) -> None:
        state = await self.bus.state(event.run_id)
        if not _asked(state, event):
            return
        plan = state.planned.plan if state.planned else None
        if plan and event.coverage.task != plan.task:
            await self._give_back(event, event, "data_engineer", *_other_task(event.coverage.task, plan))
        elif plan and canonical(plan.metric, plan.task) is None:
            reason = f"the scorer knows no metric {plan.metric!r}; plan one of {', '.join(METRICS[plan.task])}"
            await self._give_back(event, event, "task_manager", reason, {"metric": plan.metric})
        elif plan and canonical(plan.metric) == KAPPA and not event.coverage.ordered:
            reason = f"{KAPPA}, the plan's metric, is of grades: say in `label.order` which class is least, next, most"
            await self._give_back(event, event, "data_engineer", reason, {"classes": list(event.coverage.label_names)})
        else:
            inputs = {"rules": event.rules, "listed": event.listed, "sealed": state.sealed}
            await self.bus.submit_job(
                "data",
                JobSpec(
                    job_id=job_id("intake", event),
                    run_id=event.run_id,
                    kind="intake",
                    asked_by="scorer",
                    caused_by=event.event_id,
                    inputs={name: ref for name, ref in inputs.items() if ref},
                    seconds=3600 + INTAKE * event.coverage.cases,
                ),
            )

    async def _taken_in(self, event: JobFinished) -> None:
        state = await self.bus.state(event.run_id)
        prepared = state.prepared
        if not prepared or not _asked(state, prepared) or event.job_id != job_id("intake", prepared):
            return
        if event.outcome != "ok":
            await self._job_failed(event, prepared)
            return
        table = await asyncio.to_thread(self._table, event)
        plan = state.planned.plan if state.planned else None
        if plan and table.coverage.task != plan.task:
            await self._give_back(event, prepared, "data_engineer", *_other_task(table.coverage.task, plan))
            return
        try:
            with telemetry.scorer_span("lock", table.coverage.task):
                made = await asyncio.to_thread(self._seal, table, state.sealed)
        except CannotLock as error:
            await self._give_back(
                event, prepared, "data_engineer", f"the dataset cannot be locked: {error}", error.evidence
            )
            return
        # Said now, when a person who is asked for the split can vouch for the rules, and no training is spent.
        residual = await self._carried(state, event, table, made.sealed)
        carried = residual.gate()
        leakage = made.leakage.model_copy(update={"notes": (*made.leakage.notes, f"{carried.evidence}.")})
        locked = DatasetLocked.make(
            run_id=event.run_id,
            sender="scorer",
            cause=event,
            rules_sha256=prepared.rules.sha256,
            sealed=await self._put("sealed", made.sealed.model_dump_json()),
            manifest_sha256=manifest_sha256(made.sealed.rows),
            view=await self._put("data", made.view.model_dump_json()),
            leakage=leakage,
            locks=state.locks + 1,
            counts=made.counts,
            patients=made.patients,
            facts=made.sealed.facts,
            unvouched=not carried.passed and residual.gate(approved=True).passed,
        )
        await self.bus.append(locked, unless=lambda now: not _asked(now, prepared))

    async def _trained(self, event: TrainingFinished) -> None:
        state = await self.bus.state(event.run_id)
        if not _asked(state, event) or state.locked is None:
            return
        package = package_of_this_lock((one for _, one in await self.bus.events(event.run_id)), event)
        if not package.passed:
            await self._score(event, state, event, package)
            return
        sealed = await asyncio.to_thread(self._sealed, state.locked)
        tested = {row.sample_id for row in sealed.rows if row.split == "test"}
        # Where the masks lie is nothing that a prediction needs to know.
        cases = [case.model_copy(update={"mask": None}) for case in sealed.stored if case.sample_id in tested]
        samples = with_controls(sealed, cases)
        await self.bus.submit_job(
            "train",
            JobSpec(
                job_id=job_id("predict", event),
                run_id=event.run_id,
                kind="predict",
                asked_by="scorer",
                caused_by=event.event_id,
                inputs={"package": event.package, "samples": await self._put("sealed", samples.model_dump_json())},
                seconds=min(600 + A_CASE[sealed.facts.task] * len(samples.samples), 6 * 3600),
            ),
        )

    async def _predicted(self, event: JobFinished) -> None:
        state = await self.bus.state(event.run_id)
        trained = state.trained
        if not trained or not _asked(state, trained) or event.job_id != job_id("predict", trained):
            return
        await self._score(event, state, trained, await asyncio.to_thread(self._answers, event))

    async def _score(self, cause: Event, state: RunState, trained: TrainingFinished, answers: bytes | Gate) -> None:
        with telemetry.scorer_span("score", state.planned.plan.task if state.planned else "none"):
            found = await self._scored(state, trained, answers)
        details = json.dumps(found.details, allow_nan=False)
        scored = RunScored.make(
            run_id=state.run_id,
            sender="scorer",
            cause=cause,
            metric=found.metric,
            others=found.others,
            per_class=found.per_class,
            controls=found.controls,
            permutation_p=found.permutation_p,
            gates=found.gates,
            level=found.verdict.level,
            why=found.verdict.why,
            locks=state.locks,
            scorings=state.scorings + 1,
            rests_on=found.rests_on,
            details=await self._put("packages", details),
        )
        await self.bus.append(scored, unless=lambda now: not _asked(now, trained))
        log.info("run %s scored: %s", state.run_id, found.verdict.level)

    async def _scored(self, state: RunState, trained: TrainingFinished, answers: bytes | Gate) -> Score:
        prepared, locked, planned = state.prepared, state.locked, state.planned
        if not (prepared and locked and planned):
            raise ValueError(f"run {state.run_id} was trained without a plan or a lock")
        plan = planned.plan
        sealed = await asyncio.to_thread(self._sealed, locked)
        taken_in = state.jobs_done[job_id("intake", prepared)]
        table = await asyncio.to_thread(self._table, taken_in)
        records = records_of(table, sealed)
        shortcut = await asyncio.to_thread(judge, records, [row.patient for row in sealed.rows], sealed.facts)
        events = [one for _, one in await self.bus.events(state.run_id)]
        package = package_of_this_lock(events, trained)
        apart = isolated(events, trained.package, job_id("predict", trained))
        vouched = approved(events)
        left = left_out(table, sealed.rows, self.left_out_bound, vouched)
        carried = (await self._carried(state, taken_in, table, sealed)).gate(vouched)
        before = counted(await self.bus.of_dataset(planned.card), await self.bus.tombstones())
        return await asyncio.to_thread(
            score,
            sealed,
            prepared,
            locked,
            canonical(plan.metric, plan.task) or plan.metric,
            plan.acceptable,
            answers,
            self.store,
            # One that failed is among the answers' gates.
            also=[*([package] if package.passed else []), left, apart, shortcut, carried],
            rests_on=[before, f"{left.evidence}.", f"{carried.evidence}."],
            groups={row.sample_id: one.wrapping.groups for row, one in zip(sealed.rows, records, strict=True)},
        )

    async def _carried(self, state: RunState, taken_in: JobFinished, table: CaseTable, sealed: SealedSplit) -> Residual:
        """What could have been said of test cases by this table, which that job made, and those of earlier locks."""
        asked = state.requested.requirement if state.requested else ""
        card = state.planned.card if state.planned else None
        words = f"{asked} {card.name} {card.description}" if card else asked
        events = [one for _, one in await self.bus.events(state.run_id)]
        earlier = [one for one in taken_in_for_locks(events) if one.event_id != taken_in.event_id]
        tables = [*[await asyncio.to_thread(self._table, one) for one in earlier], table]
        addressed = sum(sealed.facts.split_from == "made" or row.split == "test" for row in sealed.rows)
        return await asyncio.to_thread(residual, tables, words, addressed, asked)

    async def dead(self, event: Event, error: BaseException) -> None:
        """What could not be handled after all deliveries ends the run instead of leaving it hanging."""
        reason = f"the scorer could not handle {event.kind}: {type(error).__name__}: {error}"
        failed = RoleFailed.make(run_id=event.run_id, sender="scorer", cause=event, end="crashed", reason=reason[:2000])
        await self.bus.append(failed, unless=lambda now: not now.live or out_of_turn(now, failed))

    def _table(self, taken_in: JobFinished) -> CaseTable:
        return CaseTable.model_validate_json(self.store.get_bytes(taken_in.outputs["cases"]))

    def _seal(self, table: CaseTable, last: Ref | None) -> Lock:
        """Blocks. A later lock keeps the seed of the first: cases keep their names, and those handed back are known."""
        before = SealedSplit.model_validate_json(self.store.get_bytes(last)) if last else None
        seed = before.seed if before else secrets.token_hex(16)
        return seal(table, find_copies(self.store, table), seed, before, self.left_out_bound)

    def _sealed(self, locked: DatasetLocked) -> SealedSplit:
        return SealedSplit.model_validate_json(self.store.get_bytes(locked.sealed))

    async def _put(self, bucket: str, text: str) -> Ref:
        return await asyncio.to_thread(self.store.put_bytes, bucket, text.encode(), "application/json")

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
        reason = f"the cases could not be read ({event.outcome}): {event.summary[:1000]}"
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
        await self.bus.append(returned, unless=lambda now: not _asked(now, prepared))

    async def _fail(self, event: Event, prepared: DatasetPrepared, *, gate: str | None, reason: str) -> None:
        failed = RoleFailed.make(
            run_id=event.run_id,
            sender="scorer",
            cause=event,
            end="failed_gate" if gate else "crashed",
            gate=gate,
            reason=reason,
        )
        await self.bus.append(failed, unless=lambda now: not _asked(now, prepared))


def records_of(table: CaseTable, sealed: SealedSplit) -> list[CaseRecord]:
    """What intake knew of each row of the split, in its order."""
    of = {case.key: case for case in table.cases}
    return [of[key] for key in sealed.keys]


def _other_task(task: TaskKind, plan: TaskPlan) -> tuple[str, dict[str, JsonValue]]:
    reason = f"the rules are for {task}, the plan asks for {plan.task}: write them for the plan's task"
    return reason, {"task": task}


def _asked(state: RunState, fact: DatasetPrepared | TrainingFinished) -> bool:
    """Is this preparation, or training, what the run wants locked, or scored, now?"""
    return order_for("scorer", state) == fact.event_id
