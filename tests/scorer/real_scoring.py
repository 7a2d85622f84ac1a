"""The scorer and the tool runner as the processes that they are, on servers of their own; the other roles are played.

What a package is given and what becomes of it is real: intake, the lock, the predict job in the sandbox, the score.
"""

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from case_tables import coverage

from services.scorer.history import job_id
from services.task_manager.keeper import keep
from shared.bus import Bus
from shared.contracts.base import Event, Ref, new_run_id
from shared.contracts.data import CaseList, DatasetLocked, DatasetPrepared, IndexRow, SealedSplit
from shared.contracts.modules import AssembledModule, ModuleAssembled
from shared.contracts.rules import Rules
from shared.contracts.runs import DataCard, RunFinished, RunRequested, TaskPlan, TaskPlanned
from shared.contracts.scoring import RunScored
from shared.contracts.training import JobFinished, JobSpec, JobStarted, TrainingFinished
from shared.dataset.propose import propose
from shared.embedded.nats import start_nats
from shared.embedded.s3 import start_s3
from shared.settings import Settings
from shared.store import Store

REQUEST = "classify pictures"
ROOT = Path(__file__).parents[2]
SECONDS = 600
"""For a run from request to score, on a machine that is busy with something else."""


@dataclass(frozen=True)
class Scored:
    """How a run came out."""

    score: RunScored
    end: RunFinished
    """What the keeper makes of it."""
    predicted: JobFinished
    log: str
    """Of the predict job."""
    details: dict[str, Any]
    keys: dict[str, str]
    """Name of a case -> what the rules call it."""


@dataclass(frozen=True)
class Scoring:
    settings: Settings
    store: Store
    processes: "tuple[subprocess.Popen[bytes], ...]"

    @property
    def alive(self) -> bool:
        return all(process.poll() is None for process in self.processes)

    def put(self, package: Path) -> Ref:
        return self.store.put_folder("packages", package)

    async def score(self, data: Path, rows: Sequence[IndexRow], package: Ref, seconds: float | None = None) -> Scored:
        """One run of the dataset below `data`; `seconds` bounds its predict job instead of what the scorer allows."""
        bus = await Bus.connect(self.settings, "gateway")
        try:
            return await self._score(bus, data, await asyncio.to_thread(rules_for, data, rows), package, seconds)
        finally:
            await bus.close()

    async def _score(self, bus: Bus, data: Path, rules: Rules, package: Ref, seconds: float | None) -> Scored:
        run: dict[str, Any] = {"run_id": new_run_id()}
        asked = RunRequested.make(**run, sender="gateway", cause=None, requirement=REQUEST)
        plan = TaskPlan(task="diagnosis", dataset_id="d", reason="r", dimensions=2, modality="CT", metric="auc_macro")
        card = DataCard(dataset_id=data.name, name="d", description="d", path=str(data))
        planned = TaskPlanned.make(**run, sender="task_manager", cause=asked, plan=plan, card=card)
        stored = await asyncio.to_thread(self.store.put_bytes, "work", rules.model_dump_json().encode())
        prepared = DatasetPrepared.make(
            **run, sender="data_engineer", cause=planned, rules=stored, coverage=coverage(())
        )
        for event in (asked, planned, prepared):
            await bus.append(event)
        locked = await _wait(bus, run["run_id"], DatasetLocked)
        module = AssembledModule(template="diagnosis", model="cnn", loss="cross entropy", input_shape=(1, 32, 32))
        assembled = ModuleAssembled.make(
            **run, sender="module_architect", cause=locked, module=module, batch_shapes={}, workspace_sha256="0" * 64
        )
        job: dict[str, Any] = {**run, "sender": "tool_runner", "cause": assembled, "job_id": "train-1", "job": "train"}
        trained = TrainingFinished.make(
            **run, sender="model_trainer", cause=assembled, package=package, validation={"auc_macro": 1.0}, attempts=1
        )
        made = {"asked_by": "model_trainer", "outcome": "ok", "outputs": {"package": package}}
        for event in (assembled, JobStarted.make(**job, isolation="bwrap"), JobFinished.make(**job, **made)):
            await bus.append(event)
        assert isinstance(locked, DatasetLocked)
        sealed = SealedSplit.model_validate_json(await asyncio.to_thread(self.store.get_bytes, locked.sealed))
        if seconds is not None:
            # The first job of an id is the one that is run: the scorer's own comes after it.
            await bus.submit_job("train", await self._predict_job(trained, sealed, seconds))
        await bus.append(trained)
        score = await _wait(bus, run["run_id"], RunScored)
        assert isinstance(score, RunScored) and score.details
        state = await bus.state(run["run_id"])
        end, predicted = keep(state), state.jobs_done[job_id("predict", trained)]
        assert end is not None
        log = await asyncio.to_thread(self.store.get_bytes, predicted.log) if predicted.log else b""
        details = json.loads(await asyncio.to_thread(self.store.get_bytes, score.details))
        keys = {row.sample_id: key for row, key in zip(sealed.rows, sealed.keys, strict=True)}
        return Scored(score, end, predicted, log.decode(errors="replace"), details, keys)

    async def _predict_job(self, trained: TrainingFinished, sealed: SealedSplit, seconds: float) -> JobSpec:
        """As the scorer orders it."""
        rows = zip(sealed.rows, sealed.stored, strict=True)
        samples = CaseList(samples=tuple(case for row, case in rows if row.split == "test"))
        ref = await asyncio.to_thread(self.store.put_bytes, "sealed", samples.model_dump_json().encode())
        return JobSpec(
            job_id=job_id("predict", trained),
            run_id=trained.run_id,
            kind="predict",
            asked_by="scorer",
            caused_by=trained.event_id,
            inputs={"package": trained.package, "samples": ref},
            seconds=seconds,
        )


def rules_for(data: Path, rows: Sequence[IndexRow]) -> Rules:
    """Of the dataset that `write_table` completes: what the search proposes, as the Data Engineer would have it."""
    best = Rules.model_validate(propose(data, "diagnosis", dimensions=2, target=REQUEST)[0].rules)
    if best.label is None or not any(isinstance(row.label, tuple) for row in rows):
        return best
    # Pictures in which nothing is bright have no label.
    return best.model_copy(update={"label": best.label.model_copy(update={"missing": "none"})})


def write_table(folder: Path, rows: Sequence[IndexRow]) -> None:
    """What pictures show, beside them."""
    lines = [["name", "patient", "label", "split"]]
    for row in rows:
        label = row.label if isinstance(row.label, str) else "|".join(row.label or ())
        lines.append([row.files[0].removesuffix(".png"), row.patient, label, row.split])
    (folder / "cases.csv").write_text("\n".join(map(",".join, lines)))
    for path in (folder, *folder.iterdir()):
        path.chmod(0o755 if path.is_dir() else 0o644)


async def _wait(bus: Bus, run_id: str, kind: type[Event]) -> Event:
    async with asyncio.timeout(SECONDS):
        async for _, event in bus.follow(run_id):
            assert event.kind not in ("WorkReturned", "RoleFailed"), event
            if isinstance(event, kind):
                return event
    raise AssertionError


@contextmanager
def scoring(folder: Path) -> Iterator[Scoring]:
    """Both services on fresh servers; datasets lie below `folder / "data"`."""
    data, home = folder / "data", folder / "home"
    for made in (folder, data, home, home / "runner"):
        made.mkdir(exist_ok=True)
    (folder / "servers").mkdir(mode=0o700)
    for part in (data, home):
        part.chmod(0o755)
    nats, s3 = start_nats(folder / "servers"), start_s3(folder / "servers" / "s3")
    settings = Settings(
        home=home, nats_url=nats.url, s3_endpoint=s3.endpoint, s3_access_key=s3.access_key,
        s3_secret_key=s3.secret_key, data_roots=(data,),
    )  # fmt: skip
    if os.geteuid() == 0:
        os.chown(home / "runner", settings.runner_uid, settings.runner_uid)
    store = Store.connect(settings)
    store.ensure_buckets()
    asyncio.run(_provision(settings))
    processes = []
    try:
        for name in ("scorer", "tool_runner"):
            ready = (home / "runner" if name == "tool_runner" else home) / f"{name}.ready"
            processes.append(_start(name, settings, ready, folder / f"{name}.log"))
            until = time.monotonic() + 120
            while not ready.exists():
                assert processes[-1].poll() is None and time.monotonic() < until, (folder / f"{name}.log").read_text()
                time.sleep(0.05)
        yield Scoring(settings, store, tuple(processes))
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.wait(60)
        nats.stop()
        s3.stop()


async def _provision(settings: Settings) -> None:
    bus = await Bus.connect(settings, "gateway")
    try:
        await bus.provision()
    finally:
        await bus.close()


def _start(name: str, settings: Settings, ready: Path, log: Path) -> "subprocess.Popen[bytes]":
    environment = {key: value for key, value in os.environ.items() if not key.startswith("M3_")} | {
        "M3_HOME": str(settings.home),
        "M3_NATS_URL": settings.nats_url,
        "M3_S3_ENDPOINT": settings.s3_endpoint,
        "M3_S3_ACCESS_KEY": settings.s3_access_key,
        "M3_S3_SECRET_KEY": settings.s3_secret_key.get_secret_value(),
        "M3_DATA_ROOTS": json.dumps([str(root) for root in settings.data_roots]),
        "M3_READY_FILE": str(ready),
        "PYTHONPATH": str(ROOT),
    }
    with log.open("ab") as output:
        return subprocess.Popen(
            [sys.executable, "-m", f"services.{name}"], env=environment, cwd=settings.home, stdout=output, stderr=output
        )
