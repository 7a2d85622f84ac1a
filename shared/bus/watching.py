"""How the bus itself is doing: what waits, what is at work, what was given up, what it holds. For the gateway."""

import asyncio
from collections import Counter
from dataclasses import dataclass

from nats.js.api import RawStreamMsg

from shared.bus.part import Part
from shared.bus.streams import DLQ, DURABLES, EVENTS, LOG, TOOLS, turn_subject, turns_stream
from shared.contracts.base import AGENTS, Service

SIZED = (EVENTS, TOOLS, LOG, DLQ, *map(turns_stream, AGENTS))
"""Streams that are looked at."""


@dataclass(frozen=True)
class Queue:
    """A consumer that replicas of one service share."""

    name: str
    service: Service
    pending: int
    """Messages that nobody has taken."""
    taken: int
    """Delivered and not settled."""
    idle: int
    """Workers that wait for a message."""


class Watching(Part):
    async def queues(self) -> list[Queue]:
        """Every consumer of a service, in the order of a run's stages."""
        ask = self.connection.js.consumer_info
        found = await asyncio.gather(*(ask(one.stream, one.name) for one in DURABLES))
        return [
            Queue(one.name, one.service, info.num_pending or 0, info.num_ack_pending or 0, info.num_waiting or 0)
            for one, info in zip(DURABLES, found, strict=True)
        ]

    async def dead(self) -> dict[str, int]:
        """Consumer -> messages that it gave up and that lie in DLQ; nothing of one that gave up none."""
        info = await self.connection.js.stream_info(DLQ, subjects_filter="dlq.>")
        many: Counter[str] = Counter()
        for subject, count in (info.state.subjects or {}).items():
            many[subject.split(".")[2]] += count
        return dict(many)

    async def sizes(self) -> dict[str, int]:
        """Stream -> bytes that it holds."""
        found = await asyncio.gather(*(self.connection.js.stream_info(name) for name in SIZED))
        return {name: info.state.bytes for name, info in zip(SIZED, found, strict=True)}

    async def newest_turn(self, run_id: str, role: str) -> RawStreamMsg | None:
        """The last line of a role's transcript."""
        return await self.connection.last(turns_stream(role), turn_subject(run_id, role))

    async def newest_progress(self, run_id: str, job_id: str) -> RawStreamMsg | None:
        return await self.connection.last(LOG, f"log.{run_id}.{job_id}")
