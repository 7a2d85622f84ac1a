"""What travels in the feed of a run; apart, so that the command need not import the bus."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Item:
    """One server-sent event; `data` is one line of JSON.

    Kind is an event's kind, `turn`, `progress`, `waiting` or `error`.
    """

    kind: str
    data: str
    id: int | None = None

    def encode(self) -> bytes:
        head = f"id: {self.id}\n" if self.id is not None else ""
        return f"{head}event: {self.kind}\ndata: {self.data}\n\n".encode()
