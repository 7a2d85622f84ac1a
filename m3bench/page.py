"""The leaderboard: results as one HTML file with nothing to load. A row a task, a column a system."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, mode

from m3bench.results import Result
from m3bench.tables import HEAD, KINDS, LEVELS, score, share, systems_of, tokens, told, why
from m3bench.tasks import tasks
from shared import pages
from shared.pages.svg import FAINT, Drawing

WIDTH, ROW = 500.0, 14
"""Of a plot of scores with their words, and of a line in it, in pixels."""
LEFT, RIGHT = 24.0, 270.0
"""Where its axis begins and ends."""
COLOURS = {"completed": "#009e73", "useful": "#0072b2", "valid": "#e69f00", "ran": "#d55e00", "none": "#999999"}


@dataclass(frozen=True)
class Cell:
    """What one system did on one row's task."""

    counts: str
    plot: str
    took: str


def page(results: Sequence[Result]) -> str:
    """The whole page. Figures of replicas and of real data stand in rows of their own."""
    served = [one for one in results if one.kind]
    named = systems_of(served)
    of_system = {name: [one for one in served if named(one) == name] for name in map(named, served)}
    systems = sorted(of_system, key=lambda name: -fmean(one.completed for one in of_system[name]))
    order = list(tasks())
    rows = []
    for name, real, size in sorted(
        {(one.setting.task, one.setting.real, one.setting.size) for one in served},
        key=lambda row: (row[1], row[2], order.index(row[0])),
    ):
        of = [one for one in served if (one.setting.task, one.setting.real, one.setting.size) == (name, real, size)]
        what = f"{KINDS[tasks()[name].kind]} {'real data' if real else f'replica, {size}'}"
        rows.append((name, what, [_cell([one for one in of if named(one) == system], of) for system in systems]))
    return pages.page(
        Path(__file__).with_suffix(".html"),
        title="M3Bench",
        commits=sorted({one.commit for one in results}),
        machines=sorted({one.machine for one in results}),
        head=HEAD if any(one.setting.core == "playbook" and not one.setting.real for one in served) else "",
        colours=COLOURS,
        systems=[(name, _summary(of_system[name])) for name in systems],
        rows=rows,
        tables=told(results),
    )


def _summary(of: Sequence[Result]) -> str:
    return (
        f"useful {share(one.useful for one in of)}, completed {share(one.completed for one in of)}; {_effort(of)}, "
        f"{fmean(one.seconds for one in of) / 60:.1f} min a run"
    )


def _effort(of: Sequence[Result]) -> str:
    told = [one for one in of if one.parts]
    return f"{fmean(one.turns for one in told):.1f} turns, {tokens(told)} tokens" if told else "effort not known"


def _cell(of: Sequence[Result], row: Sequence[Result]) -> Cell | None:
    """Levels, the plot of its scores on the row's axis, and what a run took."""
    if not of:
        return None
    counts = "/".join(str(sum(getattr(one, level) for one in of)) for level in LEVELS)
    took = f"{_effort(of)}, {fmean(one.seconds for one in of):.0f} s"
    return Cell(f"{counts} of {len(of)}", _plot(of, row).markup(), took)


def _plot(of: Sequence[Result], row: Sequence[Result]) -> Drawing:
    """A line a round, in order: its number, the score with its interval, and both in words. What has another metric
    than most of the row has no place on its axis."""
    metric = mode(found) if (found := [one.metric for one in row if one.metric]) else ""
    placed = [one for one in row if one.metric == metric]
    figures = [x for one in placed for x in (one.low, one.no_image, one.greys, one.network, one.floor) if x is not None]
    left = max(0.0, min(0.95, *figures, 0.95) - 0.05) if figures else 0.0

    def x(value: float) -> float:
        return LEFT + (RIGHT - LEFT) * (min(1.0, max(left, value)) - left) / (1 - left)

    foot = ROW * len(of) + 2
    drawn = Drawing(foot + 14, "Score of each round", WIDTH)
    drawn.line((LEFT, foot), (RIGHT, foot), FAINT)
    first = row[0]
    for value, dash, name in (
        (first.no_image, "2 2", "no image"), (first.greys, "6 3", "grey values"),
        (first.network, "", "small network"), (first.floor, "1 3", "floor of the range"),
    ):  # fmt: skip
        if value is not None:
            drawn.line((x(value), 0), (x(value), foot), "#777777", dash=dash, tip=f"{name} {value:.3f}")
    for number, one in enumerate(sorted(of, key=lambda one: one.setting.round)):
        y, colour = ROW * number + ROW / 2, COLOURS["completed" if one.completed else one.level]
        drawn.text((0, y + 4), str(one.setting.round), colour="#555555", size=10)
        if one.value is None or one.low is None or one.high is None:
            drawn.text((LEFT, y + 4), one.end, colour=colour, size=11)
            continue
        drawn.text((RIGHT + 8, y + 4), score(one), colour=colour, size=10)
        if one.metric == metric:
            tip = f"round {one.setting.round}: {one.level}, {score(one)} {why(one) if not one.useful else ''}"
            drawn.line((x(one.low), y), (x(one.high), y), colour, 2)
            drawn.dot((x(one.value), y), 4, colour, tip)
    for value, anchor in ((left, "start"), (1.0, "end")):
        drawn.text((x(value), foot + 12), f"{value:.2f}", anchor, "#555555", 10)
    return drawn
