"""Seeing that a core goes in circles: first it is told, then the work ends."""

from itertools import takewhile
from typing import Any

from shared.contracts.transcript import Observation, Turn

REPEATS = 3
"""The same turn with the same outcome so many times in a row earns a nudge."""


LONGEST = 3
"""Turns of a circle that is seen."""


def repeats(segment: list[Turn | Observation]) -> int:
    """How often the last turn, or the last two or three together, have now been decided in a row, word for word."""
    # Without the provider's ids, which are new in every reply.
    turns = [[(call.name, call.arguments) for call in entry.calls] for entry in segment if isinstance(entry, Turn)]
    return max(_in_a_row(turns[::-1], length) for length in range(1, LONGEST + 1))


def _in_a_row(newest_first: list[Any], length: int) -> int:
    rounds = [newest_first[start : start + length] for start in range(0, len(newest_first), length)]
    return sum(1 for _ in takewhile(lambda one: one == rounds[0], rounds))


def nudge(segment: list[Turn | Observation]) -> list[str]:
    """A remark for the core when it repeats itself; empty otherwise."""
    count = repeats(segment)
    if count < REPEATS:
        return []
    last = next(entry for entry in reversed(segment) if isinstance(entry, Turn))
    done = f"made the same calls {count} times with the same outcome" if last.calls else f"made no call {count} times"
    return [f"You have now {done}. Change the approach."]


def hopeless(segment: list[Turn | Observation]) -> bool:
    """True when the nudge did not help either."""
    return repeats(segment) >= 2 * REPEATS
