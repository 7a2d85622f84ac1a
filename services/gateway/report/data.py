"""The data of a run: where they came from, how they were split, and what the scorer looked for across the split."""

from services.gateway.blocks import Section, Table, counted, listed, pairs, section
from services.gateway.report.facts import Facts
from services.gateway.summary import left_out_of, looked_again, patients_from, samples_in
from shared.contracts.data import TOLD_CHECKS

_SIDES = ("train", "val", "test")
_PAIRS = 20
"""Of each check; the rest is counted."""


def data(facts: Facts) -> Section | None:
    state = facts.state
    if not state.planned:
        return None
    plan, card = state.planned.plan, state.planned.card
    told = [
        ("Dataset", f"{card.name} ({card.dataset_id}){looked_again(state)}"),
        ("Taken because", plan.reason),
        ("Task", f"{plan.task}, {plan.dimensions}D {plan.modality}" + (f", {plan.anatomy}" if plan.anatomy else "")),
        ("Labels", listed(plan.labels, 20)),
    ]
    blocks: list[Table | str] = []
    if state.locked:
        known = state.locked.facts
        told += [
            ("Split", SPLIT[known.split_from]),
            ("Patients", f"{known.grouping}: {patients_from(state)}"),
            ("Channels that stood in", ", ".join(f"{one} in {many} cases" for one, many in known.stood_in.items())),
            ("Cases", "listed by a script of the Data Engineer" if known.by_script else "found by rules"),
        ]
        left_out = tuple((reason, str(many)) for reason, many in excluded_of(facts).items())
        blocks = [
            Table(sides(facts), ("side", "cases", "patients", "by class")),
            Table(left_out, ("left out because", "number")),
        ]
    notes = state.prepared.notes if state.prepared else ()
    return section(
        "Data",
        pairs(*told),
        *blocks,
        *(f"Note of the Data Engineer: {note}" for note in notes),
        *(f"Warning: {warning}" for warning in facts.warnings),
    )


SPLIT = {"dataset": "came with the dataset", "made": "made by the scorer, by patient"}


def sides(facts: Facts) -> tuple[tuple[str, ...], ...]:
    """(side, cases, patients, by class) as they were locked."""
    known = facts.state.locked
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
    """Reason, with its remedy -> files, rows or cases that are no case: by the rules, and when they were read."""
    return left_out_of(facts.state)


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
