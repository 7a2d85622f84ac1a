"""Where an agent works: its transcript on the bus, the tools of the runner, the jobs it may start."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from pydantic import JsonValue

from shared.agent import budget
from shared.agent.bounds import bounded
from shared.agent.brief import Brief
from shared.agent.calls import text_of
from shared.agent.role import Facts, Probe, Role
from shared.agent.showing import fenced
from shared.agent.solo import going_on
from shared.agent.tries import figure, seconds_left, table, told_of
from shared.contracts.base import Spent, ToolArgs
from shared.contracts.flow import ASKS, GOES_ON, stage_of
from shared.contracts.starting import Repackage, StartTraining, TryConfigs
from shared.contracts.state import RunState
from shared.contracts.tools import ReadFiles, ToolCall, ToolResult, ViewImage
from shared.contracts.training import REPACKAGE, TRAIN, JobFinished, JobSpec
from shared.contracts.transcript import Call, Observation, Turn
from shared.errors import DataUnusable, ToolBroken
from shared.store.archives import unpack_seconds

if TYPE_CHECKING:
    from shared.bus import Bus

MACHINE = "/workspace/environment.json"
"""What the runner says of itself; programs of the role before may have written something else."""
MACHINE_ROOM = 4000

CALL_SECONDS = 900.0
"""A tool call may wait in the queue and run for up to ten minutes; unpacking an uploaded dataset comes on top."""
REPACKAGE_SECONDS = 600.0


class Desk:
    """One role's work on one order of one run."""

    def __init__(self, bus: Bus, role: Role, brief: Brief) -> None:
        self.bus = bus
        self.role = role
        self.brief = brief
        self.tool_class = ASKS[role.name][0]
        self.entries: list[Turn | Observation] = []
        self.before: list[Turn | Observation] = []
        """Of a run without collaboration: what was said in the role whose conversation goes on here."""
        self.sees = False
        """Whether the core that works here is shown pictures."""
        self.away_since: datetime | None = None
        """Since when its model has been away, until it is back."""
        self._head = 0

    async def open(self) -> None:
        """Read the transcript and, if this order is new, write the brief down as its first line, with what the runner
        says of the machine to a role that builds."""
        self.entries, self._head = await self.bus.entries(self.brief.run_id, self.role.name)
        if self.role.team and (earlier := GOES_ON.get(self.role.name)):
            self.before, _ = await self.bus.entries(self.brief.run_id, earlier)
        if not self.segment:
            if stage_of(self.role.name).area == "build":
                call_id = f"{self.brief.run_id}-{self.role.name}-{self.brief.order[:16]}-machine"
                found = text_of(await self.call(call_id, ReadFiles.tool, {"paths": [MACHINE]}), MACHINE)
                self.brief = self.brief.model_copy(update={"machine": _machine(found)})
            await self.record(
                Observation(
                    run_id=self.brief.run_id,
                    role=self.role.name,
                    number=self.turns,
                    event_id=self.brief.order,
                    event=self.brief.model_dump(mode="json"),
                )
            )
        else:
            # What was written down wins: a resumed role starts from the words of the replica before it.
            opening = self.segment[0]
            assert isinstance(opening, Observation)
            self.brief = Brief.model_validate(opening.event)

    @property
    def turns(self) -> int:
        return max((entry.number for entry in self.entries), default=0)

    @property
    def segment(self) -> list[Turn | Observation]:
        """The entries since this order was written down."""
        for position, entry in enumerate(self.entries):
            if isinstance(entry, Observation) and entry.event_id == self.brief.order:
                return self.entries[position:]
        return []

    @property
    def again(self) -> bool:
        """Whether the role has had an order before on what it works on now: raw data, or the same lock."""
        events = [entry.event for entry in self.entries if isinstance(entry, Observation) and entry.opens]
        briefs = [Brief.model_validate(event) for event in events]
        return any(one.locked == self.brief.locked for one in briefs[:-1])

    @property
    def spent(self) -> Spent:
        """What this order has cost so far; earlier orders are in the run's state."""
        away = Spent(away_seconds=(now() - self.away_since).total_seconds() if self.away_since else 0.0)
        return sum((entry.spent for entry in self.segment if isinstance(entry, Turn)), away)

    async def budget(self) -> str:
        """What is used of the run's budget, in a sentence."""
        state = await self.bus.state(self.brief.run_id)
        return budget.told(budget.bounds(state, self.spent, now()), self.entries)

    def talk(self) -> tuple[Brief, list[Turn | Observation]]:
        """What a core is given to decide: the brief that its conversation began with, and all since."""
        return going_on(self.before, self.brief, self.segment)

    async def record(self, entry: Turn | Observation) -> None:
        """Raises StaleTranscript when another replica has written meanwhile."""
        self._head = await self.bus.append_entry(entry, after=self._head)
        self.entries.append(entry)

    def call_id(self, turn: Turn, position: int, suffix: str = "") -> str:
        return f"{self.brief.run_id}-{self.role.name}-{turn.number}-{position}{suffix}"

    async def call(self, call_id: str, tool: str, arguments: dict[str, JsonValue]) -> ToolResult:
        """Raises ToolBroken when the runner cannot work, DataUnusable when the run's dataset cannot be had.

        What the core can mend is a result with ok=False.
        """
        card = self.brief.planned.card if self.brief.planned else None
        result = await self.bus.call(
            self.tool_class,
            ToolCall(
                call_id=call_id,
                run_id=self.brief.run_id,
                role=self.role.name,
                tool=tool,
                arguments=arguments,
                reply="",  # the bus puts its own inbox here
            ),
            timeout=CALL_SECONDS + (unpack_seconds(card.archive) if card and card.archive else 0),
        )
        if not result.ok and result.data.get("error") == "ToolBroken":
            raise ToolBroken(result.summary)
        if not result.ok and result.data.get("error") == "DataUnusable":
            raise DataUnusable(result.summary)
        return result

    async def probe(self, call_id: str, probe: Probe) -> Facts:
        """Facts gathered by the runner's own program. Raises ToolBroken when it could not look."""
        result = await self.call(
            call_id,
            probe.name,
            {"arguments": list(probe.arguments), "exports": list(probe.exports), "job": probe.job},
        )
        if not result.ok:
            raise ToolBroken(f"{probe.name} could not look: {result.summary}")
        return dict(result.data)

    async def start(self, call_id: str, arguments: StartTraining | TryConfigs | Repackage) -> ToolResult:
        """Queue the jobs that the call asks for: in the workspace, or in copies that the runner makes of it."""
        state = await self.bus.state(self.brief.run_id)
        most = budget.seconds_left(budget.bounds(state, self.spent, now()))
        if isinstance(arguments, Repackage):
            if most < 1:
                text = "nothing was started: no time is left"
                return ToolResult(call_id=call_id, tool=arguments.tool, ok=False, summary=text)
            seconds, command = min(REPACKAGE_SECONDS, most), list(REPACKAGE)
        else:
            one = self.brief.train_seconds
            left = min(most, seconds_left(state, self.role.name, one, but=call_id))
            many = len(arguments.tries) * arguments.folds if isinstance(arguments, TryConfigs) else 1
            wanted = arguments.seconds * many
            if left < 1 or (wanted > left and isinstance(arguments, TryConfigs)):
                text = f"nothing was started: that takes {wanted:.0f} s, and {max(0, left):.0f} s of training are left"
                return ToolResult(call_id=call_id, tool=arguments.tool, ok=False, summary=text)
            if arguments.seconds > one and isinstance(arguments, TryConfigs):
                text = f"nothing was started: a training may take {one:.0f} s"
                return ToolResult(call_id=call_id, tool=arguments.tool, ok=False, summary=text)
            seconds, command = min(arguments.seconds, one, left), list(TRAIN)
        if isinstance(arguments, StartTraining):
            command = list(arguments.command)
            cut = f", not {arguments.seconds:.0f}, which is more than a training may take, or than is left" * (
                seconds < arguments.seconds
            )
            text = f"job {call_id} is queued for at most {seconds:.0f} s{cut}; you will be woken by its end"
            result = ToolResult(call_id=call_id, tool=arguments.tool, ok=True, summary=text, data={"jobs": [call_id]})
        else:
            result = await self.call(call_id, arguments.tool, arguments.model_dump(mode="json"))
        for job_id in result.jobs:
            spec = JobSpec(
                job_id=job_id,
                run_id=self.brief.run_id,
                kind="train",
                asked_by=self.role.name,
                caused_by=self.brief.order,
                command=tuple(command),
                seconds=seconds,
                forked=not isinstance(arguments, StartTraining),
                pictures=self.sees and not (isinstance(arguments, TryConfigs) and arguments.folds > 1),
            )
            await self.bus.submit_job("train", spec)
        return result

    def waiting_for(self) -> tuple[str, ...]:
        """The jobs that this role sleeps on, if its last observation started any."""
        last = self.entries[-1]
        if not isinstance(last, Observation) or last.event is not None:
            return ()
        return tuple(job for result in last.results for job in result.jobs)

    async def jobs_ended(self, state: RunState) -> bool:
        """Write the ends of the awaited jobs down, once all have come. False while the role must go on sleeping."""
        ended = [state.jobs_done[job] for job in self.waiting_for() if job in state.jobs_done]
        if not ended or len(ended) < len(self.waiting_for()):
            return False
        told = Observation(
            run_id=self.brief.run_id,
            role=self.role.name,
            number=self.turns,
            results=await self._worst_of(ended),
            notes=(fenced(table(state, self.role.name, self.brief.train_seconds, ended)),),
            event_id=ended[-1].event_id,
            event=told_of(ended),
            budget=await self.budget(),
        )
        await self.record(bounded(told))
        return True

    async def _worst_of(self, ended: Sequence[JobFinished]) -> tuple[ToolResult, ...]:
        """The answer to the call that started them once more, with pictures of the worst cases of the best one."""
        asked = self.entries[-1]
        best = max(ended, key=lambda done: figure(done.model_dump(mode="json")) or 0.0)
        paths: list[JsonValue] = [*re.findall(r"worst/(?:[\w-]+/)?\d\.png", best.summary)]
        if not self.sees or not paths or not isinstance(asked, Observation):
            return ()
        drawn = await self.call(f"{best.job_id}-worst", ViewImage.tool, {"paths": paths})
        starters = [one for one in asked.results if best.job_id in one.jobs]
        return tuple(one.model_copy(update={"pictures": drawn.pictures}) for one in starters if drawn.ok)


async def gather_calls(desk: Desk, turn: Turn, calls: list[tuple[int, Call, ToolArgs]]) -> list[ToolResult]:
    """Run the calls of a turn: side by side when all of them only read, else in order."""

    async def one(position: int, call: Call, arguments: ToolArgs) -> ToolResult:
        call_id = desk.call_id(turn, position)
        if isinstance(arguments, StartTraining | TryConfigs | Repackage):
            return await desk.start(call_id, arguments)
        return await desk.call(call_id, call.name, call.arguments)

    if all(arguments.reads_only for _, _, arguments in calls):
        return list(await asyncio.gather(*(one(*item) for item in calls)))
    return [await one(*item) for item in calls]


def _machine(text: str) -> dict[str, JsonValue]:
    """The facts of a machine as they stand in its file; none where something else does."""
    try:
        found = json.loads(text) if len(text) <= MACHINE_ROOM else None
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def now() -> datetime:
    return datetime.now(UTC)
