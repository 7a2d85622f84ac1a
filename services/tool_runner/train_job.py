"""A training in the build workspace, or in the copy of it that was made for the job, to its end."""

from __future__ import annotations

import asyncio
import logging
import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from services.tool_runner import telling
from services.tool_runner.bounds import read_json
from services.tool_runner.forks import changed, fork_area, keep_seed, read_note, seed_of
from services.tool_runner.mounts import Mounted
from services.tool_runner.own_code import own_code
from services.tool_runner.sandbox import Finished, remove_tree
from services.tool_runner.seeds import area_for, seed_for
from services.tool_runner.training import (
    bad_samples,
    evidence,
    follow,
    known_failure,
    last_words,
    progress_lines,
    remove_results,
    save_now_and_then,
    size_of,
)
from services.tool_runner.worst import Worst
from shared.contracts.base import Ref
from shared.contracts.state import RunState
from shared.contracts.training import OF_THE_JOB, JobFinished, JobSpec, Tried
from shared.errors import HandedBack, Unavailable
from shared.training.package import FITTED, FITTED_WEIGHTS

if TYPE_CHECKING:
    from services.tool_runner.jobs import Jobs

log = logging.getLogger(__name__)

PROGRESS = 1 << 21
"""Bytes of progress that a curve is made of."""


class TrainJob:
    def __init__(self, jobs: Jobs, spec: JobSpec, state: RunState, cancel: asyncio.Event) -> None:
        self.jobs, self.spec, self.state, self.cancel = jobs, spec, state, cancel
        self.bus, self.store, self.workspaces = jobs.bus, jobs.store, jobs.workspaces
        self.shared = area_for("model_trainer", state)
        """The workspace of the roles."""
        self.own = fork_area(self.shared, spec.job_id)
        self.area = self.own if spec.forked else self.shared
        self.tried = ""
        """Name of the try, where it is one."""
        self.seed: Ref | None = None
        """What the workspace held before the first attempt."""

    async def run(self) -> dict[str, Any]:
        """The fields of its JobFinished."""
        spec, state = self.spec, self.state
        mounted = await self.jobs.mounts.for_role(spec.asked_by, state)
        self.seed = await seed_of(self.bus, spec.run_id, self.own)
        tried = None
        if spec.forked:
            if self.seed is None:
                return {"outcome": "failed", "summary": "it was prepared for an earlier split of the data; try again"}
            tried = await read_note(self.store, self.seed)
            self.tried = tried.name
        fill = self._copy if tried else seed_for(self.area, state, self.jobs.context, mounted)
        await self.workspaces.open(spec.run_id, self.area, fill)
        if tried:
            await asyncio.to_thread(self._borrow_cache)
        elif self.seed is None and (head := await self.bus.workspace_head(spec.run_id, self.area)):
            self.seed = head
            await keep_seed(self.bus, spec.run_id, self.own, head)
        if tried and tried.continues:
            # What those weights began with counts, too.
            before = state.jobs_done[tried.continues].shelf
            mounted = replace(mounted, shelf=tuple(dict.fromkeys((*before, *mounted.shelf))))
        if tried and tried.repackaged:
            return {"tried": tried, **await self._repackaged(tried, mounted)}
        return {"tried": tried, **await self._in_workspace(mounted)}

    async def _copy(self, folder: Path) -> None:
        assert self.seed is not None
        await asyncio.to_thread(self.store.get_folder, self.seed, folder)

    def _borrow_cache(self) -> None:
        """Of the newest training of which this runner has one."""
        for done in reversed(self.state.trainings):
            lender = fork_area(self.shared, done.job_id) if done.tried else self.shared
            if self.workspaces.lend_cache(self.spec.run_id, self.area, lender):
                return

    async def _repackaged(self, tried: Tried, mounted: Mounted) -> dict[str, Any]:
        """With the package of the training whose weights it has in sight."""
        weights = self.state.jobs_done[str(tried.continues)]
        scratch = self.jobs.scratch / f"{self.spec.job_id}-{os.getpid()}"
        try:
            await asyncio.to_thread(self._both_weights, weights, scratch)
            end = await self._in_workspace(replace(mounted, package=scratch))
        finally:
            await asyncio.to_thread(remove_tree, scratch)
        if end["outcome"] == "ok":
            # How far its figure may be chance is of the package before.
            gone = (*OF_THE_JOB, "spread")
            before = {name: value for name, value in weights.metrics.items() if name not in gone}
            end["metrics"] = before | end["metrics"]
            end["own_code"] = tuple(dict.fromkeys((*weights.own_code, *end["own_code"])))
        return end

    def _both_weights(self, training: JobFinished, folder: Path) -> None:
        """Its package, with the weights of its last fit beside the others."""
        self.store.get_folder(training.outputs["package"], folder)
        if fitted := training.outputs.get(FITTED):
            weights = self.store.get_manifest(fitted).files["model.safetensors"]
            self.store.get_file(weights.ref, folder / FITTED_WEIGHTS)

    async def _in_workspace(self, mounted: Mounted) -> dict[str, Any]:
        spec = self.spec
        async with self.workspaces.writing(spec.run_id, self.area) as workspace:
            await asyncio.to_thread(remove_results, workspace)
            since = size_of(workspace / "progress.jsonl")
            follower = asyncio.create_task(follow(self.bus, spec, workspace / "progress.jsonl"))
            over = asyncio.Event()
            saver = asyncio.create_task(save_now_and_then(self.workspaces, spec.run_id, self.area, over))
            bound = {"M3_TRAIN_SECONDS": f"{spec.seconds:.0f}"}
            ending = asyncio.create_task(self._when_ending())
            try:
                done = await self.jobs.sandbox(list(spec.command), spec, workspace, mounted, self.cancel, env=bound)
            finally:
                follower.cancel()
                ending.cancel()
                over.set()
                await saver
            if self.jobs.context.stop.is_set() and done.outcome == "cancelled":
                await self.workspaces.save(spec.run_id, self.area)
                raise HandedBack("its checkpoint is stored")
            while True:
                try:
                    end = await self._ended(done, workspace, since, mounted)
                    heads = [self.seed, await self.bus.workspace_head(spec.run_id, self.area)]
                    states = [await asyncio.to_thread(self.store.get_manifest, head) for head in heads if head]
                    own = await asyncio.to_thread(own_code, states, spec.command)
                    return end | {"own_code": own, "shelf": mounted.shelf}
                except Unavailable as error:
                    # Hours of training are not repeated because a server is away for some minutes.
                    log.warning("what was trained waits to be stored: %s", error)
                    await asyncio.sleep(5)

    async def _when_ending(self) -> None:
        await self.jobs.context.stop.wait()
        self.cancel.set()

    async def _ended(self, done: Finished, workspace: Path, since: int, mounted: Mounted) -> dict[str, Any]:
        """`since` is the size of progress.jsonl when the training began."""
        spec = self.spec
        end = await self.jobs.outcome(done, spec)
        metrics, told, problems = [
            await asyncio.to_thread(read_json, workspace, f"{name}.json") for name in ("metrics", "tiers", "problems")
        ]
        if done.outcome == "ok" and spec.pictures:
            drawn = Worst(self.jobs.context, self.jobs.level, spec, self.store, workspace, mounted, self.tried)
            end["summary"] += await drawn.pictures(self.state, metrics.get("cases"))
        await self.workspaces.save(spec.run_id, self.area)
        tiers = evidence(told)
        lines = await asyncio.to_thread(progress_lines, workspace / "progress.jsonl", since, PROGRESS)
        curve = telling.curve(lines)
        kept = {name: value for name, value in metrics.items() if name not in telling.TOLD_IN_WORDS}
        end["metrics"] = kept | ({"tiers": tiers} if tiers else {}) | ({"curve": curve} if curve else {})
        end["bad_samples"] = bad_samples(problems)
        known = await asyncio.to_thread(known_failure, done, lines, metrics)
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
            fitted = workspace / FITTED
            if not fitted.is_symlink() and (fitted / "predict.py").is_file():
                end["outputs"][FITTED] = await asyncio.to_thread(self.store.put_folder, "packages", fitted, ())
            if metrics:
                end["summary"] += "\n" + telling.in_words(metrics, curve, "" if spec.forked else await self._changed())
        # First what it is and what to do about it, then what was said.
        return end | {"summary": f"{known}\n{end['summary']}"} if known else end

    async def _changed(self) -> str:
        """What this training differs by from the last one that ended."""
        before = [done.job_id for done in self.state.trainings if not (done.tried and done.tried.repackaged)]
        areas = [fork_area(self.shared, job) for job in before[-1:]]
        seeds = [self.seed, *[await seed_of(self.bus, self.spec.run_id, area) for area in areas]]
        states = [await asyncio.to_thread(self.store.get_manifest, seed) for seed in reversed(seeds) if seed]
        return (await asyncio.to_thread(changed, self.store, *states) or "nothing") if len(states) == 2 else ""
