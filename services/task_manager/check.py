"""Does the planning document hold? Pure: facts -> problems."""

from shared.agent.brief import Brief
from shared.agent.role import Facts
from shared.contracts.runs import DatasetNeed, TaskPlan


def check_plan(plan: TaskPlan, facts: Facts, brief: Brief) -> list[str]:
    """The chosen card exists and its data are here; every other card was looked at; the floor was not lowered."""
    problems = []
    cards = {card.dataset_id: card for card in brief.cards}
    card = cards.get(plan.dataset_id)
    if card is None:
        problems.append(f"there is no dataset {plan.dataset_id!r}; registered are: {', '.join(cards) or 'none'}")
    elif not card.here:
        problems.append(f"the data of {plan.dataset_id!r} are not on this system; choose another or submit_need")
    unknown = [item.dataset_id for item in plan.refused if item.dataset_id not in cards]
    if unknown:
        problems.append(f"refused candidates that are not registered: {', '.join(unknown)}")
    if plan.acceptable and plan.acceptable.metric != plan.metric:
        problems.append(f"the acceptable range is for {plan.acceptable.metric}, the plan's metric is {plan.metric}")
    return problems


def check_need(need: DatasetNeed, facts: Facts, brief: Brief) -> list[str]:
    """Every registered card was refused with a reason."""
    refused = {item.dataset_id for item in need.refused}
    missing = [card.dataset_id for card in brief.cards if card.dataset_id not in refused]
    return [f"say why these do not fit: {', '.join(missing)}"] if missing else []
