"""Traces of runs whose events and turns lie on a real bus: figures to the tenth, and nothing left out."""

import httpx
import pytest

from services.command.trace_view import plain
from services.gateway.trace_model import Trace
from shared.bus import Bus
from shared.contracts.data import DatasetLocked, DatasetPrepared
from shared.contracts.modules import AssembledModule, ModuleAssembled
from shared.contracts.questions import QuestionAsked
from shared.contracts.runs import (
    CancelRequested,
    DataCard,
    DatasetAdded,
    RoleFailed,
    RunFinished,
    RunRequested,
    TaskPlan,
    TaskPlanned,
    WorkReturned,
)
from shared.contracts.scoring import Metric, RunScored
from shared.contracts.training import JobFinished, JobStarted, TrainingFinished
from tests.asked import for_dataset
from tests.cases import coverage, dataset_facts, lock_fields
from tests.gateway.story import REF, Story


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
        "    +15.0 s  job intake: queued 1.0 s, ran 2.0 s, 1 attempt, ok",
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
    question = for_dataset(story.run_id, "chest CT").question
    needed = await story.fact(QuestionAsked, 2, "task_manager", asked, question=question)
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


async def test_a_segmentation_that_was_handed_back_and_failed_once(bus: Bus) -> None:
    story = Story(bus)
    asked = await story.fact(RunRequested, 0, "gateway", None, requirement="segment organs in CT")
    plan = TaskPlan(
        task="organ_segmentation", dataset_id="one", reason="fits", dimensions=3, modality="CT", metric="dice"
    )
    card = DataCard(dataset_id="one", name="One", description="CT", path="/data/one")
    order = await story.fact(TaskPlanned, 1, "task_manager", asked, plan=plan, card=card)
    names, values = ("liver", "spleen"), {"liver": 1, "spleen": 28}
    known = dataset_facts(task="organ_segmentation", label_names=names, label_values=values)
    counts, patients = {"train": {"all": 6}, "test": {"all": 3}}, {"train": 6, "test": 3}
    for lock, second in ((1, 2), (2, 20)):
        await story.woken("data_engineer", order)
        await story.turn("data_engineer", second, ("submit_dataset", {}))
        prepared = await story.fact(DatasetPrepared, second + 2, "data_engineer", order, rules=REF, coverage=coverage())
        pack = {"job_id": f"{story.run_id}-intake-{lock}", "job": "intake"}
        await story.fact(JobStarted, second + 3, "tool_runner", prepared, **pack)
        await story.fact(JobFinished, second + 5, "tool_runner", prepared, **pack, asked_by="scorer", outcome="ok")
        locked = await story.fact(
            DatasetLocked, second + 6, "scorer", prepared,
            **lock_fields(view=REF, locks=lock, counts=counts, patients=patients, facts=known),
        )  # fmt: skip
        await story.woken("module_architect", locked)
        if lock == 1:
            await story.turn("module_architect", 10, ("return_work", {}))
            order = await story.fact(
                WorkReturned, 12, "module_architect", locked, target="data_engineer", reason="a mask is empty"
            )
    await story.turn("module_architect", 27, ("submit_module", {}))
    module = AssembledModule(template="segmentation", model="unet", loss="dice_ce", input_shape=(1, 8, 8, 8))
    order = await story.fact(
        ModuleAssembled, 30, "module_architect", locked, module=module, batch_shapes={}, workspace_sha256="2" * 64
    )
    await story.woken("model_trainer", order)
    for begin, outcome in ((31, "failed"), (41, "ok")):
        await story.turn("model_trainer", begin, ("start_training", {"command": ["python"]}))
        job = {"job_id": story.call_id("model_trainer", 0), "job": "train"}
        await story.results("model_trainer", {"tool": "start_training", "data": {"jobs": [job["job_id"]]}})
        await story.fact(JobStarted, begin + 1, "tool_runner", order, salt=outcome, **job)
        ended = await story.fact(
            JobFinished, begin + 6, "tool_runner", order, salt=outcome, **job, asked_by="model_trainer",
            outcome=outcome, attempts=1,
        )  # fmt: skip
        await story.woken("model_trainer", ended)
    await story.turn("model_trainer", 48, ("submit_training", {}))
    trained = await story.fact(
        TrainingFinished, 50, "model_trainer", order, package=REF, validation={"dice": 0.8}, attempts=2
    )
    predict = {"job_id": f"{story.run_id}-predict", "job": "predict"}
    await story.fact(JobStarted, 51, "tool_runner", trained, **predict)
    await story.fact(JobFinished, 55, "tool_runner", trained, **predict, asked_by="scorer", outcome="ok")
    dice = Metric(name="dice", value=0.8, low=0.7, high=0.9, n=3, patients=3)
    scored = await story.fact(
        RunScored, 56, "scorer", trained, level="valid", locks=2, scorings=1, metric=dice, controls=(), gates=()
    )
    await story.fact(RunFinished, 57, "task_manager", scored, end="succeeded", level="valid", package=REF)
    assert plain(await story.trace(now=1e6)).splitlines()[:-7] == [
        f"{story.run_id}: succeeded, level valid, 57.0 s: segment organs in CT",
        "  +0.0 s  RunRequested: gateway -> task_manager",
        "  +1.0 s  TaskPlanned: task_manager -> data_engineer, after 1.0 s",
        "  +4.0 s  DatasetPrepared: data_engineer -> scorer, after 3.0 s",
        "    +2.0 s  turn 1: submit_dataset ok 2.0 s",
        "  +8.0 s  DatasetLocked: scorer -> module_architect, after 4.0 s",
        "    +4.0 s  job intake: queued 1.0 s, ran 2.0 s, 1 attempt, ok",
        "  +12.0 s  WorkReturned: module_architect -> data_engineer, after 4.0 s",
        "    +10.0 s  turn 1: return_work ok 2.0 s",
        "  +22.0 s  DatasetPrepared: data_engineer -> scorer, after 10.0 s",
        "    +20.0 s  turn 2: submit_dataset ok 2.0 s",
        "  +26.0 s  DatasetLocked: scorer -> module_architect, after 4.0 s",
        "    +22.0 s  job intake: queued 1.0 s, ran 2.0 s, 1 attempt, ok",
        "  +30.0 s  ModuleAssembled: module_architect -> model_trainer, after 4.0 s",
        "    +27.0 s  turn 2: submit_module ok 3.0 s",
        "  +50.0 s  TrainingFinished: model_trainer -> scorer, after 20.0 s",
        "    +31.0 s  turn 1: start_training ok",
        "    +31.0 s  job train: queued 1.0 s, ran 5.0 s, 1 attempt, failed",
        "    +41.0 s  turn 2: start_training ok",
        "    +41.0 s  job train: queued 1.0 s, ran 5.0 s, 1 attempt, ok",
        "    +48.0 s  turn 3: submit_training ok 2.0 s",
        "  +56.0 s  RunScored: scorer -> task_manager, after 6.0 s",
        "    +50.0 s  job predict: queued 1.0 s, ran 4.0 s, 1 attempt, ok",
        "  +57.0 s  RunFinished: task_manager -> person, after 1.0 s",
    ]


async def test_a_waiting_run_says_so(bus: Bus) -> None:
    story = Story(bus)
    asked = await story.fact(RunRequested, 0, "gateway", None, requirement="grade skin lesions")
    await story.woken("task_manager", asked)
    await story.turn("task_manager", 1, ("ask_person", {}))
    question = for_dataset(story.run_id, "photographs of the skin").question
    await story.fact(QuestionAsked, 2, "task_manager", asked, question=question)
    assert plain(await story.trace(now=12)).splitlines()[:-3] == [
        f"{story.run_id}: waiting_for_answer, 12.0 s: grade skin lesions",
        "  +0.0 s  RunRequested: gateway -> task_manager",
        "  +2.0 s  QuestionAsked: task_manager -> person, after 2.0 s",
        "    +1.0 s  turn 1: ask_person ok 1.0 s",
        "  waiting for a person, for 10.0 s",
        "",
    ]
