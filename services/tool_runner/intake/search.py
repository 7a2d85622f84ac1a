"""The search for rules beside an intake job: once for the same files, words and programs."""

import asyncio
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from services.tool_runner.intake.cache import Cache
from services.tool_runner.intake.sandbox import IntakeSandbox, programs
from shared.contracts.base import Ref
from shared.contracts.cases import Proposal
from shared.dataset.files.listing import list_files
from shared.store import Store


@dataclass
class Search:
    """Searches of one job in one dataset, whose files are those of the archive `stamp` or as their listing says."""

    sandbox: IntakeSandbox
    cache: Cache
    store: Store
    data: Path
    stamp: str | None
    new: dict[str, Ref] = field(default_factory=dict)

    async def proposals(self, words: Sequence[str]) -> tuple[Proposal, ...]:
        """Of `search_words`. Raises Cancelled."""
        digest = await asyncio.to_thread(self._digest, words)
        if (ref := await self.cache.found(digest)) is not None:
            lines = (await asyncio.to_thread(self.store.get_bytes, ref)).splitlines()
            return tuple(map(Proposal.model_validate_json, lines))
        found, whole = await self.sandbox.propose(self.data, words)
        if whole:
            text = b"".join(one.model_dump_json().encode() + b"\n" for one in found)
            self.new[digest] = await asyncio.to_thread(self.store.put_bytes, "sealed", text, "application/x-ndjson")
        return found

    async def keep(self) -> None:
        """Let later jobs know what was found. Not beside another `Cache.add`, of which one would be lost."""
        if self.new:
            await self.cache.add(searches=self.new)

    def _digest(self, words: Sequence[str]) -> str:
        files = self.stamp or list_files(self.data).digest
        return hashlib.sha256("\0".join((programs(self.sandbox.home).name, files, *words)).encode()).hexdigest()
