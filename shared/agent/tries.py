"""What a role is told of the trainings of its run: one table, best first, and what is left of the budget. Pure."""

from collections.abc import Mapping, Sequence
from math import sqrt
from statistics import fmean, stdev
from typing import Any

from pydantic import JsonValue

from shared.contracts.base import AgentName
from shared.contracts.state import RunState
from shared.contracts.training import JobFinished

TOGETHER = 2
"""Times its `train_seconds`, what all trainings of a run may take together: one, and one that learned from it."""
ARCHITECT = 0.25
"""Of the run's `train_seconds`, what tries of the Module Architect may take."""
_CHANGE, _WHY, _SUMMARY, _LINES = 160, 200, 2000, 24
_PAIRS = 5
"""Validation patients from which on two trainings are compared patient by patient."""


def seconds_left(state: RunState, role: AgentName, train_seconds: float, but: str = "") -> float:
    """For further trainings of `role`. Jobs of the call `but` do not count."""
    trainings = [done for done in state.trainings if not (but and done.job_id.startswith(f"{but}-"))]
    left = TOGETHER * train_seconds - sum(map(_charged, trainings))
    if role == "module_architect":
        own = sum(_charged(done) for done in trainings if done.asked_by == role)
        left = min(left, ARCHITECT * train_seconds - own)
    return left


def _charged(done: JobFinished) -> float:
    """A try, whatever became of it, without what the machine took to start; a training in the workspace where it ended
    ok, as it must be possible to have it again after a failure."""
    if done.tried:
        return min(done.seconds, done.tried.seconds)
    return done.seconds if done.outcome == "ok" else 0.0


def bound(train_seconds: float) -> str:
    """The budget of trainings in a sentence."""
    together = TOGETHER * train_seconds
    return f"A training may take {train_seconds:g} s, all that end ok and all tries {together:g} s together"


def told_of(ended: Sequence[JobFinished]) -> dict[str, JsonValue]:
    """The event that tells the ends of jobs: that of one in the workspace as it is, of tries what decides; the rest of
    these stands in the table."""
    if len(ended) == 1 and not ended[0].tried:
        return ended[0].model_dump(mode="json", exclude={"metrics": {"figures"}})
    wanted = {"job_id": True, "outcome": True, "summary": True, "tried": True}
    jobs = [done.model_dump(mode="json", include=wanted) for done in ended]
    first = next((done for done in ended if done.outcome == "ok"), None)
    for job, done in zip(jobs, ended, strict=True):
        job["summary"] = job["summary"][:_SUMMARY]
        job["metrics"] = {name: done.metrics.get(name) for name in ("metric", "metric_name", "spread")}
        if first and first.tried and done is not first and (found := ahead(done.metrics, first.metrics)):
            job["metrics"]["ahead"] = {"of": first.tried.name, "mean": found[0], "error": found[1]}
    return {"jobs": list(jobs)}


def ahead(metrics: Mapping[str, Any], other: Mapping[str, Any]) -> tuple[float, float] | None:
    """By how much one training does better than the other on the same validation patients, and the standard error of
    that: paired, as patients differ far more from each other than trainings do. None for too few patients."""
    one, two = (_figures(found) for found in (metrics, other))
    pairs = [one[name] - two[name] for name in one.keys() & two.keys()]
    return (fmean(pairs), stdev(pairs) / sqrt(len(pairs))) if len(pairs) >= _PAIRS else None


def _figures(metrics: Mapping[str, Any]) -> dict[str, float]:
    """By patient: Dice, or the probability of what is true."""
    found = metrics.get("figures")
    rows = found.items() if isinstance(found, dict) else ()
    return {name: float(value) for name, value in rows if isinstance(value, int | float)}


def figure(job: Mapping[str, Any]) -> float | None:
    """The validation figure by which a training chose its weights; None where it did not come to one."""
    metrics = job.get("metrics")
    found = metrics.get("metric") if isinstance(metrics, Mapping) and job.get("outcome") == "ok" else None
    return float(found) if isinstance(found, int | float) and not isinstance(found, bool) else None


def table(state: RunState, role: AgentName, train_seconds: float, ended: Sequence[JobFinished] = ()) -> str:
    """All trainings under the present lock, best first; what the best tells, where it is a try that just `ended`."""
    trainings = [done for done in state.trainings if not (done.tried and done.tried.fold_of)]
    figures = {done.job_id: figure(done.model_dump(mode="json")) for done in trainings}
    # Of equals the newer one first.
    best_first = sorted(
        reversed(trainings),
        key=lambda done: (done.outcome != "ok", 1e9 if (found := figures[done.job_id]) is None else -found),
    )
    best = best_first[0] if best_first else None
    lines = [_line(number, done, figures[done.job_id], best) for number, done in enumerate(best_first, 1)]
    if len(lines) > _LINES:
        lines[_LINES:] = [f"... {len(lines) - _LINES} more"]
    folds = _folds([done for done in state.trainings if done not in trainings])
    named = next((str(name) for done in state.trainings if (name := done.metrics.get("metric_name"))), "metric")
    head = f"Trainings of this run, best first (validation {named}):"
    if best and best in ended and best.tried and best.outcome == "ok":
        lines.append(f"{best.tried.name} tells:\n{best.summary[:_SUMMARY]}")
    lines = [*([head, *lines] if lines else []), *folds]
    run, own = (max(0.0, seconds_left(state, one, train_seconds)) for one in ("model_trainer", role))
    share = f"; of them {own:.0f} s for the Module Architect" if role == "module_architect" else ""
    jobs = len(state.trainings)
    lines.append(f"{bound(train_seconds)}. Left: {run:.0f} s{share}; {jobs} job{'s' * (jobs != 1)} so far.")
    return "\n".join(lines)


def _folds(trainings: Sequence[JobFinished]) -> list[str]:
    """Tries that were trained in folds, best first, compared on the patients of all of these."""
    tries: dict[str, list[JobFinished]] = {}
    for done in trainings:
        tries.setdefault(done.tried.fold_of if done.tried else "", []).append(done)
    found = {name: [figure(one.model_dump(mode="json")) for one in folds] for name, folds in tries.items()}
    means = {name: fmean(value or 0.0 for value in values) for name, values in found.items() if None not in values}
    patients = {
        name: {"figures": {key: value for one in folds for key, value in _figures(one.metrics).items()}}
        for name, folds in tries.items()
    }
    best_first = sorted(tries, key=lambda name: -means.get(name, -1e9))
    lines = []
    for name in best_first:
        each = [
            f"{one.outcome}, {_why(one)}" if value is None else f"{value:.4f}"
            for one, value in zip(tries[name], found[name], strict=True)
        ]
        parts = [f"{means[name]:.4f}" if name in means else "no figure", f"folds {', '.join(each)}"]
        if name in means and (behind := ahead(patients[best_first[0]], patients[name])) and name != best_first[0]:
            parts.append(f"patient by patient {behind[0]:.4f} ± {behind[1]:.4f} behind the first")
        parts.append(f"{len(patients[name]['figures'])} patients")
        lines.append(f"- {name}: {'; '.join(parts)}. {_change(tries[name][0])}".rstrip())
    return ["In folds, on other patients than the lock's, best first:", *lines] if lines else []


def _line(number: int, done: JobFinished, value: float | None, best: JobFinished | None) -> str:
    metrics, tried = done.metrics, done.tried
    name = tried.name if tried else f"workspace ({done.job_id})"
    if done.outcome != "ok":
        return f"{number}. {name}: {done.outcome} after {done.seconds:.0f} s. {_change(done)}Why: {_why(done)}"
    spread, epochs, seconds = (_number(metrics.get(key)) for key in ("spread", "epochs", "seconds"))
    said = "undefined" if value is None else f"{value:.4f}"
    if spread is not None:
        said += f" ± {spread:.4f}" if spread >= 0.00005 else " (all cases alike: they cannot say which try is better)"
    parts = [said]
    if best and best is not done and (behind := ahead(best.metrics, done.metrics)):
        parts.append(f"patient by patient {behind[0]:.4f} ± {behind[1]:.4f} behind the first")
    if epochs:
        each = f" of {(seconds or done.seconds) / epochs:.1f} s" if epochs >= 0.01 else ""
        parts.append(f"{epochs:g} epochs{each}")
    parts.append(f"{_charged(done):.0f} s counted" if tried else f"{done.seconds:.0f} s in all")
    curve = metrics.get("curve")
    points = curve.get("metric") if isinstance(curve, dict) else None
    if isinstance(points, list) and points:
        parts.append("curve " + " ".join(f"{point:.3f}" for point in points if isinstance(point, int | float)))
    return f"{number}. {name}: {', '.join(parts)}. {_change(done)}".rstrip()


def _why(done: JobFinished) -> str:
    """Cause and direction where the runner knew them; else how its output begins and ends."""
    first, *rest = [line.strip() for line in done.summary.splitlines() if line.strip()] or ["nothing was said"]
    if not first.startswith("train ended"):
        return " ".join([first, *rest[:1]])[:_WHY]
    said = [line for line in rest if not line.startswith("Traceback")] or [first]
    return " ... ".join(dict.fromkeys((said[0][:_WHY], said[-1][:_WHY])))


def _change(done: JobFinished) -> str:
    return f"{done.tried.change[:_CHANGE]}. " if done.tried else ""


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
