"""Where a run's time went, from its events and transcripts alone: who held the baton, for how long, and doing what.

All times are seconds; `at` counts from the request. Tool results carry no time of day: a turn's wait for its tools is
the sum of their seconds, or the longest of them where all only read and ran side by side; what they queued for is in no
transcript and counts as the role's own work. An accepted answer takes from its turn to its fact, its check included.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise

from services.gateway.trace_model import CallTrace, Handoff, JobTrace, Open, Share, Trace, TurnTrace
from shared.contracts.base import AgentName, Event
from shared.contracts.questions import QuestionAsked
from shared.contracts.runs import RoleFailed
from shared.contracts.state import RunState, fold
from shared.contracts.tools import TOOLS, ToolResult
from shared.contracts.training import JobFinished, JobStarted
from shared.contracts.transcript import Observation, Turn

Entries = Mapping[AgentName, Sequence[Turn | Observation]]
PERSON = "person"
_PROBLEM = 200


def trace(events: Sequence[tuple[int, Event]], entries: Entries, now: datetime) -> Trace:
    """Pure. `now` is how far the clock of a run that has not ended has gone; one that has ended ignores it."""
    walk = _Walk(events, entries, now)
    state = walk.state
    handoffs = tuple(
        Handoff(
            kind=one.event.kind,
            sender=one.event.sender,
            recipient=one.recipient,
            at=walk.since_start(one.event.at),
            held=one.held,
            **walk.work(one.event.sender, position),
        )
        for position, one in enumerate(walk.steps)
    )
    return Trace(
        run_id=state.run_id,
        requirement=state.requested.requirement if state.requested else "",
        status=state.status,
        level=state.finished.level if state.finished else "none",
        seconds=walk.since_start(walk.end),
        handoffs=handoffs,
        open=tuple(walk.open()),
        roles=tuple(walk.shares()),
    )


@dataclass
class _Step:
    event: Event
    recipient: str
    held: float | None


@dataclass
class _Walk:
    events: Sequence[tuple[int, Event]]
    entries: Entries
    now: datetime
    steps: list[_Step] = field(default_factory=list)
    held: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """One pass over the facts: who held the baton from when to when."""
        state = RunState(run_id=self.events[0][1].run_id)
        self.by_id: dict[str, Event] = {}
        self.jobs: dict[str, list[JobStarted | JobFinished]] = {}
        self.job_step: dict[str, tuple[int, str]] = {}
        self.order_step: dict[str, int] = {}
        holder, since = "", self.events[0][1].at
        for sequence, event in self.events:
            if event.event_id in self.by_id:
                continue
            self.by_id[event.event_id] = event
            state = fold(state.run_id, [(sequence, event)], state)
            if isinstance(event, JobStarted | JobFinished):
                self.jobs.setdefault(event.job_id, []).append(event)
                self.job_step.setdefault(event.job_id, (len(self.steps), holder))
                continue
            sender = PERSON if event.sender == "gateway" else event.sender
            recipient = _holder(state)
            held = _between(since, event.at) if sender == holder else None
            self.steps.append(_Step(event, recipient, held))
            self.order_step[event.event_id] = len(self.steps)
            if recipient != holder or sender == holder:
                self._hold(holder, since, event.at)
                holder, since = recipient, event.at
        self.state, self.holder = state, holder
        self.start = self.events[0][1].at
        self.end = state.finished.at if state.finished else max(self.now, since)
        if not state.finished:
            self._hold(holder, since, self.end)
        self.since = since
        self._turns()
        self._jobs()

    def since_start(self, at: datetime) -> float:
        return _between(self.start, at)

    def work(self, role: str, position: int) -> dict[str, tuple[object, ...]]:
        """What `role` did for the fact at `position`, to be spread into a model."""
        return {
            "turns": tuple(turn for _, turn in self.turns.get((role, position), ())),
            "jobs": tuple(self.jobs_at.get((role, position), ())),
        }

    def open(self) -> Iterable[Open]:
        """Roles with work that no fact answers, the one that holds the baton last."""
        last = len(self.steps)
        known = [role for role, position in (*self.turns, *self.jobs_at) if position == last and role != self.holder]
        for role in dict.fromkeys(known):
            yield Open(role=role, **self.work(role, last))
        if not self.state.finished:
            yield Open(role=self.holder, held=_between(self.since, self.end), **self.work(self.holder, last))

    def shares(self) -> Iterable[Share]:
        wall = self.since_start(self.end)
        rows = dict.fromkeys((*self.held, *(role for role, _ in (*self.turns, *self.jobs_at))))
        for role in rows:
            turns = [pair for (who, _), pairs in self.turns.items() if who == role for pair in pairs]
            jobs = [job for (who, _), found in self.jobs_at.items() if who == role for job in found]
            held = self.held.get(role, 0.0)
            waited = sum(turn.waited for _, turn in turns) + sum(job.queued + job.ran for job in jobs)
            waiting = min(waited, held)
            yield Share(
                role=role,
                turns=sum(turn.spent.turns for turn, _ in turns),
                actions=sum(turn.spent.actions for turn, _ in turns),
                tokens=sum(told.tokens for _, told in turns),
                estimated=any(turn.spent.tokens_estimated for turn, _ in turns),
                working=held - waiting,
                waiting=waiting,
                share=held / wall if wall else 0.0,
            )

    def _hold(self, holder: str, since: datetime, until: datetime) -> None:
        if holder:
            self.held[holder] = self.held.get(holder, 0.0) + _between(since, until)

    def _answer(self, role: str, position: int) -> int:
        """Where the first fact that `role` says from `position` on stands; behind the last where there is none."""
        for later in range(position, len(self.steps)):
            if self.steps[later].event.sender == role:
                return later
        return len(self.steps)

    @staticmethod
    def _goes_on(event: Event, turn: Turn) -> bool:
        """Is this the question for more budget, after whose answer the role went on where it stopped?"""
        asks = isinstance(event, QuestionAsked) and event.question.wants == "approval"
        return asks and turn.at > event.at

    def _turns(self) -> None:
        self.turns: dict[tuple[str, int], list[tuple[Turn, TurnTrace]]] = {}
        self.asked: dict[str, tuple[str, int, datetime, float]] = {}
        for role, found in self.entries.items():
            step = 0
            for entry, after in pairwise((*found, None)):
                if isinstance(entry, Observation):
                    # The line that opens an order names its fact; the end of a job opens nothing.
                    step = self.order_step.get(entry.event_id or "", step)
                    continue
                if entry is None:
                    continue
                answer = self._answer(role, step)
                while answer < len(self.steps) and self._goes_on(self.steps[answer].event, entry):
                    answer = self._answer(role, answer + 1)
                told = after if isinstance(after, Observation) and after.event is None else None
                answered = answer < len(self.steps) and not isinstance(self.steps[answer].event, RoleFailed)
                accepted = self.steps[answer].event.at if told is None and answered else None
                turn = self._turn(entry, told, accepted)
                self.turns.setdefault((role, answer), []).append((entry, turn))
                self._asked_for(entry, told, answer)

    def _turn(self, turn: Turn, told: Observation | None, accepted: datetime | None) -> TurnTrace:
        results = {result.call_id: result for result in told.results} if told else {}
        submitted = [call.name for call in turn.calls if call.name not in TOOLS]
        calls: list[CallTrace] = []
        for position, call in enumerate(turn.calls):
            result = results.get(call_id(turn, position))
            if result:
                calls.append(_call(result))
            elif accepted and submitted == [call.name]:
                # What is accepted ends the work, so no observation follows; its fact tells.
                calls.append(CallTrace(tool=call.name, ok=True, seconds=_between(turn.at, accepted)))
            else:
                calls.append(CallTrace(tool=call.name))
        together = all(call.name in TOOLS and TOOLS[call.name].reads_only for call in turn.calls)
        return TurnTrace(
            number=turn.number,
            at=self.since_start(turn.at),
            tokens=turn.spent.input_tokens + turn.spent.output_tokens,
            waited=_wait(calls, together),
            calls=tuple(calls),
        )

    def _asked_for(self, turn: Turn, told: Observation | None, answer: int) -> None:
        before = 0.0
        for result in told.results if told else ():
            for job in result.jobs:
                self.asked[job] = (turn.role, answer, turn.at, before)
            before += result.seconds

    def _jobs(self) -> None:
        self.jobs_at: dict[tuple[str, int], list[JobTrace]] = {}
        for job_id in dict.fromkeys((*self.jobs, *self.asked)):
            told = self.jobs.get(job_id, [])
            started = [event for event in told if isinstance(event, JobStarted)]
            finished = next((event for event in told if isinstance(event, JobFinished)), None)
            if job_id in self.asked:
                role, answer, asked, later = self.asked[job_id]
            else:
                step, holder = self.job_step[job_id]
                role, later = finished.asked_by if finished else holder, 0.0
                cause = self.by_id.get(told[0].caused_by or "")
                answer, asked = self._answer(role, step), cause.at if cause else told[0].at
            ended = finished.at if finished else self.end
            begun = started[0].at if started else ended
            job = JobTrace(
                job_id=job_id,
                job=told[0].job if told else "train",
                asked_by=role,
                at=self.since_start(asked) + later,
                queued=max(0.0, _between(asked, begun) - later),
                ran=_between(begun, ended),
                attempts=max((*(event.attempt for event in started), finished.attempts if finished else 0), default=0),
                outcome=finished.outcome if finished else "running" if started else "queued",
                isolation=told[-1].isolation if told else "",
            )
            self.jobs_at.setdefault((role, answer), []).append(job)


def call_id(turn: Turn, position: int) -> str:
    return f"{turn.run_id}-{turn.role}-{turn.number}-{position}"


def _holder(state: RunState) -> str:
    """Who has to act now; the keeper, which runs in the Task Manager's service, ends what cannot go on."""
    if state.finished:
        return PERSON
    if not state.live:
        return "task_manager"
    return state.stage or PERSON


def _call(result: ToolResult) -> CallTrace:
    return CallTrace(
        tool=result.tool,
        ok=result.ok,
        seconds=result.seconds,
        isolation=result.isolation,
        problem="" if result.ok else " ".join(result.summary.split())[:_PROBLEM],
    )


def _wait(calls: Iterable[CallTrace], together: bool) -> float:
    seconds = [call.seconds for call in calls]
    return max(seconds, default=0.0) if together else sum(seconds)


def _between(earlier: datetime, later: datetime) -> float:
    # Clocks of two machines may disagree by a little; no time is negative.
    return max(0.0, (later - earlier).total_seconds())
