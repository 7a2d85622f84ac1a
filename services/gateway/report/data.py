"""The data of a run: where they came from, how they were split, and what the scorer looked for across the split."""

from services.gateway.report.blocks import Section, Table, counted, listed, pairs, section
from services.gateway.report.facts import Facts
from services.gateway.summary import samples_in
from shared.contracts.data import TOLD_CHECKS, DatasetPrepared

_SIDES = ("train", "val", "test")
_PAIRS = 20
"""Of each check; the rest is counted."""


def data(facts: Facts) -> Section | None:
    state = facts.state
    if not state.planned:
        return None
    plan, card = state.planned.plan, state.planned.card
    told = [
        ("Dataset", f"{card.name} ({card.dataset_id})"),
        ("Taken because", plan.reason),
        ("Task", f"{plan.task}, {plan.dimensions}D {plan.modality}" + (f", {plan.anatomy}" if plan.anatomy else "")),
        ("Labels", listed(plan.labels, 20)),
    ]
    blocks: list[Table | str] = []
    if state.prepared:
        meta = state.prepared.meta
        told += [
            ("Split", SPLIT[meta.split_from]),
            ("Patients", f"{meta.grouping}: {meta.grouping_from}"),
        ]
        excluded = tuple(
            (reason, str(many), listed(meta.excluded.get(reason, ()))) for reason, many in excluded_of(facts).items()
        )
        blocks = [
            Table(sides(facts), ("side", "samples", "patients", "by class")),
            Table(excluded, ("left out because", "number", "files or samples")),
            *(f"Warning: {warning}" for warning in state.prepared.warnings),
            *(f"Oddity: {oddity}" for oddity in _unsaid(state.prepared)),
        ]
    return section("Data", pairs(*told), *blocks)


def _unsaid(prepared: DatasetPrepared) -> list[str]:
    """What was handed on to later roles and is in no warning."""
    return [one for one in prepared.handoff.oddities if not any(one in warning for warning in prepared.warnings)]


SPLIT = {"dataset": "came with the dataset", "made": "made by the Data Engineer"}


def sides(facts: Facts) -> tuple[tuple[str, ...], ...]:
    """(side, samples, patients, by class) as they were locked, else as they were prepared."""
    known = facts.state.locked or facts.state.prepared
    if known is None:
        return ()
    return tuple(
        (
            side,
            str(samples_in(known.counts[side])),
            str(known.patients.get(side, 0)),
            ", ".join(f"{name} {many}" for name, many in known.counts[side].items() if name != "all"),
        )
        for side in _SIDES
        if side in known.counts
    )


def excluded_of(facts: Facts) -> dict[str, int]:
    meta = facts.state.prepared.meta if facts.state.prepared else None
    if meta is None:
        return {}
    whole = {reason: len(names) for reason, names in meta.excluded.items()} | meta.excluded_counts
    return {reason: many for reason, many in whole.items() if many}


def leakage(facts: Facts) -> Section | None:
    locked = facts.state.locked
    if locked is None:
        return None
    report = locked.leakage
    rows = []
    for check, many in report.checks.items():
        found = [f"{left} / {right}" for name, left, right in report.pairs if name == check]
        rows.append((check, str(many), TOLD_CHECKS.get(check, "pairs across the split"), listed(found, _PAIRS)))
    table = Table(tuple(rows), ("check", "found", "what is counted", "pairs"))
    return section("Leaks across the split", f"Locked {counted(locked.locks, 'time')}.", table, *report.notes)
