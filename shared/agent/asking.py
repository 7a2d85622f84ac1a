"""Asking a person: one submission that all roles share, and the question of a role whose budget is used up."""

from collections.abc import Callable, Sequence

from shared.agent.brief import Brief
from shared.agent.calls import submit
from shared.agent.role import Facts, Submission
from shared.contracts.base import AgentName, Event, Spent
from shared.contracts.questions import DATASET, END, MORE, AskedByRole, Option, Question, QuestionAsked, Wants, more
from shared.contracts.state import RunState
from shared.contracts.transcript import Call

TOOL = "ask_person"
_RESERVED = ("approve-", "more-")


def ask_person(
    sender: AgentName, check: Callable[[Question, Facts, Brief], list[str]] = lambda question, facts, brief: []
) -> Submission:
    """The submission by which `sender` asks a person. `check` finds what would be right in another role only."""

    def event(question: Question, facts: Facts, brief: Brief, state: RunState, spent: Spent) -> Event:
        return QuestionAsked.make(run_id=brief.run_id, sender=sender, cause=brief.order, question=question, spent=spent)

    def problems(question: Question, facts: Facts, brief: Brief) -> list[str]:
        return [*check_question(question, facts, sender), *check(question, facts, brief)]

    return Submission(tool=TOOL, answer=AskedByRole, check=problems, event=event)


def check_question(question: Question, facts: Facts, sender: AgentName) -> list[str]:
    """Pure. `facts["answers"]` holds what was answered so far in the run, by key."""
    problems = []
    answered = facts.get("answers")
    if isinstance(answered, dict) and question.key in answered:
        problems.append(f"{question.key!r} has been answered already; work with that answer, or ask something else")
    if question.key.startswith(_RESERVED):
        problems.append("approvals and more budget are asked for by the system; ask with another key")
    if (question.wants == "dataset") != (question.key == DATASET):
        problems.append(f"a question that wants a dataset has the key {DATASET!r}, and no other has")
    elif question.wants == "dataset" and sender != "task_manager":
        problems.append(
            "only the Task Manager asks for a dataset; end your work by another submission if this one will not do"
        )
    if question.wants == "choice" and len(question.options) < 2:
        problems.append("a choice has two options or more, each with its reason; for free words ask for text")
    if len(set(question.values)) < len(question.options):
        problems.append("two options have the same value")
    if question.default is not None and question.options and question.default not in question.values:
        problems.append(f"the default {question.default!r} is none of the options: {', '.join(question.values)}")
    return problems


def ask(
    key: str, text: str, options: Sequence[tuple[str, str]] = (), default: str | None = None, wants: Wants = "choice"
) -> Call:
    """The call by which a playbook asks; `options` are values with what each says."""
    offered = tuple(Option(value=value, says=says) for value, says in options)
    return submit(TOOL, Question(key=key, text=text, options=offered, default=default, wants=wants))


def ask_for_budget(role: AgentName, bound: str, used_up: float, again: float) -> Question:
    """May a role whose run has `used_up` a bound of its budget spend `again` as much? Answered with MORE or END."""
    what = bound.replace("_", " ")
    return Question(
        key=more(bound),
        text=f"The run's budget of {used_up:g} {what} is used up and the {role.replace('_', ' ')} is not done.",
        options=(
            Option(value=MORE, says=f"go on where it stopped, with {again:g} {what} more"),
            Option(value=END, says="end the run as out_of_budget"),
        ),
        wants="approval",
    )
