"""The keeper: a pure function from a run's state to the facts that nobody else owns. Any replica may run it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from shared.contracts.base import Event
from shared.contracts.runs import RunFinished
from shared.contracts.state import RunState

if TYPE_CHECKING:
    from shared.service import Context


def keep(state: RunState) -> RunFinished | None:
    """The typed end of a run, as soon as it follows from what happened."""
    if state.finished or state.requested is None:
        return None
    if state.failed:
        return _end(state, cause=state.failed, end=state.failed.end, gate=state.failed.gate, reason=state.failed.reason)
    if state.infeasible:
        return _end(state, cause=state.infeasible, end="infeasible", reason=state.infeasible.finding.reason)
    if state.cancel:
        # The runner stops the job first; its end is an event and wakes the keeper again.
        return None if state.jobs else _end(state, cause=state.cancel, end="cancelled", reason=state.cancel.reason)
    if state.scored:
        failed = next((gate for gate in state.scored.gates if not gate.passed), None)
        if state.scored.level in ("valid", "useful"):
            return _end(state, cause=state.scored, end="succeeded", level=state.scored.level)
        return _end(
            state,
            cause=state.scored,
            end="failed_gate",
            level=state.scored.level,
            gate=failed.name if failed else "scoring",
            reason=failed.evidence if failed else "the score reached no level",
        )
    return None


def _end(state: RunState, *, cause: Event, **fields: Any) -> RunFinished:
    return RunFinished.make(
        run_id=state.run_id,
        sender="task_manager",
        cause=cause,
        package=state.trained.package if state.trained else None,
        spent=state.spent,
        **fields,
    )


async def run_keeper(context: Context) -> None:
    """Look at a run after each of its events and append its end when it is due."""

    async def handle(event: Event) -> None:
        end = keep(await context.bus.state(event.run_id))
        if end is not None:
            await context.bus.append(end, unless=lambda now: now.finished is not None)

    await context.bus.listen("keeper", handle, 1, context.stop)
