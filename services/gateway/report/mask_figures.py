"""The figure of a segmentation: Dice of each structure, with a dot for each case."""

from collections.abc import Iterable

from services.gateway.blocks import clean, number
from services.gateway.report.cases import worst
from services.gateway.report.facts import Facts
from shared.pages.svg import COLOURS, INK, WIDTH, Axes, Drawing, Figure, short

_SHOWN = 30
_ROW = 24.0
_TENTHS = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)


def figures(facts: Facts) -> Iterable[Figure]:
    per_class = facts.state.scored.per_class if facts.state.scored else {}
    means = {name: row["dice"] for name, row in per_class.items() if "dice" in row}
    if not means:
        return
    names = sorted(means, key=lambda name: means[name])[:_SHOWN]
    left, top = 150.0, 16.0
    height = _ROW * len(names)
    drawing = Drawing(top + height + 44, "Dice of each structure")
    axes = Axes(drawing, left, top, WIDTH - left - 16, height, (0, 1), (0, 1))
    axes.frame(_TENTHS, (), "Dice", "")
    told = []
    for place, name in enumerate(names):
        y = top + _ROW * place
        drawing.text((left - 8, y + 16), short(clean(name)), "end")
        drawing.box(
            (left, y + 3), means[name] * axes.width, _ROW - 6, COLOURS[0], 0.35, f"{clean(name)}: {number(means[name])}"
        )
        end = left + means[name] * axes.width
        drawing.line((end, y + 3), (end, y + _ROW - 3), INK, 2)
        for case in facts.details.cases:
            dice = case.structures.get(name)
            if dice is not None:
                tip = f"{clean(case.sample_id)}: {number(dice)}"
                drawing.dot((left + dice * axes.width, y + _ROW / 2), 3.5, COLOURS[1], tip, 0.8)
        told.append(f"{clean(name)} {number(means[name])} ({per_class[name].get('n', 0):.0f} cases)")
    lowest = [f"{clean(case.sample_id)} {number(case.dice)}" for case in worst(facts, 5) if case.dice is not None]
    rest = f" {len(means) - len(names)} more structures, none lower, are not drawn." if len(means) > len(names) else ""
    caption = f"Bars and their ends are means over cases, dots are cases. {'; '.join(told)}.{rest}" + (
        f" Worst cases: {', '.join(lowest)}." if lowest else ""
    )
    yield Figure("Dice of each structure", drawing.markup(), caption)
