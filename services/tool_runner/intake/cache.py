"""What intake has decoded of a dataset before, so that it is not decoded again.

In the bucket `cases` lies an index of segments, named by the bus; each batch of an intake job is one. A segment is
two objects: a `Kept` a line, in the bucket `sealed` since it holds what headers say, and a `shared.looks.RECORD` for
each in the same order. The index also names what searches for rules found, by all that this follows from. Everything
was written by a runner. Entries of two jobs that end in the same instant may be lost, which costs their work again.
"""

import asyncio
import glob
import hashlib
import json
import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from pathlib import Path
from typing import Protocol

from pydantic import JsonValue, ValidationError

from shared.contracts.base import Contract, Ref
from shared.contracts.cases import CaseSpec
from shared.contracts.wrapping import Wrapping
from shared.dataset.intake.intake_records import VERSION, Order
from shared.imaging.formats import stem_of, suffix_of
from shared.looks import RECORD
from shared.store import Store
from shared.store.client import THREADS

BUCKET = "cases"
_NOT_CONTENT = {"key", "patient", "label", "text", "split", "groups"}
"""Of a CaseSpec: what does not change its canonical files."""
_AT_ONCE = 100
"""Cases that a thread takes at a time."""
_HEADERS = (".hdr", ".hdr.gz", ".mhd", ".nhdr")


class Kept(Contract):
    """One case as it was decoded: where its canonical files lie, or why there are none."""

    digest: str = ""
    """Its own, by which it is found again (`digests_of`)."""
    images: tuple[Ref, ...] = ()
    mask: Ref | None = None
    values: tuple[int, ...] = ()
    facts: dict[str, JsonValue] = {}
    wrapping: Wrapping = Wrapping()
    left_out: str = ""
    lasting: bool = True
    """Whether the same files would give the same again, on any machine; what is not is tried again by the next job."""


class Segment(Contract):
    records: Ref
    looks: Ref


class Index(Contract):
    version: str = VERSION
    segments: tuple[Segment, ...] = ()
    searches: dict[str, Ref] = {}
    """Digest of what was searched, and for what -> a `Proposal` a line, in the bucket `sealed`."""


class Heads(Protocol):
    """The two calls of `shared.bus.Bus` that are needed here."""

    async def intake_head(self, dataset_id: str) -> Ref | None: ...
    async def set_intake_head(self, dataset_id: str, head: Ref) -> None: ...


def digests_of(specs: Sequence[CaseSpec], root: Path, order: Order, stamp: str | None) -> list[str | None]:
    """SHA-256 of what the canonical files of each case follow from; None where a file of it is missing; blocks.

    Files count with path, size and `stamp`: the content of the archive they came from, else the time of their change.
    """
    fixed = f"{VERSION}|{order.dimensions}|{order.axis4}|{order.masks}|"

    def one(spec: CaseSpec) -> str | None:
        found = hashlib.sha256(fixed.encode() + spec.model_dump_json(exclude=_NOT_CONTENT).encode())
        try:
            for file in files_of(spec, root):
                at = os.stat(f"{root}/{file}")  # noqa: PTH116  (a third of the time of Path.stat)
                found.update(f"|{file}|{at.st_size}|{stamp or at.st_mtime_ns}".encode(errors="surrogateescape"))
        except (OSError, ValueError):
            return None
        return found.hexdigest()

    parts = [specs[start : start + _AT_ONCE] for start in range(0, len(specs), _AT_ONCE)]
    with ThreadPoolExecutor(THREADS) as pool:
        return list(chain.from_iterable(pool.map(lambda part: list(map(one, part)), parts)))


def files_of(spec: CaseSpec, root: Path) -> Iterable[str]:
    """Of images and masks, with the files that hold the voxels of a header."""
    parts = (part.files for channels in spec.images for part in channels)
    for files in (*parts, *(mask.files for mask in spec.masks)):
        yield from files
        for file in files:
            if suffix_of(file) in _HEADERS:
                beside = (root / file).parent.glob(f"{glob.escape(stem_of(file))}.*")
                yield from sorted(path.relative_to(root).as_posix() for path in beside)


class Cache:
    """Of one dataset."""

    def __init__(self, heads: Heads, store: Store, dataset_id: str) -> None:
        self._heads, self._store, self._dataset = heads, store, dataset_id
        self._known: dict[str, tuple[bytes, Segment, int]] = {}
        """Digest -> line, its segment, its place there."""

    async def load(self) -> None:
        for segment in (await self._index()).segments:
            await asyncio.to_thread(self.learn, segment, lasting=True)

    def learn(self, segment: Segment, *, lasting: bool) -> None:
        """Know what a batch has decoded, of it only what is `lasting` where that is set; blocks."""
        for number, line in enumerate(self._store.get_bytes(segment.records).splitlines()):
            found = json.loads(line)
            if not lasting or found.get("lasting", True):
                self._known[found["digest"]] = (line, segment, number)

    def __contains__(self, digest: str | None) -> bool:
        return digest in self._known

    def __getitem__(self, digest: str) -> Kept:
        return Kept.model_validate_json(self._known[digest][0])

    async def found(self, search: str) -> Ref | None:
        """What the search of this digest has found; None where nothing is known of it."""
        return (await self._index()).searches.get(search)

    async def add(self, segments: Sequence[Segment] = (), searches: Mapping[str, Ref] = {}) -> None:
        """Keep them for later jobs."""
        # Read again: another job may have added to it meanwhile.
        index = await self._index()
        segments = tuple(dict.fromkeys((*index.segments, *segments)))
        grown = index.model_copy(update={"segments": segments, "searches": index.searches | dict(searches)})
        ref = await asyncio.to_thread(
            self._store.put_bytes, BUCKET, grown.model_dump_json().encode(), "application/json"
        )
        await self._heads.set_intake_head(self._dataset, ref)

    def looks(self, digests: Sequence[str], scratch: Path) -> Ref:
        """Store the records of these cases, one after the other, in the bucket sealed; blocks."""
        scratch.mkdir(parents=True)
        try:
            out = scratch / "looks"
            places = self._places(digests)
            with out.open("wb") as target:
                target.truncate(len(digests) * RECORD.itemsize)
                for segment, wanted in places.items():
                    self._store.get_file(segment.looks, scratch / "segment")
                    with (scratch / "segment").open("rb") as source:
                        for at, number in wanted:
                            record = os.pread(source.fileno(), RECORD.itemsize, number * RECORD.itemsize)
                            os.pwrite(target.fileno(), record, at * RECORD.itemsize)
            return self._store.put_file("sealed", out)
        finally:
            shutil.rmtree(scratch)

    def _places(self, digests: Sequence[str]) -> dict[Segment, list[tuple[int, int]]]:
        """Segment -> (place in the list, place in the segment)."""
        found: dict[Segment, list[tuple[int, int]]] = {}
        for at, digest in enumerate(digests):
            _, segment, number = self._known[digest]
            found.setdefault(segment, []).append((at, number))
        return found

    async def _index(self) -> Index:
        head = await self._heads.intake_head(self._dataset)
        if head is None:
            return Index()
        try:
            found = Index.model_validate_json(await asyncio.to_thread(self._store.get_bytes, head))
        except ValidationError:  # of another version of ours
            return Index()
        return found if found.version == VERSION else Index()
