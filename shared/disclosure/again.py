"""What left with a request, made again from the transcript: it is stored nowhere."""

import hashlib

from shared.agent.brief import Brief
from shared.contracts.disclosure import Disclosed
from shared.contracts.transcript import Observation, Turn
from shared.disclosure.requests import Outgoing
from shared.errors import UserError


def text_of_turn(one: Disclosed, entries: list[Turn | Observation]) -> str:
    """Brief and dialogue of a request as they left. Raises UserError where they do not come out as they were."""
    before = [entry for entry in entries if entry.number < one.turn]
    start = max((at for at, entry in enumerate(before) if _opens(entry)), default=None)
    if start is not None:
        opened = before[start]
        assert isinstance(opened, Observation) and opened.event
        outgoing = Outgoing(Brief.model_validate(opened.event), one.core, one.blind)
        outgoing.follow(before[start:])
        if hashlib.sha256(outgoing.text.encode("utf-8", "replace")).hexdigest() == one.sha256:
            return outgoing.text
    raise UserError(
        f"what left with turn {one.turn} of {one.role} cannot be made again from the transcript: another version of "
        f"this software sent it. On record is its SHA-256, {one.sha256}"
    )


def _opens(entry: Turn | Observation) -> bool:
    """Whether an order begins with it."""
    return isinstance(entry, Observation) and entry.event is not None and "requested" in entry.event
