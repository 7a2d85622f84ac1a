"""Does the planning document hold? Pure: facts -> problems."""

from shared.agent.brief import Brief
from shared.agent.role import Facts
from shared.contracts.questions import DATASET, Question
from shared.contracts.runs import TaskPlan


def check_plan(plan: TaskPlan, facts: Facts, brief: Brief) -> list[str]:
    """The chosen card exists and its data are here; every other card was looked at; the floor was not lowered."""
    problems = []
    cards = {card.dataset_id: card for card in brief.cards}
    card = cards.get(plan.dataset_id)
    if card is None:
        problems.append(f"there is no dataset {plan.dataset_id!r}; registered are: {', '.join(cards) or 'none'}")
    elif not card.here:
        problems.append(f"the data of {plan.dataset_id!r} are not on this system; choose another or ask_person")
    named = given(brief)
    if named and plan.dataset_id != named:
        problems.append(f"a person has chosen the dataset {named!r}: plan it and no other, or ask_person for another")
    unknown = [item.dataset_id for item in plan.refused if item.dataset_id not in cards]
    if unknown:
        problems.append(f"refused candidates that are not registered: {', '.join(unknown)}")
    if plan.acceptable and plan.acceptable.metric != plan.metric:
        problems.append(f"the acceptable range is for {plan.acceptable.metric}, the plan's metric is {plan.metric}")
    return problems


def check_offer(question: Question, facts: Facts, brief: Brief) -> list[str]:
    """Who asks for a dataset says of every registered card why it does not fit."""
    if question.wants != "dataset":
        return []
    cards = {card.dataset_id: card for card in brief.cards}
    problems = []
    silent = cards.keys() - {option.value for option in question.options if option.says}
    if silent:
        problems.append(f"give an option with the reason why it does not fit for each of: {', '.join(sorted(silent))}")
    unknown = [value for value in question.values if value not in cards]
    if unknown:
        problems.append(f"options that are not registered: {', '.join(unknown)}")
    if question.default and not (question.default in cards and cards[question.default].here):
        problems.append(f"the data of the default {question.default!r} are not on this system")
    return problems


def given(brief: Brief) -> str | None:
    """The dataset that a person has chosen: the answer to a question, else what the request came with."""
    return brief.answers.get(DATASET) or brief.requested.dataset
