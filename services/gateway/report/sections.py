"""Everything that a report says in words and tables; text and HTML show the same."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from services.gateway.blocks import (
    Section,
    Table,
    clean,
    counted,
    figures_table,
    number,
    pairs,
    section,
    values,
)
from services.gateway.questions import asked
from services.gateway.report.cases import cases
from services.gateway.report.data import data, leakage
from services.gateway.report.facts import Facts, training_job
from services.gateway.report.subgroups import subgroups, worst
from services.gateway.report.verdict import verdict
from services.gateway.summary import by_reason, duration, money
from shared.contracts.runs import WorkReturned
from shared.contracts.scoring import CHANCE, Metric, RunScored
from shared.contracts.training import JobFinished, JobStarted

_FOUR = ((True, True), (True, False), (False, True), (False, False))
_CAUSE = 600
"""Characters of a failed job's summary."""


def sections(facts: Facts) -> tuple[Section, ...]:
    """In reading order; a topic of which nothing is known yet is left out."""
    found = (
        _result(facts), _score(facts), _each(facts), subgroups(facts), cases(facts), _gates(facts), data(facts),
        leakage(facts), _model(facts), _cost(facts),
    )  # fmt: skip
    return tuple(one for one in found if one)


def title(facts: Facts) -> str:
    return f"Run {facts.state.run_id}: {facts.state.status}"


def interval(metric: Metric) -> str:
    return f"{metric.name} {number(metric.value)} [{number(metric.low)}, {number(metric.high)}]"


def _result(facts: Facts) -> Section | None:
    state, scored, end = facts.state, facts.state.scored, facts.state.finished
    reason = (end.reason if end and end.end != "succeeded" else "") or (state.failed.reason if state.failed else "")
    question = state.question.question if state.question else None
    refused = [(one.dataset_id, one.reason) for one in state.planned.plan.refused] if state.planned else []
    if question and question.wants == "dataset":
        refused = [(one.value, one.says) for one in question.options]
    told = pairs(
        ("Request", state.requested.requirement if state.requested else ""),
        ("Headline", interval(scored.metric) + ", 95 % interval" if scored and scored.metric else ""),
        ("Level", verdict(facts)),
        *zip(("It rests on", "", "", ""), scored.rests_on if scored else (), strict=False),
        ("Worst subgroup", worst(facts)),
        ("Failed gate", (end.gate or "") if end else ""),
        ("Why it ended", reason),
        ("Infeasible", state.infeasible.finding.reason if state.infeasible else ""),
        ("Asks", question.text if question and not end else ""),
        ("Answers", "; ".join(one.told for one in asked(facts.events) if one.answer)),
        ("Not taken", by_reason(refused)),
        ("Package", f"sha256 {facts.package.sha256}" if facts.package else ""),
    )
    partial = "" if end else "This report is partial: the run has not ended. What is not below has not happened yet."
    return section("Result", partial, told, *facts.missing)


def _score(facts: Facts) -> Section | None:
    scored = facts.state.scored
    if scored is None:
        return None
    figures = [metric for metric in (scored.metric, *scored.others) if metric]
    metrics = Table(
        tuple(
            (one.name, number(one.value), f"{number(one.low)} to {number(one.high)}", str(one.n), str(one.patients))
            for one in figures
        ),
        ("metric", "value", "95 % interval", "samples", "patients"),
    )
    p = "" if scored.permutation_p is None else f"Permutation test: p = {scored.permutation_p:.4g}."
    plan = facts.state.planned.plan if facts.state.planned else None
    acceptable = plan.acceptable if plan else None
    bar = ""
    if acceptable and (acceptable.floor is not None or acceptable.alarm is not None):
        bounds = {"floor": acceptable.floor, "alarm": acceptable.alarm}
        told = values({name: bound for name, bound in bounds.items() if bound is not None})
        bar = f"Acceptable range in {acceptable.metric}: {told} (from the {acceptable.source})."
    none = "" if scored.metric else "The plan's metric has no value: no usable prediction came, or it is undefined."
    return section("Score on the locked test set", none, metrics, _level(facts, scored), p, bar)


def _level(facts: Facts, scored: RunScored) -> Table:
    """What the level rests on, in one table: the package against each control, the floor, the gates."""
    metric, plan = scored.metric, facts.state.planned.plan if facts.state.planned else None
    rows: list[tuple[str, ...]] = []
    if metric:
        told = f"the lower end of its interval, {number(metric.low)}, has to lie above every control"
        rows.append(("this package", number(metric.value), "", told))
    for one in scored.controls:
        beaten = ("yes" if metric.low > one.value else "NO") if metric else "-"
        rows.append((one.name, number(one.value), beaten, one.detail))
    if (p := scored.permutation_p) is not None:
        held = "yes" if p <= CHANCE else "NO"
        rows.append(("permutation test", f"p {p:.2g}", held, f"at most {CHANCE:g}, or chance is not ruled out"))
    if plan and plan.acceptable and plan.acceptable.floor is not None:
        floor, name = plan.acceptable.floor, plan.acceptable.metric
        reached = next((one.value for one in (metric, *scored.others) if one and one.name == name), None)
        word = "-" if reached is None else "yes" if reached >= floor else "NO"
        shown = "" if reached is None else f"; here {number(reached)}"
        rows.append(("floor", number(floor), word, f"the least {name} that is acceptable{shown}"))
    passed = sum(gate.passed for gate in scored.gates)
    rows.append(("gates", f"{passed} of {len(scored.gates)}", "yes" if passed == len(scored.gates) else "NO", ""))
    rows.append(("level", scored.level, "", "; ".join(facts.details.why)))
    return Table(tuple(rows), ("against", metric.name if metric else "value", "held", "what it is"))


def _each(facts: Facts) -> Section | None:
    scored = facts.state.scored
    if scored is None:
        return None
    several = facts.details.multi_label
    what = "structure" if facts.segmentation else "label" if several else "class"
    four = (_fourfold(facts),) if several else ()
    return section(f"Per {what}", figures_table(what, scored.per_class), *four, *facts.details.rules)


def _fourfold(facts: Facts) -> Table:
    """Of each label by itself: who has it and who was said to; cases without an answer stand apart."""
    cases = [case for case in facts.details.cases if not case.failed]
    rows = []
    for label in facts.details.labels:
        many = Counter((case.holds(label), case.says(label)) for case in cases)
        lost = sum(case.holds(label) for case in facts.unanswered)
        rows.append((label, *(str(many[one]) for one in _FOUR), f"{lost} of {len(facts.unanswered)}"))
    return Table(
        tuple(rows),
        ("label", "has it, found", "has it, missed", "lacks it, claimed", "lacks it, left", "has it, no answer"),
    )


def _gates(facts: Facts) -> Section | None:
    gates = facts.state.scored.gates if facts.state.scored else ()
    rows = tuple((gate.name, "passed" if gate.passed else "FAILED", gate.evidence) for gate in gates)
    return section("Gates", Table(rows, ("gate", "", "evidence")))


def _model(facts: Facts) -> Section | None:
    state, blocks = facts.state, [*facts.built.items()]
    if state.trained:
        blocks += [
            ("Trained", f"{duration(state.trained.seconds)}, {counted(state.trained.attempts, 'attempt')}"),
            *facts.made_by.items(),
            ("Hyper-parameters", values(state.trained.hyper_parameters)),
            ("Validation", values(state.trained.validation)),
            ("Notes", state.trained.notes),
        ]
    started: dict[str, JobStarted] = {}
    rows: list[tuple[str, ...]] = []
    failures: list[str] = []
    delivered = training_job(state, facts.events)
    for event in facts.events:
        if isinstance(event, JobStarted):
            started[event.job_id] = event
        elif isinstance(event, JobFinished):
            started.pop(event.job_id, None)
            what = event.job + (f" {event.tried.name}" if event.tried else "")
            what += " (this package)" if event.job_id == delivered and state.trained else ""
            rows.append((what, event.outcome, duration(event.seconds), str(event.attempts), event.isolation))
            if event.outcome != "ok":
                failures.append(f"Job {event.job}, {event.outcome}: {event.summary[:_CAUSE]}")
    rows += [(event.job, "running", "", str(event.attempt), event.isolation) for event in started.values()]
    jobs = Table(tuple(rows), ("job", "outcome", "time", "attempts", "sandbox"))
    tiers = Table(tuple(_tier(one) for one in facts.tiers), ("before the training", "passed", "time", "what was seen"))
    curves = "No progress of the training is kept: there are no curves." if state.trained and not facts.progress else ""
    return section("Model and training", pairs(*blocks), jobs, tiers, *failures, curves)


def _tier(told: Mapping[str, Any]) -> tuple[str, ...]:
    seconds = told.get("seconds")
    took = duration(seconds) if isinstance(seconds, int | float) else ""
    return str(told.get("tier", "")), "yes" if told.get("passed") is True else "NO", took, str(told.get("text", ""))


def _cost(facts: Facts) -> Section | None:
    state = facts.state
    spent = state.finished.spent if state.finished else state.spent
    told = pairs(
        ("Core", state.requested.core if state.requested else ""),
        ("Without", ", ".join(state.requested.without) if state.requested else ""),
        ("Turns", f"{spent.turns}, with {counted(spent.actions, 'action')}"),
        ("Tokens", _tokens(spent.input_tokens, spent.output_tokens, spent.tokens_estimated)),
        ("Money", money(spent)),
        ("GPU", duration(spent.gpu_seconds) if spent.gpu_seconds else ""),
        ("Wall time", duration(state.last_at - state.first_at)),
    )
    rows = tuple(
        (one.role, str(one.turns), duration(one.working), duration(one.waiting), f"{one.share:.0%}")
        for one in facts.shares
    )
    returned = tuple(
        (event.sender, event.target, event.reason) for event in facts.events if isinstance(event, WorkReturned)
    )
    back = Table(returned, ("handed back by", "to", "because"))
    return section("Spent", told, back, Table(rows, ("role", "turns", "working", "waiting", "share of the time")))


def _tokens(given: int, made: int, estimated: bool) -> str:
    return clean(f"{given:,} in, {made:,} out{' (estimated)' if estimated else ''}") if given + made else ""
