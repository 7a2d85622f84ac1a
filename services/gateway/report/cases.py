"""Single cases: those without an answer, those answered worst. They name test samples, for whoever owns the data."""

from services.gateway.blocks import Section, Table, labelled, number, section
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
    labels = facts.details.labels
    answered = [case for case in found if case.predicted is not None]
    wrong = [case for case in answered if any(case.holds(one) != case.says(one) for one in labels)]
    wrong.sort(key=lambda case: -_mistake(facts, case)[1])
    told = f"{len(wrong)} answered wrong" + (" in one label or more" if facts.details.multi_label else "")
    told += f", the {_SHOWN} surest of them below." if len(wrong) > _SHOWN else "."
    last = "surest mistake" if facts.details.multi_label else "probability"
    table = Table(tuple(_wrong(facts, case) for case in wrong[:_SHOWN]), ("sample", "patient", "truth", "answer", last))
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


def _wrong(facts: Facts, case: Case) -> tuple[str, ...]:
    label, sure = _mistake(facts, case)
    shown = f"{label} {number(case.probabilities.get(label, 0.0))}" if facts.details.multi_label else number(sure)
    return (case.sample_id, case.patient, labelled(case.label), labelled(case.predicted), shown)


def _mistake(facts: Facts, case: Case) -> tuple[str, float]:
    """The label in which a case was answered wrong and surest, and how sure."""
    if isinstance(case.predicted, str):
        return case.predicted, case.probabilities.get(case.predicted, 0.0)
    wrong = [label for label in facts.details.labels if case.holds(label) != case.says(label)]
    return max(((label, 1 - case.of_truth(label)) for label in wrong), key=lambda one: one[1], default=("", 0.0))


def _masks(found: list[Case]) -> Table:
    rows = []
    for case in found:
        each = sorted((dice, name) for name, dice in case.structures.items() if dice is not None)
        lowest = ", ".join(f"{name} {number(dice)}" for dice, name in each[:3])
        rows.append((case.sample_id, case.patient, "-" if case.dice is None else number(case.dice), lowest))
    return Table(tuple(rows), ("worst cases", "patient", "dice", "lowest structures"))
