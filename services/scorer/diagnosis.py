"""Scoring of a diagnosis: class probabilities against labels."""

from collections import Counter
from collections.abc import Mapping

import numpy as np
from pydantic import JsonValue

from services.scorer import calibration
from services.scorer.complete import label_of
from services.scorer.controls import controls
from services.scorer.findings import DRAWS, Asked, Findings, metric_of, patient_numbers
from services.scorer.metrics import METRICS, Cases, bootstrap, over_patients, per_class, value
from services.scorer.predictions import Predictions, read_predictions, unusable
from shared.contracts.scoring import Gate, Metric


def measure(asked: Asked) -> Findings:
    labels = asked.meta.label_names
    if isinstance(asked.answers, Gate):
        read = unusable(asked.names, labels, asked.answers)
    else:
        read = read_predictions(asked.answers, asked.names, labels)
    table = tuple(_table(asked, read))
    if not asked.compute or len(read.failed) == len(asked.names):
        return Findings(gates=read.gates, cases=table)
    cases = _cases(asked, read)
    found = [_metric(name, cases, asked.seed) for name in METRICS]
    found += [_calibration(name, cases, asked.seed) for name in calibration.NAMES]
    figures = tuple(one for one in found if one)
    train = Counter(label_of(row) or "" for row in asked.sealed.view.rows if row.split == "train")
    defined = any(one.name == asked.metric for one in figures)
    against, p = controls(cases, train, asked.metric, DRAWS, asked.seed) if defined else ((), None)
    return Findings(
        gates=read.gates,
        cases=table,
        figures=figures,
        per_class=per_class(cases),
        controls=against,
        permutation_p=p,
        details={"calibration": [dict(one) for one in calibration.bins(cases)]},
    )


def _cases(asked: Asked, read: Predictions) -> Cases:
    numbers: Mapping[str, int] = {label: number for number, label in enumerate(asked.meta.label_names)}
    return Cases(
        truth=np.array([numbers[label_of(row) or ""] for row in asked.sealed.test], dtype=np.int64),
        scores=read.scores,
        predicted=read.predicted,
        patients=patient_numbers(asked.sealed.test),
        classes=asked.meta.label_names,
    )


def _metric(name: str, cases: Cases, seed: int) -> Metric | None:
    found = value(name, cases)
    return None if found is None else metric_of(name, found, bootstrap(cases, name, DRAWS, seed), cases.patients)


def _calibration(name: str, cases: Cases, seed: int) -> Metric | None:
    found = float(calibration.draw_values(name, cases, np.ones((1, len(cases))))[0])
    top = calibration.TOP[name]
    drawn = over_patients(cases.patients, lambda w: calibration.draw_values(name, cases, w), DRAWS, seed, top)
    return metric_of(name, found, drawn, cases.patients) if drawn else None


def _table(asked: Asked, read: Predictions) -> list[JsonValue]:
    names = asked.meta.label_names
    table: list[JsonValue] = []
    for number, row in enumerate(asked.sealed.test):
        line: dict[str, JsonValue] = {"sample_id": row.sample_id, "patient": row.patient, "label": label_of(row)}
        if row.sample_id in read.failed:
            line["failed"] = read.failed[row.sample_id]
        else:
            line["predicted"] = names[int(read.predicted[number])]
            line["probabilities"] = {label: float(p) for label, p in zip(names, read.scores[number], strict=True)}
        table.append(line)
    return table
