"""Jobs: train in the build workspace, predict with a package on sealed samples, pack a dataset's samples.

The runner holds the job's message while the child lives; a runner that dies is replaced by redelivery, and training
goes on from its newest checkpoint.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from services.tool_runner.bounds import job_limits, read_json
from services.tool_runner.looking import Looking
from services.tool_runner.masks import mask_result
from services.tool_runner.mounts import Mounted, Mounts, code_mounts
from services.tool_runner.packs import pack_dataset, rows_of
from services.tool_runner.reports import report_result
from services.tool_runner.sandbox import Finished, Level, Mount, find_gpus, remove_tree, run
from services.tool_runner.seeds import area_for, seed_for
from services.tool_runner.training import (
    evidence,
    follow,
    known_failure,
    last_words,
    remove_results,
    save_now_and_then,
    size_of,
)
from services.tool_runner.views import materialise_cases
from services.tool_runner.workspaces import Workspaces
from shared import telemetry
from shared.contracts.base import SEGMENTATIONS, Ref
from shared.contracts.data import PackList
from shared.contracts.state import RunState
from shared.contracts.tools import ToolCall
from shared.contracts.training import JobFinished, JobSpec, JobStarted
from shared.errors import Conflict, M3Error, Unavailable

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
        self.gpus = find_gpus(context.settings.gpus)
        self._attempts: dict[str, int] = {}
        """Of the jobs that are here: a repetition within this process is the same attempt."""
        # Of a runner that was killed; its jobs start afresh.
        remove_tree(self._scratch)

    @property
    def _scratch(self) -> Path:
        return self.context.settings.home / "runner" / "jobs"

    async def on_job(self, spec: JobSpec, deliveries: int) -> None:
        """Run one job to its end and say so; a job that has ended, or whose run is over, is not run again.

        Raises Unavailable and Conflict, with which the job has to be handled again: they are not its failure.
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
            )
        )  # fmt: skip
        cancel = asyncio.Event()
        if not state.live:  # cancelled while it was starting
            cancel.set()
        watcher = asyncio.create_task(self._watch(spec, cancel))
        work: dict[str, Callable[[JobSpec, RunState, asyncio.Event], Awaitable[dict[str, Any]]]]
        work = {"train": self._train, "predict": self._predict, "pack": self._pack}
        started = time.monotonic()
        try:
            with telemetry.job_span(spec.kind, spec.job_id, attempt):
                end = await work[spec.kind](spec, state, cancel)
        except (Unavailable, Conflict):
            raise
        except (M3Error, OSError, ValidationError) as error:
            log.exception("job %s failed", spec.kind)
            end = {"outcome": "failed", "summary": f"{type(error).__name__}: {error}"}
        finally:
            watcher.cancel()
        if cancel.is_set() and end["outcome"] != "ok":
            end["outcome"] = "cancelled"
        seconds = time.monotonic() - started
        gpu_seconds = 0.0 if spec.kind == "pack" else seconds * self.gpus.count
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

    async def _watch(self, spec: JobSpec, cancel: asyncio.Event) -> None:
        """Desired state of a job: the run was cancelled, or somebody asked it to stop and save."""
        async for wish in self.bus.watch_desired(spec.job_id):
            if wish in ("stop", "cancel"):
                cancel.set()
                return

    # train ------------------------------------------------------------------------------------------------------

    async def _train(self, spec: JobSpec, state: RunState, cancel: asyncio.Event) -> dict[str, Any]:
        mounted = await self.mounts.for_role(spec.asked_by, state)
        area = area_for("model_trainer", state)
        await self.workspaces.open(spec.run_id, area, seed_for(area, state, self.context, mounted))
        async with self.workspaces.writing(spec.run_id, area) as workspace:
            await asyncio.to_thread(remove_results, workspace)
            since = size_of(workspace / "progress.jsonl")
            follower = asyncio.create_task(follow(self.bus, spec, workspace / "progress.jsonl"))
            over = asyncio.Event()
            saver = asyncio.create_task(save_now_and_then(self.workspaces, spec.run_id, area, over))
            try:
                done = await self._sandbox(
                    list(spec.command),
                    spec,
                    workspace,
                    mounted,
                    cancel,
                    env={"M3_TRAIN_SECONDS": f"{spec.seconds:.0f}"},
                )
            finally:
                follower.cancel()
                over.set()
                await saver
            while True:
                try:
                    return await self._trained(done, spec, area, workspace, since)
                except Unavailable as error:
                    # Hours of training are not repeated because a server is away for some minutes.
                    log.warning("what was trained waits to be stored: %s", error)
                    await asyncio.sleep(5)

    async def _trained(self, done: Finished, spec: JobSpec, area: str, workspace: Path, since: int) -> dict[str, Any]:
        """`since` is the size of progress.jsonl when the training began."""
        await self.workspaces.save(spec.run_id, area)
        end = await self._outcome(done, spec)
        metrics, tiers = read_json(workspace, "metrics.json"), evidence(read_json(workspace, "tiers.json"))
        end["metrics"] = metrics | ({"tiers": tiers} if tiers else {})
        known = known_failure(done, workspace / "progress.jsonl", since, metrics)
        if done.outcome == "ok":
            package = workspace / "package"
            if package.is_symlink() or not (package / "predict.py").is_file():
                return end | {
                    "outcome": "failed",
                    "summary": f"training ended without writing package/predict.py\n{end['summary']}\n"
                    + await asyncio.to_thread(last_words, done),
                }
            ref = await asyncio.to_thread(self.store.put_folder, "packages", package, ())
            end["outputs"] = {"package": ref}
        # First what it is and what to do about it, then what was said.
        return end | {"summary": f"{known}\n{end['summary']}"} if known else end

    # predict ----------------------------------------------------------------------------------------------------

    async def _predict(self, spec: JobSpec, state: RunState, cancel: asyncio.Event) -> dict[str, Any]:
        """The delivered package on the sealed samples, under opaque names, with nothing else in sight."""
        scratch = self.context.settings.home / "runner" / "jobs" / f"{spec.job_id}-{os.getpid()}"
        scratch.mkdir(parents=True)
        try:
            package, cases, out = scratch / "package", scratch / "cases", scratch / "out"
            out.mkdir()
            await asyncio.to_thread(self.store.get_folder, spec.inputs["package"], package)
            packs = PackList.model_validate_json(await self._bytes(spec.inputs["samples"]))
            attributes: list[dict[str, Any]] = []
            if "attributes" in spec.inputs:
                attributes = json.loads(await self._bytes(spec.inputs["attributes"]))
            by_sample = {item["sample_id"]: item["attributes"] for item in attributes}
            names = await asyncio.to_thread(materialise_cases, packs, by_sample, self.store, cases)
            on_bwrap = self.level == "bwrap"
            inputs = [f"/data/{name}" if on_bwrap else str(cases / name) for name in names]
            entry = "/package/predict.py" if on_bwrap else str(package / "predict.py")
            listing = out / "inputs.txt"
            listing.write_text("\n".join(inputs))
            done = await self._sandbox(
                ["python", "-I", entry, *inputs, "--output", "result"],
                spec, out, Mounted(data=cases), cancel, extra=[Mount(source=package, target="/package")], ours=False,
            )  # fmt: skip
            end = await self._outcome(done, spec)
            # A result folder that is a link leads to files of somebody else's.
            linked = (out / "result").is_symlink()
            found = {} if linked else read_json(out, "result/predictions.json", limit=64 << 20)
            listed = found.get("cases")
            given = [case for case in listed if isinstance(case, dict)] if isinstance(listed, list) else []
            answers = {Path(str(case.get("input"))).name: case for case in given}
            task = state.planned.plan.task if state.planned else "diagnosis"
            if task in SEGMENTATIONS:
                result = await asyncio.to_thread(mask_result, task, out, found, answers, names, self.store)
            elif task == "report_generation":
                result = report_result(task, answers, names)
            else:
                none = {"error": "no prediction was returned"}
                cased = {sample: answers.get(name, none) for name, sample in names.items()}
                several = found.get("multi_label") is True
                result = {"labels": found.get("labels", []), "multi_label": several, "cases": cased}
            blob = json.dumps(result | {"seconds": done.seconds}).encode()
            ref = await asyncio.to_thread(self.store.put_bytes, "packages", blob, "application/json")
            return end | {"outputs": {"predictions": ref}}
        finally:
            await asyncio.to_thread(remove_tree, scratch)

    # pack -------------------------------------------------------------------------------------------------------

    async def _pack(self, spec: JobSpec, state: RunState, cancel: asyncio.Event) -> dict[str, Any]:
        rows = rows_of(await self._bytes(spec.inputs["index"]))
        settings = self.context.settings
        looking = Looking(
            home=settings.home, scratch=self._scratch / f"{spec.job_id}-{os.getpid()}", log=self._log(spec),
            level=self.level, workers=settings.sandbox_cpu_threads, memory_mb=settings.sandbox_memory_mb, cancel=cancel,
        )  # fmt: skip
        masks = state.planned is not None and state.planned.plan.task in SEGMENTATIONS
        packs = await pack_dataset(await self.mounts.dataset(state), rows, self.store, looking, masks)
        blob = packs.model_dump_json().encode()
        ref = await asyncio.to_thread(self.store.put_bytes, "sealed", blob, "application/json")
        return {"outcome": "ok", "summary": f"packed {len(packs.samples)} samples", "outputs": {"packs": ref}}

    # shared -----------------------------------------------------------------------------------------------------

    async def _bytes(self, ref: Ref) -> bytes:
        return await asyncio.to_thread(self.store.get_bytes, ref)

    async def _sandbox(
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
            log=self._log(spec),
            level=self.level,
            cancel=cancel,
        )

    def _log(self, spec: JobSpec) -> Path:
        path = self.context.settings.home / "runner" / "logs" / spec.run_id / f"{spec.job_id}.log"
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    async def _outcome(self, done: Finished, spec: JobSpec) -> dict[str, Any]:
        ref = await asyncio.to_thread(self.store.put_file, "work", done.log, "text/plain")
        summary = f"{spec.kind} ended {done.outcome}, exit code {done.exit_code}, {done.seconds:.0f} s, {done.level}"
        if done.outcome != "ok":
            summary += "\n" + await asyncio.to_thread(last_words, done)
        return {"outcome": done.outcome, "exit_code": done.exit_code, "summary": summary, "log": ref}
