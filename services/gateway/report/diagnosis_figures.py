"""Figures of a diagnosis from the table of cases: confusion matrix, ROC curves, reliability."""

from collections import Counter
from collections.abc import Iterable, Sequence

from services.gateway.blocks import clean, counted, number
from services.gateway.report.facts import Case, Facts
from shared.pages.svg import COLOURS, DASHES, FAINT, INK, PAPER, WIDTH, Axes, Drawing, Figure, legend, short

_CLASSES = 16
"""More do not fit into a matrix that can be read."""
_CURVES = len(COLOURS)
_CALIBRATION = ("brier", "ece")
_TENTHS = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
_NONE = "no answer"
_RIGHT = "share of answers that are right"
_LETTER = 7.2
"""About as wide as a letter is."""


def figures(facts: Facts) -> Iterable[Figure]:
    labels = facts.details.labels
    cases = [case for case in facts.details.cases if isinstance(case.label, tuple) or case.label in labels]
    if cases and len(labels) <= _CLASSES and not facts.details.multi_label:
        yield _confusion(labels, cases)
    answered = [case for case in cases if case.probabilities]
    if answered:
        yield _roc(facts, labels, answered, len(cases) - len(answered))
    if facts.details.calibration:
        yield _reliability(facts)


def _confusion(labels: Sequence[str], cases: Sequence[Case]) -> Figure:
    pairs = Counter((case.label, _NONE if case.failed else case.predicted) for case in cases)
    answers = [*labels, *([_NONE] if any(case.failed for case in cases) else [])]
    left, top = 150.0, 44.0
    size = min(90.0, (WIDTH - left - 10) / len(answers))
    # Names above the columns where all of them fit, else the numbers that the rows have.
    named = all(len(clean(answer)) * _LETTER < size for answer in answers)
    drawing = Drawing(top + size * len(labels) + 10, "Confusion matrix")
    drawing.text((left, 16), "answer")
    drawing.text((left - 10, top - 8), "truth", "end")
    for column, answer in enumerate(answers):
        head = clean(answer) if named else "-" if answer == _NONE else str(column + 1)
        drawing.text((left + size * (column + 0.5), top - 8), head, "middle")
    told = []
    for row, label in enumerate(labels):
        y = top + size * row
        whole = sum(pairs[label, answer] for answer in answers)
        mark = "" if named else f" {row + 1}"
        drawing.text((left - 10, y + size / 2 + 4), short(clean(label), 16) + mark, "end")
        for column, answer in enumerate(answers):
            many = pairs[label, answer]
            share = many / whole if whole else 0.0
            corner = (left + size * column + 1, y + 1)
            drawing.box(corner, size - 2, size - 2, FAINT, 0.35)
            drawing.box(
                corner, size - 2, size - 2, COLOURS[0], share, f"truth {clean(label)}, answer {clean(answer)}: {many}"
            )
            colour = PAPER if share > 0.55 else INK
            drawing.text((corner[0] + size / 2 - 1, y + size / 2 + 4), str(many), "middle", colour)
        elsewhere = [f"{many} as {answer}" for answer in answers if answer != label and (many := pairs[label, answer])]
        told.append(
            f"{label}: {pairs[label, label]} of {whole} right" + (f", {', '.join(elsewhere)}" if elsewhere else "")
        )
    dash = "; - is no usable answer" if _NONE in answers and not named else ""
    caption = f"Rows are the truth, columns the answer in the same order{dash}. {'; '.join(told)}."
    return Figure("Confusion matrix", drawing.markup(), clean(caption))


def _roc(facts: Facts, labels: Sequence[str], cases: Sequence[Case], unanswered: int) -> Figure:
    known = facts.state.scored.per_class if facts.state.scored else {}
    curves = [(label, curve) for label in labels if (curve := roc(label, cases))]
    # The weakest are what a reader has to know of.
    curves.sort(key=lambda one: known.get(one[0], {}).get("auc", 2.0))
    shown, side = curves[:_CURVES], 300.0
    what = "each label by itself" if facts.details.multi_label else "one class against the rest"
    drawing = Drawing(34 + side + 60 + 20 * len(shown), f"ROC curves, {what}")
    axes = Axes(drawing, 52, 34, side, side, (0, 1), (0, 1))
    axes.frame(_TENTHS, _TENTHS, "1 - specificity", "sensitivity")
    drawing.line(axes.at(0, 0), axes.at(1, 1), INK, 1, "2 4")
    told = []
    for place, (label, curve) in enumerate(shown):
        drawing.path((axes.at(x, y) for x, y in curve), COLOURS[place], DASHES[place % len(DASHES)])
        auc = known.get(label, {}).get("auc")
        told.append(clean(label) + ("" if auc is None else f" AUC {number(auc)}"))
    legend(drawing, 34 + side + 62, [short(one, 44) for one in told])
    more, kind = len(curves) - len(shown), "labels" if facts.details.multi_label else "classes"
    rest = f" {more} more {kind} with higher AUC are not drawn." if more else ""
    lost = f" {counted(unanswered, 'case')} without an answer: not drawn, counted as wrong." if unanswered else ""
    caption = f"{what.capitalize()} on {counted(len(cases), 'test case')}. {'; '.join(told)}.{rest}{lost}"
    return Figure("ROC curves", drawing.markup(), caption)


def roc(label: str, cases: Sequence[Case]) -> list[tuple[float, float]]:
    """(1 - specificity, sensitivity) from (0, 0) to (1, 1); empty where one side has no case. Ties are one step."""
    scores: dict[float, list[bool]] = {}
    for case in cases:
        scores.setdefault(case.probabilities.get(label, 0.0), []).append(case.holds(label))
    positive = sum(sum(group) for group in scores.values())
    negative = len(cases) - positive
    if not positive or not negative:
        return []
    curve, hits, alarms = [(0.0, 0.0)], 0, 0
    for score in sorted(scores, reverse=True):
        hits += sum(scores[score])
        alarms += len(scores[score]) - sum(scores[score])
        curve.append((alarms / negative, hits / positive))
    return curve


def _reliability(facts: Facts) -> Figure:
    """From the scorer's own bins, in which a case without an answer counts as wrong."""
    bins = facts.details.calibration
    side = 300.0
    drawing = Drawing(34 + side + 48, "Reliability of the probabilities")
    axes = Axes(drawing, 52, 34, side, side, (0, 1), (0, 1))
    several = facts.details.multi_label
    x, y = ("probability of a label", "share of labels that hold") if several else ("probability of the answer", _RIGHT)
    axes.frame(_TENTHS, _TENTHS, x, y)
    drawing.line(axes.at(0, 0), axes.at(1, 1), INK, 1, "2 4")
    drawing.path((axes.at(one.probability, one.right) for one in bins), COLOURS[0])
    most, told = max(one.n for one in bins), []
    for one in bins:
        unit, share = ("answer", "hold") if several else ("case", "right")
        words = f"up to {one.up_to:.1f}: {counted(round(one.n), unit)}, {number(one.right)} {share}"
        drawing.dot(axes.at(one.probability, one.right), 4 + 6 * (one.n / most) ** 0.5, COLOURS[0], words)
        told.append(words)
    scored = facts.state.scored
    known = [f"{one.name} {number(one.value)}" for one in (scored.others if scored else ()) if one.name in _CALIBRATION]
    how = "all labels of all cases" if several else "the largest probability"
    caption = (
        f"On the dotted line probability and {y} agree; larger dots stand for more. By {how}: {'; '.join(told)}. "
        + (f"Lower is better: {', '.join(known)}." if known else "")
    )
    return Figure("Reliability", drawing.markup(), caption.strip())
