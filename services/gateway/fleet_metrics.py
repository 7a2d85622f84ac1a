"""The whole system in the metrics: looked at once by the gateway, instead of by everybody."""

import asyncio
import logging
from collections import Counter, defaultdict
from statistics import fmean

from services.gateway.fleet import fleet
from services.gateway.fleet_model import Fleet
from shared import telemetry
from shared.contracts.state import RunState
from shared.service import Context
from shared.telemetry import Attributes, Figures, Metrics, Name

log = logging.getLogger(__name__)

LOOK_SECONDS = 10.0
RECENT = 20
"""Scored runs of a kind over which the mean is taken."""


class FleetMetrics:
    """Tells what it saw last; of a run that has ended, or of a queue when the bus is away, it tells nothing."""

    def __init__(self) -> None:
        self._seen: Fleet | None = None
        self._ended: list[RunState] = []
        """The newest first."""
        for metric, look in (
            (Metrics.RUNS, self._runs),
            (Metrics.SCORE, self._scores),
            (Metrics.ACTIVE, self._active),
            (Metrics.SILENCE, self._silence),
            (Metrics.PROGRESS, self._progress),
            (Metrics.PENDING, lambda: self._queues("pending")),
            (Metrics.TAKEN, lambda: self._queues("taken")),
            (Metrics.IDLE, lambda: self._queues("idle")),
            (Metrics.DEAD, self._dead),
            (Metrics.STREAM_SIZE, self._streams),
        ):
            telemetry.observe(metric, look)

    async def look(self, context: Context) -> None:
        """Now and then, until the service stops."""
        while not context.stop.is_set():
            try:
                self._seen = await fleet(context.bus)
                self._ended = [state for state in await context.bus.states() if state.finished]
            except Exception as error:
                # Whatever it is, it is looked again, and nothing is told meanwhile.
                log.warning("the system could not be looked at: %r", error)
                self._seen, self._ended = None, []
            try:
                await asyncio.wait_for(context.stop.wait(), LOOK_SECONDS)
            except TimeoutError:
                continue

    def _runs(self) -> Figures:
        found = Counter(
            (state.finished.end, state.finished.level, *_kind(state)) for state in self._ended if state.finished
        )
        names = (Name.END, Name.LEVEL, Name.TASK, Name.CORE)
        return [(many, dict(zip(names, labels, strict=True))) for labels, many in found.items()]

    def _scores(self) -> Figures:
        found: dict[tuple[str, ...], list[float]] = defaultdict(list)
        for state in self._ended:
            if state.scored and state.scored.metric:
                found[(*_kind(state), state.scored.metric.name)].append(state.scored.metric.value)
        names = (Name.TASK, Name.CORE, Name.METRIC)
        return [(fmean(values[:RECENT]), dict(zip(names, labels, strict=True))) for labels, values in found.items()]

    def _active(self) -> Figures:
        found = Counter((run.stage or "none", run.status) for run in self._seen.runs) if self._seen else {}
        return [(many, {Name.STAGE: stage, Name.STATUS: status}) for (stage, status), many in found.items()]

    def _silence(self) -> Figures:
        # A person may take days to answer.
        runs = [run for run in self._seen.runs if run.stage] if self._seen else []
        return [(run.silence, {Name.CONVERSATION: run.run_id, Name.STAGE: run.stage or ""}) for run in runs]

    def _progress(self) -> Figures:
        runs = self._seen.runs if self._seen else ()
        jobs = [(run.run_id, job) for run in runs for job in run.jobs]
        return [(job.share, {Name.CONVERSATION: run, Name.JOB: job.kind}) for run, job in jobs if job.share is not None]

    def _queues(self, what: str) -> Figures:
        queues = self._seen.queues if self._seen else ()
        return [(getattr(queue, what), {Name.CONSUMER_GROUP: queue.name}) for queue in queues]

    def _dead(self) -> Figures:
        if self._seen is None:
            return []
        return [(self._seen.dead.get(one.name, 0), {Name.CONSUMER_GROUP: one.name}) for one in self._seen.queues]

    def _streams(self) -> Figures:
        found = self._seen.streams if self._seen else {}
        labels: list[tuple[float, Attributes]] = [(size, {Name.STREAM: name}) for name, size in found.items()]
        return labels


def _kind(state: RunState) -> tuple[str, str]:
    """Task and core of a run."""
    core = telemetry.core_label(state.requested.core) if state.requested else "none"
    return state.planned.plan.task if state.planned else "none", core
