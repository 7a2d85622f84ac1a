"""Whether weights of the shelf help: two short trainings, with and without them, compared on the validation part."""

from collections.abc import Generator, Mapping
from typing import Any

from pydantic import JsonValue

from shared.agent.brief import Brief
from shared.agent.calls import call
from shared.agent.tries import figure
from shared.contracts.tools import Try, TryConfigs
from shared.contracts.transcript import Call, Observation
from shared.contracts.weights import Fit, Offered

Changes = dict[str, JsonValue]
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


def trials(brief: Brief, start: Changes) -> Generator[tuple[Call, ...], Observation, tuple[Changes, str]]:
    """Train without and with `start`. -> the changes to keep, and a sentence on both.

    A try that fails says nothing for the weights.
    """
    seconds = PART * brief.train_seconds
    tries = (Try(name="without-weights"), Try(name="with-weights", changes=start))
    ended = yield (call(TryConfigs(tries=tries, seconds=seconds)),)
    figures = figures_of(ended)
    without, begun = (figures.get(one.name) for one in tries)
    better = begun is not None and (without is None or begun > without)
    words = [f"{found:.3f}" if found is not None else "no figure" for found in (without, begun)]
    said = (
        f"the weights {start['model.weights']} {'are' if better else 'are not'} taken: after {seconds:.0f} s the "
        f"validation part had {words[1]} with them, {words[0]} without"
    )
    return start if better else {}, said


def figures_of(ended: Observation) -> dict[str, float | None]:
    """Name of a try -> its validation figure."""
    jobs = (ended.event or {}).get("jobs")
    return {job["tried"]["name"]: figure(job) for job in jobs} if isinstance(jobs, list) else {}  # type: ignore
