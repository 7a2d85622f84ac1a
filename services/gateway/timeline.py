"""A run's trace as one picture: a lane a service, with who held the run, turns, tool calls and jobs, and the handoffs.

One HTML file with nothing to load. All of it comes from the events and transcripts of the run; no backend is asked.
"""

from collections.abc import Sequence
from pathlib import Path

from services.gateway.summary import duration
from services.gateway.trace_model import Handoff, JobTrace, Trace, TurnTrace, Work
from shared import pages
from shared.pages.svg import COLOURS, FAINT, INK, Axes, Drawing, ticks

WIDTH, LEFT, LANE, TOP = 1280.0, 130.0, 44.0, 28.0
HELD, TURN, CALL, JOB, WRONG = COLOURS[4], COLOURS[0], COLOURS[2], COLOURS[5], COLOURS[1]
_LEGEND = (("holds the run", HELD), ("turn", TURN), ("tool call", CALL), ("job", JOB), ("refused or failed", WRONG))


def page(trace: Trace) -> str:
    """The HTML file."""
    level = f", level {trace.level}" if trace.level != "none" else ""
    title = f"{trace.run_id}: {trace.status}{level}, {duration(trace.seconds)}"
    drawn = drawing(trace).markup()
    return pages.page(Path(__file__).with_suffix(".html"), title=title, trace=trace, drawing=drawn, duration=duration)


def drawing(trace: Trace) -> Drawing:
    lanes = _lanes(trace)
    drawn = Drawing(TOP + LANE * len(lanes) + 80, f"What happened when in run {trace.run_id}", WIDTH)
    whole = max(trace.seconds, 1.0)
    axes = Axes(drawn, LEFT, TOP, WIDTH - LEFT - 20, LANE * len(lanes), (0, whole), (0, 1))
    unit, name = (60.0, "minutes") if whole > 180 else (1.0, "seconds")
    for tick in ticks(0, whole / unit, 10):
        x, _ = axes.at(tick * unit, 0)
        drawn.line((x, TOP), (x, TOP + axes.height), FAINT, 0.5)
        drawn.text((x, TOP + axes.height + 18), f"{tick + 0.0:.3g}", "middle")
    drawn.text((LEFT + axes.width, TOP + axes.height + 36), name, "end")
    for place, lane in enumerate(lanes):
        drawn.text((LEFT - 8, _middle(place) + 4), lane.replace("_", " "), "end")
        drawn.line((LEFT, TOP + LANE * (place + 1)), (LEFT + axes.width, TOP + LANE * (place + 1)), FAINT)
    for one in trace.handoffs:
        if one.held and one.sender in lanes:
            _bar(axes, lanes.index(one.sender), one.at - one.held, one.held, 16, HELD, f"{one.sender} until {one.kind}")
        _work(axes, lanes, one.sender, one)
    for still in trace.open:
        if still.held and still.role in lanes:
            _bar(axes, lanes.index(still.role), whole - still.held, still.held, 16, HELD, f"{still.role}, still")
        _work(axes, lanes, still.role, still)
    for one in trace.handoffs:
        _arrow(axes, lanes, one)
    for place, (text, colour) in enumerate(_LEGEND):
        x, y = LEFT + 170 * place, TOP + axes.height + 58
        drawn.box((x, y - 11), 14, 12, colour)
        drawn.text((x + 20, y), text)
    return drawn


def _lanes(trace: Trace) -> list[str]:
    named = [name for one in trace.handoffs for name in (one.sender, one.recipient)]
    return list(dict.fromkeys([*named, *(still.role for still in trace.open)]))


def _work(axes: Axes, lanes: Sequence[str], role: str, work: Work) -> None:
    lane = lanes.index(role)
    for turn in work.turns:
        _turn(axes, lane, turn)
    for job in work.jobs:
        _job(axes, lanes.index(job.asked_by) if job.asked_by in lanes else lane, job)


def _turn(axes: Axes, lane: int, turn: TurnTrace) -> None:
    at = turn.at
    for call in turn.calls:
        colour = WRONG if call.ok is False else CALL
        told = f"{call.tool}, {call.seconds:.1f} s{', refused' if call.ok is False else ''}"
        _bar(axes, lane, at, call.seconds, 8, colour, told)
        at += call.seconds
    tools = ", ".join(call.tool for call in turn.calls)
    axes.drawing.dot((axes.at(turn.at, 0)[0], _middle(lane)), 3, TURN, f"turn {turn.number}: {tools}")


def _job(axes: Axes, lane: int, job: JobTrace) -> None:
    bad = job.outcome not in ("ok", "running", "queued")
    told = f"job {job.job}, {job.outcome}, {duration(job.ran)}, attempts {job.attempts}"
    _bar(axes, lane, job.at + job.queued, job.ran, 6, WRONG if bad else JOB, told, below=12)
    if job.attempts > 1:
        x, _ = axes.at(job.at + job.queued, 0)
        axes.drawing.text((x + 4, _middle(lane) + 5), f"{job.attempts} attempts", size=11)


def _arrow(axes: Axes, lanes: Sequence[str], one: Handoff) -> None:
    x, _ = axes.at(one.at, 0)
    start, end = _middle(lanes.index(one.sender)), _middle(lanes.index(one.recipient))
    axes.drawing.line((x, start), (x, end), INK, 1)
    axes.drawing.dot((x, end), 2.5, INK, f"{one.kind}: {one.sender} to {one.recipient}, after {duration(one.at)}")


def _bar(
    axes: Axes, lane: int, at: float, seconds: float, height: float, colour: str, tip: str, below: float = 0
) -> None:
    x, _ = axes.at(max(0.0, at), 0)
    end, _ = axes.at(at + seconds, 0)
    axes.drawing.box((x, _middle(lane) - height / 2 + below), max(1.0, end - x), height, colour, 0.85, tip)


def _middle(lane: int) -> float:
    return TOP + LANE * lane + LANE / 2 - 4
