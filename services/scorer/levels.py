"""From gates, figures and controls to one word: ran, valid or useful."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from services.scorer.isolation import GATE as ISOLATED
from services.scorer.lock.left_out import GATE as LEFT_OUT
from services.scorer.names import canonical
from services.scorer.residual import GATE as RESIDUAL
from services.scorer.shortcuts import GATE as SHORTCUT
from shared.contracts.data import LeakageReport
from shared.contracts.runs import ALARM, AcceptableRange, Level
from shared.contracts.scoring import CHANCE, Control, Gate, Metric

CAPS = frozenset((LEFT_OUT, ISOLATED, SHORTCUT, RESIDUAL))
"""Gates that keep a score from being useful and nothing else: what was measured holds for the cases that there were."""

RAISED = "suspect a leak"


@dataclass(frozen=True)
class Verdict:
    level: Level
    why: tuple[str, ...]
    """Sentences: what holds the level down, or what it rests on."""


def decide(
    gates: Sequence[Gate],
    metric: Metric | None,
    others: Sequence[Metric],
    controls: Sequence[Control],
    acceptable: AcceptableRange | None,
    permutation_p: float | None,
) -> Verdict:
    """`ran` when a gate failed that is none of `CAPS`; `useful` when the interval lies above every control, the
    permutation test finds no chance and the floor is reached.

    The floor is compared with the figure of the range's own metric, which need not be the plan's.
    """
    failed = [gate for gate in gates if not gate.passed]
    why = [f"{gate.name}: {gate.evidence}" for gate in failed]
    if any(gate.name not in CAPS for gate in failed):
        return Verdict("ran", tuple(why))
    best = strongest(controls)
    if best is None or metric is None:
        why.append("there is no control to compare with")
    elif metric.low <= best.value:
        why.append(f"the interval's lower end {metric.low:.3f} is not above the {best.name} control {best.value:.3f}")
    elif permutation_p is None or permutation_p > CHANCE:
        p = "has no value" if permutation_p is None else f"p {permutation_p:.3f} is above {CHANCE:g}"
        why.append(f"answers exchanged between patients may score as well: {p} in the permutation test")
    if acceptable and acceptable.floor is not None:
        reached = figure(acceptable, metric, others)
        if reached is None:
            why.append(f"the range is in {acceptable.metric}, which is not computed for this task")
        elif reached < acceptable.floor:
            why.append(f"{acceptable.metric} {reached:.3f} is below the floor {acceptable.floor:.3f}")
    if why or metric is None:
        return Verdict("valid", tuple(why))
    return Verdict(
        "useful", (f"{metric.name} {metric.value:.3f} [{metric.low:.3f}, {metric.high:.3f}] beats all controls",)
    )


def alarm(
    acceptable: AcceptableRange | None,
    metric: Metric | None,
    others: Sequence[Metric],
    leakage: LeakageReport,
    permutation_p: float | None,
) -> Gate:
    """Above the range's alarm bar, else `ALARM`, nothing fails, but leak report and permutation test are printed."""
    name, bar, reached = metric.name if metric else "the metric", ALARM, metric.value if metric else None
    if acceptable and acceptable.alarm is not None:
        name, bar, reached = acceptable.metric, acceptable.alarm, figure(acceptable, metric, others)
    if reached is None:
        return Gate(name="alarm", passed=True, evidence=f"{name} has no value for this task")
    if reached <= bar:
        return Gate(name="alarm", passed=True, evidence=f"{name} {reached:.3f} is not above the alarm bar {bar:.3f}")
    checks = ", ".join(f"{name} {count}" for name, count in sorted(leakage.checks.items()))
    p = "undefined" if permutation_p is None else f"{permutation_p:.4f}"
    raised = RAISED if any(leakage.checks.values()) else f"{RAISED}, though no check found one"
    text = (
        f"{name} {reached:.3f} is above the alarm bar {bar:.3f}: {raised}. Leak report: {checks}. Permutation p = {p}."
    )
    return Gate(name="alarm", passed=True, evidence=text)


def strongest(found: Sequence[Control]) -> Control | None:
    return max(found, key=lambda control: control.value, default=None)


def figure(acceptable: AcceptableRange, metric: Metric | None, others: Sequence[Metric]) -> float | None:
    """The value of the range's metric; None when it was not computed."""
    values: Mapping[str, float] = {one.name: one.value for one in (*others, metric) if one}
    return values.get(canonical(acceptable.metric) or "")
