"""What a person is asked before a run goes on from its plan, its split or its score."""

from shared.contracts.base import Event
from shared.contracts.data import DatasetLocked
from shared.contracts.flow import STAGES
from shared.contracts.questions import NO, UNSAID, YES, Option, Point, Question, QuestionAsked, approve
from shared.contracts.runs import TaskPlanned
from shared.contracts.scoring import RunScored
from shared.contracts.state import RunState


def approval(state: RunState, point: Point) -> QuestionAsked:
    """Caused by what is to be approved, so that another plan, split or score is another question."""
    fact = next(state.fact(stage) for stage in STAGES if stage.approval == point)
    unvouched = isinstance(fact, DatasetLocked) and fact.unvouched
    unsaid = Option(value=UNSAID, says="go on; nobody vouches for the rules, and the score is `valid` at most")
    question = Question(
        key=approve(point),
        text=_text(fact)[:4000],
        options=(
            Option(value=YES, says="go on"),
            *[unsaid] * unvouched,
            Option(value=NO, says="end the run as cancelled"),
        ),
        default=UNSAID if unvouched else None,
        wants="approval",
    )
    return QuestionAsked.make(
        run_id=state.run_id, sender="task_manager", cause=fact, salt=question.key, question=question
    )


def _text(fact: Event | None) -> str:
    match fact:
        case TaskPlanned():
            plan = fact.plan
            return (
                f"May this plan be carried out? {plan.task.replace('_', ' ')} on {fact.card.name} ({plan.dimensions}D "
                f"{plan.modality}), judged by {plan.metric}: {plan.reason}"
            )
        case DatasetLocked():
            sides = ", ".join(f"{side} {number}" for side, number in fact.patients.items())
            leaks = ", ".join(f"{name} {number}" for name, number in fact.leakage.checks.items())
            return (
                f"May a model be trained on this split? Patients: {sides}. Leakage checks: {leaks or 'none'}. A yes "
                f"also vouches for the rules that found its cases: `m3builder rules {fact.run_id} FILE` brings them. "
                "They say how cases are found; a list of cases with their classes could tell the answers of the test. "
                f"{' '.join(fact.leakage.notes)}"
            )
        case RunScored(metric=metric):
            figures = f", {metric.name} {metric.value:.3f} ({metric.low:.3f} to {metric.high:.3f})" if metric else ""
            return f"May this package be handed out? Its level is {fact.level}{figures}"
        case _:
            raise ValueError("a point that was not reached is not approved")
