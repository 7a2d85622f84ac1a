"""From sealed answers and predictions to every figure of a `RunScored`. Pure, and deterministic for a given seed."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from pydantic import JsonValue

from services.scorer.controls import controls
from services.scorer.levels import Verdict, alarm, decide
from services.scorer.lock import Sealed, label_of
from services.scorer.metrics import METRICS, Cases, bootstrap, per_class, value
from services.scorer.predictions import Predictions, read_predictions, unusable
from shared.contracts.data import DatasetLocked, DatasetPrepared, IndexMeta
from shared.contracts.runs import AcceptableRange
from shared.contracts.scoring import Control, Gate, Metric

DRAWS = 1000


@dataclass(frozen=True)
class Score:
    metric: Metric | None
    others: tuple[Metric, ...]
    per_class: dict[str, dict[str, float]]
    controls: tuple[Control, ...]
    permutation_p: float | None
    gates: tuple[Gate, ...]
    verdict: Verdict
    details: dict[str, JsonValue]
    """Per-case table and what a reader needs to check the figures; names test samples, so it stays out of events."""


def score(
    sealed: Sealed,
    prepared: DatasetPrepared,
    locked: DatasetLocked,
    metric: str,
    acceptable: AcceptableRange | None,
    answers: bytes | Gate,
    seed: int = 0,
) -> Score:
    """Score what a package answered: the bytes of its predictions, or the gate that says why there are none.

    Without any usable answer there are no figures and `metric` is None.
    """
    meta = prepared.meta
    names = [row.sample_id for row in sealed.test]
    if isinstance(answers, Gate):
        read = unusable(names, meta.label_names, answers)
    else:
        read = read_predictions(answers, names, meta.label_names)
    split_gates = _split_gates(sealed, prepared, locked)
    gates = [*split_gates, *read.gates]
    nothing = len(read.failed) == len(names) or not all(gate.passed for gate in split_gates)
    cases = None if nothing else _cases(sealed, meta, read)
    found = [_metric(name, cases, seed) for name in METRICS] if cases else []
    figures = {one.name: one for one in found if one}
    headline = figures.get(metric)
    if headline is None:
        gates.append(Gate(name="metric_defined", passed=False, evidence=f"{metric} has no value on these answers"))
    others = tuple(one for one in figures.values() if one.name != metric)
    train = Counter(label_of(row) or "" for row in sealed.view.rows if row.split == "train")
    against, p = controls(cases, train, metric, DRAWS, seed) if cases and headline else ((), None)
    gates.append(alarm(acceptable, headline, others, locked.leakage, p))
    verdict = decide(gates, headline, others, against, acceptable)
    return Score(
        metric=headline,
        others=others,
        per_class=per_class(cases) if cases else {},
        controls=against,
        permutation_p=p,
        gates=tuple(gates),
        verdict=verdict,
        details={
            "level": verdict.level,
            "why": list(verdict.why),
            "interval": {"method": "percentile bootstrap over patients", "draws": DRAWS, "seed": seed},
            "leakage": dict(locked.leakage.checks),
            "grouping": meta.grouping,
            "labels": list(meta.label_names),
            "cases": _table(sealed, meta, read),
        },
    )


def _split_gates(sealed: Sealed, prepared: DatasetPrepared, locked: DatasetLocked) -> tuple[Gate, ...]:
    same = sealed.manifest_sha256 == locked.manifest_sha256 and prepared.index.sha256 == locked.index_sha256
    found = {name: count for name, count in locked.leakage.checks.items() if name != "content_not_compared"}
    checks = ", ".join(f"{name} {count}" for name, count in sorted(locked.leakage.checks.items()))
    return (
        Gate(
            name="split_unchanged",
            passed=same,
            evidence="the split is the one that was locked" if same else "the split is not the one that was locked",
        ),
        Gate(
            name="no_patient_on_both_sides",
            passed=not any(found.values()) and not sealed.problems,
            # Where patients were inferred a reader has to know: the gate is then only as good as the inference.
            evidence=f"{checks}; grouping: {prepared.meta.grouping} ({prepared.meta.grouping_from})",
        ),
    )


def _cases(sealed: Sealed, meta: IndexMeta, read: Predictions) -> Cases:
    numbers: Mapping[str, int] = {label: number for number, label in enumerate(meta.label_names)}
    _, patients = np.unique([row.patient for row in sealed.test], return_inverse=True)
    return Cases(
        truth=np.array([numbers[label_of(row) or ""] for row in sealed.test], dtype=np.int64),
        scores=read.scores,
        predicted=read.predicted,
        patients=patients.astype(np.int64),
        classes=meta.label_names,
    )


def _metric(name: str, cases: Cases, seed: int) -> Metric | None:
    found = value(name, cases)
    if found is None:
        return None
    interval = bootstrap(cases, name, DRAWS, seed)
    # Without an interval nothing is known about the figure: the widest one, which beats no control.
    low, high = (interval.low, interval.high) if interval else (0.0, 1.0)
    return Metric(name=name, value=found, low=low, high=high, n=len(cases), patients=cases.patient_count)


def _table(sealed: Sealed, meta: IndexMeta, read: Predictions) -> list[JsonValue]:
    table: list[JsonValue] = []
    for number, row in enumerate(sealed.test):
        line: dict[str, JsonValue] = {"sample_id": row.sample_id, "patient": row.patient, "label": label_of(row)}
        if row.sample_id in read.failed:
            line["failed"] = read.failed[row.sample_id]
        else:
            line["predicted"] = meta.label_names[int(read.predicted[number])]
            line["probabilities"] = {
                label: float(p) for label, p in zip(meta.label_names, read.scores[number], strict=True)
            }
        table.append(line)
    return table
