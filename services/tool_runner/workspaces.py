"""Workspaces: a local folder for each (run, area), kept so that any runner can take the next call.

The truth is the head, a folder manifest in the store that the bus names. `open` makes the local folder equal to it,
`save` stores what changed and moves the head. One `home` belongs to one runner process: the locks are in memory.
"""

import asyncio
import logging
import os
import shutil
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Protocol
from weakref import WeakValueDictionary

from aiorwlock import RWLock

from services.tool_runner.sandbox import remove_tree
from services.tool_runner.workspace_state import Saved, State, excluded, old_checkpoints
from shared.contracts.base import Ref
from shared.errors import Conflict, ToolBroken, ToolRefused
from shared.store import FileEntry, FolderManifest, Store
from shared.store.client import THREADS, ContentChanged
from shared.store.copies import clone_verified
from shared.store.folders import MAX_DEPTH, Found, Scan, scan
from shared.store.paths import UnsafePath, make_parents, open_inside

MAX_FILES, MAX_BYTES = 100_000, 1 << 40
"""Of a workspace as it is stored; sparse files count with the size that they show."""
MAX_LENT = 16 << 30
"""Bytes of a cache that is copied for another workspace."""
_RACY_NS = 20_000_000
"""A file changed this shortly before a scan may change again under the same time stamp: it is hashed once more."""

Seed = Callable[[Path], Awaitable[None]]


class Heads(Protocol):
    """The two calls of `shared.bus.Bus` that are needed here."""

    async def workspace_head(self, run_id: str, area: str) -> Ref | None: ...
    async def set_workspace_head(self, run_id: str, area: str, ref: Ref) -> None: ...


class _Lock(RWLock):
    """One that is forgotten once nobody holds it: the library's own cannot be referred to weakly."""


class Workspaces:
    def __init__(self, home: Path, store: Store, bus: Heads) -> None:
        self._root = home / "runner" / "ws"
        self._store, self._bus = store, bus
        self._locks: WeakValueDictionary[tuple[str, str], _Lock] = WeakValueDictionary()
        self._syncs: WeakValueDictionary[tuple[str, str], asyncio.Lock] = WeakValueDictionary()

    @asynccontextmanager
    async def reading(self, run_id: str, area: str) -> AsyncIterator[Path]:
        """Hold while a call reads the folder: readers run side by side, a waiting writer goes before new readers."""
        lock = self._locks.setdefault((run_id, area), _Lock())
        async with lock.reader:
            yield self._root / run_id / area

    @asynccontextmanager
    async def writing(self, run_id: str, area: str) -> AsyncIterator[Path]:
        """Hold around a call that writes the folder and its save, but never within `reading`."""
        lock = self._locks.setdefault((run_id, area), _Lock())
        async with lock.writer:
            yield self._root / run_id / area

    async def open(self, run_id: str, area: str, seed: Seed) -> Path:
        """Make the local folder current and return it.

        Local edits that were never saved stay as long as nobody else moved the head (a killed job finds its
        checkpoints); otherwise the head wins and they are removed, caches excepted. `seed` fills an empty folder
        when the workspace has no head; the head appears with the first `save`.
        """
        folder = self._root / run_id / area
        async with self._syncs.setdefault((run_id, area), asyncio.Lock()):
            head = await self._bus.workspace_head(run_id, area)
            if head is None:
                if not folder.is_dir():
                    await self._seed(folder, seed)
                return folder
            if not folder.is_dir() or State.head_of(folder) != head:
                await asyncio.to_thread(self._bring, folder, head)
            return folder

    async def save(self, run_id: str, area: str) -> Ref:
        """Store what changed since the last save and move the head; return it. Unchanged: no request at all.

        A file that is being written to while it is stored stays as it was saved before, and is taken by the next save.
        Raises Conflict when another runner moved the head since `open`: open again and repeat the call. Raises
        ToolRefused, and stores nothing, when the workspace holds more than anybody needs.
        """
        folder = self._root / run_id / area
        async with self._syncs.setdefault((run_id, area), asyncio.Lock()):
            if not folder.is_dir():
                raise ToolBroken(f"the workspace {run_id}/{area} is not open on this runner")
            state = await asyncio.to_thread(State.load, folder)
            now = await asyncio.to_thread(self._upload, folder, state)
            if now is None and state.head:
                return state.head
            now = now or state
            head = await asyncio.to_thread(self._store.put_manifest, "work", now.manifest())
            if head != state.head:
                others = await self._bus.workspace_head(run_id, area)
                if others is not None and others not in (state.head, head):
                    raise Conflict(f"another runner saved the workspace {run_id}/{area} meanwhile; open it again")
                await self._bus.set_workspace_head(run_id, area, head)
            await asyncio.to_thread(State(head, now.files, now.links).dump, folder)
            return head

    def lend_cache(self, run_id: str, area: str, lender: str) -> bool:
        """Copy the `cache` of another workspace of the run, in which nothing works, where this runner has one and
        `area` has none: what is in it is found by content, and need not be made again. Blocks."""
        source, target = (self._root / run_id / name / "cache" for name in (lender, area))
        if not source.is_dir() or source.is_symlink() or target.exists():
            return False
        found = scan(source)
        if sum(file.size for file in found.files.values()) > MAX_LENT:
            return False
        for path in found.files:
            place = make_parents(target, path)
            with suppress(FileNotFoundError), open_inside(source, path) as stream, place.open("xb") as copy:
                shutil.copyfileobj(stream, copy, 1 << 20)
        return True

    @staticmethod
    async def _seed(folder: Path, seed: Seed) -> None:
        partial = folder.with_name(folder.name + ".seed")
        if partial.exists():
            await asyncio.to_thread(shutil.rmtree, partial)
        partial.mkdir(parents=True)
        await seed(partial)
        await asyncio.to_thread(State(None, {}, {}).dump, folder)
        partial.rename(folder)

    def _upload(self, folder: Path, state: State) -> State | None:
        """Upload what changed; None when nothing did."""
        started = time.time_ns()
        found = scan(folder, excluded)
        refuse_flood(found)
        skip = old_checkpoints(found.files)
        files = {path: file for path, file in found.files.items() if path not in skip}
        links = {path: to for path, to in found.links.items() if path not in skip}
        changed = [
            path for path, file in files.items() if (known := state.files.get(path)) is None or known.found != file
        ]
        if not changed and files.keys() == state.files.keys() and links == state.links:
            return None

        def upload(path: str) -> Saved | None:
            saved = self._upload_file(folder, path, files[path], state.files.get(path))
            if saved and max(saved.found.mtime_ns, saved.found.ctime_ns) > started - _RACY_NS:
                return saved.unsettled()
            return saved

        with ThreadPoolExecutor(THREADS) as pool:
            fresh = dict(zip(changed, pool.map(upload, changed), strict=True))
        kept = {path: fresh[path] if path in fresh else state.files[path] for path in files}
        left_out = sum(saved is None for saved in kept.values()) + len(found.refused)
        if left_out:
            logging.getLogger(__name__).warning("%d files of a workspace could not be stored", left_out)
        return State(state.head, {path: saved for path, saved in kept.items() if saved}, links)

    def _upload_file(self, folder: Path, path: str, found: Found, known: Saved | None) -> Saved | None:
        for _ in range(2):
            try:
                with open_inside(folder, path) as stream:
                    ref = self._store.put_stream("work", stream)
                return Saved(found._replace(size=ref.size), ref.sha256)
            except ContentChanged:
                continue
            except (FileNotFoundError, UnsafePath):
                return None
        return known.unsettled() if known else None

    def _bring(self, folder: Path, head: Ref) -> None:
        """Make `folder` equal to `head`, caches excepted. All bytes are here before the first file is touched."""
        manifest, state = self._store.get_manifest(head), State.load(folder)
        folder.mkdir(parents=True, exist_ok=True)
        # Until we are through the folder equals no head; what is known of single files stays true.
        State(None, state.files, state.links).dump(folder)
        local = scan(folder, excluded)
        intact = {
            path: saved
            for path, saved in state.files.items()
            if path in local.files and saved.found == local.files[path]
        }
        same = {saved.sha256: path for path, saved in intact.items()}
        need = [
            (path, entry)
            for path, entry in manifest.files.items()
            if path not in intact or intact[path].sha256 != entry.ref.sha256
        ]
        staging = folder.with_name(folder.name + ".part")
        shutil.rmtree(staging, ignore_errors=True)
        staging.mkdir()

        def stage(item: tuple[int, tuple[str, FileEntry]]) -> None:
            number, (_, entry) = item
            place, twin = staging / str(number), same.get(entry.ref.sha256)
            if twin is None or not clone_verified(folder / twin, place, entry.ref.sha256):
                self._store.get_file(entry.ref, place)

        try:
            with ThreadPoolExecutor(THREADS) as pool:
                list(pool.map(stage, enumerate(need)))
            _remove_others(folder, manifest)
            for number, (path, _) in enumerate(need):
                place = make_parents(folder, path)
                if place.is_dir():
                    # Nothing but caches can be left in it.
                    remove_tree(place)
                (staging / str(number)).replace(place)
        finally:
            shutil.rmtree(staging)
        for path, target in manifest.links.items():
            make_parents(folder, path).symlink_to(target)
        files = {}
        for path, entry in manifest.files.items():
            place = folder / path
            place.chmod(entry.mode & 0o755 | 0o600)
            files[path] = Saved(Found.of(place.lstat()), entry.ref.sha256)
        State(head, files, manifest.links).dump(folder)


def refuse_flood(found: Scan) -> None:
    """Raises ToolRefused for more files or bytes than a workspace or a package may have."""
    size = sum(file.size for file in found.files.values())
    if len(found.files) > MAX_FILES or size > MAX_BYTES:
        raise ToolRefused(
            f"The workspace holds {len(found.files):,} files with {size:,} bytes; at most {MAX_FILES:,} and "
            f"{MAX_BYTES:,} are stored. Remove what is not needed (sparse files count with the size that they show); "
            "what can be made again belongs into a folder called cache or preprocessed, which is never stored."
        )


def _remove_others(folder: Path, manifest: FolderManifest, prefix: str = "") -> None:
    for entry in list(os.scandir(folder)):
        relative = prefix + entry.name
        if excluded(relative):
            continue
        if entry.is_dir(follow_symlinks=False):
            if relative.count("/") >= MAX_DEPTH:  # nothing in it was ever stored
                remove_tree(entry.path)
                continue
            _remove_others(Path(entry.path), manifest, relative + "/")
            with suppress(OSError):
                Path(entry.path).rmdir()
        elif relative not in manifest.files or not entry.is_file(follow_symlinks=False):
            Path(entry.path).unlink()
