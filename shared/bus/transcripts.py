"""A role's transcript: fenced on its own subject, so that a stale replica stops at its next entry."""

import secrets

from nats.js.errors import APIError

from shared.bus.connection import MESSAGE_ID, lost_race
from shared.bus.part import Part, readable
from shared.bus.streams import LOG, turn_subject, turns_stream
from shared.contracts.base import MAX_MESSAGE_BYTES
from shared.contracts.transcript import Observation, Turn, Waiting, decode_entry
from shared.errors import StaleTranscript


class Transcripts(Part):
    async def entries(self, run_id: str, role: str) -> tuple[list[Turn | Observation], int]:
        """The whole transcript, oldest first, and the sequence to give to the next `append_entry` (0 when empty)."""
        found: list[Turn | Observation] = []
        last = 0
        async for message in self.connection.read(turns_stream(role), turn_subject(run_id, role)):
            entry = readable(message, decode_entry)
            found += [entry] if entry else []
            last = int(message.seq)
        return found, last

    async def say_waiting(self, waiting: Waiting) -> None:
        subject = f"log.{waiting.run_id}.{waiting.role}"
        await self.connection.publish(subject, waiting.model_dump_json().encode(), seconds=10.0)

    async def waiting(self, run_id: str, role: str) -> Waiting | None:
        """That the role's model is away, if it was the last that was heard of it."""
        message = await self.connection.last(LOG, f"log.{run_id}.{role}")
        said = readable(message, Waiting.model_validate_json) if message else None
        turn = await self.connection.last(turns_stream(role), turn_subject(run_id, role)) if said else None
        entry = readable(turn, decode_entry) if turn else None
        return said if said and not (entry and entry.number >= said.turn) else None

    async def append_entry(self, entry: Turn | Observation, after: int) -> int:
        """Append behind the sequence `after` and return the new last sequence.

        Raises StaleTranscript when another replica has written since: stop working on this role, it is in other
        hands. Raises ValueError when the entry is over 256 KiB; put long results into the store.
        """
        data = entry.model_dump_json().encode()
        if len(data) > MAX_MESSAGE_BYTES:
            raise ValueError(f"a transcript entry of {len(data)} bytes; put the payload into the store and refer to it")
        subject = turn_subject(entry.run_id, entry.role)
        # The id is of this attempt, not of the turn: two replicas that write turn 3 must not pass for one.
        message_id = secrets.token_hex(12)
        try:
            ack = await self.connection.publish(
                subject, data, message_id=message_id, expected=after, template=turn_subject("{run}", entry.role)
            )
        except APIError as error:
            if not lost_race(error):
                raise
            landed = await self.connection.after(turns_stream(entry.role), subject, after)
            if landed and (landed.headers or {}).get(MESSAGE_ID) == message_id:
                return int(landed.seq)
            raise StaleTranscript(
                f"another replica of {entry.role} has written to the transcript of run {entry.run_id}"
            ) from None
        return int(ack.seq)
