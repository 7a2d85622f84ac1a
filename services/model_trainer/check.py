"""Does the package stand? Pure: what the probe `verify_package` found -> problems."""

from shared.agent.brief import Brief
from shared.agent.role import Facts
from shared.contracts.training import FinishedTraining


def check_training(answer: FinishedTraining, facts: Facts, brief: Brief) -> list[str]:
    """The package predicts by itself, its checksums hold, and its output follows the image."""
    errors = facts.get("errors")
    problems = [str(error) for error in errors] if isinstance(errors, list) else []
    jobs = facts.get("jobs")
    outcome = jobs.get(answer.job_id) if isinstance(jobs, dict) else None
    if outcome != "ok":
        problems.append(
            f"{answer.job_id} is no finished training of this run's present split (it is {outcome or 'unknown'})"
        )
    for key, text in (
        ("checksums_hold", "the checksums of the package do not hold"),
        ("schema_valid", "predictions.json does not have the agreed form"),
        ("output_follows_image", "the prediction does not change when the image does"),
    ):
        if facts.get(key) is False:
            problems.append(text)
    return problems
