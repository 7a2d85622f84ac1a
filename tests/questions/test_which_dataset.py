"""Which dataset: asked for where none fits, answered by adding one or by naming one, or named from the beginning."""

from typing import Any

import pytest

from services.gateway.questions import options
from services.task_manager.check import check_offer, check_plan
from services.task_manager.choice import names
from services.task_manager.playbook import playbook
from shared.agent.asking import check_question
from shared.agent.brief import Brief, make_brief
from shared.contracts.base import AgentName
from shared.contracts.questions import AskedByRole, Question, QuestionAnswered, QuestionAsked
from shared.contracts.runs import DataCard, DatasetAdded, RunRequested, TaskPlan, TaskPlanned
from shared.contracts.state import RunState, fold, order_for
from shared.contracts.transcript import Call, Observation
from shared.errors import UserError
from tests.asked import for_dataset
from tests.cases import told_until

CARDS = (
    DataCard(dataset_id="chest-ct", name="Chest CT", description="3D chest CT for disease diagnosis", path="/d"),
    DataCard(dataset_id="liver-mri", name="Liver MRI", description="3D liver MRI, organ segmentation"),
    DataCard(dataset_id="odd", name="Odd", description="pictures of various things", path="/d"),
)


def brief(requirement: str, dataset: str | None = None, **answers: str) -> Brief:
    asked = RunRequested.make(run_id="r1", sender="gateway", cause=None, requirement=requirement, dataset=dataset)
    return Brief(run_id="r1", role="task_manager", order="o", requested=asked, cards=CARDS, answers=answers)


def decided(its: Brief, *notes: str) -> Call:
    """What the playbook submits; `notes` are what the check had to say to what it submitted before."""
    script = playbook(its)
    next(script)
    seen = Observation(run_id="r1", role="task_manager", number=1)
    (call,) = script.send(seen)
    for note in notes:
        (call,) = script.send(seen.model_copy(update={"notes": (note,)}))
    return call


def plan_of(call: Call) -> TaskPlan:
    assert call.name == "submit_plan"
    return TaskPlan.model_validate(call.arguments)


def question_of(call: Call) -> Question:
    assert call.name == "ask_person"
    return Question.model_validate(call.arguments)


def test_no_dataset_fits_and_the_reasons_are_options() -> None:
    its = brief("grade skin lesions in photographs")
    question = question_of(decided(its))
    assert question.wants == "dataset" and "skin lesions" in question.text and question.default is None
    assert set(question.values) == {card.dataset_id for card in CARDS}
    assert all(option.says for option in question.options)
    assert check_offer(question, {}, its) == [] == check_question(question, {}, "task_manager")
    silent = question.model_copy(update={"options": question.options[:1]})
    assert "each of: liver-mri, odd" in check_offer(silent, {}, its)[0]


def test_datasets_that_fit_equally_are_the_first_options_with_what_tells_them_apart() -> None:
    said = {
        "one": "CT with masks of liver and spleen", "two": "CT with masks of liver and liver tumours", "three": "MRI",
        "four": "radiographs with reports", "five": "chest films with reports", "six": "chest films with reports",
    }  # fmt: skip
    cards = tuple(DataCard(dataset_id=key, name=key.title(), description=text, path="/d") for key, text in said.items())
    question = question_of(decided(brief("segment the liver on CT").model_copy(update={"cards": cards})))
    assert question.text.startswith("One and Two fit about equally. Wanted is a dataset of CT liver images")
    assert question.values[:2] == ("one", "two") and question.default is None
    assert "also about spleen" in question.options[0].says and "also about tumour" in question.options[1].says
    told = options(question, 110).splitlines()
    assert told[0].startswith("   1  one    may fit: its card states organ segmentation, CT, liver")
    assert told[-1] == "      task is report generation, wanted is organ segmentation: 3 five, 4 four, 5 six"


def test_of_two_tasks_that_a_dataset_serves_a_person_says_which() -> None:
    both = DataCard(
        dataset_id="both", name="Both", description="Breast ultrasound, class and mask of each lesion", path="/d"
    )
    its = brief("something for breast ultrasound").model_copy(update={"cards": (both,)})
    question = question_of(decided(its))
    assert (question.key, question.default) == ("task", None)
    assert {"diagnosis", "anomaly_detection"} <= set(question.values) and "report_generation" not in question.values
    assert plan_of(decided(its.model_copy(update={"answers": {"task": "diagnosis"}}))).task == "diagnosis"


def test_a_name_that_is_words_of_the_field_alone_is_meant_where_it_is_spelled_so() -> None:
    assert names("train on Chest CT, please", CARDS[0]) and not names("classify chest CT", CARDS[0])


def test_what_is_no_task_of_this_system_is_told_at_once() -> None:
    question = question_of(decided(brief("predict survival from chest CT")))
    assert question.text.startswith("Nothing is to be trained here: the request asks for a prognosis")


@pytest.mark.parametrize("chosen", [{"dataset": "odd"}, {}])
def test_a_named_dataset_is_taken_and_no_other(chosen: dict[str, str]) -> None:
    its = brief("diagnosis in chest CT", **chosen) if chosen else brief("diagnosis in chest CT")
    plan = plan_of(decided(its))
    assert plan.dataset_id == (chosen.get("dataset") or "chest-ct")
    assert check_plan(plan, {}, its) == []
    other = plan.model_copy(update={"dataset_id": "odd" if plan.dataset_id == "chest-ct" else "chest-ct"})
    assert bool(check_plan(other, {}, its)) == bool(chosen)
    if chosen:
        assert "a person has chosen the dataset 'odd'" in check_plan(other, {}, its)[0]
        assert {one.reason for one in plan.refused} == {"a person has chosen odd"}


def test_the_answer_is_taken_though_the_playbook_had_refused_it() -> None:
    its = brief("classify skin lesions")
    its = its.model_copy(update={"answers": {"dataset": "odd"}})
    plan = plan_of(decided(its))
    assert (plan.dataset_id, plan.task, plan.reason) == ("odd", "diagnosis", "a person has chosen Odd")
    with pytest.raises(UserError, match="'odd', which a person has chosen, cannot be planned: no such metric"):
        decided(its, "no such metric")


def test_what_nothing_says_is_asked() -> None:
    its = brief("make something of these", dataset="odd")
    question = question_of(decided(its))
    assert (question.key, question.wants, len(question.options)) == ("task", "choice", 4)
    assert plan_of(decided(brief("make something of these", dataset="odd", task="diagnosis"))).task == "diagnosis"


@pytest.mark.parametrize(
    ("fields", "sender", "says"),
    [
        ({"key": "dataset"}, "task_manager", "that wants a dataset has the key"),
        ({"key": "which", "wants": "dataset"}, "task_manager", "that wants a dataset has the key"),
        ({"key": "dataset", "wants": "dataset"}, "data_engineer", "only the Task Manager"),
        ({"key": "a", "options": ({"value": "x"}, {"value": "x"})}, "data_engineer", "same value"),
        ({"key": "a", "options": ({"value": "x"}, {"value": "y"}), "default": "z"}, "model_trainer", "none of the"),
        ({"key": "more-actions", "wants": "text"}, "data_engineer", "asked for by the system"),
        ({"key": "known", "wants": "text"}, "module_architect", "answered already"),
    ],
)
def test_questions_that_are_not_asked(fields: dict[str, Any], sender: Any, says: str) -> None:
    question = Question.model_validate({"text": "?"} | fields)
    assert says in "; ".join(check_question(question, {"answers": {"known": "yes"}}, sender))


def test_a_role_is_not_offered_to_ask_for_an_approval() -> None:
    with pytest.raises(ValueError, match="'choice', 'text' or 'dataset'"):
        AskedByRole.model_validate({"key": "a", "text": "?", "wants": "approval"})


def told(*events: Any) -> RunState:
    return fold("r1", enumerate(events, 1))


def test_an_added_dataset_ends_the_wait_and_answers_nothing() -> None:
    asked = RunRequested.make(run_id="r1", sender="gateway", cause=None, requirement="x")
    question = for_dataset("r1", "?", asked)
    added = DatasetAdded.make(run_id="r1", sender="gateway", cause=question, dataset_id="new")
    state = told(asked, question, added)
    assert state.status == "running" and state.answers == {} and order_for("task_manager", state) == added.event_id
    again = for_dataset("r1", "again?", added)
    state = told(asked, question, added, again)
    assert state.question == again and order_for("task_manager", state) is None
    answer = QuestionAnswered.make(run_id="r1", sender="gateway", cause=again, key="dataset", value="odd")
    state = told(asked, question, added, again, answer)
    assert order_for("task_manager", state) == answer.event_id
    assert make_brief("task_manager", answer.event_id, state, CARDS, 60).answers == {"dataset": "odd"}
    card = CARDS[0]
    plan = TaskPlan(task="diagnosis", dataset_id="odd", reason="r", dimensions=2, modality="CT", metric="auc_macro")
    planned = TaskPlanned.make(run_id="r1", sender="task_manager", cause=answer, plan=plan, card=card)
    state = told(asked, question, added, again, answer, planned)
    assert order_for("data_engineer", state) == planned.event_id and state.resumed is None
    # Too late to concern anybody.
    late = DatasetAdded.make(run_id="r1", sender="gateway", cause=planned, dataset_id="late")
    assert order_for("data_engineer", told(asked, question, added, again, answer, planned, late)) == planned.event_id


def test_another_question_is_not_answered_by_a_dataset() -> None:
    asked = RunRequested.make(run_id="r1", sender="gateway", cause=None, requirement="x")
    task = QuestionAsked.make(
        run_id="r1", sender="task_manager", cause=asked, question=Question(key="task", text="?", wants="text")
    )
    added = DatasetAdded.make(run_id="r1", sender="gateway", cause=task, dataset_id="new")
    state = told(asked, task, added)
    assert state.question == task and not state.wants_dataset


def test_what_the_data_engineer_was_told_reaches_no_other_role() -> None:
    """It sees test labels: its questions and the answers to them are words behind the lock."""
    asked, planned = told_until("r1", "data_engineer")
    events: list[Any] = [asked]
    for sender, key in (("task_manager", "task"), ("data_engineer", "column")):
        events += [planned] if sender == "data_engineer" else []
        question = Question(key=key, text="?", wants="text")
        events.append(QuestionAsked.make(run_id="r1", sender=sender, cause=asked, question=question))
        events.append(
            QuestionAnswered.make(run_id="r1", sender="gateway", cause=events[-1], key=key, value=f"{key} said")
        )
    state = told(*events)
    for role in ("task_manager", "module_architect", "model_trainer"):
        assert make_brief(role, "o", state, (), 60).answers == {"task": "task said"}  # type: ignore[arg-type]
    assert make_brief("data_engineer", "o", state, (), 60).answers.keys() == {"task", "column"}
    # Whoever asked begins anew and reads what it had asked; nobody else does.
    roles: tuple[AgentName, ...] = ("task_manager", "data_engineer", "module_architect", "model_trainer")
    own = [make_brief(role, "o", state, (), 60).asked for role in roles]
    assert own == [{"task": "?"}, {"column": "?"}, {}, {}]
