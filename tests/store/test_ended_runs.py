"""A runner keeps what live runs and just ended ones need, and nothing of the others."""

import hashlib
from datetime import UTC, datetime, timedelta
from pathlib import Path

from services.tool_runner.ended import KEPT, remove_once
from services.tool_runner.workspaces import Workspaces
from shared.bus import Bus
from shared.contracts.base import new_run_id
from shared.contracts.erasure import Tombstone
from shared.contracts.runs import DataCard, RunFinished
from shared.store import Store
from tests.cases import told_until


async def _seed(folder: Path) -> None:
    (folder / "cache").mkdir()
    (folder / "cache" / "volume.npy").write_bytes(bytes(1000))
    (folder / "cache").chmod(0o500)


async def test_only_what_ended_long_ago_is_removed(store: Store, bus: Bus, tmp_path: Path) -> None:
    workspaces, ended, live = Workspaces(tmp_path, store, bus), new_run_id(), new_run_id()
    for run_id in (ended, live):
        *before, lock, _ = told_until(run_id, "model_trainer")
        for fact in before:
            await bus.append(fact)
        await workspaces.open(run_id, "build", _seed)
        view = store.put_bytes("data", run_id.encode())
        await bus.append(lock.model_copy(update={"view": view}))
        made = tmp_path / "runner" / "views" / view.sha256
        made.mkdir(parents=True)
        (made / "scan.png").write_text(run_id)
        made.chmod(0o555)
        log = tmp_path / "runner" / "logs" / run_id / "call.log"
        log.parent.mkdir(parents=True)
        log.write_text("x")
    await bus.append(RunFinished.make(run_id=ended, sender="task_manager", cause=None, end="cancelled"))

    assert await remove_once(bus, workspaces, tmp_path, KEPT) == []
    assert await remove_once(bus, workspaces, tmp_path, timedelta()) == [ended]
    assert await remove_once(bus, workspaces, tmp_path, timedelta()) == []
    left = {path.name for path in (tmp_path / "runner" / "ws").iterdir()}
    assert left == {live} == {path.name for path in (tmp_path / "runner" / "logs").iterdir()}
    assert [path.read_text() for path in (tmp_path / "runner" / "views").glob("*/scan.png")] == [live]
    assert (tmp_path / "runner" / "ws" / live / "build" / "cache" / "volume.npy").is_file()


async def test_what_was_erased_goes_at_once_and_what_nothing_names_when_it_is_old(
    store: Store, bus: Bus, tmp_path: Path
) -> None:
    workspaces, runner, gone = Workspaces(tmp_path, store, bus), tmp_path / "runner", new_run_id()
    await workspaces.open(gone, "build", _seed)
    await bus.put_tombstone(Tombstone(id=gone, kind="run", at=datetime.now(UTC), by="somebody"))
    named, unnamed = store.put_bytes("data", gone.encode()), store.put_bytes("data", b"unnamed")
    await bus.put_card(DataCard(dataset_id=gone, name="a", description="b", archive=named))
    for folder in (
        runner / "datasets" / named.sha256,
        runner / "datasets" / unnamed.sha256,
        runner / "views" / hashlib.sha256(f"view of {gone}".encode()).hexdigest(),
    ):
        folder.mkdir(parents=True)
        (folder / "scan.png").write_bytes(b"x")
        if folder.parent.name == "datasets":
            folder.with_suffix(".lock").touch()

    assert await remove_once(bus, workspaces, tmp_path, KEPT) == [gone]
    assert not (runner / "ws" / gone).exists() and len(list(runner.glob("*/*/scan.png"))) == 3
    assert await remove_once(bus, workspaces, tmp_path, timedelta()) == []
    assert [path.parent.name for path in runner.glob("*/*/scan.png")] == [named.sha256]
    assert [path.stem for path in (runner / "datasets").glob("*.lock")] == [named.sha256]
