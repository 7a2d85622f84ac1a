"""Scoring of a diagnosis: probabilities against labels, one of each sample or several that may hold."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

import numpy as np
from pydantic import JsonValue

from services.scorer.classes import calibration, labels, metrics
from services.scorer.classes.controls import controls, label_controls
from services.scorer.classes.labels import LabelCases
from services.scorer.classes.metrics import Cases
from services.scorer.classes.predictions import Predictions, read_predictions, unusable
from services.scorer.findings import DRAWS, Asked, Findings, metric_of, patient_numbers
from services.scorer.names import KAPPA
from services.scorer.patients import Floats, Interval, Ints, over_patients
from services.scorer.rows import label_of, several_labels
from shared.contracts.scoring import Gate, Metric

BY_PATIENT = "auc_macro_by_patient"
"""Beside the figures over samples: over patients, by the mean of the probabilities of a patient's samples."""

AnyCases = TypeVar("AnyCases", Cases, LabelCases)


def measure(asked: Asked) -> Findings:
    names, several = asked.facts.label_names, several_labels(asked.test)
    if isinstance(asked.answers, Gate):
        read = unusable(asked.names, names, asked.answers, several)
    else:
        read = read_predictions(asked.answers, asked.names, names, several)
    if not asked.compute or len(read.failed) == len(asked.names):
        return Findings(gates=read.gates, cases=tuple(_table(asked, read, several)))
    return _several(asked, read) if several else _single(asked, read)


def _single(asked: Asked, read: Predictions) -> Findings:
    numbers: Mapping[str, int] = {label: number for number, label in enumerate(asked.facts.label_names)}
    cases = Cases(
        truth=np.array([numbers[label_of(row) or ""] for row in asked.test], dtype=np.int64),
        scores=read.scores,
        predicted=read.predicted,
        patients=patient_numbers(asked.test),
        classes=asked.facts.label_names,
    )
    found = [
        _metric(name, metrics.value(name, cases), metrics.bootstrap(cases, name, DRAWS, asked.seed), cases.patients)
        for name in metrics.METRICS
        if name != KAPPA or asked.facts.ordered
    ]
    if people := metrics.by_patient(cases):
        interval = metrics.bootstrap(people, "auc_macro", DRAWS, asked.seed)
        found.append(_metric(BY_PATIENT, metrics.value("auc_macro", people), interval, people.patients))
    for name, top in calibration.TOP.items():
        values = partial(calibration.draw_values, name, cases)
        found.append(_calibration(name, cases.patients, values, asked.seed, top))
    figures = tuple(one for one in found if one)
    train = Counter(label_of(row) or "" for row in asked.train)
    defined = any(one.name == asked.metric for one in figures)
    against, p = controls(cases, train, asked.metric, DRAWS, asked.seed) if defined else ((), None)
    return Findings(
        gates=read.gates,
        cases=tuple(_table(asked, read, several=False)),
        figures=figures,
        per_class=metrics.per_class(cases),
        controls=against,
        permutation_p=p,
        details={"calibration": [dict(one) for one in calibration.bins(cases)]},
        part=_part(asked, cases, metrics.value, metrics.bootstrap),
    )


def _several(asked: Asked, read: Predictions) -> Findings:
    names = asked.facts.label_names
    cases = LabelCases(
        truth=labels.truth_of([row.label or () for row in asked.test], names),
        scores=read.scores,
        answered=read.answered,
        patients=patient_numbers(asked.test),
        labels=names,
    )
    found = [
        _metric(name, labels.value(name, cases), labels.bootstrap(cases, name, DRAWS, asked.seed), cases.patients)
        for name in labels.METRICS
    ]
    if people := labels.by_patient(cases):
        interval = labels.bootstrap(people, "auc_macro", DRAWS, asked.seed)
        found.append(_metric(BY_PATIENT, labels.value("auc_macro", people), interval, people.patients))
    for name in calibration.NAMES:
        found.append(
            _calibration(name, cases.patients, partial(calibration.label_draw_values, name, cases), asked.seed)
        )
    figures = tuple(one for one in found if one)
    train = labels.truth_of([row.label or () for row in asked.train], names).mean(axis=0)
    defined = any(one.name == asked.metric for one in figures)
    against, p = label_controls(cases, train, asked.metric, DRAWS, asked.seed) if defined else ((), None)
    return Findings(
        gates=read.gates,
        cases=tuple(_table(asked, read, several=True)),
        figures=figures,
        per_class=labels.per_label(cases),
        controls=against,
        permutation_p=p,
        details={
            "multi_label": True,
            "rules": [*labels.rules(cases)],
            "calibration": [dict(one) for one in calibration.label_bins(cases)],
        },
        part=_part(asked, cases, labels.value, labels.bootstrap),
    )


def _part(
    asked: Asked,
    cases: AnyCases,
    value: Callable[[str, AnyCases], float | None],
    bootstrap: Callable[[AnyCases, str, int, int], Interval | None],
) -> Callable[[Ints], Metric | None]:
    def part(places: Ints) -> Metric | None:
        arrays: dict[str, Any] = {name: one[places] for name, one in vars(cases).items() if isinstance(one, np.ndarray)}
        arrays["patients"] = patient_numbers([asked.test[place] for place in places])
        some = replace(cases, **arrays)
        drawn = bootstrap(some, asked.metric, DRAWS, asked.seed)
        return _metric(asked.metric, value(asked.metric, some), drawn, some.patients)

    return part


def _metric(name: str, found: float | None, interval: Interval | None, patients: Ints) -> Metric | None:
    return None if found is None else metric_of(name, found, interval, patients)


def _calibration(
    name: str, patients: Ints, values: Callable[[Floats], Floats], seed: int, top: float = 1.0
) -> Metric | None:
    found = float(values(np.ones((1, len(patients))))[0])
    drawn = over_patients(patients, values, DRAWS, seed, top)
    return metric_of(name, found, drawn, patients) if drawn else None


def _table(asked: Asked, read: Predictions, several: bool) -> list[JsonValue]:
    names = asked.facts.label_names
    table: list[JsonValue] = []
    for number, row in enumerate(asked.test):
        line: dict[str, JsonValue] = {"sample_id": row.sample_id, "patient": row.patient}
        line["label"] = list(row.label or ()) if several else label_of(row)
        if row.sample_id in read.failed:
            line["failed"] = read.failed[row.sample_id]
        else:
            scores = [float(score) for score in read.scores[number]]
            said = [name for name, score in zip(names, scores, strict=True) if score >= labels.SURE]
            line["predicted"] = [*said] if several else names[int(read.predicted[number])]
            line["probabilities"] = dict(zip(names, scores, strict=True))
        table.append(line)
    return table
