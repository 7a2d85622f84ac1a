"""Whether weights of the shelf help: two short trainings, with and without them, compared on the validation part."""

from collections.abc import Generator, Mapping
from typing import Any

import yaml

from services.model_trainer.remedies import Changes, edits
from shared.agent.brief import Brief
from shared.agent.calls import call
from shared.contracts.tools import StartTraining
from shared.contracts.transcript import Call, Observation
from shared.contracts.weights import Fit, Offered

LEAST_SECONDS = 600.0
"""Of a training: in less time a trial of a part of it says nothing."""
PART = 0.15
"""Of the time, that each of the two trials gets."""
TASKS = ("diagnosis", "report_generation")


def candidate(brief: Brief, config: Mapping[str, Any]) -> Changes:
    """What the configuration needs to begin with those weights of the shelf that fit best: the template's own network
    before another one, the smaller before the larger. Nothing where none fit, or the time is short."""
    assert brief.planned is not None and brief.locked is not None
    if brief.planned.plan.task not in TASKS or brief.train_seconds < LEAST_SECONDS:
        return {}
    model, dimensions = config.get("model", {}), brief.locked.facts.dimensions

    def order(found: tuple[Offered, Fit]) -> tuple[bool, int]:
        own = (found[1].backbone, found[1].width) == (model.get("backbone"), model.get("width"))
        return not own, found[0].parameters

    fitting = [(one, fit) for one in brief.weights for fit in one.fits[:1] if fit.dimensions == dimensions]
    if not fitting:
        return {}
    weights, fit = min(fitting, key=order)
    return {"model.backbone": fit.backbone, "model.width": fit.width, "model.weights": weights.path}


def trials(
    brief: Brief, config: str, start: Changes, command: tuple[str, ...]
) -> Generator[tuple[Call, ...], Observation, tuple[Changes, str, str]]:
    """Train without and with `start`. -> the changes to keep, the configuration as it is now, and a sentence on both.

    A trial that fails says nothing for the weights.
    """
    seconds = PART * brief.train_seconds
    model = yaml.safe_load(config).get("model", {})
    before: Changes = {name: model.get(name.partition(".")[2]) for name in start}
    figures: list[float | None] = []
    for change in ({}, start):
        limit: Changes = {"training.train_seconds": int(0.9 * seconds)}
        calls, config = edits("config.yaml", config, {**limit, **change})
        ended = yield (*calls, call(StartTraining(command=command, seconds=seconds)))
        figures.append(figure(ended.event or {}))
    without, begun = figures
    better = begun is not None and (without is None or begun > without)
    words = [f"{found:.3f}" if found is not None else "no figure" for found in figures]
    said = (
        f"the weights {start['model.weights']} {'are' if better else 'are not'} taken: after {seconds:.0f} s the "
        f"validation part had {words[1]} with them, {words[0]} without"
    )
    return start if better else before, config, said


def figure(job: Mapping[str, Any]) -> float | None:
    """The validation figure by which a training chose its weights; None where it did not come to one."""
    metrics = job.get("metrics")
    found = metrics.get("metric") if isinstance(metrics, Mapping) and job.get("outcome") == "ok" else None
    return float(found) if isinstance(found, int | float) else None
