"""One run with a real scorer on a real bus and a real object store; the other roles and the runner are played."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from case_tables import ref

from services.scorer.service import Scorer
from shared.bus import Bus
from shared.contracts.base import AgentName, Event, Ref, new_run_id
from shared.contracts.cases import CaseTable
from shared.contracts.data import CaseList, DatasetLocked, DatasetPrepared, IndexRow, SealedSplit
from shared.contracts.modules import AssembledModule, ModuleAssembled
from shared.contracts.runs import DataCard, RunRequested, TaskPlan, TaskPlanned, WorkReturned
from shared.contracts.scoring import RunScored
from shared.contracts.state import RunState
from shared.contracts.training import JobFinished, JobSpec, JobStarted, TrainingFinished
from shared.settings import Settings
from shared.store import Store

PACKAGE = ref("package", bucket="packages")
PLAN = {"dataset_id": "scans", "reason": "fits", "dimensions": 2, "modality": "CT"}

Answers = Callable[[IndexRow, int], object]
"""A test row and its number -> what the result of the predict job says of it."""


@dataclass
class World:
    """One run. `answers` is what the package predicts; `outcome` how the predict job ends, if not `silent`."""

    bus: Bus
    store: Store
    scorer: Scorer
    table: CaseTable
    answers: Answers
    metric: str
    outcome: str = "ok"
    isolation: str = "bwrap"
    asked: dict[str, bool] = field(default_factory=lambda: {"unattended": True})
    apart: bool = False
    """Of the runner that trains and predicts."""
    raw: bytes | None = None
    jobs: list[JobSpec] = field(default_factory=list)
    run_id: str = field(default_factory=new_run_id)
    split: SealedSplit | None = None
    """As it was when a package was last asked for its answers."""

    async def begin(self, **plan: object) -> None:
        card = DataCard(dataset_id="scans", name="scans", description="")
        asked = RunRequested.make(
            run_id=self.run_id, sender="gateway", cause=None, requirement="classify scans", **self.asked
        )
        fields = PLAN | {"task": self.table.coverage.task, "metric": self.metric} | plan
        await self.bus.append(asked)
        await self.bus.append(
            TaskPlanned.make(run_id=self.run_id, sender="task_manager", cause=asked, plan=TaskPlan(**fields), card=card)
        )

    async def _back_to(self, role: AgentName) -> None:
        """Whoever holds the baton hands work back, where `role` has done its part already."""
        state = await self.bus.state(self.run_id)
        if state.stage != role:
            run = {"run_id": self.run_id, "sender": state.stage, "cause": None, "salt": str(state.head)}
            await self.bus.append(WorkReturned.make(**run, target=role, reason="once more"))

    async def prepare(self, salt: str = "") -> DatasetPrepared:
        await self._back_to("data_engineer")
        prepared = DatasetPrepared.make(
            run_id=self.run_id,
            sender="data_engineer",
            cause=None,
            salt=salt,
            rules=ref(salt, bucket="work"),
            coverage=self.table.coverage,
            notes=("NOTE: name0 has no date",),
        )
        await self.bus.append(prepared)
        return prepared

    async def trainer(self, salt: str = "", package: Ref = PACKAGE) -> str:
        """A training job that makes the package."""
        run = {"run_id": self.run_id, "sender": "tool_runner", "cause": None, "salt": salt}
        job = {"job_id": f"train-{salt}", "job": "train"}
        await self.bus.append(JobStarted.make(**run, **job, isolation=self.isolation, apart=self.apart))
        made = {"asked_by": "model_trainer", "outcome": "ok", "outputs": {"package": package}}
        await self.bus.append(JobFinished.make(**run, **job, **made))
        return job["job_id"]

    async def deliver(self, salt: str = "", package: Ref = PACKAGE) -> TrainingFinished:
        await self._back_to("module_architect")
        module = AssembledModule(template="diagnosis", model="cnn", loss="cross entropy", input_shape=(1, 32, 32))
        run = {"run_id": self.run_id, "cause": None, "salt": salt}
        await self.bus.append(
            ModuleAssembled.make(
                **run, sender="module_architect", module=module, batch_shapes={}, workspace_sha256="0" * 64
            )
        )
        trained = TrainingFinished.make(**run, sender="model_trainer", package=package, validation={}, attempts=1)
        await self.bus.append(trained)
        return trained

    async def train(self, salt: str = "") -> TrainingFinished:
        await self.trainer(salt)
        return await self.deliver(salt)

    async def wait(self, kind: type[Event]) -> Event:
        async with asyncio.timeout(120):
            async for _, event in self.bus.follow(self.run_id):
                if isinstance(event, kind):
                    return event
        raise AssertionError

    async def until(self, holds: Callable[[RunState], bool]) -> RunState:
        async with asyncio.timeout(120):
            async for _ in self.bus.follow(self.run_id):
                if holds(state := await self.bus.state(self.run_id)):
                    return state
        raise AssertionError

    async def kinds(self) -> list[str]:
        return [event.kind for _, event in await self.bus.events(self.run_id)]

    async def get(self, stored: Ref) -> bytes:
        return await asyncio.to_thread(self.store.get_bytes, stored)

    async def sealed(self) -> SealedSplit:
        """What the scorer alone reads."""
        state = await self.bus.state(self.run_id)
        assert state.sealed is not None
        return SealedSplit.model_validate_json(await self.get(state.sealed))

    async def test(self) -> list[IndexRow]:
        return [row for row in (await self.sealed()).rows if row.split == "test"]

    async def on_job(self, job: JobSpec, attempt: int) -> None:
        if job.run_id != self.run_id or (job.kind == "predict" and self.outcome == "silent"):
            return
        self.jobs.append(job)
        run = {"run_id": job.run_id, "sender": "tool_runner", "cause": job.caused_by, "salt": f"{job.job_id}#1"}
        at = {"isolation": self.isolation, "apart": self.apart}
        await self.bus.append(JobStarted.make(**run, job_id=job.job_id, job=job.kind, **at))
        outputs = {}
        if job.kind == "intake":
            outputs["cases"] = await self._put(self.table.model_dump_json().encode())
        elif self.outcome == "ok":
            listed = CaseList.model_validate_json(await self.get(job.inputs["samples"]))
            self.split = await self.sealed()
            row_of = {row.sample_id: row for row in self.split.rows}
            numbered = list(enumerate(one for one in listed.samples if one.sample_id not in listed.altered))
            cases = await asyncio.to_thread(
                lambda: {one.sample_id: self.answers(row_of[one.sample_id], number) for number, one in numbered}
            )
            # Nothing can be said of a blank image, and the others hardly differ from the cases that they were.
            controls = {
                name: {"error": "it is blank"} if how == "blanked" else cases[name.removeprefix(f"{how} ")]
                for name, how in listed.altered.items()
            }
            said = {"cases": cases, "controls": controls, "seconds": 1}
            outputs["predictions"] = await self._put(self.raw or json.dumps(said).encode())
        await self.bus.append(
            JobFinished.make(
                run_id=job.run_id,
                sender="tool_runner",
                cause=job.caused_by,
                salt=job.job_id,
                job_id=job.job_id,
                job=job.kind,
                asked_by=job.asked_by,
                outcome=self.outcome if job.kind == "predict" else "ok",
                outputs=outputs,
            )
        )

    async def _put(self, data: bytes) -> Ref:
        return await asyncio.to_thread(self.store.put_bytes, "sealed", data)


@asynccontextmanager
async def running(
    settings: Settings, bus: Bus, table: Callable[[Store], CaseTable], answers: Answers, metric: str
) -> AsyncIterator[World]:
    store = Store.connect(settings)
    await asyncio.to_thread(store.ensure_buckets)
    own = await Bus.connect(settings, "scorer", retry_delays=(0.05,))
    scorer = Scorer(own, store)
    world = World(bus, store, scorer, await asyncio.to_thread(table, store), answers, metric)
    stop = asyncio.Event()

    async def no_calls(call: object) -> object:
        raise AssertionError("the scorer calls no tools")

    work = [
        asyncio.create_task(own.listen("scorer", scorer.handle, 2, stop, on_dead=scorer.dead)),
        *(asyncio.create_task(bus.serve_tools(name, no_calls, world.on_job, 1, stop)) for name in ("data", "train")),
    ]
    try:
        yield world
    finally:
        stop.set()
        await asyncio.gather(*work)
        await own.close()


async def scored(world: World, **plan: object) -> RunScored:
    await world.begin(**plan)
    await world.prepare()
    await world.wait(DatasetLocked)
    await world.train()
    scored = await world.wait(RunScored)
    assert isinstance(scored, RunScored)
    return scored
