"""The loop over a real bus. The test plays the runner and, where it matters, the core."""

import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from shared.agent.brief import Brief, make_brief
from shared.agent.budget import OutOfBudget
from shared.agent.calls import call, submit
from shared.agent.core import Decision
from shared.agent.desk import MACHINE, Desk
from shared.agent.loop import GaveUp, run_agent
from shared.agent.prompt import opening
from shared.agent.role import Facts, Probe, Role, Submission
from shared.agent.stuck import hopeless, nudge
from shared.bus import Bus
from shared.contracts.base import Event, Spent, new_run_id
from shared.contracts.runs import (
    Budget,
    DataCard,
    Infeasibility,
    Infeasible,
    RunRequested,
    Switch,
    TaskPlan,
    TaskPlanned,
)
from shared.contracts.starting import StartTraining
from shared.contracts.state import RunState, order_for
from shared.contracts.tools import ReadFiles, RunScript, ToolCall, ToolResult
from shared.contracts.training import JobFinished, JobSpec
from shared.contracts.transcript import Call, Observation, Turn
from shared.errors import ReplayMismatch, StaleTranscript
from shared.models.playbook import PlaybookCore
from tests.cases import told_until
from tests.serving import serving

ANSWER = Infeasibility(claim="one_class", reason="one class only", evidence={"labels": ["a"]})


class Killed(BaseException):
    """The process is gone: nothing of ours may catch it."""


def check(answer: Infeasibility, facts: Facts, brief: Brief) -> list[str]:
    return [] if facts.get("ok") else [str(facts.get("why", "the probe found nothing"))]


def said(answer: Infeasibility, facts: Facts, brief: Brief, state: RunState, spent: Spent) -> Event:
    return Infeasible.make(run_id=brief.run_id, sender="data_engineer", cause=brief.order, finding=answer, spent=spent)


def role(playbook: Callable | None = None) -> Role:
    return Role(
        name="data_engineer",
        tools=(ReadFiles, RunScript, StartTraining),
        submissions=(
            Submission(
                "declare_infeasible", Infeasibility, check, said, lambda answer, brief: Probe("resolve_rules", ())
            ),
        ),
        prompt=Path("prompt.md"),
        playbook=playbook or (lambda brief: iter(())),
    )


class Script:
    """A core that says what the test tells it, one turn after the other, from the number of turns on record."""

    name = "test"
    opened = sees = False

    def __init__(self, *turns: tuple[Call, ...]) -> None:
        self.turns = turns
        self.asked = 0

    async def decide(self, role: Role, brief: Brief, segment: list[Turn | Observation]) -> Decision:
        self.asked += 1
        return Decision(calls=self.turns[segment[-1].number])


class Runner:
    """Answers calls with what the test put under the tool's name, and counts them."""

    def __init__(self, **answers: dict) -> None:
        self.answers = answers
        self.calls: list[ToolCall] = []
        self.jobs: list[JobSpec] = []
        self.has_job = asyncio.Event()

    async def on_call(self, made: ToolCall) -> ToolResult:
        self.calls.append(made)
        data = self.answers.get(made.tool, {})
        return ToolResult(call_id=made.call_id, tool=made.tool, ok=True, summary="done", data=data)

    async def on_job(self, job: JobSpec, attempt: int) -> None:
        self.jobs.append(job)
        self.has_job.set()


async def planned(bus: Bus, without: tuple[Switch, ...] = (), **budget: int) -> RunState:
    run_id = new_run_id()
    asked = RunRequested.make(
        run_id=run_id, sender="gateway", cause=None, requirement="a model", budget=Budget(**budget), without=without
    )
    await bus.append(asked)
    plan = TaskPlan(task="diagnosis", dataset_id="d", reason="r", dimensions=2, modality="CT", metric="auc_macro")
    card = DataCard(dataset_id="d", name="d", description="d", path="/d")
    return await bus.append(TaskPlanned.make(run_id=run_id, sender="task_manager", cause=asked, plan=plan, card=card))


def desk_for(bus: Bus, state: RunState, its: Role | None = None) -> Desk:
    order = order_for("data_engineer", state)
    assert order is not None
    return Desk(bus, its or role(), make_brief("data_engineer", order, state, (), 60))


READ = (call(ReadFiles(paths=("a.txt",))),)
SUBMIT = (submit("declare_infeasible", ANSWER),)


async def test_a_submission_that_passes_its_check_ends_the_work(bus: Bus) -> None:
    state = await planned(bus)
    runner = Runner(resolve_rules={"ok": True})
    async with serving(bus, runner):
        accepted = await run_agent(desk_for(bus, state), Script(READ, SUBMIT))
    assert accepted is not None and accepted.answer["reason"] == ANSWER.reason
    assert (accepted.spent.turns, accepted.spent.actions) == (2, 2)
    assert [made.tool for made in runner.calls] == ["read_files", "resolve_rules"]


async def test_problems_and_wrong_calls_come_back_as_observations(bus: Bus) -> None:
    state = await planned(bus)
    runner = Runner(resolve_rules={"ok": False, "why": "two patients cross"})
    wrong = (Call(name="fly"), Call(name="read_files", arguments={"path": "x"}), *SUBMIT)
    desk = desk_for(bus, state)
    async with serving(bus, runner):
        with pytest.raises(IndexError):  # the script has no third turn
            await run_agent(desk, Script(wrong, ()))
    told = [entry for entry in desk.entries if isinstance(entry, Observation)][1]
    assert [result.ok for result in told.results] == [False, False, False]
    assert "yours are: read_files" in told.results[0].summary
    assert "paths" in told.results[1].summary
    assert "two patients cross" in told.results[2].summary
    assert "no tool" in desk.entries[-1].notes[0]  # the empty turn


async def test_a_killed_agent_goes_on_where_its_transcript_stops(bus: Bus) -> None:
    state = await planned(bus)
    runner = Runner(resolve_rules={"ok": True})

    class Dies(Script):
        async def decide(self, role: Role, brief: Brief, segment: list[Turn | Observation]) -> Decision:
            if segment[-1].number == 1:
                raise Killed
            return await super().decide(role, brief, segment)

    async with serving(bus, runner):
        with pytest.raises(Killed):
            await run_agent(desk_for(bus, state), Dies(READ, SUBMIT))
        core = Script(READ, SUBMIT)
        accepted = await run_agent(desk_for(bus, state), core)
    assert accepted is not None
    assert core.asked == 1, "the first turn is on record and is not decided again"
    assert [made.tool for made in runner.calls] == ["read_files", "resolve_rules"], "no call was carried out twice"


async def test_of_two_replicas_one_goes_on(bus: Bus) -> None:
    state = await planned(bus)
    first, second = desk_for(bus, state), desk_for(bus, state)
    await first.open()
    await second.open()
    turn = Turn(run_id=state.run_id, role="data_engineer", number=1, at=state.planned.at, core="test", calls=READ)
    await first.record(turn)
    with pytest.raises(StaleTranscript):
        await second.record(turn)


async def test_the_budget_of_actions_ends_the_work(bus: Bus) -> None:
    state = await planned(bus, actions=2)
    async with serving(bus, Runner()):
        with pytest.raises(OutOfBudget, match="2 actions"):
            await run_agent(desk_for(bus, state), Script(READ, READ, READ))


async def test_repeating_oneself_is_told_and_then_ends(bus: Bus) -> None:
    state = await planned(bus)
    desk = desk_for(bus, state)
    async with serving(bus, Runner()):
        with pytest.raises(GaveUp):
            await run_agent(desk, Script(*[READ] * 10))
    notes = [note for entry in desk.entries if isinstance(entry, Observation) for note in entry.notes]
    assert any("3 times" in note for note in notes)


async def test_a_role_sleeps_on_its_job_and_is_woken_by_its_end(bus: Bus) -> None:
    state = await planned(bus)
    start = (call(StartTraining(command=("python", "train.py"), seconds=5)),)
    runner = Runner(resolve_rules={"ok": True})
    async with serving(bus, runner):
        core = Script(start, SUBMIT)
        assert await run_agent(desk_for(bus, state), core) is None
        assert await run_agent(desk_for(bus, state), core) is None, "nothing has happened yet"
        assert core.asked == 1
        await runner.has_job.wait()
        job = runner.jobs[0]
        await bus.append(
            JobFinished.make(
                run_id=state.run_id, sender="tool_runner", cause=job.caused_by, salt=job.job_id, job_id=job.job_id,
                job="train", asked_by="data_engineer", outcome="ok", gpu_seconds=5.0,
            )
        )  # fmt: skip
        assert await run_agent(desk_for(bus, state), core) is not None
    assert (await bus.state(state.run_id)).spent.gpu_seconds == 5.0, "of every job, whether it is delivered or not"
    assert len(runner.jobs) == 1


@pytest.mark.parametrize("accepted", [True, False])
async def test_beside_a_submission_a_job_is_started_only_where_it_is_refused(bus: Bus, accepted: bool) -> None:
    state = await planned(bus)
    turn = (call(StartTraining(command=("python", "train.py"), seconds=5)), *SUBMIT, *READ)
    runner = Runner(resolve_rules={"ok": accepted})
    desk = desk_for(bus, state)
    async with serving(bus, runner):
        answer = await run_agent(desk, Script(turn))
        assert (answer is not None) is accepted
        last = desk.entries[-1]
        assert isinstance(last, Observation) and [one.tool for one in last.results] == [one.name for one in turn]
        if accepted:
            await run_agent(desk_for(bus, state), Script(turn))  # a replica after a crash acts on the turn again
            await asyncio.sleep(0.5)
            assert not runner.jobs and "not started" in last.results[0].summary
        else:
            await asyncio.wait_for(runner.has_job.wait(), 10)
    assert [made.tool for made in runner.calls][:2] == ["read_files", "resolve_rules"]


async def test_what_calls_beside_a_submission_tell_brings_it_back_once(bus: Bus) -> None:
    state = await planned(bus)

    def unread(facts: Facts, beside: Sequence[ToolResult], before: Sequence[ToolResult]) -> list[str]:
        return [f"{len(beside)} beside, {len(before)} before"] if beside else []

    (one,) = role().submissions
    its = replace(role(), submissions=(replace(one, unread=unread),))
    desk, core = desk_for(bus, state, its), Script((*READ, *SUBMIT), SUBMIT)
    async with serving(bus, Runner(resolve_rules={"ok": True})):
        accepted = await run_agent(desk, core)
    assert accepted is not None and core.asked == 2
    told = [entry for entry in desk.entries if isinstance(entry, Observation)][1]
    assert told.notes == ("1 beside, 0 before",) and [result.ok for result in told.results] == [True, False]

    # Who says the same again has read it; who has one try is not asked to read.
    always = replace(its, submissions=(replace(one, unread=lambda *told: ["read it"]),))
    for switches, turns in (((), 2), (("debugging",), 1)):
        state = await planned(bus, without=switches)
        core = Script((*READ, *SUBMIT), (*READ, *SUBMIT))
        async with serving(bus, Runner(resolve_rules={"ok": True})):
            assert await run_agent(desk_for(bus, state, always), core) is not None
        assert core.asked == turns


async def test_a_changed_playbook_is_noticed_and_not_followed(bus: Bus) -> None:
    state = await planned(bus)

    def first(brief: Brief):
        yield READ
        raise Killed

    def changed(brief: Brief):
        yield (call(ReadFiles(paths=("b.txt",))),)
        yield SUBMIT

    async with serving(bus, Runner()):
        with pytest.raises(Killed):
            await run_agent(desk_for(bus, state, role(first)), PlaybookCore())
        with pytest.raises(ReplayMismatch, match="was it changed"):
            await run_agent(desk_for(bus, state, role(changed)), PlaybookCore())


async def test_a_playbook_reads_the_start_of_a_job_and_its_end_as_one(bus: Bus) -> None:
    state = await planned(bus)
    heard: list[Observation] = []

    def script(brief: Brief):
        heard.append((yield (call(StartTraining(command=("python", "train.py"), seconds=5)),)))
        yield SUBMIT

    runner = Runner(resolve_rules={"ok": True})
    async with serving(bus, runner):
        its = role(script)
        assert await run_agent(desk_for(bus, state, its), PlaybookCore()) is None
        await runner.has_job.wait()
        job = runner.jobs[0]
        await bus.append(
            JobFinished.make(
                run_id=state.run_id, sender="tool_runner", cause=job.caused_by, salt=job.job_id, job_id=job.job_id,
                job="train", asked_by="data_engineer", outcome="memory",
            )
        )  # fmt: skip
        assert await run_agent(desk_for(bus, state, its), PlaybookCore()) is not None
    assert heard[0].results[0].ok and heard[0].event is not None
    assert heard[0].event["outcome"] == "memory"


def test_repeating_oneself_is_seen_whatever_ids_a_provider_gives() -> None:
    turns: list[Turn | Observation] = [
        Turn(
            run_id="r", role="data_engineer", number=number, at=datetime.now(UTC), core="c",
            calls=(Call(name="read_files", arguments={"paths": ["a"]}, provider_id=f"id{number}"),),
        )
        for number in range(1, 4)
    ]  # fmt: skip
    assert nudge(turns) and not hopeless(turns)
    assert hopeless(turns * 2)
    other = turns[0].model_copy(update={"calls": ()})
    circle = [turns[0], other]
    assert not nudge(circle * 2) and nudge(circle * 3) and hopeless(circle * 6)
    assert not nudge([*turns[:2], other, *turns[:2]]), "who goes on does something else in between"


NO_MACHINE = ("nonsense", "[]", "", "[" * 5000, json.dumps({"gpus": "x" * 100_000}))


@pytest.mark.parametrize("machine", ['{"cpu_threads": 2, "gpus": []}', *NO_MACHINE], ids=lambda text: text[:12])
async def test_a_role_that_builds_is_told_its_machine_and_only_asks_once(bus: Bus, machine: str) -> None:
    """What stands in its file, programs of the role before may have written: a run does not end by it."""
    run_id = new_run_id()
    for event in told_until(run_id, "module_architect"):
        await bus.append(event)
    state = await bus.state(run_id)
    runner = Runner(read_files={"files": {MACHINE: {"text": machine}}}, resolve_rules={"ok": True})
    its = replace(role(), name="module_architect")
    order = order_for("module_architect", state) or ""
    async with serving(bus, runner):
        for _ in range(2):
            desk = Desk(bus, its, make_brief("module_architect", order, state, (), 60))
            await desk.open()
            assert desk.brief.machine == ({} if machine in NO_MACHINE else {"cpu_threads": 2, "gpus": []})
    assert len(runner.calls) == 1 and ("cpu_threads: 2" in opening(desk.brief)) != (machine in NO_MACHINE)
