"""The keeper: a pure function from a run's state to the facts that nobody else owns. Any replica may run it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from services.task_manager.approvals import approval
from services.task_manager.ended import tell_end
from shared.contracts.base import Event
from shared.contracts.questions import QuestionAnswered, QuestionAsked
from shared.contracts.runs import RunFinished
from shared.contracts.state import RunState

if TYPE_CHECKING:
    from shared.service import Context


def keep(state: RunState) -> Event | None:
    """The one fact that now follows from what happened: an approval to ask for, a default as answer, the typed end."""
    if state.finished or state.requested is None:
        return None
    if state.failed:
        return _end(state, cause=state.failed, end=state.failed.end, gate=state.failed.gate, reason=state.failed.reason)
    if state.infeasible:
        found = state.infeasible.finding
        end = "not_supported" if found.claim == "not_supported" else "infeasible"
        return _end(state, cause=state.infeasible, end=end, reason=found.reason)
    if state.cancel:
        # The runner stops the job first; its end is an event and wakes the keeper again.
        return None if state.jobs else _end(state, cause=state.cancel, end="cancelled", reason=state.cancel.reason)
    if state.refused:
        reason = f"{state.refused.by or 'a person'} answered {state.refused.key} with {state.refused.value}"
        return _end(state, cause=state.refused, end="cancelled", reason=reason)
    if state.question:
        return _unattended(state, state.question) if state.requested.unattended else None
    if state.awaiting_approval:
        return approval(state, state.awaiting_approval)
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


def _unattended(state: RunState, asked: QuestionAsked) -> Event:
    default = asked.question.default
    if default is None:
        return _end(state, cause=asked, end="needs_answer", reason=asked.question.text)
    return QuestionAnswered.make(
        run_id=state.run_id, sender="task_manager", cause=asked, key=asked.question.key, value=default, by="default"
    )


def _end(state: RunState, *, cause: Event, **fields: Any) -> RunFinished:
    return RunFinished.make(
        run_id=state.run_id,
        sender="task_manager",
        cause=cause,
        package=state.package,
        spent=state.spent,
        **fields,
    )


async def run_keeper(context: Context) -> None:
    """Look at a run after each of its events and append what is due."""

    async def handle(event: Event) -> None:
        state = await context.bus.state(event.run_id)
        if state.finished == event:
            await tell_end(context.bus, state)
        due = keep(state)
        if due is not None:
            await context.bus.append(due, unless=lambda now: _id(keep(now)) != due.event_id)

    await context.bus.listen("keeper", handle, 1, context.stop)


def _id(event: Event | None) -> str | None:
    return event.event_id if event else None
