"""Roles that ask a person, over a real bus and gateway: they wait, are answered, and go on."""

from services.gateway.identity import user
from shared.agent.asking import ask
from shared.agent.brief import Brief
from shared.agent.prompt import opening_parts
from shared.contracts.questions import QuestionAnswered
from shared.contracts.runs import Infeasible, RoleFailed
from shared.contracts.transcript import Call
from tests.questions.conftest import PLAN, Script, Town, asks_for_column, plans, the_end


async def test_a_role_asks_waits_is_answered_and_goes_on(town: Town) -> None:
    await town.keeper()
    await town.role("task_manager", plans)
    await town.role("data_engineer", asks_for_column())
    run_id = await town.request()
    assert (await town.question(run_id)).values == ("class", "grade")

    detail = (await town.http.get(f"/runs/{run_id}")).json()
    assert detail["summary"]["status"] == "waiting_for_answer" and detail["summary"]["stage"] is None
    assert detail["question"]["options"][1] == {"value": "grade", "says": "has five values, one of them once"}
    assert detail["summary"]["question"] == "Which column is the label?"

    answer = await town.answer(run_id, "column", "Grade")
    assert answer.status_code == 200, answer.text
    state = await town.end(run_id)
    assert state.finished and (state.finished.end, state.finished.reason) == ("infeasible", "told to take grade")
    assert await town.kinds(run_id) == [
        "RunRequested", "TaskPlanned", "QuestionAsked", "QuestionAnswered", "Infeasible", "RunFinished",
    ]  # fmt: skip
    # The order is the answer, and what was asked before it is paid for once.
    events = [event for _, event in await town.bus.events(run_id)]
    assert isinstance(events[4], Infeasible) and events[4].caused_by == events[3].event_id
    assert (state.spent.turns, state.spent.actions) == (3, 3)
    detail = (await town.http.get(f"/runs/{run_id}")).json()
    assert detail["question"] is None and detail["state"]["answers"] == {"column": "grade"}


async def test_a_replica_killed_while_waiting_is_not_missed(town: Town) -> None:
    await town.role("task_manager", plans)
    await town.role("data_engineer", asks_for_column())
    run_id = await town.request()
    await town.question(run_id)
    await town.kill("data_engineer")
    assert (await town.answer(run_id, "column", "class")).status_code == 200
    await town.role("data_engineer", asks_for_column())
    state = await town.until(run_id, lambda state: state.infeasible)
    assert state.infeasible and state.infeasible.finding.reason == "told to take class"


async def test_a_replica_killed_between_the_turn_and_its_question_asks_once(town: Town) -> None:
    """The turn is on record and the question is not: whoever takes over says what was decided."""
    killed = False

    class Killed(BaseException):
        pass

    def dies(brief: Brief) -> Script:
        nonlocal killed
        if not killed:
            killed = True
            yield (ask("column", "Which?", (("a", "x"), ("b", "y"))),)
        raise Killed

    await town.role("task_manager", plans)
    await town.role("data_engineer", dies)
    run_id = await town.request()
    await town.question(run_id)
    await town.kill("data_engineer")
    await town.role("data_engineer", asks_for_column())
    assert (await town.answer(run_id, "column", "a")).status_code == 200
    state = await town.until(run_id, lambda state: state.infeasible)
    assert state.infeasible and state.infeasible.finding.reason == "told to take a"
    assert (await town.kinds(run_id)).count("QuestionAsked") == 1


async def test_answered_twice_counts_once_and_is_told(town: Town) -> None:
    await town.role("task_manager", plans)
    await town.role("data_engineer", asks_for_column())
    run_id = await town.request()
    await town.question(run_id)
    for _ in range(2):
        assert (await town.answer(run_id, "column", "class")).status_code == 200
    other = await town.answer(run_id, "column", "grade")
    assert other.status_code == 422
    told = f"column answered with class (by {user()}) already; an answer cannot be changed."
    assert other.json()["error"] == told
    assert (await town.kinds(run_id)).count("QuestionAnswered") == 1
    assert (await town.bus.state(run_id)).answers == {"column": "class"}


async def test_a_wrong_answer_is_told_what_may_be_answered(town: Town) -> None:
    await town.role("task_manager", plans)
    await town.role("data_engineer", asks_for_column())
    run_id = await town.request()
    early = await town.answer(run_id, "size", "3")
    assert early.status_code == 422 and "does not ask for size" in early.json()["error"]
    await town.question(run_id)
    wrong = await town.answer(run_id, "column", "colour")
    assert wrong.status_code == 422
    assert "They are: class (has two values); grade (has five values, one of them once)." in wrong.json()["error"]
    other = await town.answer(run_id, "size", "3")
    assert other.status_code == 422 and "it asks for column" in other.json()["error"]
    assert "empty" in (await town.answer(run_id, "column", "  ")).json()["error"]
    assert (await town.http.post("/runs/nope/answers", json={"key": "a", "value": "b"})).status_code == 404
    assert (await town.bus.state(run_id)).status == "waiting_for_answer"


async def test_unattended_takes_the_default(town: Town) -> None:
    await town.keeper()
    await town.role("task_manager", plans)
    await town.role("data_engineer", asks_for_column(default="grade"))
    run_id = await town.request(unattended=True)
    state = await town.end(run_id)
    assert state.finished and state.finished.reason == "told to take grade"
    (answer,) = [event for _, event in await town.bus.events(run_id) if isinstance(event, QuestionAnswered)]
    assert (answer.by, answer.sender) == ("default", "task_manager")


async def test_unattended_without_a_default_ends_with_the_question(town: Town) -> None:
    await town.keeper()
    await town.role("task_manager", plans)
    await town.role("data_engineer", asks_for_column())
    state = await town.end(run_id := await town.request(unattended=True))
    assert state.finished and (state.finished.end, state.finished.reason) == (
        "needs_answer", "Which column is the label?",
    )  # fmt: skip
    late = await town.answer(run_id, "column", "class")
    assert late.status_code == 422 and "asks nothing any more: it is needs_answer" in late.json()["error"]


async def test_a_key_is_asked_for_once_and_a_choice_has_options(town: Town) -> None:
    heard: list[str] = []

    def script(brief: Brief) -> Script:
        if "column" not in brief.answers:
            told = yield (ask("column", "Which?"),)
            heard.extend(result.summary for result in told.results)
            yield (ask("column", "Which?", wants="text"),)
        else:
            told = yield (ask("column", "Really?", wants="text"),)
            heard.extend(result.summary for result in told.results)
            yield the_end(brief, brief.answers["column"])

    await town.role("task_manager", plans)
    await town.role("data_engineer", script)
    run_id = await town.request()
    await town.question(run_id)
    assert (await town.answer(run_id, "column", "  the third\0 one ")).status_code == 200
    state = await town.until(run_id, lambda state: state.infeasible)
    assert state.infeasible and state.infeasible.finding.reason == "the third one"
    # A playbook is replayed when it is resumed, and hears the same again.
    assert {"two options or more" in heard[0], "answered already" in heard[-1]} == {True}


async def test_more_budget_goes_on_at_the_turn_where_the_role_stopped(town: Town) -> None:
    def script(brief: Brief) -> Script:
        for _ in range(4):
            yield (Call(name="fly", arguments={"n": _}),)
        yield the_end(brief, "done")

    await town.keeper()
    await town.role("task_manager", plans)
    await town.role("data_engineer", script)
    run_id = await town.request(budget={"actions": 2})
    question = await town.question(run_id)
    assert question.key == "more-actions" and "2 more" not in question.text and "2 actions more" in str(question)
    assert (await town.answer(run_id, "more-actions", "continue")).status_code == 200
    await town.until(run_id, lambda state: state.budget.actions == 4 and state.question)
    assert (await town.answer(run_id, "more-actions", "continue")).status_code == 200
    state = await town.end(run_id)
    assert state.finished and state.finished.end == "infeasible", state.finished
    assert state.budget.actions == 6 and state.spent.actions == 6, "nothing was done or paid for twice"
    briefs = (await town.http.get(f"/runs/{run_id}/briefs")).json()
    assert briefs.keys() == {"task_manager", "data_engineer"}
    told = opening_parts(Brief.model_validate(briefs["data_engineer"]))
    assert told["Request"] == "classify chest CT" and "of 2 tool calls" in told["Budget"]
    detail = (await town.http.get(f"/runs/{run_id}/trace")).json()
    assert [len(one["turns"]) for one in detail["handoffs"] if one["sender"] == "data_engineer"] == [1, 2, 2]


async def test_no_more_budget_ends_the_run(town: Town) -> None:
    def script(brief: Brief) -> Script:
        while True:
            yield (Call(name="fly"),)

    await town.keeper()
    await town.role("task_manager", plans)
    await town.role("data_engineer", script)
    run_id = await town.request(budget={"actions": 2})
    await town.question(run_id)
    assert (await town.answer(run_id, "more-actions", "end")).status_code == 200
    state = await town.end(run_id)
    assert state.finished and state.finished.end == "out_of_budget" and state.spent.actions == 2

    state = await town.end(await town.request(budget={"actions": 2}, unattended=True))
    assert state.finished and state.finished.end == "out_of_budget"
    assert isinstance(state.failed, RoleFailed) and "2 actions is used up" in state.failed.reason


async def test_a_dataset_of_the_request_exists_and_has_data(town: Town) -> None:
    await town.http.post(
        "/datasets", json={"card": {"dataset name": "Bone", "dataset description": "x"}, "here": False}
    )
    unknown = await town.http.post("/runs", json={"requirement": "x", "dataset": "chestct"})
    assert unknown.status_code == 404 and "Nearest: chest-ct." in unknown.json()["error"]
    described = await town.http.post("/runs", json={"requirement": "x", "dataset": "bone"})
    assert described.status_code == 422 and "only the description" in described.json()["error"]
    both = await town.http.post("/runs", json={"requirement": "x", "approvals": ["plan"], "unattended": True})
    assert both.status_code == 422 and "leave out" in both.json()["error"]
    state = await town.bus.state(await town.request(dataset=PLAN.dataset_id))
    assert state.requested and state.requested.dataset == "chest-ct"
