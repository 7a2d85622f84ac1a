"""The story of a run in a screen of text, told from its events alone."""

import textwrap
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from services.gateway.blocks import clean
from services.gateway.built import built
from services.gateway.questions import asked
from shared.contracts.base import SEGMENTATIONS, Event, Spent
from shared.contracts.runs import Candidate, TaskPlanned
from shared.contracts.scoring import Metric, RunScored
from shared.contracts.state import RunState, fold

_LABEL = 12
_STRUCTURES = 15


def summary(events: Sequence[tuple[int, Event]], width: int = 110) -> str:
    """Plain text, one paragraph a topic; a run that is still going is told as far as it got."""
    if not events:
        return "No event yet."
    state = fold(events[0][1].run_id, events)
    answers = "; ".join(one.told for one in asked([event for _, event in events]) if one.answer)
    parts = [*_end(state), ("Answers", answers), *_plan(state), *_split(state), *_model(state)]
    if state.scored:
        parts += _score(state.scored, masks=bool(state.planned and state.planned.plan.task in SEGMENTATIONS))
    parts += _rest(state)
    return "\n".join(_paragraph(label, text, width) for label, text in parts if text)


def money(spent: Spent) -> str:
    """What the models' endpoints charge, as far as their prices are known; empty where there is nothing to pay."""
    if spent.unpriced:
        return f"more than {spent.usd:.2f} USD" if spent.usd else "cost in USD not known"
    return f"{spent.usd:.2f} USD" if spent.usd else ""


def duration(seconds: float) -> str:
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def one_metric(metric: Metric | None) -> str:
    if metric is None:
        return "none: no usable prediction came"
    return (
        f"{metric.name} {metric.value:.3f}, 95 % interval {metric.low:.3f} to {metric.high:.3f} "
        f"({metric.n} samples of {metric.patients} patients)"
    )


def _end(state: RunState) -> Iterable[tuple[str, str]]:
    end = state.finished
    text = f"{state.run_id}: {state.status}"
    if end:
        text += f", level {end.level}"
        if end.gate:
            text += f", gate {end.gate}"
    yield "Run", text
    if state.requested:
        left = f", without {', '.join(state.requested.without)}" if state.requested.without else ""
        yield "Request", f"{state.requested.requirement} [core {state.requested.core}{left}]"
    reason = (end.reason if end and end.end != "succeeded" else "") or (state.failed.reason if state.failed else "")
    yield "Why", reason
    if state.infeasible:
        yield "Infeasible", state.infeasible.finding.reason
    if state.question and not end:
        yield "Asks", clean(state.question.question.text)


def _plan(state: RunState) -> Iterable[tuple[str, str]]:
    if not state.planned:
        if state.question and state.question.question.wants == "dataset":
            offered = state.question.question.options
            yield "Not taken", _refused(Candidate(dataset_id=one.value, reason=one.says) for one in offered)
        return
    plan = state.planned.plan
    yield "Dataset", f"{state.planned.card.name}{looked_again(state)}: {plan.reason}"
    yield "Not taken", _refused(plan.refused)
    yield "Plan", _plan_line(state.planned)


def looked_again(state: RunState) -> str:
    """What to add where a dataset is named: empty unless its files were looked at for this run."""
    at = state.planned.card.looked_at if state.planned else None
    again = at and state.requested and at > state.requested.at
    return f" (its files had changed; they were looked at again at {at:%H:%M} UTC)" if again else ""


def _refused(candidates: Iterable[Candidate]) -> str:
    return by_reason((one.dataset_id, _short(one.reason)) for one in candidates)


def by_reason(refused: Iterable[tuple[str, str]]) -> str:
    """Datasets and why each was not taken, those with one reason together."""
    found: dict[str, list[str]] = {}
    for dataset, reason in refused:
        found.setdefault(reason, []).append(dataset)
    return "; ".join(f"{', '.join(names)} ({reason})" for reason, names in found.items())


def samples_in(classes: Mapping[str, int]) -> int:
    """Samples of a side: those under `all` where classes cannot tell (none, or several a sample), else their sum."""
    return classes.get("all") or sum(classes.values())


def _plan_line(planned: TaskPlanned) -> str:
    plan = planned.plan
    words = [f"{plan.task}, {plan.dimensions}D {plan.modality}", plan.anatomy, f"metric {plan.metric}"]
    if plan.acceptable and plan.acceptable.floor is not None:
        words.append(f"acceptable from {plan.acceptable.floor:g} ({plan.acceptable.source})")
    if plan.labels:
        words.append(f"labels {', '.join(plan.labels)}")
    if plan.max_train or plan.max_test:
        words.append(f"at most {plan.max_train or 'all'} to train on and {plan.max_test or 'all'} to test on")
    return ", ".join(word for word in words if word)


def _split(state: RunState) -> Iterable[tuple[str, str]]:
    if state.prepared:
        yield "Cases", clean("; ".join(state.prepared.notes))
    counts = state.locked
    if counts:
        for split in ("train", "val", "test"):
            if split in counts.counts:
                classes = counts.counts[split]
                by_class = ", ".join(f"{name} {number}" for name, number in classes.items() if name != "all")
                patients = counts.patients.get(split, 0)
                text = f"{samples_in(classes)} samples of {patients} patients"
                yield f"  {split}", f"{text} ({by_class})" if by_class else text
    if state.locked:
        known = state.locked.facts
        yield "Patients", f"{known.grouping}: {patients_from(state)}; split {known.split_from}"
        yield "Left out", ", ".join(f"{number} x {reason}" for reason, number in left_out_of(state).items())
        checks = ", ".join(f"{name} {number}" for name, number in state.locked.leakage.checks.items())
        yield "Leakage", f"{checks}; locked {state.locks} time{'s' if state.locks > 1 else ''}"
        yield "", " ".join(state.locked.leakage.notes)


def patients_from(state: RunState) -> str:
    """How the rules tell patients apart, in words; later roles are told only how sure that is."""
    return clean(state.prepared.coverage.grouping_from) if state.prepared else "unknown"


def left_out_of(state: RunState) -> dict[str, int]:
    """Reason -> files, rows or cases that are no case: by the rules, and when they were read."""
    found = Counter(state.prepared.coverage.left_out if state.prepared else {})
    intakes = [job for job in state.jobs_done.values() if job.job == "intake" and job.outcome == "ok"]
    if intakes and isinstance(read := intakes[-1].metrics.get("left_out"), dict):
        found.update({str(reason): many for reason, many in read.items() if isinstance(many, int)})
    return {reason: many for reason, many in found.items() if many}


def _model(state: RunState) -> Iterable[tuple[str, str]]:
    if state.assembled:
        package = state.trained.package if state.trained else None
        made = (job for job in state.jobs_done.values() if package and package in job.outputs.values())
        one = built(state.assembled.module, next(made, None))
        augmentation = f", augmentation {one.augmentation}" if one.augmentation else ""
        yield "Model", f"{one.network} on {one.shape} input, loss {one.loss}{augmentation}"
    if state.trained:
        figures = ", ".join(
            f"{name} {value:.3f}" for name, value in state.trained.validation.items() if isinstance(value, float)
        )
        last = state.trained.validation.get("last_fit")
        yield (
            "Training",
            (
                f"{duration(state.trained.seconds)}, {_counted(state.trained.attempts, 'attempt')}"
                + (f"; on validation, by its own word: {_short(figures, 160)}" if figures else "")
                + ("; what is delivered then learned from the validation cases, too" if last else "")
            ),
        )


def _score(scored: RunScored, masks: bool) -> Iterable[tuple[str, str]]:
    yield "Score", one_metric(scored.metric)
    for metric in scored.others:
        yield "", one_metric(metric)
    if masks:
        yield from _structures(scored.per_class)
    else:
        yield (
            "Per class",
            "; ".join(
                f"{label}: " + ", ".join(f"{name} {value:.3g}" for name, value in figures.items())
                for label, figures in scored.per_class.items()
            ),
        )
    controls = [f"{control.name} {control.value:.3f}" for control in scored.controls]
    if scored.permutation_p is not None:
        controls.append(f"permutation test p = {scored.permutation_p:.2g}")
    yield "Controls", ", ".join(controls)
    failed = [gate for gate in scored.gates if not gate.passed]
    if failed:
        yield "Gates", "; ".join(f"FAILED {gate.name}: {gate.evidence}" for gate in failed)
    else:
        yield "Gates", f"all {len(scored.gates)} passed: {', '.join(gate.name for gate in scored.gates)}"
    yield (
        "Level",
        f"{scored.level} (scored {_counted(scored.scorings, 'time')}, locked {_counted(scored.locks, 'time')})",
    )
    if scored.level != "useful":
        yield "", "; ".join(scored.why)
    yield "Rests on", " ".join(scored.rests_on)


def _structures(per_class: Mapping[str, Mapping[str, float]]) -> Iterable[tuple[str, str]]:
    """A line each; of many structures the worst, since these are what a reader has to know of."""
    shown = sorted(per_class, key=lambda name: per_class[name].get("dice", 2.0))
    if len(shown) <= _STRUCTURES:
        shown = list(per_class)
    label = "Structures"
    for name in shown[:_STRUCTURES]:
        figures = per_class[name]
        cases = _counted(round(figures.get("n", 0)), "case")
        text = f"{name}: dice {figures['dice']:.3f} in {cases}" if "dice" in figures else f"{name}: in no case"
        if "hd95" in figures:
            text += f", HD95 {figures['hd95']:.1f}, NSD {figures.get('nsd', 0):.3f}"
        for fault in ("missed", "invented"):
            if figures.get(fault):
                text += f", {fault} in {figures[fault]:.0f}"
        yield label, text
        label = ""
    if len(per_class) > _STRUCTURES:
        yield "", f"and {len(per_class) - _STRUCTURES} more, none of them worse"


def _rest(state: RunState) -> Iterable[tuple[str, str]]:
    spent = state.finished.spent if state.finished else state.spent
    tokens = spent.input_tokens + spent.output_tokens
    yield (
        "Cost",
        (
            f"{_counted(spent.turns, 'turn')}, {_counted(spent.actions, 'action')}, {tokens:,} tokens"
            + (" (estimated)" if spent.tokens_estimated and tokens else "")
            + (f", {told}" if (told := money(spent)) else "")
            + f", {duration(state.last_at - state.first_at)}"
        ),
    )
    if state.finished and state.finished.package:
        yield "Package", f"m3builder fetch {state.run_id} DIR"


def _counted(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"


def _short(text: str, limit: int = 90) -> str:
    return text if len(text) <= limit else text[: limit - 1].rstrip() + "…"


def _paragraph(label: str, text: str, width: int) -> str:
    return textwrap.fill(
        text, width, initial_indent=f"{label:<{_LABEL}}", subsequent_indent=" " * _LABEL, break_on_hyphens=False
    )
