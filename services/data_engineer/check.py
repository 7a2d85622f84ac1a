"""Do the rules hold? Pure: what trusted programs found on the whole dataset -> problems."""

from pydantic import ValidationError

from shared.agent.brief import Brief
from shared.agent.role import Facts
from shared.contracts.cases import Coverage
from shared.contracts.data import PreparedDataset
from shared.contracts.runs import Infeasibility

SHOWN = 5


def check_dataset(answer: PreparedDataset, facts: Facts, brief: Brief) -> list[str]:
    """The rules can be carried out, contradict nothing, and leave enough for a model of the plan's task."""
    if problems := _errors(facts):
        return problems
    try:
        coverage = Coverage.model_validate(facts.get("coverage"))
    except ValidationError:
        return ["the rules could not be carried out: there is no coverage"]
    problems = [*coverage.problems, *coverage.conflicts[:SHOWN]]
    if (more := len(coverage.conflicts) - SHOWN) > 0:
        problems.append(f"and {more} more contradictions")
    plan = brief.planned.plan if brief.planned else None
    if plan and coverage.task != plan.task:
        problems.append(f"the rules are for {coverage.task}, the plan is {plan.task}")
    if facts.get("listed") != answer.listed_path:
        problems.append(
            f"`listed` in the rules is {facts.get('listed')}, listed_path says {answer.listed_path}: make them one"
        )
    return problems


def check_infeasible(answer: Infeasibility, facts: Facts, brief: Brief) -> list[str]:
    """The probe `verify_infeasible` has looked at the dataset itself: the claim must hold there."""
    problems = _errors(facts)
    if not answer.evidence:
        problems.append("an honest end needs evidence: what did you look at, and what did it show?")
    if facts.get("holds") is not True and not problems:
        problems.append(f"the probe could not confirm the claim {answer.claim}")
    return problems


def _errors(facts: Facts) -> list[str]:
    errors = facts.get("errors")
    return [str(error) for error in errors] if isinstance(errors, list) else []
