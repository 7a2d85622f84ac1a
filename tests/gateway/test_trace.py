"""Trace and record of runs whose events and turns lie on a real bus: figures to the tenth, and nothing left out."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest
from pydantic import JsonValue

from services.gateway.record import Record
from services.gateway.trace import Trace, trace
from services.gateway.trace_view import plain
from shared.bus import Bus
from shared.contracts.base import AGENTS, AgentName, Event, Ref, Spent, new_run_id
from shared.contracts.data import DatasetLocked, DatasetPrepared, IndexMeta, LeakageReport
from shared.contracts.modules import AssembledModule, ModuleAssembled
from shared.contracts.runs import (
    CancelRequested,
    Candidate,
    DataCard,
    DatasetAdded,
    DatasetNeed,
    DatasetNeeded,
    RoleFailed,
    RunFinished,
    RunRequested,
    TaskPlan,
    TaskPlanned,
    WorkReturned,
)
from shared.contracts.scoring import Control, Gate, Metric, RunScored
from shared.contracts.tools import ToolResult
from shared.contracts.training import JobFinished, JobStarted, TrainingFinished
from shared.contracts.transcript import Call, Observation, Turn

START = datetime(2026, 1, 5, 12, 0, tzinfo=UTC)
REF = Ref(bucket="packages", key="sha256/00/0", sha256="0" * 64, size=1, media_type="application/json")
SCRIPT = "print('index everything')"


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


class Story:
    """Tells a run to the bus, one fact or turn after the other, each with its second."""

    def __init__(self, bus: Bus) -> None:
        self.bus, self.run_id = bus, new_run_id()
        self.heads: dict[str, int] = {}
        self.numbers: dict[str, int] = {}

    async def fact(self, kind: type[Event], second: float, sender: Any, cause: Event | None, **fields: Any) -> Any:
        made = kind.make(run_id=self.run_id, sender=sender, cause=cause, **fields)
        event = made.model_copy(update={"at": at(second)})
        await self.bus.append(event)
        return event

    async def woken(self, role: AgentName, by: Event) -> None:
        await self._entry(
            Observation(run_id=self.run_id, role=role, number=self.numbers.get(role, 0), event_id=by.event_id, event={})
        )

    async def turn(self, role: AgentName, second: float, *calls: tuple[str, dict[str, JsonValue]]) -> None:
        self.numbers[role] = self.numbers.get(role, 0) + 1
        await self._entry(
            Turn(
                run_id=self.run_id,
                role=role,
                number=self.numbers[role],
                at=at(second),
                core="playbook",
                calls=tuple(Call(name=name, arguments=arguments) for name, arguments in calls),
                spent=Spent(turns=1, actions=len(calls), input_tokens=100, output_tokens=10),
            )
        )

    async def results(self, role: AgentName, *results: dict[str, Any], notes: Sequence[str] = ()) -> None:
        number = self.numbers[role]
        told = tuple(
            ToolResult(call_id=self.call_id(role, position), **({"ok": True, "summary": "done"} | result))
            for position, result in enumerate(results)
        )
        await self._entry(Observation(run_id=self.run_id, role=role, number=number, results=told, notes=tuple(notes)))

    def call_id(self, role: str, position: int) -> str:
        return f"{self.run_id}-{role}-{self.numbers[role]}-{position}"

    async def _entry(self, entry: Turn | Observation) -> None:
        self.heads[entry.role] = await self.bus.append_entry(entry, after=self.heads.get(entry.role, 0))

    async def trace(self, now: float) -> Trace:
        entries = {role: (await self.bus.entries(self.run_id, role))[0] for role in AGENTS}
        return trace(await self.bus.events(self.run_id), entries, at(now))

    async def planned(self) -> TaskPlanned:
        asked = await self.fact(RunRequested, 0, "gateway", None, requirement="classify chest CT")
        await self.woken("task_manager", asked)
        await self.turn("task_manager", 1, ("read_files", {"paths": ["datacards.json"]}), ("list_files", {}))
        await self.results(
            "task_manager", {"tool": "read_files", "seconds": 0.5}, {"tool": "list_files", "seconds": 1.5}
        )
        await self.turn("task_manager", 4, ("submit_plan", {"task": "diagnosis"}))
        plan = TaskPlan(
            task="diagnosis", dataset_id="one", reason="fits", refused=(Candidate(dataset_id="two", reason="is MRI"),),
            dimensions=3, modality="CT", metric="auc_macro",
        )  # fmt: skip
        card = DataCard(dataset_id="one", name="One", description="chest CT")
        return await self.fact(TaskPlanned, 5, "task_manager", asked, plan=plan, card=card)

    async def assembled(self) -> ModuleAssembled:
        planned = await self.planned()
        await self.woken("data_engineer", planned)
        await self.turn("data_engineer", 6, ("run_script", {"script": SCRIPT}), ("read_files", {"paths": ["nowhere"]}))
        refused = {"tool": "read_files", "ok": False, "summary": "there is no\nnowhere", "seconds": 0.25}
        script = {"tool": "run_script", "seconds": 3, "isolation": "landlock", "exit_code": 0, "summary": "case_17"}
        await self.results("data_engineer", script, refused, notes=["case_17 is odd"])
        await self.turn("data_engineer", 12, ("submit_dataset", {}))
        counts, patients = {"train": {"a": 6}, "test": {"a": 3}}, {"train": 4, "test": 2}
        meta = IndexMeta(task="diagnosis", dimensions=3, grouping="stated", grouping_from="a column", split_from="made")
        prepared = await self.fact(
            DatasetPrepared, 15, "data_engineer", planned, index=REF, meta=meta, counts=counts, patients=patients
        )
        pack = {"job_id": f"{self.run_id}-pack", "job": "pack"}
        await self.fact(JobStarted, 16, "tool_runner", prepared, **pack)
        await self.fact(JobFinished, 18, "tool_runner", prepared, **pack, asked_by="scorer", outcome="ok", seconds=2)
        locked = await self.fact(
            DatasetLocked, 20, "scorer", prepared, index_sha256="0" * 64, manifest_sha256="1" * 64, view=REF,
            leakage=LeakageReport(checks={"copies": 0}), locks=1, counts=counts, patients=patients,
        )  # fmt: skip
        await self.woken("module_architect", locked)
        await self.turn("module_architect", 21, ("submit_module", {}))
        module = AssembledModule(template="diagnosis", model="resnet", loss="ce", input_shape=(1, 8, 8, 8))
        return await self.fact(
            ModuleAssembled, 30, "module_architect", locked, module=module, batch_shapes={}, workspace_sha256="2" * 64
        )

    async def training(self) -> tuple[ModuleAssembled, dict[str, Any]]:
        """Up to a queued training job."""
        order = await self.assembled()
        await self.woken("model_trainer", order)
        await self.turn("model_trainer", 31, ("edit_files", {"path": "c"}), ("start_training", {"command": ["python"]}))
        job_id = self.call_id("model_trainer", 1)
        queued = {"tool": "start_training", "data": {"job_id": job_id}}
        await self.results("model_trainer", {"tool": "edit_files", "seconds": 1}, queued)
        return order, {"job_id": job_id, "job": "train"}

    async def finished(self) -> None:
        order, job = await self.training()
        for attempt, second in ((1, 36), (2, 50)):
            await self.fact(JobStarted, second, "tool_runner", order, salt=str(attempt), attempt=attempt, **job)
        ended = await self.fact(
            JobFinished, 80, "tool_runner", order, **job, asked_by="model_trainer", outcome="ok", attempts=2,
            seconds=30, isolation="landlock", metrics={"auc": 0.9},
        )  # fmt: skip
        await self.woken("model_trainer", ended)
        await self.turn("model_trainer", 82, ("submit_training", {"job_id": job["job_id"]}))
        trained = await self.fact(
            TrainingFinished, 85, "model_trainer", order, package=REF, validation={"auc": 0.9},
            hyper_parameters={"lr": 0.001}, attempts=2, seconds=30,
        )  # fmt: skip
        scored = await self.fact(
            RunScored, 95, "scorer", trained, level="useful", locks=1, scorings=1,
            metric=Metric(name="auc_macro", value=0.9, low=0.8, high=1, n=3, patients=2),
            controls=(Control(name="majority", value=0.5),),
            gates=(Gate(name="patients_apart", passed=True, evidence="none shared"),),
        )  # fmt: skip
        await self.fact(
            RunFinished, 100, "task_manager", scored, end="succeeded", level="useful", package=REF, spent=Spent(turns=6)
        )


async def test_a_finished_run_as_text(bus: Bus) -> None:
    story = Story(bus)
    await story.finished()
    assert plain(await story.trace(now=1e6)).splitlines() == [
        f"{story.run_id}: succeeded, level useful, 1 min 40 s: classify chest CT",
        "  +0.0 s  RunRequested: gateway -> task_manager",
        "  +5.0 s  TaskPlanned: task_manager -> data_engineer, after 5.0 s",
        "    +1.0 s  turn 1: read_files ok 0.5 s; list_files ok 1.5 s",
        "    +4.0 s  turn 2: submit_plan ok 1.0 s",
        "  +15.0 s  DatasetPrepared: data_engineer -> scorer, after 10.0 s",
        "    +6.0 s  turn 1: run_script ok 3.0 s landlock; read_files refused 0.2 s [there is no nowhere]",
        "    +12.0 s  turn 2: submit_dataset ok 3.0 s",
        "  +20.0 s  DatasetLocked: scorer -> module_architect, after 5.0 s",
        "    +15.0 s  job pack: queued 1.0 s, ran 2.0 s, 1 attempt, ok",
        "  +30.0 s  ModuleAssembled: module_architect -> model_trainer, after 10.0 s",
        "    +21.0 s  turn 1: submit_module ok 9.0 s",
        "  +1 min 25 s  TrainingFinished: model_trainer -> scorer, after 55.0 s",
        "    +31.0 s  turn 1: edit_files ok 1.0 s; start_training ok",
        "    +32.0 s  job train: queued 4.0 s, ran 44.0 s, 2 attempts, ok, landlock",
        "    +1 min 22 s  turn 2: submit_training ok 3.0 s",
        "  +1 min 35 s  RunScored: scorer -> task_manager, after 10.0 s",
        "  +1 min 40 s  RunFinished: task_manager -> person, after 5.0 s",
        "",
        "role                       turns       actions        tokens       working       waiting         share",
        # Reads run side by side: 1.5 s and not 2 s are waited for.
        "task_manager                   2             3           220         7.5 s         2.5 s           10%",
        "data_engineer                  2             3           220         3.8 s         6.2 s           10%",
        "scorer                         0             0             0        12.0 s         3.0 s           15%",
        "module_architect               1             1           110         1.0 s         9.0 s           10%",
        "model_trainer                  2             3           220         3.0 s        52.0 s           55%",
    ]


async def test_the_figures_cover_the_whole_time(bus: Bus) -> None:
    story = Story(bus)
    await story.finished()
    told = await story.trace(now=1e6)
    assert sum(one.working + one.waiting for one in told.roles) == pytest.approx(told.seconds) == 100
    assert sum(one.share for one in told.roles) == pytest.approx(1)
    assert told.open == ()


async def test_a_run_in_progress_is_shown_as_far_as_it_got(bus: Bus) -> None:
    story = Story(bus)
    order, job = await story.training()
    queued = await story.trace(now=35)
    assert (queued.status, queued.seconds) == ("running", 35)
    (work,) = queued.open
    assert (work.role, work.held) == ("model_trainer", 5)
    assert [(one.outcome, one.at, one.queued, one.attempts) for one in work.jobs] == [("queued", 32, 3, 0)]
    await story.fact(JobStarted, 36, "tool_runner", order, **job)
    running = await story.trace(now=46)
    (one,) = running.open[0].jobs
    assert (one.outcome, one.queued, one.ran, one.attempts) == ("running", 4, 10, 1)
    told = plain(running)
    assert "model_trainer has the run, for 16.0 s" in told and "queued 4.0 s, ran 10.0 s, 1 attempt, running" in told


async def test_work_that_was_stopped_is_not_lost(bus: Bus) -> None:
    story = Story(bus)
    _, job = await story.training()
    await story.fact(CancelRequested, 40, "gateway", None)
    await story.fact(
        JobFinished, 41, "tool_runner", None, **job, asked_by="model_trainer", outcome="cancelled", attempts=0
    )
    await story.fact(RunFinished, 42, "task_manager", None, end="cancelled")
    told = await story.trace(now=1e6)
    assert [(one.kind, one.recipient, one.held) for one in told.handoffs[-2:]] == [
        ("CancelRequested", "task_manager", None),
        ("RunFinished", "person", 2),
    ]
    (work,) = told.open
    assert (work.role, len(work.turns), [job.outcome for job in work.jobs]) == ("model_trainer", 1, ["cancelled"])
    assert "model_trainer was stopped" in plain(told)


async def test_work_handed_back_stands_below_the_fact_that_it_led_to(bus: Bus) -> None:
    story = Story(bus)
    order = await story.assembled()
    await story.woken("model_trainer", order)
    await story.turn("model_trainer", 31, ("submit_return", {}))
    back = await story.fact(
        WorkReturned, 33, "model_trainer", order, target="module_architect", reason="the loss is wrong"
    )
    await story.woken("module_architect", back)
    await story.turn("module_architect", 34, ("read_files", {"paths": ["a"]}))
    await story.fact(RoleFailed, 36, "module_architect", back, end="crashed", reason="no disk")
    first, second, failed = (await story.trace(now=40)).handoffs[-3:]
    assert [(one.kind, one.sender, one.recipient, one.held) for one in (first, second, failed)] == [
        ("ModuleAssembled", "module_architect", "model_trainer", 10),
        ("WorkReturned", "model_trainer", "module_architect", 3),
        ("RoleFailed", "module_architect", "task_manager", 3),
    ]
    assert [[turn.at for turn in one.turns] for one in (first, second, failed)] == [[21], [31], [34]]
    assert first.turns[0].calls[0].ok and first.turns[0].waited == 9
    assert failed.turns[0].calls[0].ok is None, "a role that failed has accepted nothing"


async def test_the_wait_for_a_person_is_no_role_s(bus: Bus) -> None:
    story = Story(bus)
    asked = await story.fact(RunRequested, 0, "gateway", None, requirement="classify chest CT")
    missing = DatasetNeed(need="chest CT")
    needed = await story.fact(DatasetNeeded, 2, "task_manager", asked, missing=missing)
    await story.fact(DatasetAdded, 10, "gateway", needed, dataset_id="one")
    told = await story.trace(now=12)
    assert [(one.role, one.working, one.waiting) for one in told.roles] == [("task_manager", 4, 0), ("person", 8, 0)]
    assert [(one.recipient, one.held) for one in told.handoffs] == [
        ("task_manager", None), ("person", 2), ("task_manager", 8)
    ]  # fmt: skip


async def test_trace_over_http_is_the_same(http: httpx.AsyncClient, bus: Bus) -> None:
    story = Story(bus)
    await story.finished()
    answer = await http.get(f"/runs/{story.run_id}/trace")
    assert Trace.model_validate(answer.json()) == await story.trace(now=1e6)
    assert (await http.get("/runs/nope/trace")).status_code == 404


async def test_the_record_is_the_whole_story(http: httpx.AsyncClient, bus: Bus) -> None:
    story = Story(bus)
    await story.finished()
    listed = {one["name"]: one for one in (await http.get(f"/runs/{story.run_id}/artifacts")).json()}
    assert listed["record"]["ref"] is None and listed["index"]["ref"] == REF.model_dump()
    told = json.loads((await http.get(listed["record"]["url"])).content)
    assert told["request"]["requirement"] == "classify chest CT"
    assert told["plan"]["refused"] == [{"dataset_id": "two", "reason": "is MRI"}]
    assert told["card"]["name"] == "One"
    assert told["index"]["meta"]["grouping"] == "stated" and told["index"]["counts"]["test"] == {"a": 3}
    assert told["lock"]["leakage"]["checks"] == {"copies": 0}
    assert told["module"]["module"]["loss"] == "ce"
    assert (told["hyper_parameters"], told["validation"]) == ({"lr": 0.001}, {"auc": 0.9})
    assert told["score"]["controls"][0]["name"] == "majority" and told["score"]["gates"][0]["passed"]
    assert (told["status"], told["level"], told["end"]["level"]) == ("succeeded", "useful", "useful")
    (pack, train) = told["jobs"].values()
    assert [one["attempt"] for one in train["started"]] == [1, 2] and train["finished"]["metrics"] == {"auc": 0.9}
    assert pack["finished"]["outcome"] == "ok"
    assert told["spent"]["turns"] == 6
    assert [one["event_id"] for one in told["events"]] == [
        event.event_id for _, event in await bus.events(story.run_id)
    ]
    assert {role: len(turns) for role, turns in told["turns"].items()} == {
        "task_manager": 2, "data_engineer": 2, "module_architect": 1, "model_trainer": 2
    }  # fmt: skip
    script = told["turns"]["data_engineer"][0]["calls"][0]
    assert script["arguments"] == {"script": SCRIPT}
    assert (script["ok"], script["seconds"], script["isolation"], script["exit_code"]) == (True, 3, "landlock", 0)
    assert told["turns"]["task_manager"][0]["calls"][0]["result"] == "done"
    Record.model_validate(told)


async def test_the_record_does_not_repeat_what_the_data_engineer_saw(http: httpx.AsyncClient, bus: Bus) -> None:
    story = Story(bus)
    await story.finished()
    seen, _ = await bus.entries(story.run_id, "data_engineer")
    assert any("case_17" in entry.model_dump_json() for entry in seen)
    assert "case_17" not in (await http.get(f"/runs/{story.run_id}/artifacts/record")).text


async def test_the_record_of_a_run_that_has_just_begun(http: httpx.AsyncClient) -> None:
    run_id = (await http.post("/runs", json={"requirement": "classify chest CT"})).json()["run_id"]
    told = (await http.get(f"/runs/{run_id}/artifacts/record")).json()
    assert told["status"] == "running" and len(told["events"]) == 1
    assert told["plan"] is told["score"] is told["package"] is None
