"""A workspace goes from runner to runner with its edits, and costs nothing when nothing changed."""

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from services.tool_runner.workspaces import Workspaces
from shared.bus import Bus
from shared.contracts.base import Ref, new_run_id
from shared.errors import Conflict
from shared.settings import Settings
from shared.store import Store


@pytest.fixture
def run_id() -> str:
    return new_run_id()


async def _seed(folder: Path) -> None:
    (folder / "plan.json").write_text("{}")
    (folder / "code").mkdir()
    (folder / "code" / "train.py").write_text("print(1)\n")


async def _no_seed(folder: Path) -> None:
    raise AssertionError("a workspace that has a head is not seeded")


def _files(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}


async def test_a_workspace_moves_to_another_runner_and_back(
    store: Store, bus: Bus, tmp_path: Path, run_id: str
) -> None:
    first, second = Workspaces(tmp_path / "one", store, bus), Workspaces(tmp_path / "two", store, bus)
    here = await first.open(run_id, "build", _seed)
    assert here == tmp_path / "one" / "runner" / "ws" / run_id / "build"
    assert await bus.workspace_head(run_id, "build") is None
    (here / "code" / "train.py").write_text("print(2)\n")
    (here / "weights.bin").write_text("old weights")
    head = await first.save(run_id, "build")
    assert await bus.workspace_head(run_id, "build") == head

    there = await second.open(run_id, "build", _no_seed)
    assert _files(there) == _files(here)
    (there / "plan.json").unlink()
    (there / "code").rename(there / "src")
    (there / "src" / "new.py").write_text("x = 1\n")
    (there / "weights.bin").write_text("new weights")
    (there / "latest").symlink_to("src/new.py")
    (here / "never-saved.txt").write_text("lost the race")
    (here / "__pycache__").mkdir()
    (here / "__pycache__" / "x.pyc").write_text("cache")
    assert await second.save(run_id, "build") != head

    back = await first.open(run_id, "build", _no_seed)
    assert back == here
    cache = {"__pycache__/x.pyc": "cache"}
    assert _files(back) == _files(there) | cache
    assert (back / "latest").readlink() == Path("src/new.py")
    assert (back / "code").exists() is False
    assert (await first.save(run_id, "build")) == await bus.workspace_head(run_id, "build")


async def test_a_save_without_changes_asks_the_store_for_nothing(
    store: Store, store_settings: Settings, bus: Bus, tmp_path: Path, run_id: str
) -> None:
    workspaces = Workspaces(tmp_path, store, bus)
    folder = await workspaces.open(run_id, "data", _seed)
    head = await workspaces.save(run_id, "data")
    # Files that were written in the last moments before a save are hashed once more by the next.
    await asyncio.sleep(0.05)
    (folder / "settled").write_text("x")
    await asyncio.sleep(0.05)
    head = await workspaces.save(run_id, "data")
    unreachable = store_settings.model_copy(update={"s3_endpoint": "http://127.0.0.1:9"})
    offline = Workspaces(tmp_path, Store.connect(unreachable), bus)
    assert await offline.save(run_id, "data") == head
    (folder / "cache").mkdir()
    (folder / "cache" / "volume.npy").write_text("rebuildable")
    assert await offline.save(run_id, "data") == head


async def test_every_kind_of_change_is_found(store: Store, bus: Bus, tmp_path: Path, run_id: str) -> None:
    workspaces = Workspaces(tmp_path, store, bus)
    folder = await workspaces.open(run_id, "data", _seed)
    target = folder / "plan.json"
    seen = [await workspaces.save(run_id, "data")]

    def rewrite_in_place() -> None:
        times = target.stat()
        target.write_text("[]")
        os.utime(target, ns=(times.st_atime_ns, times.st_mtime_ns))

    def replace() -> None:
        (folder / "other").write_text("[1")
        (folder / "other").replace(target)

    for change in (
        lambda: target.write_text("{ }"),
        rewrite_in_place,
        replace,
        lambda: target.chmod(0o755),
        lambda: (folder / "copy").write_bytes(target.read_bytes()),
        lambda: (folder / "link").symlink_to("copy"),
        lambda: (folder / "link").unlink(),
        target.unlink,
    ):
        change()
        seen.append(await workspaces.save(run_id, "data"))
        assert seen[-1] != seen[-2]
        assert await bus.workspace_head(run_id, "data") == seen[-1]


async def test_what_is_never_stored(store: Store, bus: Bus, tmp_path: Path, run_id: str) -> None:
    workspaces = Workspaces(tmp_path / "home", store, bus)
    (tmp_path / "secret").write_text("secret")
    folder = await workspaces.open(run_id, "build", _seed)
    for name in ("2", "10", "9"):
        (folder / "checkpoints" / f"checkpoint-{name}").mkdir(parents=True)
        (folder / "checkpoints" / f"checkpoint-{name}" / "model.bin").write_text(name)
    for name in (".cache", "cache", "preprocessed", "__pycache__"):
        (folder / "code" / name).mkdir()
        (folder / "code" / name / "x").write_text("x")
    (folder / "escape").symlink_to(tmp_path / "secret")
    os.mkfifo(folder / "pipe")
    manifest = store.get_manifest(await workspaces.save(run_id, "build"))
    assert set(manifest.files) == {
        "plan.json",
        "code/train.py",
        "checkpoints/checkpoint-9/model.bin",
        "checkpoints/checkpoint-10/model.bin",
    }
    assert manifest.links == {}
    assert (folder / "checkpoints" / "checkpoint-2" / "model.bin").exists()


async def test_unsaved_edits_outlive_a_killed_runner(store: Store, bus: Bus, tmp_path: Path, run_id: str) -> None:
    folder = await Workspaces(tmp_path, store, bus).open(run_id, "build", _seed)
    (folder / "draft").write_text("before the first save")
    reborn = Workspaces(tmp_path, store, bus)
    await reborn.open(run_id, "build", _no_seed)
    await reborn.save(run_id, "build")
    (folder / "checkpoint").write_text("half way")
    reborn = Workspaces(tmp_path, store, bus)
    assert (await reborn.open(run_id, "build", _no_seed) / "checkpoint").read_text() == "half way"


async def test_a_seed_that_failed_is_made_again(store: Store, bus: Bus, tmp_path: Path, run_id: str) -> None:
    async def broken(folder: Path) -> None:
        (folder / "half").write_text("half")
        raise OSError("no")

    workspaces = Workspaces(tmp_path, store, bus)
    with pytest.raises(OSError, match="no"):
        await workspaces.open(run_id, "plan", broken)
    assert set(_files(await workspaces.open(run_id, "plan", _seed))) == {"plan.json", "code/train.py"}


async def test_a_runner_that_was_overtaken_does_not_move_the_head(
    store: Store, bus: Bus, tmp_path: Path, run_id: str
) -> None:
    slow, fast = Workspaces(tmp_path / "slow", store, bus), Workspaces(tmp_path / "fast", store, bus)
    await slow.open(run_id, "build", _seed)
    await slow.save(run_id, "build")
    for workspaces, text in ((slow, "slow"), (fast, "fast")):
        ((await workspaces.open(run_id, "build", _no_seed)) / "who").write_text(text)
    head = await fast.save(run_id, "build")
    with pytest.raises(Conflict):
        await slow.save(run_id, "build")
    assert await bus.workspace_head(run_id, "build") == head
    assert ((await slow.open(run_id, "build", _no_seed)) / "who").read_text() == "fast"


async def test_a_store_that_fails_leaves_the_folder_as_it_was(
    store: Store, raw: Any, store_settings: Settings, bus: Bus, tmp_path: Path, run_id: str
) -> None:
    first, second = Workspaces(tmp_path / "one", store, bus), Workspaces(tmp_path / "two", store, bus)
    here = await first.open(run_id, "build", _seed)
    await first.save(run_id, "build")
    there = await second.open(run_id, "build", _no_seed)
    (there / "code" / "train.py").unlink()
    (there / "new").write_text("unique content of new")
    head: Ref = await second.save(run_id, "build")
    bucket = store_settings.s3_bucket_prefix + "work"
    entry = store.get_manifest(head).files["new"].ref
    raw.remove_object(bucket, entry.key)
    before = _files(here)
    with pytest.raises(Exception, match="not in the object store"):
        await first.open(run_id, "build", _no_seed)
    assert _files(here) == before
    store.put_bytes("work", b"unique content of new")
    assert set(_files(await first.open(run_id, "build", _no_seed))) == {"plan.json", "new"}


async def test_readers_share_and_writers_do_not(store: Store, bus: Bus, tmp_path: Path, run_id: str) -> None:
    workspaces = Workspaces(tmp_path, store, bus)
    inside: list[str] = []
    most: dict[str, int] = {"read": 0, "write": 0, "mixed": 0}

    async def use(kind: str) -> None:
        lock = workspaces.reading if kind == "read" else workspaces.writing
        async with lock(run_id, "build") as folder:
            assert folder.parts[-2:] == (run_id, "build")
            inside.append(kind)
            most[kind] = max(most[kind], inside.count(kind))
            most["mixed"] = max(most["mixed"], len(set(inside)))
            await asyncio.sleep(0.01)
            inside.remove(kind)

    await asyncio.gather(*(use(kind) for kind in ("read", "read", "write", "read", "write", "read") * 3))
    assert most["read"] > 1
    assert most["write"] == 1
    assert most["mixed"] == 1


async def test_a_cancelled_call_frees_its_lock(store: Store, bus: Bus, tmp_path: Path, run_id: str) -> None:
    workspaces = Workspaces(tmp_path, store, bus)

    async def hold() -> None:
        async with workspaces.writing(run_id, "build"):
            await asyncio.sleep(60)

    holder = asyncio.create_task(hold())
    await asyncio.sleep(0.01)
    waiter = asyncio.create_task(hold())
    await asyncio.sleep(0.01)
    waiter.cancel()
    holder.cancel()
    await asyncio.gather(holder, waiter, return_exceptions=True)
    async with asyncio.timeout(5), workspaces.reading(run_id, "build"), workspaces.reading(run_id, "build"):
        pass


async def test_a_waiting_writer_goes_before_new_readers(store: Store, bus: Bus, tmp_path: Path, run_id: str) -> None:
    workspaces = Workspaces(tmp_path, store, bus)
    order: list[str] = []

    async def use(kind: str) -> None:
        lock = workspaces.writing if kind == "write" else workspaces.reading
        async with lock(run_id, "build"):
            order.append(kind)
            await asyncio.sleep(0.02)

    calls = []
    for kind in ("read", "write", "read too"):
        calls.append(asyncio.create_task(use(kind)))
        await asyncio.sleep(0.005)
    await asyncio.gather(*calls)
    assert order == ["read", "write", "read too"]
