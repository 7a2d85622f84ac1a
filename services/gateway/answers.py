"""Answers over HTTP: what a person says to the open question of a run."""

from fastapi import APIRouter, Request

from services.gateway import bodies, checks
from services.gateway.parts import PROBLEMS, Known, Parts, Run, Who, state_of
from services.gateway.questions import answered
from shared.contracts.questions import UNSAID, QuestionAnswered, QuestionAsked
from shared.contracts.state import RunState
from shared.errors import UserError

router = APIRouter(responses=PROBLEMS)


@router.post("/runs/{run_id}/answers", tags=["runs"])
async def answer_run(run_id: Run, body: bodies.NewAnswer, parts: Known, who: Who, request: Request) -> bodies.RunStatus:
    """Answer the open question of a run, which then goes on. The same answer again changes nothing; another is a 422.

    What a question wants stands in `question` of GET /runs/{run_id}.
    """
    state = await state_of(parts, run_id)
    asked = _open(state, body.key)
    if asked is None:
        return await _again(state, body, parts)
    approval = asked.question.wants == "approval"
    if approval and body.value.strip() != UNSAID and "approve" not in who.rights:
        raise parts.identities.lacks("approve", who)
    value = checks.answer(asked.question, body.value, await parts.bus.cards())
    answer = QuestionAnswered.make(run_id=run_id, sender="gateway", cause=asked, key=body.key, value=value, by=who.name)
    state = await parts.bus.append(answer, unless=lambda now: _open(now, body.key) != asked)
    if not any(event == answer for _, event in await parts.bus.events(run_id)):
        # Somebody else was faster.
        return await _again(state, body, parts)
    request.state.note = f"{body.key}: {value}" if approval else body.key
    return bodies.RunStatus(run_id=run_id, status=state.status)


def _open(state: RunState, key: str) -> QuestionAsked | None:
    asked = state.question if state.live else None
    return asked if asked and asked.question.key == key else None


async def _again(state: RunState, body: bodies.NewAnswer, parts: Parts) -> bodies.RunStatus:
    """The key is not open, which is fine for an answer that was given before."""
    events = [event for _, event in await parts.bus.events(state.run_id)]
    given = [event for event in events if isinstance(event, QuestionAnswered) and event.key == body.key]
    if given and given[-1].value == body.value.strip():
        return bodies.RunStatus(run_id=state.run_id, status=state.status)
    if given:
        raise UserError(f"{answered(given[-1])} already; an answer cannot be changed.")
    if not state.live:
        raise UserError(f"Run {state.run_id} asks nothing any more: it is {state.status}.")
    now = f"it asks for {state.question.question.key}" if state.question else "it asks for nothing just now"
    raise UserError(f"Run {state.run_id} does not ask for {body.key}; {now}.")
