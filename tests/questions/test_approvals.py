"""Approvals: asked when the point is reached, and nothing later starts before the yes."""

from typing import Any

import pytest

from services.gateway.identity import user
from services.task_manager.keeper import keep
from shared.contracts.base import AGENTS, Event
from shared.contracts.questions import QuestionAnswered, QuestionAsked
from shared.contracts.runs import RunFinished, RunRequested, WorkReturned
from shared.contracts.state import RunState, fold, order_for
from tests.gateway import reported
from tests.questions.conftest import Town, asks_for_column, plans


class Told:
    """The events of a run, and its state after each."""

    def __init__(self, *approvals: str, **fields: Any) -> None:
        self.state = RunState(run_id="r1")
        self.say(RunRequested, "gateway", requirement="x", approvals=approvals, **fields)

    def say(self, kind: type[Event], sender: Any, cause: Any = None, **fields: Any) -> Any:
        event = kind.make(run_id="r1", sender=sender, cause=cause, salt=str(self.state.head), **fields)
        return self.add(event)

    def add(self, event: Event) -> Any:
        self.state = fold("r1", [(self.state.head + 1, event)], self.state)
        return event

    def again(self, kind: str, **changed: Any) -> None:
        """A fact of a run that is told elsewhere, as another one."""
        fact = next(event for _, event in reported.events() if event.kind == kind)
        self.add(fact.model_copy(update={"run_id": "r1", "event_id": f"e{self.state.head}", **changed}))

    def plan(self) -> None:
        self.again("TaskPlanned")

    def prepare(self) -> None:
        self.again("DatasetPrepared")

    def lock(self) -> None:
        self.again("DatasetLocked")

    def train(self) -> None:
        self.again("ModuleAssembled")
        self.again("TrainingFinished")

    def score(self, level: str = "useful") -> None:
        self.again("RunScored", level=level)

    def keep(self) -> Event | None:
        """What the keeper says now, said."""
        due = keep(self.state)
        return self.add(due) if due else None

    def answer(self, value: str) -> None:
        asked = self.state.question
        assert asked
        self.say(QuestionAnswered, "gateway", asked, key=asked.question.key, value=value, by="anna")

    @property
    def working(self) -> list[str]:
        return [role for role in AGENTS if order_for(role, self.state)]


def test_every_point_is_asked_about_and_holds_up_what_comes_after_it() -> None:
    run = Told("release", "split", "plan")
    assert run.working == ["task_manager"] and run.keep() is None
    run.plan()
    for after, reach, key in (
        (["data_engineer"], run.prepare, "approve-plan"),
        (["module_architect"], run.train, "approve-split"),
        ([], None, "approve-release"),
    ):
        # Also in the moment before the keeper has asked.
        assert run.working == [] and run.state.stage == "task_manager"
        assert run.state.package is None
        asked = run.keep()
        assert isinstance(asked, QuestionAsked) and asked.question.key == key
        assert run.keep() is None and run.state.status == "waiting_for_answer" and run.state.stage is None
        run.answer("yes")
        assert run.working == after and run.state.answers[key] == "yes"
        if reach:
            reach()
        if key == "approve-plan":
            assert run.state.prepared and order_for("scorer", run.state) == run.state.prepared.event_id
            run.lock()
        elif key == "approve-split":
            assert run.state.trained and order_for("scorer", run.state) == run.state.trained.event_id
            run.score()
    end = run.keep()
    assert (
        isinstance(end, RunFinished) and end.end == "succeeded" and end.package == reported.PACKAGE == run.state.package
    )


@pytest.mark.parametrize("point", ["plan", "split", "release"])
def test_a_no_ends_the_run_as_cancelled(point: str) -> None:
    run = Told(point)
    for step in (run.plan, run.prepare, run.lock, run.train, run.score):
        step()
        if run.keep():
            break
    assert run.state.question and run.state.question.question.key == f"approve-{point}"
    run.answer("no")
    assert run.working == [] and not run.state.live
    end = run.keep()
    assert isinstance(end, RunFinished)
    assert (end.end, end.reason) == ("cancelled", f"anna answered approve-{point} with no")
    assert end.package is None and run.state.package is None


def test_what_is_not_wanted_is_not_asked_and_a_bad_score_is_not_released() -> None:
    run = Told()
    for step in (run.plan, run.prepare, run.lock, run.train):
        step()
        assert run.keep() is None
    run = Told("release")
    for step in (run.plan, run.prepare, run.lock, run.train):
        step()
        assert run.keep() is None
    run.score("ran")
    end = run.keep()
    assert isinstance(end, RunFinished) and end.end == "failed_gate" and run.state.package is None


def test_another_split_is_asked_about_again() -> None:
    run = Told("plan", "split")
    run.plan()
    run.keep()
    run.answer("yes")
    run.prepare()
    run.lock()
    run.keep()
    run.answer("yes")
    run.say(WorkReturned, "module_architect", target="data_engineer", reason="NaN")
    assert run.working == ["data_engineer"], "the plan is approved still"
    run.prepare()
    run.lock()
    assert run.working == [] and run.state.awaiting_approval == "split"
    again = run.keep()
    assert isinstance(again, QuestionAsked) and again.question.key == "approve-split"
    run.answer("yes")
    assert run.working == ["module_architect"]


@pytest.mark.parametrize("value", ["yes", "unsaid", "no"])
def test_rules_that_nobody_vouched_for_are_asked_about_where_somebody_is_there(value: str) -> None:
    alone = Told(unattended=True)
    run = Told()
    for one in (alone, run):
        one.plan()
        one.prepare()
        one.again("DatasetLocked", unvouched=True)
    assert alone.keep() is None and alone.working == ["module_architect"]
    asked = run.keep()
    assert isinstance(asked, QuestionAsked) and asked.question.key == "approve-split" and run.working == []
    assert asked.question.values == ("yes", "unsaid", "no") and asked.question.default == "unsaid"
    run.answer(value)
    assert run.working == ([] if value == "no" else ["module_architect"]) and run.state.live == (value != "no")


def test_only_the_keeper_asks_for_approvals_and_only_a_person_gives_them() -> None:
    run = Told("plan")
    run.plan()
    asked = run.keep()
    run.say(QuestionAnswered, "task_manager", asked, key="approve-plan", value="yes", by="anna")
    assert run.state.question == asked and run.working == []

    run = Told("plan")
    run.plan()
    assert isinstance(asked, QuestionAsked)
    run.say(QuestionAsked, "data_engineer", question=asked.question)
    assert run.state.question is None and run.state.awaiting_approval == "plan" and run.working == []

    run = Told("split")
    run.plan()
    forged = asked.question.model_copy(update={"key": "approve-split"})
    run.say(QuestionAsked, "data_engineer", question=forged)
    run.answer("yes")
    run.prepare()
    run.lock()
    assert run.state.awaiting_approval == "split" and run.working == []


async def test_a_plan_is_approved_over_http(town: Town) -> None:
    await town.keeper()
    await town.role("task_manager", plans)
    await town.role("data_engineer", asks_for_column())
    run_id = await town.request(approvals=["plan"])
    question = await town.question(run_id)
    assert question.key == "approve-plan" and "diagnosis on Chest CT (3D CT), judged by auc_macro" in question.text
    assert "They are: yes" in (await town.answer(run_id, "approve-plan", "perhaps")).json()["error"]
    assert (await town.answer(run_id, "approve-plan", "YES")).status_code == 200
    await town.until(run_id, lambda state: state.question and state.question.question.key == "column")

    run_id = await town.request(approvals=["plan"])
    await town.question(run_id)
    assert (await town.answer(run_id, "approve-plan", "no")).status_code == 200
    state = await town.end(run_id)
    assert state.finished and state.finished.end == "cancelled" and user() in state.finished.reason
    assert "DatasetPrepared" not in await town.kinds(run_id)
    record = (await town.http.get(f"/runs/{run_id}/artifacts/record")).json()
    (told,) = record["questions"]
    assert (told["asked_by"], told["answer"], told["by"]) == ("task_manager", "no", user())
    report = (await town.http.get(f"/runs/{run_id}/report")).text
    assert f"approve-plan: no (by {user()})" in report
