"""A lock for asyncio that many readers or one writer may hold."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class ReadWriteLock:
    """A waiting writer goes before new readers, so that a stream of reads cannot starve it. Not reentrant."""

    def __init__(self) -> None:
        self._changed = asyncio.Condition()
        self._readers = 0
        self._writing = False
        self._waiting = 0

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[None]:
        async with self._changed:
            await self._changed.wait_for(lambda: not self._writing and not self._waiting)
            self._readers += 1
        try:
            yield
        finally:
            self._readers -= 1
            await self._wake()

    @asynccontextmanager
    async def writing(self) -> AsyncIterator[None]:
        async with self._changed:
            self._waiting += 1
            try:
                await self._changed.wait_for(lambda: not self._writing and not self._readers)
                self._writing = True
            finally:
                self._waiting -= 1
                self._changed.notify_all()
        try:
            yield
        finally:
            self._writing = False
            await self._wake()

    async def _wake(self) -> None:
        # Shielded: a cancelled holder must not leave the others asleep.
        await asyncio.shield(self._notify())

    async def _notify(self) -> None:
        async with self._changed:
            self._changed.notify_all()
