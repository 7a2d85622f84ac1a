"""From sealed answers and predictions to every figure of a `RunScored`; the same for all tasks but for `MEASURES`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pydantic import JsonValue

from services.scorer import altered
from services.scorer.classes import diagnosis
from services.scorer.findings import DRAWS, Asked, Measure
from services.scorer.levels import RAISED, Verdict, alarm, decide
from services.scorer.lock.seal import manifest_sha256
from services.scorer.masks import segmentation
from services.scorer.patients import METHOD
from services.scorer.subgroups import subgroups
from services.scorer.texts import reports
from shared.contracts.base import TaskKind
from shared.contracts.data import TOLD_CHECKS, DatasetLocked, DatasetPrepared, SealedSplit
from shared.contracts.runs import AcceptableRange
from shared.contracts.scoring import Control, Gate, Metric
from shared.contracts.wrapping import Groups
from shared.store import Store

MEASURES: Mapping[TaskKind, Measure] = {
    "diagnosis": diagnosis.measure,
    "organ_segmentation": segmentation.measure,
    "anomaly_detection": segmentation.measure,
    "report_generation": reports.measure,
}


@dataclass(frozen=True)
class Score:
    metric: Metric | None
    others: tuple[Metric, ...]
    per_class: dict[str, dict[str, float]]
    controls: tuple[Control, ...]
    permutation_p: float | None
    gates: tuple[Gate, ...]
    verdict: Verdict
    rests_on: tuple[str, ...]
    """As in `RunScored`."""
    details: dict[str, JsonValue]
    """Per-case table and what a reader needs to check the figures; names test cases, so it stays out of events."""


def score(
    sealed: SealedSplit,
    prepared: DatasetPrepared,
    locked: DatasetLocked,
    metric: str,
    acceptable: AcceptableRange | None,
    answers: bytes | Gate,
    store: Store,
    also: Sequence[Gate] = (),
    rests_on: Sequence[str] = (),
    groups: Mapping[str, Groups] | None = None,
    seed: int = 0,
) -> Score:
    """Score what a package answered: the bytes of its predictions, or the gate that says why there are none. Blocks.

    `also` and `rests_on` are gates and sentences that come from elsewhere, `groups` what is known of whom cases are, by
    sample_id. Deterministic for a given seed. Without any usable answer there are no figures and `metric` is None.
    """
    split_gates = _split_gates(sealed, prepared, locked)
    unchanged = all(gate.passed for gate in split_gates)
    measure, asked = MEASURES[sealed.facts.task], Asked(sealed, metric, answers, store, compute=unchanged, seed=seed)
    found = measure(asked)
    gates = [*split_gates, _near_duplicates(locked), *found.gates]
    headline = next((one for one in found.figures if one.name == metric), None)
    if headline is None:
        gates.append(Gate(name="metric_defined", passed=False, evidence=f"{metric} has no value on these answers"))
    else:
        gates += altered.judge(asked, measure, found, headline)
    others = tuple(one for one in found.figures if one.name != metric)
    suspect = alarm(acceptable, headline, others, locked.leakage, found.permutation_p)
    gates.append(suspect)
    gates += also
    verdict = decide(gates, headline, others, found.controls, acceptable, found.permutation_p)
    return Score(
        metric=headline,
        others=others,
        per_class=found.per_class,
        controls=found.controls,
        permutation_p=found.permutation_p,
        gates=tuple(gates),
        verdict=verdict,
        rests_on=(*rests_on, *([suspect.evidence] if RAISED in suspect.evidence else [])),
        details={
            "level": verdict.level,
            "why": list(verdict.why),
            "interval": {"method": METHOD, "draws": DRAWS, "seed": seed},
            "leakage": {**locked.leakage.checks, "notes": list(locked.leakage.notes)},
            "grouping": sealed.facts.grouping,
            "labels": list(sealed.facts.label_names),
            **found.details,
            "subgroups": subgroups(asked.test, groups or {}, found),
            "cases": list(found.cases),
        },
    )


def _near_duplicates(locked: DatasetLocked) -> Gate:
    """Those that the split could not keep together. The figures stand beside it, the level does not."""
    left = locked.leakage.checks.get("near_duplicate", 0)
    evidence = f"{left} pairs of cases of different patients on two sides of the split show the same image"
    if given := locked.leakage.checks.get("near_duplicate_in_given_split", 0):
        evidence += f"; {given} cross the split that came with the dataset, which was left as it is"
    return Gate(name="no_near_duplicates", passed=not left, evidence=evidence)


def _split_gates(sealed: SealedSplit, prepared: DatasetPrepared, locked: DatasetLocked) -> tuple[Gate, ...]:
    same = (
        manifest_sha256(sealed.rows) == locked.manifest_sha256
        and prepared.rules.sha256 == locked.rules_sha256
        and sealed.facts == locked.facts
    )
    sides = {(row.patient, row.split) for row in sealed.rows}
    crossing = len(sides) - len({patient for patient, _ in sides})
    found = {name: count for name, count in locked.leakage.checks.items() if name not in TOLD_CHECKS}
    checks = ", ".join(f"{name} {count}" for name, count in sorted(locked.leakage.checks.items()))
    facts = sealed.facts
    return (
        Gate(
            name="split_unchanged",
            passed=same,
            evidence="the split is the one that was locked" if same else "the split is not the one that was locked",
        ),
        Gate(
            name="no_patient_on_both_sides",
            passed=not any(found.values()) and not crossing,
            # Where patients were inferred a reader has to know: the gate is then only as good as the inference.
            evidence=f"{checks}; grouping: {facts.grouping} ({prepared.coverage.grouping_from[:200]})",
        ),
    )
