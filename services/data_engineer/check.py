"""Do the rules hold? Pure: what trusted programs found on the whole dataset -> problems."""

from collections.abc import Sequence

from pydantic import ValidationError

from shared.agent.brief import Brief
from shared.agent.role import Facts
from shared.contracts.cases import Coverage, Proposal
from shared.contracts.data import PreparedDataset
from shared.contracts.runs import Infeasibility
from shared.contracts.tools import ProposeRules, ToolResult, TryRules

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


def unread(facts: Facts, beside: Sequence[ToolResult], before: Sequence[ToolResult]) -> list[str]:
    """What `try_rules` in the turn of the submission tells for the first time. Of several the one that tried the rules
    submitted counts."""
    told = [one for result in before for one in _coverages(result)]
    tried = [result for result in beside if result.tool == TryRules.tool]
    found = [one for result in tried for one in _coverages(result)]
    same = [one for one in found if one.model_dump(mode="json") == facts.get("coverage")]
    if tried and not found:
        return ["`try_rules` beside it failed: read why, and submit again"]
    if found and not same:
        return ["`try_rules` beside it tried other rules than those submitted: make them one"]
    return [
        f"`try_rules` beside it leaves out {one.lost:,} files, rows or cases, which no answer before told: read why, "
        "and submit again if that is meant"
        for one in same[:1]
        if one.lost and not _told(one, told)
    ]


def _told(found: Coverage, before: Sequence[Coverage]) -> bool:
    """Whether an earlier answer lost the same number in all, or earlier ones no fewer for each reason."""
    each = all(
        many <= max((one.left_out.get(why, 0) for one in before), default=0) for why, many in found.left_out.items()
    )
    return each or any(one.lost == found.lost for one in before)


def _coverages(result: ToolResult) -> list[Coverage]:
    """That a search, or rules that were tried, gave."""
    if result.tool == TryRules.tool and "coverage" in result.data:
        return [Coverage.model_validate(result.data["coverage"])]
    proposals = result.data.get("proposals") if result.tool == ProposeRules.tool else None
    return [Proposal.model_validate(one).coverage for one in proposals] if isinstance(proposals, list) else []


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
