"""The loop that all agents share: ask the core, record the turn, run its calls, until a submission passes its check."""

import time
from collections.abc import Sequence
from dataclasses import replace

from opentelemetry.trace import Span
from pydantic import JsonValue, ValidationError

from shared import telemetry
from shared.agent import budget
from shared.agent.bounds import KEPT, bounded, bounded_turn
from shared.agent.core import Core, Decision
from shared.agent.desk import Desk, gather_calls, now
from shared.agent.role import Facts, Submission
from shared.agent.showing import shortened
from shared.agent.stuck import hopeless, nudge
from shared.contracts.base import Contract, Spent, ToolArgs
from shared.contracts.starting import STARTERS
from shared.contracts.tools import ToolResult, ViewImage
from shared.contracts.transcript import OPENING, Call, Observation, Turn
from shared.errors import GateFailed, M3Error


class GaveUp(M3Error):
    """The core repeats itself after having been told so."""


class Accepted(Contract):
    """A submission that passed: its tool, the answer, and what the probe found."""

    tool: str
    answer: dict[str, JsonValue]
    facts: dict[str, JsonValue]
    spent: Spent


async def run_agent(desk: Desk, core: Core) -> Accepted | None:
    """Work until a submission is accepted. None when the role sleeps on a job or the run has ended.

    May be called again at any time, by any replica: it goes on at the turn where the transcript stops.
    """
    await desk.open()
    desk.sees = core.sees
    deciding: Span | None = None
    while True:
        last, turn = desk.entries[-1], _to_act_on(desk)
        if turn is not None:  # just decided, or found so after a crash
            with telemetry.below(deciding):
                observation, accepted = await _act(desk, turn)
            if turn is last and not (accepted and len(turn.calls) == 1):
                # The budget before a first turn stands in the first message.
                told = "" if turn.core == OPENING else await desk.budget()
                await desk.record(observation.model_copy(update={"budget": told}))
            if accepted:
                return accepted
            continue
        state = await desk.bus.state(desk.brief.run_id)
        if desk.waiting_for() and not await desk.jobs_ended(state):
            return None
        if not state.live:
            return None
        budget.check(budget.bounds(state, desk.spent, now()))
        if "debugging" in desk.brief.requested.without:
            _first_try(desk)
        if hopeless(desk.segment):
            raise GaveUp("the core kept repeating the same calls after it was told so")
        if calls := _opening(desk, core):
            await desk.record(_turn(desk, OPENING, Decision(calls=calls)))
            continue
        with telemetry.turn_span(desk.role.name, desk.brief.run_id, desk.turns + 1, core.name) as deciding:
            decision = await core.decide(desk.role, *desk.talk())
            away, desk.away_since = desk.away_since, None
            waited = (now() - away).total_seconds() if away else 0.0
            spent = decision.spent + Spent(turns=1, actions=len(decision.calls), away_seconds=waited)
            await desk.record(bounded_turn(_turn(desk, core.name, replace(decision, spent=spent))))
            telemetry.used(deciding, desk.role.name, core.name, decision.spent)


def _opening(desk: Desk, core: Core) -> tuple[Call, ...]:
    """What is called before a model's first turn on an order. Who works alone is told of all roles' work at once."""
    if not core.opened or desk.role.team or any(isinstance(entry, Turn) for entry in desk.segment):
        return ()
    calls = desk.role.opening(desk.brief, desk.again)
    return tuple(call for call in calls if core.sees or call.name != ViewImage.tool)


def _turn(desk: Desk, core: str, decision: Decision) -> Turn:
    return Turn(
        run_id=desk.brief.run_id,
        role=desk.role.name,
        number=desk.turns + 1,
        at=now(),
        core=core,
        text=decision.text,
        remark=decision.remark,
        kept=decision.kept,
        calls=decision.calls,
        hidden=decision.hidden,
        spent=decision.spent,
    )


def _to_act_on(desk: Desk) -> Turn | None:
    """The turn whose calls are due: the last one, also where it is on record that its submission was accepted, as the
    answer may not have been said. To act again is safe: calls that were made give the same results."""
    last = desk.entries[-1]
    if isinstance(last, Turn):
        return last
    accepted = any(result.ok and desk.role.submission(result.tool) for result in last.results)
    found = desk.entries[-2] if accepted else None
    return found if isinstance(found, Turn) else None


def _first_try(desk: Desk) -> None:
    """Of a run without debugging: raises GateFailed for a refused submission, and for a job that failed."""
    seen = [entry for entry in desk.segment if isinstance(entry, Observation)]
    refused = [one.summary for each in seen for one in each.results if not one.ok and desk.role.submission(one.tool)]
    ends = [str(each.event["outcome"]) for each in seen if each.event and "outcome" in each.event]
    if why := [*refused, *(f"its job ended as {end}" for end in ends if end != "ok")]:
        raise GateFailed(f"the run goes without debugging, and the first try failed: {why[0]}", "first_try")


async def _act(desk: Desk, turn: Turn) -> tuple[Observation, Accepted | None]:
    """Run a turn's calls. Every call gets a result, in its place; a submission is judged after all calls beside it but
    those that start jobs, which are made where it is refused."""
    results: dict[int, ToolResult] = {}
    ready: list[tuple[int, Call, ToolArgs]] = []
    notes: list[str] = []
    accepted = None
    ends = [place for place, call in enumerate(turn.calls) if desk.role.submission(call.name)]
    for position, call in enumerate(turn.calls):
        model = desk.role.tool(call.name)
        if position in ends[1:]:
            first = turn.calls[ends[0]].name
            results[position] = _refused(desk, turn, position, f"not judged: {first} stands before it, one ends a turn")
        elif model is None and position not in ends:
            known = ", ".join([t.tool for t in desk.role.tools] + [s.tool for s in desk.role.submissions])
            results[position] = _refused(desk, turn, position, f"there is no tool {call.name!r}; yours are: {known}")
        elif model is not None:
            try:
                ready.append((position, call, model.model_validate(call.arguments)))
            except ValidationError as error:
                results[position] = _refused(desk, turn, position, _plain(error))
    later = [one for one in ready if ends and one[1].name in STARTERS]
    ready = [one for one in ready if one not in later]
    for (position, _, _), result in zip(ready, await gather_calls(desk, turn, ready), strict=True):
        results[position] = result
    if ends:
        began = time.monotonic()
        judged = await _submitted(desk, turn, ends[0], list(results.values()))
        if isinstance(judged, Accepted):
            accepted = judged
            results[ends[0]] = ToolResult(
                call_id=desk.call_id(turn, ends[0]),
                tool=judged.tool,
                ok=True,
                summary="accepted",
                seconds=round(time.monotonic() - began, 3),
            )
        else:
            results[ends[0]], problems = judged
            notes += problems
    if accepted:
        ended = f"not started: {accepted.tool} beside it was accepted, which ends your work"
        results |= {position: _refused(desk, turn, position, ended) for position, _, _ in later}
    else:
        for (position, _, _), result in zip(later, await gather_calls(desk, turn, later), strict=True):
            results[position] = result
    if not turn.calls:
        notes.append("You asked for no tool. Work goes on with tools and ends with a submission.")
    notes += nudge(desk.segment)
    observation = Observation(
        run_id=desk.brief.run_id,
        role=desk.role.name,
        number=turn.number,
        results=tuple(results[position] for position in sorted(results)),
        notes=tuple(notes),
    )
    return bounded(observation), accepted


async def _submitted(
    desk: Desk, turn: Turn, position: int, beside: Sequence[ToolResult]
) -> Accepted | tuple[ToolResult, list[str]]:
    """The answer that passed its check, or what the submission gets as a result and the problems found."""
    call = turn.calls[position]
    submission = desk.role.submission(call.name)
    assert submission is not None
    try:
        answer = submission.answer.model_validate(call.arguments)
    except ValidationError as error:
        return _refused(desk, turn, position, _plain(error)), []
    facts, found = await _judge(desk, turn, position, submission, answer)
    problems = _within(found or _unread(desk, turn, submission, facts, beside))
    if not problems:
        return Accepted(tool=submission.tool, answer=answer.model_dump(mode="json"), facts=facts, spent=desk.spent)
    refused = _refused(desk, turn, position, "not accepted:\n- " + "\n- ".join(problems))
    bad = {name: fact for name, fact in facts.items() if name == "bad_samples" and fact}
    return refused.model_copy(update={"data": bad}), problems


async def _judge(
    desk: Desk, turn: Turn, position: int, submission: Submission, answer: Contract
) -> tuple[Facts, list[str]]:
    probe = submission.probe(answer, desk.brief)
    facts: Facts = {} if probe is None else await desk.probe(desk.call_id(turn, position, "-probe"), probe)
    state = await desk.bus.state(desk.brief.run_id)
    facts["jobs"] = {
        name: f"a fold of {done.tried.fold_of}" if done.tried and done.tried.fold_of else done.outcome
        for done in state.trainings
        for name in done.names
    }
    facts["returned"] = dict(state.returned)
    facts["answers"] = dict(state.answers)
    return facts, submission.check(answer, facts, desk.brief)


def _unread(desk: Desk, turn: Turn, submission: Submission, facts: Facts, beside: Sequence[ToolResult]) -> list[str]:
    """What calls of the same turn told whoever submits, who had not read it yet; said once. Whoever has only one try
    is not sent back for it."""
    if "debugging" in desk.brief.requested.without:
        return []
    seen = [entry for entry in desk.segment if isinstance(entry, Observation) and entry.number < turn.number]
    told = submission.unread(facts, beside, [result for entry in seen for result in entry.results])
    return [one for one in told if all(one not in entry.notes for entry in seen)]


def _within(problems: list[str]) -> list[str]:
    """Problems that fit into what an observation keeps of any result, so that none has to be said besides."""
    kept: list[str] = []
    for number, problem in enumerate(problems):
        one = shortened(problem, KEPT // 3)
        if sum(len(each) + 3 for each in kept) + len(one) > KEPT * 5 // 6:
            return [*kept, f"and {len(problems) - number} more"]
        kept.append(one)
    return kept


def _refused(desk: Desk, turn: Turn, position: int, text: str) -> ToolResult:
    return ToolResult(call_id=desk.call_id(turn, position), tool=turn.calls[position].name, ok=False, summary=text)


def _plain(error: ValidationError) -> str:
    """A validation error in words that a core can act on."""
    lines = [f"{'.'.join(map(str, item['loc'])) or 'arguments'}: {item['msg']}" for item in error.errors()[:8]]
    return "the arguments do not fit: " + "; ".join(lines)
