"""The leaderboard: results as one HTML file with nothing to load. A row a task, a column a system."""

from collections.abc import Iterable, Sequence
from html import escape
from statistics import fmean

from m3bench.results import Result
from m3bench.tables import HEAD, KINDS, score, share, system_of, told, why
from m3bench.tasks import tasks

WIDTH, ROW = 260, 14
"""Of a plot of scores, and of a line in it, in pixels."""
COLOURS = {"useful": "#0072b2", "valid": "#e69f00", "ran": "#d55e00", "none": "#999999"}
STYLE = """
body { font: 15px/1.4 system-ui, sans-serif; color: #222; margin: 0 auto; padding: 1rem; max-width: 90rem; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.1rem; margin-top: 2rem; } .wide { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { text-align: left; vertical-align: top; padding: .4rem 1rem .4rem 0; border-bottom: 1px solid #ddd; }
small, .note { color: #555; } pre { font-size: 12px; overflow-x: auto; } svg { display: block; }
.key span { margin-right: 1.2rem; } .dot { display: inline-block; width: .7rem; height: .7rem; border-radius: 50%; }
"""


def page(results: Sequence[Result]) -> str:
    """The whole page. Figures of replicas and of real data stand in rows of their own."""
    served = [one for one in results if one.kind]
    systems = sorted({system_of(one) for one in served}, key=lambda name: -_useful(served, name))
    head = "".join(f"<th>{escape(name)}<br><small>{_summary(served, name)}</small></th>" for name in systems)
    order = list(tasks())
    rows = []
    for name, real, size in sorted(
        {(one.setting.task, one.setting.real, one.setting.size) for one in served},
        key=lambda row: (row[1], row[2], order.index(row[0])),
    ):
        of = [one for one in served if (one.setting.task, one.setting.real, one.setting.size) == (name, real, size)]
        data = "real data" if real else f"replica, {escape(size)}"
        cells = [_cell([one for one in of if system_of(one) == system], of) for system in systems]
        kind = KINDS[tasks()[name].kind]
        rows.append(f"<tr><th>{escape(name)}<br><small>{kind} {data}</small></th>{''.join(cells)}</tr>")
    made = sorted({one.commit for one in results}), sorted({one.machine for one in results})
    note = f"Code {', '.join(made[0]) or 'unknown'}; {'; '.join(made[1])}."
    expert = any(one.setting.core == "playbook" and not one.setting.real for one in served)
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>M3Bench</title>'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        f"<style>{STYLE}</style></head>\n<body><h1>M3Bench</h1><p class='note'>{escape(note)}"
        f"{f' {HEAD}' if expert else ''}</p>{_key()}"
        f'<div class="wide"><table><thead><tr><th>Task</th>{head}</tr></thead><tbody>\n'
        + "\n".join(rows)
        + f"</tbody></table></div><h2>Tables</h2><pre>{escape(told(results))}</pre></body></html>\n"
    )


def _useful(results: Iterable[Result], system: str) -> float:
    return fmean([one.useful for one in results if system_of(one) == system] or [0])


def _summary(results: Iterable[Result], system: str) -> str:
    of = [one for one in results if system_of(one) == system]
    return (
        f"useful {share(one.useful for one in of)}; {fmean(one.turns for one in of):.1f} turns, "
        f"{fmean(one.tokens for one in of) / 1000:.0f}k tokens, {fmean(one.seconds for one in of) / 60:.1f} min a run"
    )


def _cell(of: Sequence[Result], row: Sequence[Result]) -> str:
    """Levels, the plot of its scores on the row's axis, and what a run took."""
    if not of:
        return "<td>-</td>"
    counts = "/".join(str(sum(getattr(one, level) for one in of)) for level in ("ran", "valid", "useful"))
    took = f"{fmean(x.turns for x in of):.1f} turns, {fmean(x.tokens for x in of) / 1000:.0f}k tokens, "
    took += f"{fmean(x.seconds for x in of):.0f} s"
    return f"<td>{counts} of {len(of)}{_plot(of, row)}<small>{took}</small></td>"


def _plot(of: Sequence[Result], row: Sequence[Result]) -> str:
    figures = [x for one in row for x in (one.low, one.no_image, one.greys, one.network, one.floor) if x is not None]
    low = min(0.95, *figures, 0.95) if figures else 0.0
    left = max(0.0, low - 0.05)

    def x(value: float) -> float:
        return 4 + (WIDTH - 8) * (min(1.0, max(left, value)) - left) / (1 - left)

    height = ROW * len(of) + 16
    drawn = [f'<line x1="4" y1="{height - 14}" x2="{WIDTH - 4}" y2="{height - 14}" stroke="#bbb"/>']
    first = row[0]
    for value, dash, name in (
        (first.no_image, "2 2", "no image"), (first.greys, "6 3", "grey values"),
        (first.network, "", "small network"), (first.floor, "1 3", "floor of the range"),
    ):  # fmt: skip
        if value is not None:
            at = x(value)
            drawn.append(
                f'<line x1="{at:.1f}" y1="0" x2="{at:.1f}" y2="{height - 14}" stroke="#777" stroke-dasharray="{dash}">'
                f"<title>{name} {value:.3f}</title></line>"
            )
    for number, one in enumerate(of):
        y, colour = ROW * number + ROW / 2, COLOURS.get(one.level, "#999999")
        title = escape(f"round {one.setting.round}: {one.level}, {score(one)} {why(one) if not one.useful else ''}")
        if one.value is None or one.low is None or one.high is None:
            drawn.append(f'<text x="4" y="{y + 4}" font-size="11" fill="{colour}">{escape(one.end)}</text>')
            continue
        drawn.append(
            f'<line x1="{x(one.low):.1f}" y1="{y}" x2="{x(one.high):.1f}" y2="{y}" stroke="{colour}" stroke-width="2"/>'
            f'<circle cx="{x(one.value):.1f}" cy="{y}" r="4" fill="{colour}"><title>{title}</title></circle>'
        )
    for value, anchor in ((left, "start"), (1.0, "end")):
        place = f'x="{x(value):.1f}" y="{height - 2}" text-anchor="{anchor}"'
        drawn.append(f'<text {place} font-size="10" fill="#555">{value:.2f}</text>')
    return f'<svg width="{WIDTH}" height="{height}" role="img">{"".join(drawn)}</svg>'


def _key() -> str:
    dots = "".join(
        f'<span><i class="dot" style="background:{colour}"></i> {level}</span>' for level, colour in COLOURS.items()
    )
    lines = "lines: no image (short dashes), grey values (long dashes), a small network (whole), floor (dots)"
    return f'<p class="key">{dots}<span>score with its 95 % interval by patient; {lines}</span></p>'
