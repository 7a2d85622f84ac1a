"""Seeing that a core goes in circles: first it is told, then the work ends."""

from shared.contracts.transcript import Observation, Turn

REPEATS = 3
"""The same turn with the same outcome so many times in a row earns a nudge."""


def repeats(segment: list[Turn | Observation]) -> int:
    """How often the last turn has now been decided in a row, word for word."""
    # Without the provider's ids, which are new in every reply.
    turns = [[(call.name, call.arguments) for call in entry.calls] for entry in segment if isinstance(entry, Turn)]
    count = 0
    for calls in reversed(turns):
        if calls != turns[-1]:
            break
        count += 1
    return count


def nudge(segment: list[Turn | Observation]) -> list[str]:
    """A remark for the core when it repeats itself; empty otherwise."""
    count = repeats(segment)
    if count < REPEATS:
        return []
    return [f"You have now made the same calls {count} times with the same outcome. Change the approach."]


def hopeless(segment: list[Turn | Observation]) -> bool:
    """True when the nudge did not help either."""
    return repeats(segment) >= 2 * REPEATS
