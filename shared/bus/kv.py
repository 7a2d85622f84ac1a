"""Small facts that are looked up by key: datacards, heads of workspaces, desired states of jobs."""

import secrets
from collections.abc import AsyncIterator
from typing import Literal

from nats.js.errors import APIError

from shared.bus.connection import Connection, lost_race
from shared.bus.part import Part, readable
from shared.bus.streams import (
    CARDS,
    DESIRED,
    INTAKE,
    LOG,
    SECRETS,
    WEIGHTS,
    WORKSPACES,
    disclosed_subject,
    kv_stream,
    kv_subject,
)
from shared.contracts.base import MAX_MESSAGE_BYTES, Ref
from shared.contracts.disclosure import Disclosed
from shared.contracts.runs import DataCard
from shared.contracts.training import JobProgress
from shared.contracts.weights import Weights

Wish = Literal["run", "stop", "cancel"]


async def kv_get(connection: Connection, bucket: str, key: str) -> bytes | None:
    """The newest value, read from the stream's leader, or None."""
    found = await connection.last(kv_stream(bucket), kv_subject(bucket, key))
    if found is None or "KV-Operation" in (found.headers or {}):
        return None
    return found.data or b""


async def kv_put(connection: Connection, bucket: str, key: str, value: bytes) -> None:
    await connection.publish(kv_subject(bucket, key), _sized(value))


async def kv_create(connection: Connection, bucket: str, key: str, value: bytes) -> bool:
    """False when the key has a value already, which then stays. After a time-out that had landed it is False, too."""
    try:
        await connection.publish(kv_subject(bucket, key), _sized(value), expected=0)
    except APIError as error:
        if lost_race(error):
            return False
        raise
    return True


def _sized(value: bytes) -> bytes:
    if len(value) > MAX_MESSAGE_BYTES:
        raise ValueError(f"a value of {len(value)} bytes; put it into the store and keep a Ref here")
    return value


class Registry(Part):
    """Last write wins in all of these."""

    async def cards(self) -> list[DataCard]:
        """All registered datacards by id."""
        found = [
            DataCard.model_validate_json(message.data)
            async for message in self.connection.read(kv_stream(CARDS), kv_subject(CARDS, ">"))
            if "KV-Operation" not in (message.headers or {})
        ]
        return sorted(found, key=lambda card: card.dataset_id)

    async def card(self, dataset_id: str) -> DataCard | None:
        found = await kv_get(self.connection, CARDS, dataset_id)
        return DataCard.model_validate_json(found) if found else None

    async def put_card(self, card: DataCard) -> None:
        """Register the card, or replace the one with the same dataset_id."""
        await kv_put(self.connection, CARDS, card.dataset_id, card.model_dump_json().encode())

    async def weights(self, dataset_id: str = "") -> list[Weights]:
        """The shelf, by name; for a run on a dataset without those that have learned from it."""
        messages = self.connection.read(kv_stream(WEIGHTS), kv_subject(WEIGHTS, ">"))
        found = [Weights.model_validate_json(message.data or b"") async for message in messages]
        return sorted((one for one in found if dataset_id not in one.learned_from), key=lambda weights: weights.name)

    async def put_weights(self, weights: Weights) -> None:
        """Put them on the shelf, in the place of those with the same name."""
        await kv_put(self.connection, WEIGHTS, weights.name, weights.model_dump_json().encode())

    async def remove_weights(self, name: str) -> None:
        """Take them off the shelf; nothing where they are not on it."""
        async for message in self.connection.read(kv_stream(WEIGHTS), kv_subject(WEIGHTS, name)):
            await self.connection.js.delete_msg(kv_stream(WEIGHTS), int(message.seq or 0))

    async def workspace_head(self, run_id: str, area: str) -> Ref | None:
        """The manifest of the newest synchronised state of a workspace; None when it was never synchronised."""
        found = await kv_get(self.connection, WORKSPACES, f"{run_id}.{area}")
        return Ref.model_validate_json(found) if found else None

    async def set_workspace_head(self, run_id: str, area: str, head: Ref) -> None:
        await kv_put(self.connection, WORKSPACES, f"{run_id}.{area}", head.model_dump_json().encode())

    async def intake_head(self, dataset_id: str) -> Ref | None:
        """What intake has decoded of a dataset (`services.tool_runner.intake.cache`); None when that is nothing."""
        found = await kv_get(self.connection, INTAKE, dataset_id)
        return Ref.model_validate_json(found) if found else None

    async def set_intake_head(self, dataset_id: str, head: Ref) -> None:
        await kv_put(self.connection, INTAKE, dataset_id, head.model_dump_json().encode())

    async def secret(self, run_id: str) -> str:
        """What the surrogates of a run are made with, in hexadecimal; made by whoever asks first."""
        await kv_create(self.connection, SECRETS, run_id, secrets.token_hex(32).encode())
        found = await kv_get(self.connection, SECRETS, run_id)
        assert found is not None
        return found.decode()

    async def put_disclosed(self, disclosed: Disclosed) -> None:
        subject = disclosed_subject(disclosed.run_id, disclosed.role)
        await self.connection.publish(subject, _sized(disclosed.model_dump_json().encode()))

    async def disclosed(self, run_id: str) -> list[Disclosed]:
        """What is on record of a run's requests to models outside of the hospital, oldest first."""
        messages = self.connection.read(LOG, disclosed_subject(run_id, "*"))
        return [one async for message in messages if (one := readable(message, Disclosed.model_validate_json))]

    async def desire(self, job_id: str, wish: Wish) -> None:
        """Say what shall become of a job; the runner that has it obeys. `stop` saves first, `cancel` does not."""
        await kv_put(self.connection, DESIRED, job_id, wish.encode())

    async def watch_desired(self, job_id: str) -> AsyncIterator[str]:
        """What is wished now, if anything was, and each later wish. Never ends: cancel it."""
        async for message in self.connection.tail(kv_stream(DESIRED), kv_subject(DESIRED, job_id)):
            yield (message.data or b"").decode()

    async def progress(self, progress: JobProgress) -> None:
        """Publish how a job is getting on; of each job the last 1,000 are kept."""
        data = progress.model_dump_json(exclude_defaults=True).encode()
        await self.connection.publish(f"log.{progress.run_id}.{progress.job_id}", _sized(data), seconds=10.0)

    async def follow_log(self, run_id: str, job_id: str) -> AsyncIterator[JobProgress]:
        """What is kept of a job's progress, then what comes. Never ends: stop when JobFinished is there."""
        async for message in self.connection.tail(LOG, f"log.{run_id}.{job_id}"):
            if progress := readable(message, JobProgress.model_validate_json):
                yield progress
