"""Scoring of generated reports: texts of a stranger, read with bounds, against the sealed texts of the index."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from pydantic import JsonValue

from services.scorer.answers import all_cases, error_text, parse
from services.scorer.findings import DRAWS, Asked, Findings, metric_of, patient_numbers
from services.scorer.names import METRICS
from services.scorer.patients import Floats, Ints, over_patients
from services.scorer.texts.controls import report_controls
from services.scorer.texts.figures import RULES, Figure, figures
from services.scorer.texts.tokens import words
from shared.contracts.data import IndexRow
from shared.contracts.scoring import Gate, Metric
from shared.reporttext import MAX_CHARACTERS, clean

TOP = {"cider_d": 10.0}
"""Of figures that reach further than 1."""

_WORST = 5
_SHOWN = 4000
"""Characters of a text in the table of cases."""


@dataclass(frozen=True)
class Reports:
    texts: tuple[str, ...]
    """In the order of the cases asked for; empty where there is no usable answer."""
    failed: Mapping[str, str]
    """Case -> why there is none."""
    gates: tuple[Gate, ...]


def read_reports(answers: bytes | Gate, cases: Sequence[str]) -> Reports:
    """Judge `{"cases": {sample_id: {"report": text} | {"error": text}}}` against what was asked for.

    Never raises for what the bytes hold. Evidence gives counts, never the names of test cases.
    """
    nothing = tuple("" for _ in cases)
    if isinstance(answers, Gate):
        return Reports(nothing, dict.fromkeys(cases, answers.name), (answers,))
    try:
        given = parse(answers).cases
    except ValueError as error:
        gate = Gate(name="predictions_readable", passed=False, evidence=str(error))
        return Reports(nothing, dict.fromkeys(cases, gate.name), (gate,))
    texts, failed = [], {}
    missing = unusable = 0
    for case in cases:
        answer = given.get(case)
        report = answer.get("report") if isinstance(answer, dict) and answer.get("error") is None else None
        problem = None
        if report is None:
            missing += 1
            problem = error_text(answer, "no report")
        elif problem := _problem(report):
            unusable += 1
        if problem:
            failed[case] = problem
        texts.append("" if problem else clean(str(report)))
    unknown = len(set(given) - set(cases))
    gates = (
        Gate(name="predictions_readable", passed=True, evidence=f"{len(given)} answers"),
        all_cases(missing, len(cases)),
        Gate(name="no_unknown_cases", passed=not unknown, evidence=f"{unknown} predictions for cases not asked for"),
        Gate(
            name="reports_are_texts",
            passed=not unusable,
            evidence=f"{unusable} of {len(cases)} reports are no text of at least one word and at most "
            f"{MAX_CHARACTERS} characters",
        ),
    )
    return Reports(tuple(texts), failed, gates)


def _problem(report: object) -> str:
    if not isinstance(report, str):
        return "the report is no text"
    if len(report) > MAX_CHARACTERS:
        return f"the report has {len(report)} characters, at most {MAX_CHARACTERS} are read"
    return "" if words(clean(report)) else "the report has no word"


def measure(asked: Asked) -> Findings:
    test = asked.test
    read = read_reports(asked.answers, asked.names)
    if not asked.compute or len(read.failed) == len(test):
        return Findings(gates=read.gates, cases=tuple(_table(asked, read, {})))
    answers, truth = [words(text) for text in read.texts], [words(row.target or "") for row in test]
    known = figures(truth)
    sums = {name: known[name].of(answers, truth) for name in METRICS["report_generation"]}
    patients = patient_numbers(test)
    found = tuple(_metric(name, known[name], sums[name], test, asked.seed) for name in sums)
    each = {name: known[name].value(sums[name]) for name in sums}
    order = np.argsort(each[asked.metric], kind="stable") if asked.metric in each else np.arange(0)

    def part(places: Ints) -> Metric:
        return _metric(
            asked.metric, known[asked.metric], sums[asked.metric][places], [test[place] for place in places], asked.seed
        )

    train = [words(row.target or "") for row in asked.train]
    controls, p, said = (
        report_controls(asked.metric, known[asked.metric], train, answers, truth, patients, DRAWS, asked.seed)
        if asked.metric in known
        else ((), None, {})
    )
    return Findings(
        gates=read.gates,
        cases=tuple(_table(asked, read, each)),
        figures=found,
        controls=controls,
        permutation_p=p,
        details={
            "rules": list(RULES),
            "worst": [test[case].sample_id for case in order[:_WORST]],
            "control_texts": dict(said),
            "different_answers": len({text for text in answers if text}),
        },
        part=part if asked.metric in known else None,
    )


def _metric(name: str, figure: Figure, sums: Floats, rows: Sequence[IndexRow], seed: int) -> Metric:
    patients = patient_numbers(rows)
    value = float(figure.value(sums.sum(axis=0)))
    drawn = over_patients(patients, lambda weights: figure.value(weights @ sums), DRAWS, seed, TOP.get(name, 1.0))
    return metric_of(name, value, drawn, patients)


def _table(asked: Asked, read: Reports, each: Mapping[str, Floats]) -> list[JsonValue]:
    """A line a case: what was to be written, what was, and the figures of this case alone."""
    table: list[JsonValue] = []
    for case, row in enumerate(asked.test):
        line: dict[str, JsonValue] = {"sample_id": row.sample_id, "patient": row.patient}
        line["reference"] = clean(row.target or "")[:_SHOWN]
        if row.sample_id in read.failed:
            line["failed"] = read.failed[row.sample_id]
        else:
            line["report"] = read.texts[case][:_SHOWN]
        line |= {name: float(values[case]) for name, values in each.items()}
        table.append(line)
    return table
