"""What a run may spend: bounds that act, a sentence that tells what is used, and one warning near the end."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from shared.contracts.base import Spent
from shared.contracts.state import RunState
from shared.contracts.transcript import Observation, Turn
from shared.errors import M3Error

NEAR = 0.8
"""Share of a bound from which a role is told to come to an end."""


class OutOfBudget(M3Error):
    """The run may take no further action: `bound` is the name of what is used up, `used_up` how much that was."""

    def __init__(self, bound: str, used_up: float) -> None:
        super().__init__(f"the run's budget of {used_up:g} {bound} is used up")
        self.bound = bound
        self.used_up = used_up


@dataclass(frozen=True)
class Bound:
    """One of the budget's figures that is set; `name` as `Budget` has it."""

    name: str
    most: float
    used: float

    @property
    def left(self) -> float:
        return max(0.0, self.most - self.used)

    def __str__(self) -> str:
        return f"{min(self.used, self.most):,.4g} of {self.most:,.6g} {WORDS[self.name]}"


WORDS = {
    "actions": "tool calls",
    "tokens": "tokens",
    "usd": "USD",
    "gpu_seconds": "GPU seconds",
    "wall_seconds": "seconds in all",
}


def bounds(state: RunState, spent: Spent, now: datetime) -> tuple[Bound, ...]:
    """What bounds a run of which `spent` is not in its events yet. Not counted is time with an open question, and that
    in which a model was away."""
    total = state.spent + spent
    used = {
        "actions": total.actions,
        "tokens": total.input_tokens + total.output_tokens,
        "usd": total.usd,
        "gpu_seconds": total.gpu_seconds,
        "wall_seconds": max(0.0, now.timestamp() - state.first_at - state.waited - total.away_seconds),
    }
    most = {name: getattr(state.budget, name) for name in used}
    return tuple(Bound(name, most[name], used[name]) for name in used if most[name] is not None)


def check(found: Iterable[Bound]) -> None:
    """Raises OutOfBudget for the first bound that is reached."""
    for bound in found:
        if bound.used >= bound.most:
            raise OutOfBudget(bound.name, bound.most)


def seconds_left(found: Iterable[Bound]) -> float:
    """How long a job may take at most: a second of it costs one of the wall, and on a GPU one of the GPU at least."""
    return min((one.left for one in found if one.name in ("wall_seconds", "gpu_seconds")), default=float("inf"))


def told(found: Iterable[Bound], entries: Iterable[Turn | Observation] = ()) -> str:
    """What is used, in a sentence; with a second one for a bound that is near and was not told so in `entries`."""
    found = tuple(found)
    if not found:
        return ""
    before = " ".join(entry.budget for entry in entries if isinstance(entry, Observation))
    warnings = [
        f"Little is left of the {one.most:,.6g} {WORDS[one.name]}: submit the best that you have."
        for one in found
        if one.used >= NEAR * one.most
    ]
    return " ".join(
        [f"Used of the run's budget: {', '.join(map(str, found))}.", *(text for text in warnings if text not in before)]
    )
