"""Curves of the training that made the package, from the progress that the bus keeps."""

from collections.abc import Iterable, Mapping

from services.gateway.blocks import clean, counted, number
from services.gateway.report.facts import Facts
from shared.contracts.training import JobProgress
from shared.pages.svg import COLOURS, DASHES, WIDTH, Axes, Drawing, Figure, ticks

_HEIGHT = 170.0
_MOST = 400
"""Points of a curve; more than that is finer than a line is wide."""


def figures(facts: Facts) -> Iterable[Figure]:
    # The closing line repeats the figure of the chosen weights, which is no point of the curve.
    lines = [line for line in facts.progress if line.text != "done"]
    loss = _curve(lines, "loss")
    metric = _curve(lines, "metric")
    if not loss and not metric:
        return
    unit = "epoch" if any(line.epoch is not None for line in lines) else "step"
    name = clean(next((line.metric_name for line in reversed(lines) if line.metric_name), None) or "metric")
    panels = [one for one in (("training loss", loss), (f"validation {name}", metric)) if one[1]]
    drawing = Drawing(len(panels) * (_HEIGHT + 76), "Training curves")
    xs = [x for _, curve in panels for x in curve]
    for place, (label, curve) in enumerate(panels):
        low, high = min(curve.values()), max(curve.values())
        pad = 0.05 * (high - low) or 0.05 * (abs(high) or 1.0)
        span = (low - pad, high + pad)
        axes = Axes(drawing, 62, 34 + place * (_HEIGHT + 76), WIDTH - 82, _HEIGHT, (min(xs), max(xs)), span)
        axes.frame(ticks(min(xs), max(xs)), ticks(*span), unit if place == len(panels) - 1 else "", label)
        drawing.path((axes.at(x, y) for x, y in _thinned(curve)), COLOURS[place], DASHES[0])
        if len(curve) <= 60:
            for x, y in curve.items():
                drawing.dot(axes.at(x, y), 3, COLOURS[place], f"{unit} {x:g}: {y:.4g}")
    yield Figure("Training", drawing.markup(), _caption(unit, name, loss, metric, len(lines)))


def _curve(lines: Iterable[JobProgress], of: str) -> dict[float, float]:
    """Where -> value, in order. An attempt that went on from a checkpoint tells some again: the later word counts."""
    found: dict[float, float] = {}
    for line in lines:
        where = line.epoch if line.epoch is not None else line.step
        value = getattr(line, of)
        if where is not None and value is not None:
            found[float(where)] = float(value)
    return dict(sorted(found.items()))


def _thinned(curve: Mapping[float, float]) -> list[tuple[float, float]]:
    points = list(curve.items())
    step = -(-len(points) // _MOST)
    return points[::step] + (points[-1:] if (len(points) - 1) % step else [])


def _caption(unit: str, name: str, loss: Mapping[float, float], metric: Mapping[float, float], lines: int) -> str:
    told = []
    if loss:
        first, last = next(iter(loss)), next(reversed(list(loss)))
        told.append(f"Training loss {loss[first]:.4g} at {unit} {first:g}, {loss[last]:.4g} at {unit} {last:g}.")
    if metric:
        best = max(metric, key=lambda where: metric[where])
        last = next(reversed(list(metric)))
        told.append(
            f"Validation {name} at most {number(metric[best])} at {unit} {best:g}, {number(metric[last])} at the end "
            f"({unit} {last:g})."
        )
    told.append(f"From {counted(lines, 'message')} of progress.")
    return " ".join(told)
