"""The model card: Markdown from facts alone. It travels with the model, so it names no sample of the test set."""

import re
from collections.abc import Iterable

from services.gateway.blocks import clean, counted, figure, number, values
from services.gateway.report.data import SPLIT, excluded_of, sides
from services.gateway.report.facts import Facts
from services.gateway.report.sections import interval
from services.gateway.summary import duration, patients_from
from shared.contracts.scoring import CHANCE

_MARKUP = re.compile(r"[\\`*{}\[\]<>#|&~!]|(?<!\w)_|_(?!\w)|:(?=//)|(?<=www)\.")
_FEW_PATIENTS = 50
"""Below which the card says on how few patients the figures rest."""


def card(facts: Facts) -> str:
    state = facts.state
    asked = state.requested.requirement if state.requested else ""
    parts = [
        f"# Model of run {_md(state.run_id)}",
        f"## Intended task\n\nAsked for, word for word:\n\n> {_md(asked)}"
        + "".join(f"\n\n{one}" for one in _task(facts)),
        _list("Data", _data(facts)),
        _list("Training", _training(facts)),
        _list("Result on the locked test set", _result(facts)),
        _list("Limits", limits(facts)),
        _list("Package", _package(facts)),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def limits(facts: Facts) -> Iterable[str]:
    """Each follows from a fact of the run."""
    state, scored = facts.state, facts.state.scored
    if not state.finished:
        yield "The run has not ended: this card is partial."
    if scored is None:
        yield "There is no independent score."
    elif facts.level != "useful":
        yield f"The level is {facts.level}, which is below useful."
    for gate in scored.gates if scored else ():
        if not gate.passed:
            yield f"The gate {_md(gate.name)} failed."
    meta = state.locked.facts if state.locked else None
    if meta and meta.grouping != "stated":
        yield (
            f"Patients are {meta.grouping}, not stated by the dataset ({_md(patients_from(state))}). Where that is "
            "wrong, samples of one patient may stand on both sides of the split."
        )
    if scored and scored.metric and scored.metric.patients < _FEW_PATIENTS:
        yield f"The figures rest on {counted(scored.metric.patients, 'test patient')}."
    if scored and scored.permutation_p is not None and scored.permutation_p > CHANCE:
        yield f"The permutation test gives p = {scored.permutation_p:.4g}, above {CHANCE:g}: chance is not ruled out."
    if excluded := sum(excluded_of(facts).values()):
        yield f"{excluded:,} files, rows or cases were left out; the model has not been tried on their like."
    if facts.unanswered:
        yield f"{len(facts.unanswered)} of {len(facts.details.cases)} test samples got no usable answer."
    checks = state.locked.leakage.checks if state.locked else {}
    for check, many in checks.items():
        if many:
            yield f"The leak report counts {many} under {_md(check)}."
    if state.prepared:
        yield (
            "Training and test samples are from one dataset: other sites, devices and populations were not tested, and "
            "nothing is claimed about where its images come from or whether they are synthetic."
        )


def _task(facts: Facts) -> Iterable[str]:
    if facts.state.planned:
        plan = facts.state.planned.plan
        images = f"{plan.dimensions}D {plan.modality}" + (f" of {plan.anatomy}" if plan.anatomy else "")
        yield f"Planned as {_md(plan.task)} in {_md(images)}, judged by {_md(plan.metric)}."


def _data(facts: Facts) -> Iterable[str]:
    state = facts.state
    if not state.planned:
        return
    yield f"Dataset: {_md(state.planned.card.name)}"
    for side, samples, patients, classes in sides(facts):
        yield f"{side}: samples {samples}, patients {patients}" + (f" ({_md(classes)})" if classes else "")
    if state.locked:
        meta = state.locked.facts
        yield f"Split: {SPLIT[meta.split_from]}"
        yield f"Patients: {meta.grouping} ({_md(patients_from(state))})"
        for reason, many in excluded_of(facts).items():
            yield f"Left out: {many} ({_md(reason)})"
    if meta_names := (state.locked.facts.label_names if state.locked else ()):
        yield f"Labels: {_md(', '.join(meta_names))}"


def _training(facts: Facts) -> Iterable[str]:
    state = facts.state
    for label, value in (facts.built | (facts.made_by if state.trained else {})).items():
        yield f"{label}: {_md(value)}"
    if not state.trained:
        return
    yield f"Time: {duration(state.trained.seconds)}, {counted(state.trained.attempts, 'attempt')}"
    if state.trained.hyper_parameters:
        yield f"Hyper-parameters: {_md(values(state.trained.hyper_parameters))}"


def _result(facts: Facts) -> Iterable[str]:
    scored = facts.state.scored
    if scored is None:
        return
    for place, metric in enumerate(one for one in (scored.metric, *scored.others) if one):
        tail = f", 95 % interval by bootstrap over {counted(metric.patients, 'patient')}" if not place else ""
        yield _md(interval(metric)) + tail
    for name, row in scored.per_class.items():
        yield f"{_md(name)}: " + ", ".join(f"{_md(key)} {figure(key, value)}" for key, value in row.items())
    for control in scored.controls:
        yield f"Control {_md(control.name)}: {number(control.value)}"
    if scored.permutation_p is not None:
        yield f"Permutation test: p = {scored.permutation_p:.4g}"
    passed = sum(gate.passed for gate in scored.gates)
    yield f"Gates: {passed} of {len(scored.gates)} passed"
    yield f"Level: {facts.level}"
    yield from map(_md, scored.rests_on)


def _package(facts: Facts) -> Iterable[str]:
    if facts.package:
        yield f"sha256 `{facts.package.sha256}` (of the folder's manifest)"
    yield f"Run: {_md(facts.state.run_id)}"


def _list(title: str, lines: Iterable[str]) -> str:
    kept = [f"- {line}" for line in lines]
    return f"## {title}\n\n" + "\n".join(kept) if kept else ""


def _md(text: str) -> str:
    """Shown as it is: no markup, HTML or link of a stranger's takes effect."""
    return _MARKUP.sub(r"\\\g<0>", clean(text))
