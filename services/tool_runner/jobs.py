"""Jobs: train in the build workspace, predict with a package on sealed samples, take a dataset in.

The runner holds the job's message while the child lives; a runner that dies is replaced by redelivery, and training
goes on from its newest checkpoint. One that is told to end has the training write a checkpoint, stores it and hands
the job back.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from services.tool_runner.bounds import job_limits
from services.tool_runner.intake.batch import Batch, decode_batch
from services.tool_runner.intake.job import intake
from services.tool_runner.intake.sandbox import Cancelled, IntakeSandbox
from services.tool_runner.mounts import Mounted, Mounts, code_mounts
from services.tool_runner.predictions import collect
from services.tool_runner.sandbox import Finished, Level, Mount, find_gpus, remove_tree, run
from services.tool_runner.train_job import TrainJob
from services.tool_runner.training import last_words
from services.tool_runner.views import forget_times, materialise_cases
from services.tool_runner.workspaces import Workspaces
from shared import telemetry
from shared.contracts.base import Ref
from shared.contracts.data import Altered, CaseList
from shared.contracts.state import RunState
from shared.contracts.tools import DecodeBatch, ToolCall, ToolResult
from shared.contracts.training import JobFinished, JobSpec, JobStarted
from shared.errors import Conflict, HandedBack, M3Error, ToolBroken, Unavailable, UserError

if TYPE_CHECKING:
    from shared.service import Context

log = logging.getLogger(__name__)

MAX_ATTEMPTS = 20
"""Runners that may die of one job before it counts as lost."""


class Jobs:
    def __init__(self, context: Context, level: Level, workspaces: Workspaces, mounts: Mounts) -> None:
        self.context = context
        self.bus = context.bus
        self.store = context.store
        self.level = level
        self.workspaces = workspaces
        self.mounts = mounts
        roots = any(root.exists() for root in context.settings.data_roots)
        self.apart = "data" not in context.settings.runner_classes and not roots
        self.gpus = find_gpus(context.settings.gpus)
        if self.gpus.count < context.settings.min_gpus:
            raise UserError(
                f"M3_MIN_GPUS asks for {context.settings.min_gpus} GPUs and this runner sees {self.gpus.count}: give "
                "it a GPU (driver, resource limit, runtimeClass), or set M3_MIN_GPUS=0 to train on the CPU."
            )
        self._attempts: dict[str, int] = {}
        """Of the jobs that are here: a repetition within this process is the same attempt."""
        # Of a runner that was killed; its jobs start afresh.
        remove_tree(self.scratch)

    @property
    def scratch(self) -> Path:
        return self.context.settings.home / "runner" / "jobs"

    async def on_job(self, spec: JobSpec, deliveries: int) -> None:
        """Run one job to its end and say so; a job that has ended, or whose run is over, is not run again.

        Raises Unavailable, Conflict and HandedBack, with which the job has to be handled again: they are not its
        failure.
        """
        state = await self.bus.state(spec.run_id)
        if spec.job_id in state.jobs_done:
            return
        before = state.jobs[spec.job_id].attempt if spec.job_id in state.jobs else 0
        attempt = self._attempts.setdefault(spec.job_id, before + 1)
        if not state.live:
            await self._end(spec, attempt, {"outcome": "cancelled", "summary": f"the run is over ({state.status})"})
            return
        if attempt > MAX_ATTEMPTS:
            text = f"{before} runners started it and none came to its end"
            await self._end(spec, before, {"outcome": "lost", "summary": text})
            return
        state = await self.bus.append(
            JobStarted.make(
                run_id=spec.run_id, sender="tool_runner", cause=spec.caused_by, salt=f"{spec.job_id}#{attempt}",
                job_id=spec.job_id, job=spec.kind, attempt=attempt, runner=os.uname().nodename, isolation=self.level,
                apart=self.apart,
            )
        )  # fmt: skip
        cancel = asyncio.Event()
        if not state.live:  # cancelled while it was starting
            cancel.set()
        watcher = asyncio.create_task(self._watch(spec.job_id, cancel))
        work: dict[str, Callable[[JobSpec, RunState, asyncio.Event], Awaitable[dict[str, Any]]]]
        work = {"train": self._train, "predict": self._predict, "intake": self._intake}
        started = time.monotonic()
        try:
            with telemetry.job_span(spec.kind, spec.job_id, attempt) as told:
                end = await work[spec.kind](spec, state, cancel)
                told.outcome = end["outcome"]
        except (Unavailable, Conflict, HandedBack):
            raise
        except (M3Error, OSError, ValidationError) as error:
            log.exception("job %s failed", spec.kind)
            end = {"outcome": "failed", "summary": f"{type(error).__name__}: {error}"}
        finally:
            watcher.cancel()
        if cancel.is_set() and end["outcome"] != "ok":
            end["outcome"] = "cancelled"
        seconds = time.monotonic() - started
        gpu_seconds = 0.0 if spec.kind == "intake" else seconds * self.gpus.count
        await self._end(spec, attempt, end | {"seconds": seconds, "gpu_seconds": gpu_seconds})

    async def on_dead(self, message: ToolCall | JobSpec, error: BaseException) -> None:
        """A job that could not be handled after all deliveries ends as lost, so that nobody waits for it."""
        if isinstance(message, JobSpec):
            await self._end(message, 0, {"outcome": "lost", "summary": f"{type(error).__name__}: {error}"})

    async def _end(self, spec: JobSpec, attempt: int, fields: dict[str, Any]) -> None:
        await self.bus.append(
            JobFinished.make(
                run_id=spec.run_id, sender="tool_runner", cause=spec.caused_by, salt=spec.job_id, job_id=spec.job_id,
                job=spec.kind, asked_by=spec.asked_by, attempts=attempt, isolation=self.level, **fields,
            ),
            unless=lambda now: spec.job_id in now.jobs_done,
        )  # fmt: skip
        self._attempts.pop(spec.job_id, None)

    async def _watch(self, job_id: str, cancel: asyncio.Event) -> None:
        """Desired state of a job: the run was cancelled, or somebody asked it to stop and save."""
        async for wish in self.bus.watch_desired(job_id):
            if wish in ("stop", "cancel"):
                cancel.set()
                return

    async def _train(self, spec: JobSpec, state: RunState, cancel: asyncio.Event) -> dict[str, Any]:
        return await TrainJob(self, spec, state, cancel).run()

    # predict ----------------------------------------------------------------------------------------------------

    async def _predict(self, spec: JobSpec, state: RunState, cancel: asyncio.Event) -> dict[str, Any]:
        """The delivered package on the sealed samples, under opaque names, with nothing else in sight."""
        scratch = self.context.settings.home / "runner" / "jobs" / f"{spec.job_id}-{os.getpid()}"
        scratch.mkdir(parents=True)
        try:
            package, cases, out = scratch / "package", scratch / "cases", scratch / "out"
            out.mkdir()
            await asyncio.to_thread(self.store.get_folder, spec.inputs["package"], package)
            given = CaseList.model_validate_json(await self._bytes(spec.inputs["samples"]))
            names = await asyncio.to_thread(materialise_cases, given, self.store, cases)
            if how := {name: given.altered[sample] for name, sample in names.items() if sample in given.altered}:
                await self._alter(spec, how, cases, scratch / "altered", cancel)
                # Nor does the order in which they were written.
                await asyncio.to_thread(forget_times, cases, names)
            on_bwrap = self.level == "bwrap"
            inputs = [f"/data/{name}" if on_bwrap else str(cases / name) for name in names]
            entry = "/package/predict.py" if on_bwrap else str(package / "predict.py")
            listing = out / "inputs.txt"
            listing.write_text("\n".join(inputs))
            done = await self.sandbox(
                ["python", "-I", entry, *inputs, "--output", "result"],
                spec, out, Mounted(data=cases), cancel, extra=[Mount(source=package, target="/package")], ours=False,
            )  # fmt: skip
            end = await self.outcome(done, spec)
            task = state.planned.plan.task if state.planned else "diagnosis"
            log = self._log(spec.run_id, spec.job_id).with_suffix(".answers.log")
            result = await collect(
                task, out, scratch / "read", names, log, self.level, self.context.settings, self.store
            )
            if given.altered:
                result["controls"] = {sample: result["cases"].pop(sample) for sample in given.altered}
            blob = json.dumps(result | {"seconds": done.seconds}).encode()
            ref = await asyncio.to_thread(self.store.put_bytes, "packages", blob, "application/json")
            return end | {"outputs": {"predictions": ref}}
        finally:
            await asyncio.to_thread(remove_tree, scratch)

    async def _alter(
        self, spec: JobSpec, how: dict[str, Altered], cases: Path, folder: Path, cancel: asyncio.Event
    ) -> None:
        """Make control cases, in the sandbox, of those cases that `how` names; `folder` does not exist yet."""
        folder.mkdir()
        for name in how:
            (cases / name).rename(folder / name)
        argv = ["python", "-P", "-m", "shared.dataset.intake.altered", json.dumps(how)]
        done = await self.sandbox(argv, spec, folder, Mounted(), cancel)
        if done.outcome != "ok":
            raise ToolBroken(f"no control cases could be made: {await asyncio.to_thread(last_words, done)}")
        for name in how:
            if any(path.is_symlink() for path in (folder / name, *(folder / name).rglob("*"))):
                raise ToolBroken("a control case is a link")
            (folder / name).rename(cases / name)

    # intake -----------------------------------------------------------------------------------------------------

    async def _intake(self, spec: JobSpec, state: RunState, cancel: asyncio.Event) -> dict[str, Any]:
        sandbox = self._intake_sandbox(spec.run_id, spec.job_id, cancel)
        return await intake(spec, state, self.bus, self.store, self.mounts, sandbox)

    async def on_batch(self, call: ToolCall) -> ToolResult:
        """Some cases of an intake job that this or another runner has. Raises Unavailable and Conflict."""
        asked = DecodeBatch.model_validate(dict(call.arguments))
        result = partial(ToolResult, call_id=call.call_id, tool=call.tool, isolation=self.level)
        state = await self.bus.state(call.run_id)
        if not state.live or asked.job_id in state.jobs_done:
            return result(ok=False, summary="the job is over", data={"cancelled": True})
        cancel = asyncio.Event()
        watcher = asyncio.create_task(self._watch(asked.job_id, cancel))
        try:
            data = await self.mounts.dataset(state)
            assert state.planned is not None
            archive = state.planned.card.archive
            batch = Batch.model_validate_json(await self._bytes(asked.batch))
            sandbox = self._intake_sandbox(call.run_id, call.call_id, cancel)
            segment = await decode_batch(batch, sandbox, self.store, data, archive.sha256 if archive else None)
        except Cancelled:
            return result(ok=False, summary="the job was stopped", data={"cancelled": True})
        except (Unavailable, Conflict):
            raise
        except (M3Error, OSError, ValidationError) as error:
            log.exception("a batch of an intake failed")
            return result(ok=False, summary=f"{type(error).__name__}: {error}")
        finally:
            watcher.cancel()
        return result(ok=True, summary=f"decoded {len(batch.specs)} cases", data=segment.model_dump(mode="json"))

    def _intake_sandbox(self, run_id: str, name: str, cancel: asyncio.Event) -> IntakeSandbox:
        settings = self.context.settings
        return IntakeSandbox(
            home=settings.home, scratch=self.scratch / f"{name}-{os.getpid()}", log=self._log(run_id, name),
            level=self.level, workers=settings.sandbox_cpu_threads, memory_mb=settings.sandbox_memory_mb, cancel=cancel,
        )  # fmt: skip

    # shared -----------------------------------------------------------------------------------------------------

    async def _bytes(self, ref: Ref) -> bytes:
        return await asyncio.to_thread(self.store.get_bytes, ref)

    async def sandbox(
        self,
        argv: list[str],
        spec: JobSpec,
        workspace: Path,
        mounted: Mounted,
        cancel: asyncio.Event,
        *,
        env: dict[str, str] | None = None,
        extra: list[Mount] | None = None,
        ours: bool = True,
    ) -> Finished:
        settings = self.context.settings
        return await run(
            argv,
            workspace=workspace,
            mounts=[
                *mounted.mounts(),
                *(code_mounts(settings.home, False) if ours else []),
                *(extra or []),
                *self.gpus.mounts,
            ],
            env=(env or {}) | self.gpus.env,
            limits=job_limits(spec, settings, self.gpus),
            log=self._log(spec.run_id, spec.job_id),
            level=self.level,
            cancel=cancel,
        )

    def _log(self, run_id: str, name: str) -> Path:
        path = self.context.settings.home / "runner" / "logs" / run_id / f"{name}.log"
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    async def outcome(self, done: Finished, spec: JobSpec) -> dict[str, Any]:
        ref = await asyncio.to_thread(self.store.put_file, "work", done.log, "text/plain")
        summary = f"{spec.kind} ended {done.outcome}, exit code {done.exit_code}, {done.seconds:.0f} s, {done.level}"
        if done.outcome != "ok":
            summary += "\n" + await asyncio.to_thread(last_words, done)
        return {"outcome": done.outcome, "exit_code": done.exit_code, "summary": summary, "log": ref}
