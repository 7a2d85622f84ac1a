"""The bus as services see it."""

from collections.abc import Sequence
from typing import Self

from shared.bus.connection import Connection
from shared.bus.consume import RETRY_DELAYS
from shared.bus.erasing import Erasing
from shared.bus.kv import Registry
from shared.bus.streams import provision
from shared.bus.tools import Tools
from shared.bus.transcripts import Transcripts
from shared.settings import Settings


class Bus(Tools, Transcripts, Registry, Erasing):
    """Events, transcripts, tool calls and small facts over one NATS connection. Not for use from several threads."""

    @classmethod
    async def connect(
        cls, settings: Settings, service: str, *, seconds: float = 30.0, retry_delays: Sequence[float] = RETRY_DELAYS
    ) -> Self:
        """Connect as `service`, waiting up to `seconds` for the server. Raises ServerUnfit or PermissionDenied.

        `retry_delays` are the seconds between deliveries of a message whose handler failed.
        """
        return cls(await Connection.open(settings, service, seconds), settings, retry_delays)

    async def close(self) -> None:
        """Flush and close. A second call does nothing."""
        await self.connection.close()

    async def provision(self) -> None:
        """Create streams, consumers and buckets that are missing, with M3_NATS_REPLICAS copies, and bring the others
        into line. Idempotent. Needs the right to manage JetStream. Raises ServerUnfit."""
        replicas = self.settings.nats_replicas or self.connection.usual_replicas
        await provision(self.connection, ack_wait=self.settings.ack_wait_seconds, replicas=replicas)
