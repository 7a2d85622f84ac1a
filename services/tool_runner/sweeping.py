"""What a runner removes for the gateway when runs or datasets are erased: from the store, and from its own disk."""

import asyncio
from collections.abc import Collection
from pathlib import Path

from services.tool_runner.sandbox import remove_tree
from shared.bus import Bus
from shared.contracts.erasure import Amount, References, Sweep, Swept
from shared.contracts.tools import ToolCall, ToolResult
from shared.errors import ToolRefused
from shared.store import Store
from shared.store.sweep import Place, remove, shared, unnamed


async def carry_out(call: ToolCall, bus: Bus, store: Store, home: Path) -> ToolResult:
    """The answer to a `Sweep`; its data are a `Swept`. No other call may be carried out meanwhile."""
    asked = Sweep.model_validate(dict(call.arguments))
    try:
        await _refuse_late(asked, bus)
        given = References.model_validate_json(await asyncio.to_thread(store.get_bytes, asked.references))
        lost = await asyncio.to_thread(unnamed, store, given.kept)
        listed = (asked.references.bucket, asked.references.key)
        lost.pop(listed, None)
        stay = await asyncio.to_thread(shared, store, given.gone, lost)
        folders = await asyncio.to_thread(
            _of_nobody, home / "runner", set(asked.erased), {ref.sha256 for ref in given.kept}
        )
        found = Swept(erased=await asyncio.to_thread(_counted, lost, folders), shared=stay)
        if not asked.dry_run:
            await _refuse_late(asked, bus)
            await asyncio.to_thread(remove, store, lost)
            for path in folders:
                await asyncio.to_thread(remove_tree, path)
        await asyncio.to_thread(remove, store, [listed])
    except ToolRefused as late:
        return ToolResult(call_id=call.call_id, tool=call.tool, ok=False, summary=str(late))
    summary = f"{len(lost)} objects of the store are named by nothing"
    return ToolResult(
        call_id=call.call_id, tool=call.tool, ok=True, summary=summary, data=found.model_dump(mode="json")
    )


async def _refuse_late(asked: Sweep, bus: Bus) -> None:
    for stream, newest in asked.as_of.items():
        if await bus.newest(stream) > newest:
            raise ToolRefused("something has been asked for since; ask for the erasure again")


def _of_nobody(runner: Path, erased: Collection[str], needed: Collection[str]) -> list[Path]:
    """Workspaces and logs of what is erased; views, archives and weights that nothing names; what jobs left."""
    found = [path for name in ("ws", "logs") for path in _inside(runner / name) if path.name in erased]
    for name in ("views", "datasets", "weights"):
        found += [path for path in _inside(runner / name) if path.name.partition(".")[0] not in needed]
    return found + _inside(runner / "jobs")


def _inside(folder: Path) -> list[Path]:
    return sorted(folder.iterdir()) if folder.is_dir() else []


def _counted(lost: dict[Place, int], folders: Collection[Path]) -> dict[str, Amount]:
    counts: dict[str, Amount] = {}
    for (bucket, _), size in sorted(lost.items()):
        where = f"store: {bucket}"
        counts[where] = counts.get(where, Amount()) + Amount(count=1, bytes=size)
    files = [file for path in folders for file in (path, *path.rglob("*")) if file.is_file() and not file.is_symlink()]
    counts["files of the runner"] = Amount(count=len(files), bytes=sum(file.stat().st_size for file in files))
    return counts
