"""The tool runner: takes calls and jobs off the work queue, decides what is mounted, runs them in the sandbox.

What a call may see follows from the run's events and the caller's role, never from the call itself.
"""

from __future__ import annotations

import asyncio
import logging
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from aiorwlock import RWLock

from services.tool_runner import weights
from services.tool_runner.ended import remove_ended_runs
from services.tool_runner.execute import SandboxExecute, last_json
from services.tool_runner.forks import PREPARED, Forks
from services.tool_runner.gpu_metrics import tell_gpus
from services.tool_runner.jobs import Jobs
from services.tool_runner.mounts import Mounted, Mounts, library
from services.tool_runner.render import render_cases
from services.tool_runner.sandbox import Level, detect, remove_tree, sweep_homes
from services.tool_runner.seeds import area_for, seed_for
from services.tool_runner.store_metrics import tell_store
from services.tool_runner.sweeping import carry_out
from services.tool_runner.tools import Roots, run_tool
from services.tool_runner.workspaces import Workspaces
from services.tool_runner.worst import bring
from shared import telemetry
from shared.bus.consume import STOP_SECONDS
from shared.contracts.base import AGENTS
from shared.contracts.erasure import Sweep
from shared.contracts.flow import stage_of
from shared.contracts.pictures import RenderCases
from shared.contracts.state import RunState
from shared.contracts.tools import (
    MAX_RESULT_CHARS,
    PROBES,
    TOOLS,
    ProfileDataset,
    ToolCall,
    ToolClass,
    ToolResult,
    ViewImage,
)
from shared.contracts.weights import LookAtWeights
from shared.dataset.files.listing import list_files
from shared.errors import DataUnusable, ToolBroken, ToolRefused, UserError
from shared.service import Context
from shared.telemetry import Metrics, Name

log = logging.getLogger(__name__)

CONCURRENCY = {"data": 2, "build": 2, "intake": 1}
"""Messages of a class that one runner process takes at a time; of `train` the settings say it."""


class Runner:
    def __init__(self, context: Context, level: Level) -> None:
        self.context = context
        self.bus = context.bus
        self.level = level
        self.home = context.settings.home / "runner"
        self.workspaces = Workspaces(context.settings.home, context.store, context.bus)
        self.mounts = Mounts(context.settings, context.store, context.bus)
        self.working = RWLock()
        """Written while what nobody needs is removed: what a call is just storing is named by nobody yet."""

    async def on_call(self, call: ToolCall) -> ToolResult:
        """Never raises for what a core did wrong: that is a result with ok=False.

        Unavailable and Conflict do fly: the call is then made again, which the tools bear.
        """
        if call.tool == Sweep.tool and call.role == "gateway":
            async with self.working.writer:
                return await self._swept(call)
        async with self.working.reader:
            return await self._carried_out(call)

    async def at_home(self, call: ToolCall) -> bool:
        """Whether this runner has a workspace of the run, or no runner has the one that the call is about."""
        of_run = call.role in AGENTS and call.tool != ProfileDataset.tool
        if not of_run or (self.home / "ws" / call.run_id).is_dir():
            return True
        area = area_for(call.role, await self.bus.state(call.run_id))
        return await self.bus.workspace_head(call.run_id, area) is None

    async def _carried_out(self, call: ToolCall) -> ToolResult:
        started = time.monotonic()
        if call.tool == RenderCases.tool and call.role == "gateway":
            return await self._pictures(call)
        if call.tool == ProfileDataset.tool and call.role in ("gateway", "task_manager"):
            return await self._profile(call)
        if call.tool == LookAtWeights.tool and call.role == "gateway":
            return await self._weights(call)
        if not stage_of(call.role).area or (call.tool not in TOOLS and call.tool not in PROBES):
            return _refuse(call, f"{call.role} may not call {call.tool}")
        state = await self.bus.state(call.run_id)
        if not state.live:
            return _refuse(call, f"the run is over ({state.status}); nothing is run for it any more")
        area = area_for(call.role, state)
        try:
            mounted = await self.mounts.for_role(call.role, state)
            reads_only = call.tool in PROBES or TOOLS[call.tool].reads_only
            lock = self.workspaces.reading if reads_only else self.workspaces.writing
            await self.workspaces.open(call.run_id, area, seed_for(area, state, self.context, mounted))
            async with lock(call.run_id, area) as workspace:
                result = await self._run(call, state, area, workspace, mounted)
                if not reads_only:
                    result = await self._saved(call, area, result)
        except DataUnusable as error:
            return _refuse(call, str(error)).model_copy(update={"data": {"error": "DataUnusable"}})
        except (ToolBroken, UserError) as error:
            log.exception("%s broke", call.tool)
            return _refuse(call, f"the runner could not do this: {error}").model_copy(
                update={"data": {"error": "ToolBroken"}}
            )
        return result.model_copy(update={"seconds": time.monotonic() - started})

    async def _saved(self, call: ToolCall, area: str, result: ToolResult) -> ToolResult:
        try:
            await self.workspaces.save(call.run_id, area)
        except ToolRefused as refused:
            return result.model_copy(update={"ok": False, "summary": f"{refused}\n{result.summary}"[:MAX_RESULT_CHARS]})
        return result

    async def _swept(self, call: ToolCall) -> ToolResult:
        try:
            return await carry_out(call, self.bus, self.context.store, self.context.settings.home)
        except (ToolBroken, UserError) as error:
            log.exception("%s broke", call.tool)
            return _refuse(call, str(error))

    async def _pictures(self, call: ToolCall) -> ToolResult:
        """Of test cases, for the report; the one call that is carried out for a run that has ended."""
        state = await self.bus.state(call.run_id)
        try:
            return await render_cases(self.context, self.level, call, state)
        except (ToolBroken, UserError) as error:
            log.exception("%s broke", call.tool)
            return _refuse(call, f"the runner could not draw test cases: {error}")

    async def _profile(self, call: ToolCall) -> ToolResult:
        """The profile of a dataset; its card comes with the call, for there may be no run yet. No data where the files
        are as they were."""
        card = ProfileDataset.model_validate(dict(call.arguments)).card
        scratch = Path(tempfile.mkdtemp(prefix="profile-", dir=await asyncio.to_thread(self._scratch)))
        try:
            mounted = Mounted(data=(folder := await self.mounts.of_card(card)))
            if card.profile and (await asyncio.to_thread(list_files, folder)).digest == card.profile.digest:
                return ToolResult(call_id=call.call_id, tool=call.tool, ok=True, summary="the files are as they were")
            execute = SandboxExecute(self.context, self.level, call.run_id, call.call_id, scratch, mounted)
            done = await execute(execute.probe_argv("profile_dataset.py"), seconds=600, probe=True)
        except (ToolBroken, UserError) as error:
            return _refuse(call, str(error))
        finally:
            await asyncio.to_thread(remove_tree, scratch)
        found = last_json(done.output) or {}
        data = found.get("data")
        if not isinstance(data, dict):
            tail = done.output[-1000:].decode(errors="replace")
            return _refuse(call, f"the files could not be looked at ({done.outcome}): {tail}")
        return ToolResult(
            call_id=call.call_id, tool=call.tool, ok=True, summary=str(found.get("summary"))[:MAX_RESULT_CHARS],
            data=data, isolation=done.isolation,
        )  # fmt: skip

    async def _weights(self, call: ToolCall) -> ToolResult:
        scratch = Path(tempfile.mkdtemp(prefix="weights-", dir=await asyncio.to_thread(self._scratch)))
        try:
            return await weights.look(call, self.context, self.level, scratch)
        except (ToolBroken, UserError) as error:
            return _refuse(call, str(error))
        finally:
            await asyncio.to_thread(remove_tree, scratch)

    def _scratch(self) -> Path:
        folder = self.home / "jobs"
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    async def _run(self, call: ToolCall, state: RunState, area: str, workspace: Path, mounted: Mounted) -> ToolResult:
        if call.tool in PROBES:
            async with self._with_package(call, state, mounted) as all_mounted:
                execute = SandboxExecute(self.context, self.level, call.run_id, call.call_id, workspace, all_mounted)
                return await self._probe(call, area, workspace, execute)
        execute = SandboxExecute(self.context, self.level, call.run_id, call.call_id, workspace, mounted)
        if call.tool in PREPARED:
            roots = Roots(workspace=workspace)
            return await Forks(call, state, area, self.bus, self.context.store, roots, execute).prepared()
        shown = await asyncio.to_thread(library, self.context.settings.home) if mounted.data else None
        if call.tool == ViewImage.tool:
            await bring(call, state, area, self.bus, self.context.store, workspace)
        roots = Roots(workspace=workspace, data=mounted.data, templates=mounted.templates, library=shown)
        return await run_tool(call.tool, dict(call.arguments), roots, execute, call.call_id)

    @asynccontextmanager
    async def _with_package(self, call: ToolCall, state: RunState, mounted: Mounted) -> AsyncIterator[Mounted]:
        """With the package of the training that the probe's call names, if it names one that has any."""
        done = state.training(str(call.arguments.get("job")))
        if done is None or not done.delivers:
            yield mounted
            return
        folder = Path(tempfile.mkdtemp(prefix="package-", dir=await asyncio.to_thread(self._scratch)))
        try:
            await asyncio.to_thread(self.context.store.get_folder, done.delivers, folder)
            yield replace(mounted, package=folder)
        finally:
            await asyncio.to_thread(remove_tree, folder)

    async def _probe(self, call: ToolCall, area: str, workspace: Path, execute: SandboxExecute) -> ToolResult:
        """Run one of our own programs on the workspace and hand its facts back with the files it vouches for."""
        arguments: Sequence[Any] = call.arguments.get("arguments") or []  # type: ignore[assignment]
        exports: Sequence[Any] = call.arguments.get("exports") or []  # type: ignore[assignment]
        argv = execute.probe_argv(f"{call.tool}.py", *(str(item) for item in arguments))
        done = await execute(argv, seconds=600, probe=True)
        facts = last_json(done.output)
        if facts is None:
            tail = done.output[-2000:].decode(errors="replace")
            return _refuse(
                call, f"{call.tool} ended {done.outcome} (exit code {done.exit_code}) without facts:\n{tail}"
            )
        refs: dict[str, Any] = {}
        for name in exports:
            path = workspace / str(name)
            if not path.resolve().is_relative_to(workspace.resolve()) or not path.is_file() or path.is_symlink():
                facts.setdefault("errors", []).append(f"{name} is no file of the workspace")
                continue
            ref = await asyncio.to_thread(self.context.store.put_file, "work", path, "application/octet-stream")
            refs[str(name)] = ref.model_dump(mode="json")
        facts["exports"] = refs
        head = await self.bus.workspace_head(call.run_id, area)
        facts["workspace_sha256"] = head.sha256 if head else ""
        return ToolResult(
            call_id=call.call_id,
            tool=call.tool,
            ok=True,
            summary=f"{call.tool} looked and found {len(facts.get('errors', []))} errors",
            data=facts,
            exit_code=done.exit_code,
            isolation=done.isolation,
        )


def _refuse(call: ToolCall, text: str) -> ToolResult:
    return ToolResult(call_id=call.call_id, tool=call.tool, ok=False, summary=text)


async def run(context: Context, once: float | None = None) -> None:
    """Serve the classes of the settings until the context is stopped; with `once` one call or job of the first of them,
    or none where none comes for so many seconds."""
    level = await asyncio.to_thread(detect, context.settings.isolation)
    log.info("isolation level: %s", level)
    if left := await asyncio.to_thread(sweep_homes):
        log.info("removed %d private homes that a killed runner left", len(left))
    runner = Runner(context, level)
    jobs = Jobs(context, level, runner.workspaces, runner.mounts)
    telemetry.observe(Metrics.SANDBOX, lambda: [(1, {Name.ISOLATION: level})])
    tell_gpus(jobs.gpus)
    context.ready()
    classes = list(context.settings.runner_classes)
    if "data" in classes:
        # With a slot of their own batches wait for no job, and a runner that is alone serves its own.
        classes.append("intake")

    async def serve(name: ToolClass) -> None:
        on_call = jobs.on_batch if name == "intake" else runner.on_call
        stop_seconds = context.settings.stop_seconds if name == "train" else STOP_SECONDS
        alone = once if name == classes[0] else None
        # Trainings never share a GPU.
        trainings = 1 if jobs.gpus.count else context.settings.train_jobs
        count = CONCURRENCY.get(name, trainings) if alone is None else 1
        await context.bus.serve_tools(
            name, on_call, jobs.on_job, count, context.stop,
            once=alone, stop_seconds=stop_seconds, at_home=runner.at_home, on_dead=jobs.on_dead,
        )  # fmt: skip
        if alone is not None:
            context.stop.set()

    await asyncio.gather(
        remove_ended_runs(context.bus, runner.workspaces, context.settings.home, context.stop),
        tell_store(context),
        *map(serve, classes),
    )
