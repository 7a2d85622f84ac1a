"""A run as server-sent events: its facts, the turns of its roles and the progress of its jobs, interleaved.

Only facts carry an `id` (the stream sequence): a client that reconnects with Last-Event-ID misses no fact. Turns and
progress may come again; a turn is known by (role, number).
"""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, field

from services.gateway.items import Item
from shared.bus import Bus
from shared.contracts.base import AGENTS, AgentName
from shared.contracts.state import RunState, fold
from shared.contracts.training import JobFinished, JobStarted
from shared.contracts.transcript import Turn, Waiting

TURN_POLL_SECONDS = 0.7
KEEP_ALIVE_SECONDS = 15.0


async def server_sent(bus: Bus, run_id: str, after: int) -> AsyncIterator[bytes]:
    """Bytes for the wire; ends after RunFinished. A comment now and then keeps proxies from hanging up."""
    feed = _Feed(bus, run_id, after)
    tasks = [asyncio.create_task(feed.facts()), asyncio.create_task(feed.turns())]
    try:
        while True:
            try:
                item = await asyncio.wait_for(feed.queue.get(), KEEP_ALIVE_SECONDS)
            except TimeoutError:
                yield b": still here\n\n"
                continue
            if item is None:
                return
            yield item.encode()
    finally:
        await _end([*tasks, *feed.jobs.values()])


async def _end(tasks: Iterable[asyncio.Task[None]]) -> None:
    """Cancel until it is heard: before Python 3.12 `wait_for` may swallow a cancellation that comes with its result."""
    pending = set(tasks)
    while pending:
        for task in pending:
            task.cancel()
        _, pending = await asyncio.wait(pending, timeout=1)


@dataclass
class _Feed:
    bus: Bus
    run_id: str
    after: int
    queue: asyncio.Queue[Item | None] = field(default_factory=asyncio.Queue)
    jobs: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    sent: set[tuple[str, int]] = field(default_factory=set)
    waits: Waiting | None = None
    state: RunState | None = None

    async def facts(self) -> None:
        try:
            async for sequence, event in self.bus.follow(self.run_id):
                self.state = fold(self.run_id, [(sequence, event)], self.state)
                if sequence <= self.after:
                    # Still folded: a job that runs since before the client left goes on reporting.
                    self._jobs(event)
                    continue
                if event.sender in AGENTS:
                    await self._turns_of(event.sender)
                self._jobs(event)
                self.queue.put_nowait(Item(event.kind, event.model_dump_json(), sequence))
        except Exception as error:
            self.queue.put_nowait(Item("error", json.dumps({"error": f"the bus does not answer: {error!r}"})))
        self.queue.put_nowait(None)

    async def turns(self) -> None:
        """Facts bring along the turns before them; this brings those of the role that is at work."""
        while True:
            await asyncio.sleep(TURN_POLL_SECONDS)
            stage = self.state.stage if self.state else None
            if stage in AGENTS:
                with contextlib.suppress(Exception):
                    await self._turns_of(stage)
                    await self._waits_of(stage)

    async def _turns_of(self, role: AgentName) -> None:
        entries, _ = await self.bus.entries(self.run_id, role)
        for entry in entries:
            if isinstance(entry, Turn) and (role, entry.number) not in self.sent:
                self.sent.add((role, entry.number))
                data = {
                    "role": role,
                    "number": entry.number,
                    "calls": [call.name for call in entry.calls],
                    "text": entry.text,
                    "at": entry.at.isoformat(),
                }
                self.queue.put_nowait(Item("turn", json.dumps(data)))

    async def _waits_of(self, role: AgentName) -> None:
        waits = await self.bus.waiting(self.run_id, role)
        if waits and waits != self.waits:
            self.queue.put_nowait(Item("waiting", waits.model_dump_json()))
        self.waits = waits

    def _jobs(self, event: object) -> None:
        match event:
            case JobStarted() if event.job_id not in self.jobs:
                self.jobs[event.job_id] = asyncio.create_task(self._progress(event.job_id))
            case JobFinished() if event.job_id in self.jobs:
                self.jobs.pop(event.job_id).cancel()

    async def _progress(self, job_id: str) -> None:
        async for progress in self.bus.follow_log(self.run_id, job_id):
            self.queue.put_nowait(Item("progress", progress.model_dump_json()))
