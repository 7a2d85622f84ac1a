"""One run with a real scorer on a real bus and a real object store; the other roles and the runner are played."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from plain_looks import plain_looks

from services.scorer.service import Scorer
from services.tool_runner.packs import pack_samples
from shared.bus import Bus
from shared.contracts.base import SEGMENTATIONS, Event, Ref, new_run_id
from shared.contracts.data import DatasetLocked, DatasetPrepared, Handoff, IndexMeta, IndexRow, PackList
from shared.contracts.modules import AssembledModule, ModuleAssembled
from shared.contracts.runs import DataCard, RunRequested, TaskPlan, TaskPlanned
from shared.contracts.scoring import RunScored
from shared.contracts.state import RunState
from shared.contracts.training import JobFinished, JobSpec, TrainingFinished
from shared.settings import Settings
from shared.store import Store

PACKAGE = Ref(bucket="packages", key="package", sha256="0" * 64, size=1)
PLAN = {"dataset_id": "scans", "reason": "fits", "dimensions": 2, "modality": "CT"}

Answers = Callable[[IndexRow, int], object]
"""A test row and its number -> what the result of the predict job says of it."""


def bucket_of(row: IndexRow) -> str:
    return "sealed" if row.split == "test" else "data"


@dataclass
class World:
    """One run. `answers` is what the package predicts; `outcome` how the predict job ends, if not `silent`."""

    bus: Bus
    store: Store
    scorer: Scorer
    folder: Path
    rows: Sequence[IndexRow]
    meta: IndexMeta
    answers: Answers
    metric: str
    outcome: str = "ok"
    raw: bytes | None = None
    jobs: list[JobSpec] = field(default_factory=list)
    run_id: str = field(default_factory=new_run_id)

    async def begin(self, **plan: object) -> None:
        card = DataCard(dataset_id="scans", name="scans", description="")
        asked = RunRequested.make(run_id=self.run_id, sender="gateway", cause=None, requirement="classify scans")
        fields = PLAN | {"task": self.meta.task, "metric": self.metric} | plan
        await self.bus.append(asked)
        await self.bus.append(
            TaskPlanned.make(run_id=self.run_id, sender="task_manager", cause=asked, plan=TaskPlan(**fields), card=card)
        )

    async def prepare(self, salt: str = "") -> DatasetPrepared:
        data = "\n".join(row.model_dump_json() for row in self.rows).encode()
        prepared = DatasetPrepared.make(
            run_id=self.run_id,
            sender="data_engineer",
            cause=None,
            salt=salt,
            index=await asyncio.to_thread(self.store.put_bytes, "work", data),
            meta=self.meta,
            counts={},
            patients={},
            handoff=Handoff(oddities=("pat2030 has no date", "pat2001 has no date")),
        )
        await self.bus.append(prepared)
        return prepared

    async def train(self, salt: str = "") -> TrainingFinished:
        module = AssembledModule(template="diagnosis", model="cnn", loss="cross entropy", input_shape=(1, 32, 32))
        await self.bus.append(
            ModuleAssembled.make(
                run_id=self.run_id,
                sender="module_architect",
                cause=None,
                salt=salt,
                module=module,
                batch_shapes={},
                workspace_sha256="0" * 64,
            )
        )
        trained = TrainingFinished.make(
            run_id=self.run_id,
            sender="model_trainer",
            cause=None,
            salt=salt,
            package=PACKAGE,
            validation={},
            attempts=1,
        )
        await self.bus.append(trained)
        return trained

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

    async def on_job(self, job: JobSpec, attempt: int) -> None:
        if job.run_id != self.run_id or (job.kind == "predict" and self.outcome == "silent"):
            return
        self.jobs.append(job)
        outputs = {}
        if job.kind == "pack":
            masks = self.meta.task in SEGMENTATIONS
            looks = plain_looks(self.folder, [row.files for row in self.rows])
            packs = await asyncio.to_thread(pack_samples, self.folder, self.rows, self.store, bucket_of, masks, looks)
            outputs["packs"] = await self._put(packs.model_dump_json().encode())
        elif self.outcome == "ok":
            listed = PackList.model_validate_json(await asyncio.to_thread(self.store.get_bytes, job.inputs["samples"]))
            row_of = {row.sample_id: row for row in self.rows}
            numbered = list(enumerate(listed.samples))
            cases = await asyncio.to_thread(
                lambda: {one.sample_id: self.answers(row_of[one.sample_id], number) for number, one in numbered}
            )
            outputs["predictions"] = await self._put(self.raw or json.dumps({"cases": cases, "seconds": 1}).encode())
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
    settings: Settings, bus: Bus, folder: Path, rows: Sequence[IndexRow], meta: IndexMeta, answers: Answers, metric: str
) -> AsyncIterator[World]:
    store = Store.connect(settings)
    await asyncio.to_thread(store.ensure_buckets)
    own = await Bus.connect(settings, "scorer", retry_delays=(0.05,))
    scorer = Scorer(own, store)
    world = World(bus, store, scorer, folder, rows, meta, answers, metric)
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
