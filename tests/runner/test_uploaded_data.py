"""Uploaded datasets over time: a bad one ends its run at a gate with the reason, old copies make room for new ones."""

import asyncio
import io
import os
import struct
import subprocess
import sys
import time
import unicodedata
import zipfile
from pathlib import Path

import pytest

from services.agent import AgentService
from services.data_engineer.role import ROLE
from services.task_manager.keeper import keep
from services.tool_runner.archives import NoRoom, make_room, unpacked
from services.tool_runner.mounts import Mounts
from services.tool_runner.runner import Runner
from shared.bus import Bus
from shared.contracts.base import Ref, new_run_id
from shared.contracts.runs import TaskPlanned
from shared.service import Context
from shared.settings import Settings
from shared.store import Store
from shared.store.archive_rules import ArchiveRefused, Limits
from shared.store.archives import check_listing
from tests.cases import begun


def packed(*names: str) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name in names:
            archive.writestr(name, name)
    return out.getvalue()


async def planned(bus: Bus, archive: Ref) -> TaskPlanned:
    asked, event = begun(new_run_id(), {"archive": archive})
    await bus.append(asked)
    await bus.append(event)
    return event


async def test_an_archive_that_only_the_runner_notices_fails_a_gate_and_names_the_member(
    bus: Bus, settings: Settings, store: Store
) -> None:
    content = packed("a.png")
    bad = content.replace(b"a.png", b"b.png", 1)  # its listing is in order, its content is not
    event = await planned(bus, store.put_bytes("data", bad))
    context = Context(name="data_engineer", settings=settings, bus=bus)
    runner, stop = Runner(context, "bwrap"), asyncio.Event()

    async def no_job(*_: object) -> None:
        raise AssertionError("no job is asked for here")

    serving = asyncio.create_task(bus.serve_tools("data", runner.on_call, no_job, 1, stop))
    try:
        await AgentService(ROLE, context).handle(event)
    finally:
        stop.set()
        await serving
    end = keep(await bus.state(event.run_id))
    assert end is not None
    assert (end.end, end.gate) == ("failed_gate", "dataset_available")
    assert "a.png" in end.reason and "cannot be unpacked" in end.reason


def copy_of(store: Store, settings: Settings, name: str, hours: float) -> tuple[Ref, Path]:
    """An unpacked upload that was used that long ago."""
    archive = store.put_bytes("data", packed(name))
    folder = asyncio.run(unpacked(archive, store, settings))
    then = time.time() - hours * 3600
    os.utime(folder.with_suffix(".lock"), (then, then))
    return archive, folder


def test_room_is_made_by_the_copies_that_nobody_uses(store: Store, settings: Settings) -> None:
    _, old = copy_of(store, settings, "old", 50)
    live_archive, live = copy_of(store, settings, "live", 90)
    _, fresh = copy_of(store, settings, "fresh", 0.2)
    datasets = old.parent
    (datasets / "notes").mkdir()
    (datasets / ("f" * 64)).mkdir()  # called like a copy, but nobody unpacked it
    make_room(datasets, 1 << 62, {live_archive.sha256})
    assert not old.exists() and live.is_dir() and fresh.is_dir()
    assert {path.name for path in datasets.iterdir() if path.is_dir()} == {live.name, fresh.name, "notes", "f" * 64}


def test_the_copy_unused_for_longest_goes_first_and_no_more_than_needed(store: Store, settings: Settings) -> None:
    copies = [copy_of(store, settings, name, hours)[1] for name, hours in (("a", 5), ("b", 9), ("c", 7))]
    make_room(copies[0].parent, 1, ())
    assert all(copy.is_dir() for copy in copies), "there is room"


async def test_an_upload_without_room_removes_only_what_no_live_run_uses(
    bus: Bus, settings: Settings, store: Store
) -> None:
    idle_archive, idle = await asyncio.to_thread(copy_of, store, settings, "idle", 50)
    live_archive, live = await asyncio.to_thread(copy_of, store, settings, "in use", 50)
    await planned(bus, live_archive)
    huge = idle_archive.model_copy(update={"sha256": "0" * 64, "key": "huge", "size": 1 << 60})
    state = await bus.state((await planned(bus, huge)).run_id)
    with pytest.raises(NoRoom, match="bytes free"):
        await Mounts(settings, store, bus).dataset(state)
    assert live.is_dir() and not idle.exists()


def test_names_that_differ_by_their_spelling_in_bytes_only_are_one(tmp_path: Path) -> None:
    names = [unicodedata.normalize(form, "größe.png") for form in ("NFC", "NFD")]
    (tmp_path / "archive").write_bytes(packed(*names))
    with pytest.raises(ArchiveRefused, match="occurs twice"):
        check_listing(tmp_path / "archive", Limits(1 << 20, 1 << 20, 10))


def test_memory_does_not_grow_with_the_listing_of_a_zip(tmp_path: Path) -> None:
    """A million entries of 47 bytes, looked at by a process with little to live on."""
    content = packed("a")
    start, end = content.index(b"PK\1\2"), content.index(b"PK\5\6")
    entry, count = content[start:end], 1_000_000
    listing = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 0xFFFF, 0xFFFF, count * len(entry), start, 0)
    (tmp_path / "archive").write_bytes(content[:start] + entry * count + listing)
    code = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_DATA, (200 << 20, 200 << 20))\n"
        "from pathlib import Path\nfrom shared.store.archives import check_listing\n"
        "from shared.store.archive_rules import Limits\n"
        "check_listing(Path(sys.argv[1]), Limits(1 << 30, 1 << 30, 1000))"
    )
    argv = [sys.executable, "-c", code, str(tmp_path / "archive")]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert "more than 2000 entries" in done.stderr and "MemoryError" not in done.stderr
