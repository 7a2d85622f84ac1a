"""What left with a request, made again from the transcript: it is stored nowhere."""

import hashlib

from shared.agent.brief import Brief
from shared.agent.solo import Entries, going_on
from shared.contracts.disclosure import Disclosed
from shared.contracts.transcript import Observation, Turn
from shared.disclosure.requests import Outgoing
from shared.errors import UserError


def text_of_turn(one: Disclosed, entries: Entries, earlier: Entries) -> str:
    """Brief and dialogue of a request as they left; `earlier` are the entries of the role whose conversation goes on,
    in a run without collaboration. Raises UserError where they do not come out as they were."""
    before = [entry for entry in entries if entry.number < one.turn]
    start = max((at for at, entry in enumerate(before) if _opens(entry)), default=None)
    if start is not None:
        opened = before[start]
        assert isinstance(opened, Observation) and opened.event
        brief, segment = going_on(earlier, Brief.model_validate(opened.event), before[start:])
        outgoing = Outgoing(brief, one.core, one.blind)
        outgoing.follow(segment)
        if hashlib.sha256(outgoing.text.encode("utf-8", "replace")).hexdigest() == one.sha256:
            return outgoing.text
    raise UserError(
        f"what left with turn {one.turn} of {one.role} cannot be made again from the transcript: another version of "
        f"this software sent it. On record is its SHA-256, {one.sha256}"
    )


def _opens(entry: Turn | Observation) -> bool:
    """Whether an order begins with it."""
    return isinstance(entry, Observation) and entry.event is not None and "requested" in entry.event
