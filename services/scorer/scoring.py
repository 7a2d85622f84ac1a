"""From sealed answers and predictions to every figure of a `RunScored`; the same for all tasks but for `MEASURES`."""

from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import JsonValue

from services.scorer.classes import diagnosis
from services.scorer.findings import DRAWS, Asked, Measure
from services.scorer.levels import Verdict, alarm, decide
from services.scorer.lock.seal import Sealed
from services.scorer.masks import segmentation
from services.scorer.patients import METHOD
from services.scorer.texts import reports
from shared.contracts.base import TaskKind
from shared.contracts.data import TOLD_CHECKS, DatasetLocked, DatasetPrepared
from shared.contracts.runs import AcceptableRange
from shared.contracts.scoring import Control, Gate, Metric
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
    details: dict[str, JsonValue]
    """Per-case table and what a reader needs to check the figures; names test samples, so it stays out of events."""


def score(
    sealed: Sealed,
    prepared: DatasetPrepared,
    locked: DatasetLocked,
    metric: str,
    acceptable: AcceptableRange | None,
    answers: bytes | Gate,
    store: Store,
    seed: int = 0,
) -> Score:
    """Score what a package answered: the bytes of its predictions, or the gate that says why there are none. Blocks.

    Deterministic for a given seed. Without any usable answer there are no figures and `metric` is None.
    """
    meta = prepared.meta
    split_gates = _split_gates(sealed, prepared, locked)
    unchanged = all(gate.passed for gate in split_gates)
    found = MEASURES[meta.task](Asked(sealed, meta, metric, answers, store, compute=unchanged, seed=seed))
    gates = [*split_gates, _near_duplicates(locked), *found.gates]
    headline = next((one for one in found.figures if one.name == metric), None)
    if headline is None:
        gates.append(Gate(name="metric_defined", passed=False, evidence=f"{metric} has no value on these answers"))
    others = tuple(one for one in found.figures if one.name != metric)
    gates.append(alarm(acceptable, headline, others, locked.leakage, found.permutation_p))
    verdict = decide(gates, headline, others, found.controls, acceptable)
    return Score(
        metric=headline,
        others=others,
        per_class=found.per_class,
        controls=found.controls,
        permutation_p=found.permutation_p,
        gates=tuple(gates),
        verdict=verdict,
        details={
            "level": verdict.level,
            "why": list(verdict.why),
            "interval": {"method": METHOD, "draws": DRAWS, "seed": seed},
            "leakage": {**locked.leakage.checks, "notes": list(locked.leakage.notes)},
            "grouping": meta.grouping,
            "labels": list(meta.label_names),
            **found.details,
            "cases": list(found.cases),
        },
    )


def _near_duplicates(locked: DatasetLocked) -> Gate:
    """What was left of them after the dataset went back for it. The figures stand beside it, the level does not."""
    left = locked.leakage.checks.get("near_duplicate", 0)
    evidence = f"{left} pairs of samples of different patients on two sides of the split show the same image"
    return Gate(name="no_near_duplicates", passed=not left, evidence=evidence)


def _split_gates(sealed: Sealed, prepared: DatasetPrepared, locked: DatasetLocked) -> tuple[Gate, ...]:
    same = sealed.manifest_sha256 == locked.manifest_sha256 and prepared.index.sha256 == locked.index_sha256
    found = {name: count for name, count in locked.leakage.checks.items() if name not in TOLD_CHECKS}
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
