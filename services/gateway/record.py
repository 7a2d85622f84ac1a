"""The record: the whole story of a run in one document, made from its events and transcripts alone.

Of the Data Engineer, the one role that sees the whole dataset, it holds what was asked and not what came back: files
that turn out to be test samples are named there before anybody knows that they are. Facts name none, unless it asked
a person about one.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime

from pydantic import Field, JsonValue

from services.gateway.bodies import Body
from services.gateway.questions import asked
from services.gateway.trace import call_id
from shared.contracts.base import AgentName, Ref, Spent
from shared.contracts.cases import Coverage
from shared.contracts.data import DatasetLocked
from shared.contracts.events import AnyEvent
from shared.contracts.modules import ModuleAssembled
from shared.contracts.questions import Question
from shared.contracts.runs import DataCard, Level, RunFinished, RunRequested, TaskPlan
from shared.contracts.scoring import RunScored
from shared.contracts.state import fold
from shared.contracts.training import JobFinished, JobStarted
from shared.contracts.transcript import Observation, Turn

_SEES_THE_TEST_SET: AgentName = "data_engineer"


class RecordedRules(Body):
    ref: Ref
    coverage: Coverage
    notes: tuple[str, ...]


class RecordedTraining(Body):
    attempts: int
    seconds: float
    gpu_seconds: float
    notes: str


class RecordedQuestion(Body):
    """What a person was asked; `answer` is null where none came, or a dataset was added instead."""

    question: Question
    asked_by: str = Field(description="The role; the Task Manager for the keeper's, which are approvals.")
    answer: str | None
    by: str | None = Field(description="Who answered; `default` where nobody was there.")


class RecordedJob(Body):
    started: tuple[JobStarted, ...] = Field(description="One an attempt.")
    finished: JobFinished | None


class RecordedCall(Body):
    tool: str
    arguments: dict[str, JsonValue] = Field(description="As the core gave them, the text of scripts included.")
    ok: bool | None = Field(None, description="Null where the result is in no transcript, as of an accepted answer.")
    seconds: float | None = None
    isolation: str = ""
    exit_code: int | None = None
    result: str | None = Field(None, description="What the core read; null for the Data Engineer.")


class RecordedTurn(Body):
    number: int
    at: datetime
    core: str
    text: str
    calls: tuple[RecordedCall, ...]
    notes: tuple[str, ...] = Field(description="What check and budget had to say; empty for the Data Engineer.")
    spent: Spent


class Record(Body):
    """What a later document replaced (work handed back, a second plan) stands in `events` only."""

    format: int = 1
    run_id: str
    status: str
    level: Level
    end: RunFinished | None
    request: RunRequested | None
    plan: TaskPlan | None
    card: DataCard | None
    rules: RecordedRules | None
    lock: DatasetLocked | None
    module: ModuleAssembled | None
    hyper_parameters: dict[str, JsonValue] | None
    validation: dict[str, JsonValue] | None
    training: RecordedTraining | None
    package: Ref | None
    score: RunScored | None
    questions: tuple[RecordedQuestion, ...]
    jobs: dict[str, RecordedJob]
    spent: Spent
    events: tuple[AnyEvent, ...]
    turns: dict[str, tuple[RecordedTurn, ...]]


def record(events: Sequence[tuple[int, AnyEvent]], entries: Mapping[AgentName, Sequence[Turn | Observation]]) -> Record:
    """Pure. A run that is still going is recorded as far as it got; what there is not yet is null."""
    state = fold(events[0][1].run_id, events)
    planned, prepared, trained, finished = state.planned, state.prepared, state.trained, state.finished
    rules = prepared and RecordedRules(ref=prepared.rules, coverage=prepared.coverage, notes=prepared.notes)
    training = trained and RecordedTraining(
        attempts=trained.attempts, seconds=trained.seconds, gpu_seconds=trained.gpu_seconds, notes=trained.notes
    )
    facts = tuple(event for _, event in events)
    return Record(
        run_id=state.run_id,
        status=state.status,
        level=finished.level if finished else "none",
        end=finished,
        request=state.requested,
        plan=planned.plan if planned else None,
        card=planned.card if planned else None,
        rules=rules,
        lock=state.locked,
        module=state.assembled,
        hyper_parameters=trained.hyper_parameters if trained else None,
        validation=trained.validation if trained else None,
        training=training,
        package=state.package,
        score=state.scored,
        questions=tuple(
            RecordedQuestion(
                question=one.event.question,
                asked_by=one.event.sender,
                answer=one.answer.value if one.answer else None,
                by=one.answer.by if one.answer else None,
            )
            for one in asked(facts)
        ),
        jobs=_jobs(facts),
        spent=finished.spent if finished else state.spent,
        events=facts,
        turns={role: _turns(role, found) for role, found in entries.items()},
    )


def _jobs(events: Sequence[AnyEvent]) -> dict[str, RecordedJob]:
    told = [event for event in events if isinstance(event, JobStarted | JobFinished)]
    return {
        job_id: RecordedJob(
            started=tuple(event for event in told if isinstance(event, JobStarted) and event.job_id == job_id),
            finished=next((event for event in told if isinstance(event, JobFinished) and event.job_id == job_id), None),
        )
        for job_id in dict.fromkeys(event.job_id for event in told)
    }


def _turns(role: AgentName, entries: Sequence[Turn | Observation]) -> tuple[RecordedTurn, ...]:
    observations = {entry.number: entry for entry in entries if isinstance(entry, Observation) and entry.event is None}
    shown = role != _SEES_THE_TEST_SET
    turns = []
    for turn in entries:
        if not isinstance(turn, Turn):
            continue
        told = observations.get(turn.number)
        results = {result.call_id: result for result in told.results} if told else {}
        calls = []
        for position, call in enumerate(turn.calls):
            recorded = RecordedCall(tool=call.name, arguments=call.arguments)
            if result := results.get(call_id(turn, position)):
                outcome = {
                    "ok": result.ok,
                    "seconds": result.seconds,
                    "isolation": result.isolation,
                    "exit_code": result.exit_code,
                    "result": result.summary if shown else None,
                }
                recorded = recorded.model_copy(update=outcome)
            calls.append(recorded)
        turns.append(
            RecordedTurn(
                number=turn.number,
                at=turn.at,
                core=turn.core,
                text=turn.text,
                calls=tuple(calls),
                notes=told.notes if told and shown else (),
                spent=turn.spent,
            )
        )
    return tuple(turns)
