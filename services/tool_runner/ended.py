"""What a runner still holds of runs that have ended is removed an hour later; what counts of it lies in the store."""

import asyncio
import logging
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from services.tool_runner.sandbox import remove_tree
from services.tool_runner.workspaces import Workspaces
from shared.bus import Bus
from shared.contracts.data import DatasetLocked
from shared.contracts.runs import RunFinished
from shared.errors import Unavailable

log = logging.getLogger(__name__)

KEPT = timedelta(hours=1)
EVERY_SECONDS = 600.0


async def remove_ended_runs(bus: Bus, workspaces: Workspaces, home: Path, stop: asyncio.Event) -> None:
    """Look every ten minutes, until `stop`."""
    while not stop.is_set():
        try:
            await remove_once(bus, workspaces, home)
        except (OSError, Unavailable) as error:
            log.warning("runs that have ended are removed later: %s", error)
        with suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), EVERY_SECONDS)


async def remove_once(bus: Bus, workspaces: Workspaces, home: Path, kept: timedelta = KEPT) -> list[str]:
    """Remove workspaces, views and logs of runs that were erased, or that ended longer than `kept` ago; returns these
    runs."""
    runner, removed = home / "runner", []
    erased = {stone.id for stone in await bus.tombstones()}
    for run_id in await asyncio.to_thread(_local_runs, runner):
        events = [event for _, event in await bus.events(run_id)]
        ended = [event.at for event in events if isinstance(event, RunFinished)]
        if run_id not in erased and (not ended or datetime.now(UTC) - ended[0] < kept):
            continue
        for area in await asyncio.to_thread(_names, runner / "ws" / run_id):
            async with workspaces.writing(run_id, area) as folder:
                await asyncio.to_thread(remove_tree, folder)
        views = [event.view.sha256 for event in events if isinstance(event, DatasetLocked)]
        for folder in (runner / "ws" / run_id, runner / "logs" / run_id, *(runner / "views" / name for name in views)):
            await asyncio.to_thread(remove_tree, folder)
        removed.append(run_id)
    await _remove_unnamed(bus, runner, kept)
    return removed


async def _remove_unnamed(bus: Bus, runner: Path, kept: timedelta) -> None:
    """Views and unpacked archives that no run and no card names, once they are older than `kept`."""
    before = (datetime.now(UTC) - kept).timestamp()
    places = [(name, runner / kind / name) for kind in ("views", "datasets") for name in _names(runner / kind)]
    old = [(name.partition(".")[0], path) for name, path in places if _used(path) < before]
    states, cards = await bus.states(), await bus.cards()
    cards += [state.planned.card for state in states if state.planned and not state.finished]
    needed = {state.locked.view.sha256 for state in states if state.locked}
    needed |= {card.archive.sha256 for card in cards if card.archive}
    for name, path in old:
        if name not in needed:
            await asyncio.to_thread(remove_tree, path)


def _used(path: Path) -> float:
    """When it was made, or asked for last where it has a lock that tells."""
    return max(one.lstat().st_mtime for one in (path, path.with_suffix(".lock")) if one.exists())


def _local_runs(runner: Path) -> list[str]:
    return sorted({*_names(runner / "ws"), *_names(runner / "logs")})


def _names(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()] if folder.is_dir() else []
