"""The whole system at one moment: active runs, queues, jobs; for `m3builder top` and for the metrics."""

import asyncio
from collections.abc import Callable
from dataclasses import asdict
from datetime import UTC, datetime

from fastapi import APIRouter

from services.gateway.fleet_model import Fleet, JobNow, QueueNow, RunNow
from services.gateway.parts import PROBLEMS, Known, Who
from shared.bus import Bus
from shared.bus.part import readable
from shared.contracts.base import AGENTS
from shared.contracts.state import RunState
from shared.contracts.training import JobProgress, JobStarted
from shared.contracts.transcript import Turn, decode_entry

router = APIRouter(responses=PROBLEMS)


@router.get("/fleet", tags=["health"])
async def get_fleet(parts: Known, who: Who) -> Fleet:
    """Who works on what just now, what waits, and what was given up."""
    return await fleet(parts.bus, lambda state: who.may_see(state.summary().asked_by))


async def fleet(bus: Bus, seen: Callable[[RunState], bool] = lambda _: True) -> Fleet:
    """With the active runs for which `seen` holds, the one that is silent for the longest first."""
    now = datetime.now(UTC)
    states = [state for state in await bus.states() if state.requested and not state.finished and seen(state)]
    runs = await asyncio.gather(*(_run(bus, state, now) for state in states))
    queues, dead, sizes = await asyncio.gather(bus.queues(), bus.dead(), bus.sizes())
    return Fleet(
        at=now,
        runs=tuple(sorted(runs, key=lambda run: -run.silence)),
        queues=tuple(QueueNow(**asdict(queue)) for queue in queues),
        dead=dead,
        streams=sizes,
    )


async def _run(bus: Bus, state: RunState, now: datetime) -> RunNow:
    heard, doing = [state.last_at], ""
    if state.stage in AGENTS and (line := await bus.newest_turn(state.run_id, state.stage)):
        heard.append(line.time.timestamp() if line.time else 0.0)
        if entry := readable(line, decode_entry):
            tools = ", ".join(call.name for call in entry.calls) if isinstance(entry, Turn) else ""
            doing = f"turn {entry.number}{': ' if tools else ''}{tools}"
    jobs = []
    for job in state.jobs.values():
        told = await bus.newest_progress(state.run_id, job.job_id) if job.job == "train" else None
        # Only a training tells how it gets on; another job ends by its own time, or starts anew with another runner.
        silent = told.time.timestamp() if told and told.time else 0.0
        heard.append(silent if job.job == "train" else now.timestamp())
        jobs.append(_job(job, readable(told, JobProgress.model_validate_json) if told else None, now))
    return RunNow(
        run_id=state.run_id,
        status=state.status,
        stage=state.stage,
        core=state.requested.core if state.requested else "",
        age=max(0.0, now.timestamp() - state.first_at),
        silence=max(0.0, now.timestamp() - max(heard)),
        doing="waits for a person" if state.question else doing,
        jobs=tuple(jobs),
    )


def _job(job: JobStarted, progress: JobProgress | None, now: datetime) -> JobNow:
    share, text = None, ""
    if progress and progress.epoch is not None and progress.epochs:
        share = min(1.0, progress.epoch / progress.epochs)
        text = f"epoch {progress.epoch:g}/{progress.epochs:g}"
    elif progress and progress.step is not None:
        text = f"step {progress.step}"
    return JobNow(
        kind=job.job,
        runner=job.runner,
        isolation=job.isolation,
        attempt=job.attempt,
        seconds=max(0.0, (now - job.at).total_seconds()),
        share=share,
        text=text,
    )
