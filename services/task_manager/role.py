"""The Task Manager as data."""

from pathlib import Path

from services.task_manager.check import check_offer, check_plan
from services.task_manager.playbook import playbook
from shared.agent.asking import ask_person
from shared.agent.brief import Brief
from shared.agent.role import Facts, Role, Submission
from shared.contracts.base import Event, Spent
from shared.contracts.runs import TaskPlan, TaskPlanned
from shared.contracts.state import RunState
from shared.contracts.tools import ReadFiles


def planned(plan: TaskPlan, facts: Facts, brief: Brief, state: RunState, spent: Spent) -> Event:
    card = next(card for card in brief.cards if card.dataset_id == plan.dataset_id)
    return TaskPlanned.make(
        run_id=brief.run_id, sender="task_manager", cause=brief.order, plan=plan, card=card, spent=spent
    )


ROLE = Role(
    name="task_manager",
    tools=(ReadFiles,),
    submissions=(
        Submission(tool="submit_plan", answer=TaskPlan, check=check_plan, event=planned),
        ask_person("task_manager", check_offer),
    ),
    prompt=Path(__file__).with_name("prompt.md"),
    playbook=playbook,
)
