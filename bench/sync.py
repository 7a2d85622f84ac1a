"""What a workspace sync costs when nothing changed: 2,000 files, 5 GB, on a real store and bus.

    python bench/sync.py [--files 2000] [--gigabytes 5] [--rounds 9]

Prints the median of a no-op save, of a bare `os.scandir` walk with a `stat` of each file, and their ratio. The files
are sparse and equal: they need little disk, and the first save hashes every byte but uploads one object.
"""

import argparse
import asyncio
import os
import statistics
import tempfile
import time
from pathlib import Path

from services.tool_runner.workspaces import Workspaces
from shared.bus import Bus
from shared.contracts.base import new_run_id
from shared.embedded.nats import start_nats
from shared.embedded.s3 import start_s3
from shared.settings import Settings
from shared.store import Store


def make_tree(folder: Path, files: int, size: int) -> None:
    for number in range(files):
        path = folder / f"part-{number % 50:02d}" / f"{number:06d}.bin"
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as file:
            file.truncate(size)


def walk(folder: str) -> int:
    found = 0
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                found += walk(entry.path)
            else:
                entry.stat(follow_symlinks=False)
                found += 1
    return found


async def measure(files: int, gigabytes: float, rounds: int) -> None:
    with tempfile.TemporaryDirectory(prefix="bench-sync-") as scratch:
        home = Path(scratch)
        nats, s3 = start_nats(home / "nats"), start_s3(home / "s3")
        try:
            settings = Settings(
                home=home,
                nats_url=nats.url,
                s3_endpoint=s3.endpoint,
                s3_access_key=s3.access_key,
                s3_secret_key=s3.secret_key,
            )
            store = Store.connect(settings)
            store.ensure_buckets()
            bus = await Bus.connect(settings, "tool_runner")
            await bus.provision()
            try:
                await _measure(Workspaces(home, store, bus), files, gigabytes, rounds)
            finally:
                await bus.close()
        finally:
            s3.stop()
            nats.stop()


async def _measure(workspaces: Workspaces, files: int, gigabytes: float, rounds: int) -> None:
    run_id, size = new_run_id(), int(gigabytes * 1e9 / files)

    async def seed(folder: Path) -> None:
        await asyncio.to_thread(make_tree, folder, files, size)

    folder = await workspaces.open(run_id, "build", seed)
    await asyncio.sleep(0.1)
    started = time.perf_counter()
    head = await workspaces.save(run_id, "build")
    first = time.perf_counter() - started
    saves, walks, opens = [], [], []
    for _ in range(rounds):
        started = time.perf_counter()
        assert await workspaces.save(run_id, "build") == head
        saves.append(time.perf_counter() - started)
        started = time.perf_counter()
        assert walk(str(folder)) == files
        walks.append(time.perf_counter() - started)
        started = time.perf_counter()
        await workspaces.open(run_id, "build", seed)
        opens.append(time.perf_counter() - started)
    save, bare, opened = (statistics.median(times) * 1000 for times in (saves, walks, opens))
    print(f"{files} files, {gigabytes:g} GB, {rounds} rounds, {os.cpu_count()} cores")
    print(f"first save   {first:8.1f} s   (hashes all, {gigabytes / first * 1000:.0f} MB/s)")
    print(f"no-op save   {save:8.1f} ms  (worst {max(saves) * 1000:.1f})")
    print(f"no-op open   {opened:8.1f} ms")
    print(f"scandir walk {bare:8.1f} ms")
    print(f"ratio        {save / bare:8.1f} x")


def main() -> None:
    arguments = argparse.ArgumentParser(description="Time a workspace sync that has nothing to do.")
    arguments.add_argument("--files", type=int, default=2000)
    arguments.add_argument("--gigabytes", type=float, default=5.0)
    arguments.add_argument("--rounds", type=int, default=9)
    given = arguments.parse_args()
    asyncio.run(measure(given.files, given.gigabytes, given.rounds))


if __name__ == "__main__":
    main()
