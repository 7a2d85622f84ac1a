"""An observation is one message of the bus: what does not fit goes, least needed first, and is said to be gone."""

import re

from shared.agent.dialogue import cut_off
from shared.contracts.base import MAX_MESSAGE_BYTES
from shared.contracts.tools import ToolResult
from shared.contracts.transcript import Observation, Turn

_ROOM = MAX_MESSAGE_BYTES - 4096
"""A little is left for what is added behind."""
KEPT, _END = 3000, 500
"""Characters of a text that had to be cut, and how many of them are its end."""


def bounded(observation: Observation) -> Observation:
    """Without pictures from the last on, then without values for code, then with shorter texts, until it fits."""
    results = list(observation.results)
    latest = list(reversed(range(len(results))))
    largest = sorted(latest, key=lambda place: -len(results[place].model_dump_json()))
    for lighter, order in ((_unseen, latest), (_valueless, largest), (_cut, largest)):
        for place in order:
            if len(observation.model_dump_json().encode()) <= _ROOM:
                return observation
            results[place] = lighter(results[place])
            observation = observation.model_copy(update={"results": tuple(results)})
    return observation


def bounded_turn(turn: Turn) -> Turn:
    """Without the model's reasoning, then without its calls, where a turn would be no message of the bus."""
    if len(turn.model_dump_json().encode()) <= _ROOM:
        return turn
    turn = turn.model_copy(update={"kept": None})
    if len(turn.model_dump_json().encode()) <= _ROOM:
        return turn
    # Cut between words: of half a name nobody knows that it was hidden.
    text = re.sub(r"\S*\Z", "", turn.text[:KEPT]) if len(turn.text) > KEPT else turn.text
    return turn.model_copy(update={"text": text, "calls": (), "remark": cut_off("it is too long")})


def _unseen(result: ToolResult) -> ToolResult:
    if not result.pictures:
        return result
    said = f"{result.summary}\n(Not shown: a turn has no room for more pictures. Look at it in a turn of its own.)"
    return result.model_copy(update={"pictures": (), "summary": said})


def _valueless(result: ToolResult) -> ToolResult:
    return result.model_copy(update={"data": {}})


def _cut(result: ToolResult) -> ToolResult:
    if len(result.summary) <= KEPT:
        return result
    gone = len(result.summary) - KEPT
    gone_for = f"[... {gone:,} characters left out: a turn has no room for them, ask for less ...]"
    said = f"{result.summary[: KEPT - _END]}\n{gone_for}\n{result.summary[-_END:]}"
    return result.model_copy(update={"summary": said, "truncated": True})
