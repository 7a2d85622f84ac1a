"""The leaderboard: results as one HTML file with nothing to load. A row a task, a column a system."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from m3bench.results import Result
from m3bench.tables import HEAD, KINDS, score, share, system_of, told, why
from m3bench.tasks import tasks
from shared import pages
from shared.pages.svg import FAINT, Drawing

WIDTH, ROW = 260.0, 14
"""Of a plot of scores, and of a line in it, in pixels."""
COLOURS = {"useful": "#0072b2", "valid": "#e69f00", "ran": "#d55e00", "none": "#999999"}


@dataclass(frozen=True)
class Cell:
    """What one system did on one row's task."""

    counts: str
    plot: str
    took: str


def page(results: Sequence[Result]) -> str:
    """The whole page. Figures of replicas and of real data stand in rows of their own."""
    served = [one for one in results if one.kind]
    systems = sorted({system_of(one) for one in served}, key=lambda name: -_useful(served, name))
    order = list(tasks())
    rows = []
    for name, real, size in sorted(
        {(one.setting.task, one.setting.real, one.setting.size) for one in served},
        key=lambda row: (row[1], row[2], order.index(row[0])),
    ):
        of = [one for one in served if (one.setting.task, one.setting.real, one.setting.size) == (name, real, size)]
        what = f"{KINDS[tasks()[name].kind]} {'real data' if real else f'replica, {size}'}"
        rows.append((name, what, [_cell([one for one in of if system_of(one) == system], of) for system in systems]))
    return pages.page(
        Path(__file__).with_suffix(".html"),
        title="M3Bench",
        commits=sorted({one.commit for one in results}),
        machines=sorted({one.machine for one in results}),
        head=HEAD if any(one.setting.core == "playbook" and not one.setting.real for one in served) else "",
        colours=COLOURS,
        systems=[(name, _summary(served, name)) for name in systems],
        rows=rows,
        tables=told(results),
    )


def _useful(results: Iterable[Result], system: str) -> float:
    return fmean([one.useful for one in results if system_of(one) == system] or [0])


def _summary(results: Iterable[Result], system: str) -> str:
    of = [one for one in results if system_of(one) == system]
    return (
        f"useful {share(one.useful for one in of)}; {fmean(one.turns for one in of):.1f} turns, "
        f"{fmean(one.tokens for one in of) / 1000:.0f}k tokens, {fmean(one.seconds for one in of) / 60:.1f} min a run"
    )


def _cell(of: Sequence[Result], row: Sequence[Result]) -> Cell | None:
    """Levels, the plot of its scores on the row's axis, and what a run took."""
    if not of:
        return None
    counts = "/".join(str(sum(getattr(one, level) for one in of)) for level in ("ran", "valid", "useful"))
    took = f"{fmean(x.turns for x in of):.1f} turns, {fmean(x.tokens for x in of) / 1000:.0f}k tokens, "
    took += f"{fmean(x.seconds for x in of):.0f} s"
    return Cell(f"{counts} of {len(of)}", _plot(of, row).markup(), took)


def _plot(of: Sequence[Result], row: Sequence[Result]) -> Drawing:
    figures = [x for one in row for x in (one.low, one.no_image, one.greys, one.network, one.floor) if x is not None]
    low = min(0.95, *figures, 0.95) if figures else 0.0
    left = max(0.0, low - 0.05)

    def x(value: float) -> float:
        return 4 + (WIDTH - 8) * (min(1.0, max(left, value)) - left) / (1 - left)

    foot = ROW * len(of) + 2
    drawn = Drawing(foot + 14, "Score of each round", WIDTH)
    drawn.line((4, foot), (WIDTH - 4, foot), FAINT)
    first = row[0]
    for value, dash, name in (
        (first.no_image, "2 2", "no image"), (first.greys, "6 3", "grey values"),
        (first.network, "", "small network"), (first.floor, "1 3", "floor of the range"),
    ):  # fmt: skip
        if value is not None:
            drawn.line((x(value), 0), (x(value), foot), "#777777", dash=dash, tip=f"{name} {value:.3f}")
    for number, one in enumerate(of):
        y, colour = ROW * number + ROW / 2, COLOURS.get(one.level, COLOURS["none"])
        if one.value is None or one.low is None or one.high is None:
            drawn.text((4, y + 4), one.end, colour=colour, size=11)
            continue
        tip = f"round {one.setting.round}: {one.level}, {score(one)} {why(one) if not one.useful else ''}"
        drawn.line((x(one.low), y), (x(one.high), y), colour, 2)
        drawn.dot((x(one.value), y), 4, colour, tip)
    for value, anchor in ((left, "start"), (1.0, "end")):
        drawn.text((x(value), foot + 12), f"{value:.2f}", anchor, "#555555", 10)
    return drawn
