"""Single cases: those without an answer, those answered worst. They name test samples, for whoever owns the data."""

from services.gateway.report.blocks import Section, Table, number, section
from services.gateway.report.chosen import chosen, measure
from services.gateway.report.facts import Case, Facts

TITLE = "Cases"
_SHOWN = 20


def cases(facts: Facts) -> Section | None:
    found = facts.details.cases
    if not found:
        return None
    failed = facts.unanswered
    unanswered = Table(
        tuple((case.sample_id, case.patient, case.failed) for case in failed[:_SHOWN]),
        ("sample", "patient", "no answer"),
    )
    head = f"{len(found)} test cases, {len(failed)} without a usable answer."
    if facts.segmentation:
        more = f"{facts.details.left_out} cases without any structure are left out of the mean."
        return section(
            TITLE, head, _looked_at(facts), unanswered, _masks(worst(facts)), more if facts.details.left_out else ""
        )
    if not any(case.label is not None for case in found):
        return section(TITLE, head, _looked_at(facts), unanswered)
    wrong = sorted(
        (case for case in found if case.label is not None and case.predicted not in (None, case.label)),
        key=lambda case: -case.probabilities.get(case.predicted or "", 0.0),
    )
    told = f"{len(wrong)} answered wrong" + (f", the {_SHOWN} surest of them below." if len(wrong) > _SHOWN else ".")
    table = Table(
        tuple(_wrong(case) for case in wrong[:_SHOWN]), ("sample", "patient", "truth", "answer", "probability")
    )
    return section(TITLE, head, _looked_at(facts), unanswered, told, table)


def worst(facts: Facts, most: int = 10) -> list[Case]:
    """Cases of a segmentation with the lowest Dice first; those that the scorer named, else the lowest."""
    known = {case.sample_id: case for case in facts.details.cases}
    named = [known[name] for name in facts.details.worst if name in known]
    scored = [case for case in facts.details.cases if case.dice is not None]
    return (named or sorted(scored, key=lambda case: case.dice or 0.0))[:most]


def _looked_at(facts: Facts) -> Table:
    """Of these the HTML report has pictures."""
    rows = tuple(
        (
            str(one.number),
            one.why,
            "-" if one.merit is None else number(one.merit),
            one.case.sample_id,
            one.case.patient,
        )
        for one in chosen(facts)
    )
    return Table(rows, ("case", "chosen as", measure(facts), "sample", "patient"))


def _wrong(case: Case) -> tuple[str, ...]:
    probability = case.probabilities.get(case.predicted or "")
    shown = "-" if probability is None else number(probability)
    return (case.sample_id, case.patient, case.label or "", case.predicted or "", shown)


def _masks(found: list[Case]) -> Table:
    rows = []
    for case in found:
        each = sorted((dice, name) for name, dice in case.structures.items() if dice is not None)
        lowest = ", ".join(f"{name} {number(dice)}" for dice, name in each[:3])
        rows.append((case.sample_id, case.patient, "-" if case.dice is None else number(case.dice), lowest))
    return Table(tuple(rows), ("worst cases", "patient", "dice", "lowest structures"))
