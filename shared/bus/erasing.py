"""Erasing what the bus holds of a run or dataset, and finding what the rest of it still names in the store."""

from collections.abc import AsyncIterator, Collection, Sequence
from functools import partial
from typing import NamedTuple

from nats.js.api import RawStreamMsg
from nats.js.errors import APIError

from shared.bus.kv import kv_put
from shared.bus.part import Part
from shared.bus.streams import (
    CALLERS,
    CARDS,
    DESIRED,
    DLQ,
    ERASED,
    EVENTS,
    INTAKE,
    LOG,
    SECRETS,
    TOOLS,
    WORKSPACES,
    kv_stream,
    kv_subject,
    results_bucket,
    tool_subject,
    turn_subject,
    turns_stream,
)
from shared.contracts.base import AGENTS
from shared.contracts.erasure import Tombstone
from shared.errors import ServerUnfit

_GONE = (10037, 10043)
_SECONDS = 10.0
_BY_CALL = (*map(results_bucket, CALLERS), DESIRED)
"""Buckets whose keys are ids of calls and jobs, which begin with their run's id where a role asked."""


class Found(NamedTuple):
    place: str
    """In words, for a report."""
    stream: str
    message: RawStreamMsg


class Erasing(Part):
    async def tombstones(self) -> list[Tombstone]:
        """Of everything that was erased, or whose erasing was begun, in the order of time."""
        messages = self.connection.read(kv_stream(ERASED), kv_subject(ERASED, ">"))
        return [Tombstone.model_validate_json(message.data or b"") async for message in messages]

    async def put_tombstone(self, stone: Tombstone) -> None:
        await kv_put(self.connection, ERASED, stone.id, stone.model_dump_json().encode())

    async def newest(self, stream: str) -> int:
        """Sequence of the newest message that a stream holds; 0 when it holds none."""
        found = await self.connection.last(stream, ">")
        return int(found.seq or 0) if found else 0

    async def messages_of(self, erased: Sequence[str], staying: Collection[str]) -> AsyncIterator[Found]:
        """What the bus holds of these runs and datasets, events last: as long as one is there the run is known.

        Of results and wishes everything that is of no run in `staying`: their keys do not always say whose they are.
        """
        for bucket in _BY_CALL:
            async for message in self.connection.read(kv_stream(bucket), kv_subject(bucket, ">")):
                key = message.subject.rpartition(".")[2]
                if not any(key[:end] in staying for end, letter in enumerate(key) if letter == "-"):
                    yield Found("results of calls", kv_stream(bucket), message)
        for one in erased:
            for place, stream, subject in _subjects(one):
                async for message in self.connection.read(stream, subject):
                    yield Found(place, stream, message)

    async def delete(self, found: Found) -> None:
        """Its bytes are overwritten on the server's disk. One that is gone is fine. Raises ServerUnfit where the stream
        was made so that nothing can be deleted."""
        ask = partial(self.connection.js.delete_msg, found.stream, int(found.message.seq or 0))
        try:
            await self.connection.insist(ask, f"delete from {found.stream}", _SECONDS)
        except APIError as error:
            if error.err_code in _GONE:
                return
            raise ServerUnfit(
                f"the stream {found.stream} lets nothing be deleted ({error.description}): it was made by an earlier "
                "version. Erase this system as a whole, or move it to streams of this version"
            ) from error


def _subjects(one: str) -> list[tuple[str, str, str]]:
    """(place, stream, subject) of everything that carries a run's or dataset's id."""
    return [
        *(("transcripts", turns_stream(role), turn_subject(one, role)) for role in AGENTS),
        ("progress of jobs", LOG, f"log.{one}.>"),
        ("queued calls", TOOLS, tool_subject("*", "*", one, "*")),
        ("dead letters", DLQ, f"dlq.*.*.{one}"),
        ("heads of workspaces", kv_stream(WORKSPACES), kv_subject(WORKSPACES, f"{one}.>")),
        ("card and profile", kv_stream(CARDS), kv_subject(CARDS, one)),
        ("secret of surrogates", kv_stream(SECRETS), kv_subject(SECRETS, one)),
        ("index of intake", kv_stream(INTAKE), kv_subject(INTAKE, one)),
        ("events", EVENTS, f"evt.{one}.>"),
    ]
