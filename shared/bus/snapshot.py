"""Streams as files, consumers and what they acknowledged among it, and back, through the server's own snapshots."""

import asyncio
import json
import os
from pathlib import Path
from typing import Any

from shared.bus.connection import Connection
from shared.errors import ServerUnfit, UserError

CHUNK = 128 << 10
_EXISTS = 10130
_PATIENCE = 60.0
"""Seconds that the server may take for one chunk."""


async def save_stream(connection: Connection, stream: str, path: Path) -> int:
    """Write the stream to `path`, and what it is (its configuration and state, JSON) beside it. -> messages.

    The stream is in use meanwhile; what comes later is not in it. Raises ServerUnfit.
    """
    place = f"{connection.inbox}.snapshot.{os.urandom(8).hex()}"
    arriving = await connection.client.subscribe(place, pending_bytes_limit=1 << 30)
    try:
        wanted = {"deliver_subject": place, "no_consumers": False, "chunk_size": CHUNK}
        found = await _ask(connection, f"$JS.API.STREAM.SNAPSHOT.{stream}", wanted)
        with path.open("wb") as file:
            while chunk := await _next(arriving, stream):
                await asyncio.to_thread(file.write, chunk.data)
                if chunk.reply:  # the server sends so much more for each answer
                    await connection.client.publish(chunk.reply, b"")
    finally:
        await arriving.unsubscribe()
    path.with_suffix(".json").write_text(json.dumps({"config": found["config"], "state": found["state"]}))
    return int(found["state"]["messages"])


async def load_stream(connection: Connection, stream: str, path: Path, replicas: int) -> None:
    """Make the stream of what `save_stream` wrote, with so many copies. Raises UserError where there is one already."""
    saved = json.loads(path.with_suffix(".json").read_text())
    wanted = saved | {"config": saved["config"] | {"num_replicas": replicas}}
    found = await _ask(connection, f"$JS.API.STREAM.RESTORE.{stream}", wanted)
    place = str(found["deliver_subject"])
    with path.open("rb") as file:
        # Nothing at last is its end.
        while chunk := await asyncio.to_thread(file.read, CHUNK):
            _refusal(stream, await connection.client.request(place, chunk, timeout=_PATIENCE))
        _refusal(stream, await connection.client.request(place, b"", timeout=_PATIENCE))


async def _next(arriving: Any, stream: str) -> Any:
    """A chunk; None at the end."""
    message = await arriving.next_msg(_PATIENCE)
    if message.data:
        return message
    status = (message.headers or {}).get("Status", "204")
    if status not in ("204", "200"):
        raise ServerUnfit(f"the NATS server broke off the snapshot of {stream} ({status}): take the backup again")
    return None


async def _ask(connection: Connection, subject: str, wanted: dict[str, Any]) -> dict[str, Any]:
    answer = await connection.client.request(subject, json.dumps(wanted).encode(), timeout=_PATIENCE)
    return _refusal(subject.rpartition(".")[2], answer)


def _refusal(stream: str, answer: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(answer.data or b"{}")
    error = found.get("error") or {}
    if error.get("err_code") == _EXISTS:
        raise UserError(f"The bus has a stream {stream} already: restore into a system in which nothing was made yet.")
    if error:
        raise ServerUnfit(f"the NATS server refused the snapshot of {stream}: {error.get('description')}")
    return found
