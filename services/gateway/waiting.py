"""What a run that waits for a dataset tells a person: why no card fits, and the command that helps."""

from collections.abc import Sequence

from shared.contracts.base import Event
from shared.contracts.runs import DatasetNeeded
from shared.contracts.state import fold

ADD = "m3builder dataset add DIR_OR_ARCHIVE --card FILE"
HELP = f"`{ADD}` adds one below a data root, with --upload from another machine; the run goes on once one fits"


def reasons(needed: DatasetNeeded) -> str:
    """A line a card, and the way out."""
    refused = needed.missing.refused
    width = max((len(one.dataset_id) for one in refused), default=0)
    lines = [f"  {one.dataset_id:<{width}}  {one.reason}" for one in refused] or ["  no dataset is registered yet"]
    return "\n".join([*lines, f"  {HELP}"])


def waiting(events: Sequence[tuple[int, Event]]) -> str:
    """The reasons while a run waits, else nothing."""
    state = fold(events[0][1].run_id, events) if events else None
    if state is None or state.needed is None or state.finished:
        return ""
    return f"Why no dataset fits:\n{reasons(state.needed)}\n"
