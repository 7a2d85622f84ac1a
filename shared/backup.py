"""A folder with everything that bus and store hold, made while they are in use, and a system made of it.

Objects never change and are named by messages, so the bus is saved first: what its messages name is then there. What a
run did after that it does again.

`python -m shared.backup save|load FOLDER` does it for a cluster, with the operator's users in the environment;
`m3builder backup` and `m3builder restore` for the embedded system.
"""

import argparse
import asyncio
import json
import os
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from shared.bus import Bus
from shared.bus.snapshot import load_stream, save_stream
from shared.bus.streams import EVENTS, FENCE, stream_configs
from shared.contracts.base import Ref
from shared.errors import M3Error, UserError
from shared.settings import Settings, from_environment
from shared.store import BUCKETS, Store
from shared.store.client import THREADS, ref_of

Tell = Callable[[str], None]
MARK = "backup.json"
"""Written last: a folder without it is no whole backup."""
BEGUN = "backup.part"
"""There from the first moment to the last: with it or MARK a folder is ours, and what was erased may go from it."""
# The truth first: what others say of a run may be newer than its events, never older.
STREAMS = [EVENTS, *(str(one.name) for one in stream_configs() if one.name not in (EVENTS, FENCE))]


class Saved(NamedTuple):
    messages: int
    objects: int
    bytes: int


async def save(settings: Settings, folder: Path, tell: Tell) -> Saved:
    """Write all streams and objects into `folder`, with the operator's users. A folder that holds an earlier backup is
    brought up to date: objects that it has are not read again, and those that were erased go.

    Raises UserError for a folder with something else in it, and what bus and store raise.
    """
    _usable(folder)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    (folder / BEGUN).touch()
    (folder / MARK).unlink(missing_ok=True)
    bus = await Bus.connect(settings, "operator", seconds=settings.start_seconds)
    messages = 0
    try:
        (folder / "bus").mkdir(exist_ok=True)
        for stream in STREAMS:
            tell(f"stream {stream}")
            messages += await save_stream(bus.connection, stream, folder / "bus" / stream)
    finally:
        await bus.close()
    tell("objects")
    objects, size = await asyncio.to_thread(_save_objects, Store.connect(settings), folder / "store")
    told = {"at": datetime.now(UTC).isoformat(), "messages": messages, "objects": objects, "bytes": size}
    (folder / MARK).write_text(json.dumps(told))
    (folder / BEGUN).unlink()
    return Saved(messages, objects, size)


async def load(settings: Settings, folder: Path, tell: Tell) -> Saved:
    """Fill an empty bus and store from a backup. Each object is hashed on its way. Raises UserError for a folder that
    is no whole backup, an object in it that was changed, and a bus that holds streams."""
    if not (folder / MARK).is_file():
        raise UserError(f"{folder} is no backup, or one that was not finished: `m3builder backup {folder}` makes one.")
    told = json.loads((folder / MARK).read_text())
    store = Store.connect(settings)
    await asyncio.to_thread(store.ensure_buckets, settings.start_seconds)
    tell("objects")
    await asyncio.to_thread(_load_objects, store, folder / "store")
    bus = await Bus.connect(settings, "operator", seconds=settings.start_seconds)
    try:
        for stream in reversed(STREAMS):
            tell(f"stream {stream}")
            replicas = settings.nats_replicas or bus.connection.usual_replicas
            await load_stream(bus.connection, stream, folder / "bus" / stream, replicas)
        await bus.provision()
    finally:
        await bus.close()
    return Saved(told["messages"], told["objects"], told["bytes"])


def _usable(folder: Path) -> None:
    there = {path.name for path in folder.iterdir()} if folder.exists() else set()
    if there and (not there & {MARK, BEGUN} or there - {MARK, BEGUN, "bus", "store", "audit"}):
        raise UserError(f"{folder} holds something else than a backup: name a folder that is empty, or a backup.")


def _save_objects(store: Store, folder: Path) -> tuple[int, int]:
    there = [ref for bucket in BUCKETS for ref in _listed(store, bucket)]
    gone = {path for path in folder.rglob("*") if path.is_file()} - {folder / ref.bucket / ref.key for ref in there}
    for path in gone:
        path.unlink()

    def fetch(ref: Ref) -> None:
        path = folder / ref.bucket / ref.key
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            store.get_file(ref, path)

    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(fetch, there))
    return len(there), sum(ref.size for ref in there)


def _listed(store: Store, bucket: str) -> Iterator[Ref]:
    for key, size in store.listed(bucket):
        if key.startswith("sha256/"):  # all content of ours
            yield ref_of(bucket, key.rpartition("/")[2], size)


def _load_objects(store: Store, folder: Path) -> None:
    def put(path: Path) -> None:
        bucket = path.relative_to(folder).parts[0]
        if store.put_file(bucket, path).key != path.relative_to(folder / bucket).as_posix():
            raise UserError(f"{path} of the backup is not what was saved: take it from another copy of the backup.")

    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(put, (path for path in folder.rglob("*") if path.is_file())))


def main() -> int:
    parser = argparse.ArgumentParser(description="Save bus and store of a cluster into a folder, or fill empty ones.")
    parser.add_argument("what", choices=["save", "load"])
    parser.add_argument("folder", type=Path)
    given = parser.parse_args()
    os.umask(0o077)
    try:
        work = {"save": save, "load": load}[given.what]
        done = asyncio.run(work(from_environment(), given.folder, lambda text: print(text, file=sys.stderr)))
    except M3Error as error:
        print(error, file=sys.stderr)
        return 1
    print(f"{done.messages:,} messages, {done.objects:,} objects, {done.bytes:,} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
