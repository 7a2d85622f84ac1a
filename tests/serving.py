"""A runner that the test plays, at a real bus."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Protocol

from shared.bus import Bus
from shared.contracts.tools import ToolCall, ToolResult
from shared.contracts.training import JobSpec


class Played(Protocol):
    async def on_call(self, made: ToolCall) -> ToolResult: ...

    async def on_job(self, job: JobSpec, attempt: int) -> None: ...


@asynccontextmanager
async def serving(bus: Bus, runner: Played) -> AsyncIterator[None]:
    """It is given the calls and jobs of the classes of tools until the block ends."""
    stop = asyncio.Event()
    tasks = [
        asyncio.create_task(bus.serve_tools(name, runner.on_call, runner.on_job, 1, stop))
        for name in ("data", "build", "train")
    ]
    try:
        yield
    finally:
        stop.set()
        await asyncio.gather(*tasks)
