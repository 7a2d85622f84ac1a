"""The level and what decided it, in a sentence."""

from services.gateway.blocks import number
from services.gateway.report.facts import Facts
from shared.contracts.scoring import Control, RunScored


def verdict(facts: Facts) -> str:
    """From the score's own gates, figures and controls; the scorer's words are used where it left some."""
    state, scored = facts.state, facts.state.scored
    if scored is None:
        return f"none: {_unscored(facts)}"
    failed = [gate for gate in scored.gates if not gate.passed]
    if failed and scored.level == "ran":
        text = "; ".join(f"gate {gate.name} failed ({gate.evidence})" for gate in failed)
        sentence = f"ran, not valid: {text}."
    elif scored.level == "useful":
        sentence = f"useful: all {len(scored.gates)} gates passed, and {_against(scored)}."
    else:
        why = "; ".join(facts.details.why or [f"gate {gate.name} failed ({gate.evidence})" for gate in failed])
        held = "" if failed else f"all {len(scored.gates)} gates passed, but "
        sentence = f"{scored.level}, not useful: {held}{why or _against(scored)}."
    if state.finished and state.finished.level != scored.level:
        sentence += f" The run ended with level {state.finished.level}."
    return sentence


def strongest(scored: RunScored) -> Control | None:
    return max(scored.controls, key=lambda control: control.value, default=None)


def _against(scored: RunScored) -> str:
    metric, best = scored.metric, strongest(scored)
    if metric is None or best is None:
        return "there is no control to compare with"
    place = "above" if metric.low > best.value else "not above"
    return (
        f"the lower end {number(metric.low)} of the interval of {metric.name} {number(metric.value)} is {place} "
        f"the strongest control, {best.name} {number(best.value)}"
    )


def _unscored(facts: Facts) -> str:
    state = facts.state
    if facts.package:
        return f"there is a package, but no score on the test set (run {state.status})."
    if state.question and not state.finished:
        return "the run waits for a person's answer; there is no package and no score."
    ended = f"the run ended as {state.status}" if state.finished else f"the run is {state.status}"
    at = f" at {state.stage}" if state.stage else ""
    return f"{ended}{at}; there is no package and no score."
