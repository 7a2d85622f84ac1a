"""Drawings as inline SVG: a handful of shapes, and axes that turn figures into places."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

Point = tuple[float, float]

# Okabe and Ito's palette, told apart with any colour vision; without its yellow, which is too light on white.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#000000")
DASHES = ("", "7 3", "2 3", "9 3 2 3")
"""Lines differ in this too, for those who print in black."""
INK, FAINT, PAPER = "#222222", "#c8c8c8", "#ffffff"
WIDTH = 480.0


@dataclass(frozen=True)
class Figure:
    """`caption` has the numbers in words, for whoever cannot see the drawing."""

    title: str
    svg: str
    caption: str


class Drawing:
    """Units are those of the viewBox: the page scales it. Whatever text comes in is escaped here."""

    def __init__(self, height: float, label: str, width: float = WIDTH) -> None:
        self.height = height
        self.width = width
        self.label = label
        self._parts: list[str] = []

    def line(
        self, start: Point, end: Point, colour: str = INK, width: float = 1, dash: str = "", tip: str = ""
    ) -> None:
        (x1, y1), (x2, y2) = start, end
        style = f' stroke-dasharray="{dash}"' if dash else ""
        self._parts.append(
            f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}" stroke-width="{width:g}"'
            f"{style}>{_tip(tip)}</line>"
        )

    def path(self, points: Iterable[Point], colour: str, dash: str = "") -> None:
        places = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        style = f' stroke-dasharray="{dash}"' if dash else ""
        self._parts.append(f'<polyline points="{places}" fill="none" stroke="{colour}" stroke-width="2"{style}/>')

    def box(self, corner: Point, width: float, height: float, colour: str, opacity: float = 1, tip: str = "") -> None:
        x, y = corner
        self._parts.append(
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{max(0, width):.1f}" height="{height:.1f}" fill="{colour}" '
            f'fill-opacity="{opacity:.2f}">{_tip(tip)}</rect>'
        )

    def dot(self, place: Point, radius: float, colour: str, tip: str = "", opacity: float = 1) -> None:
        self._parts.append(
            f'<circle cx="{place[0]:.1f}" cy="{place[1]:.1f}" r="{radius:.1f}" fill="{colour}" '
            f'fill-opacity="{opacity:.2f}" stroke="{PAPER}" stroke-width="0.5">{_tip(tip)}</circle>'
        )

    def text(self, place: Point, text: str, anchor: str = "start", colour: str = INK, size: float = 13) -> None:
        self._parts.append(
            f'<text x="{place[0]:.1f}" y="{place[1]:.1f}" text-anchor="{anchor}" fill="{colour}" '
            f'font-size="{size:g}">{escape(text)}</text>'
        )

    def markup(self) -> str:
        head = f'<svg viewBox="0 0 {self.width:g} {self.height:.0f}" role="img" aria-label="{escape(self.label)}">'
        return head + "".join(self._parts) + "</svg>"


@dataclass(frozen=True)
class Axes:
    """A frame of `drawing` from (left, top), with values from `x` to `y` bounds; y grows upwards."""

    drawing: Drawing
    left: float
    top: float
    width: float
    height: float
    x_range: Point
    y_range: Point

    def at(self, x: float, y: float) -> Point:
        (x0, x1), (y0, y1) = self.x_range, self.y_range
        across = (x - x0) / (x1 - x0) if x1 > x0 else 0.5
        up = (y - y0) / (y1 - y0) if y1 > y0 else 0.5
        return self.left + across * self.width, self.top + (1 - up) * self.height

    def frame(self, x_ticks: Sequence[float], y_ticks: Sequence[float], x_label: str, y_label: str) -> None:
        bottom = self.top + self.height
        for tick in y_ticks:
            _, y = self.at(self.x_range[0], tick)
            self.drawing.line((self.left, y), (self.left + self.width, y), FAINT)
            self.drawing.text((self.left - 6, y + 4), f"{tick:.3g}", "end")
        for tick in x_ticks:
            x, _ = self.at(tick, self.y_range[0])
            self.drawing.line((x, bottom), (x, bottom + 4))
            self.drawing.text((x, bottom + 18), f"{tick:.3g}", "middle")
        self.drawing.line((self.left, bottom), (self.left + self.width, bottom))
        if x_label:
            self.drawing.text((self.left + self.width / 2, bottom + 36), x_label, "middle")
        self.drawing.text((self.left, self.top - 14), y_label)


def ticks(low: float, high: float, many: int = 6) -> list[float]:
    """Round numbers in between, about `many`."""
    if high <= low:
        return [low]
    rough = (high - low) / many
    power = 10.0 ** _floor_log10(rough)
    step = next(power * unit for unit in (1, 2, 5, 10) if power * unit >= rough * 0.75)
    first = -(-low // step)
    return [place * step for place in _places(first, high / step)]


def short(text: str, length: int = 18) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"


def legend(drawing: Drawing, top: float, entries: Sequence[str], left: float = 52) -> None:
    """A line of its own for each curve, in the colours and dashes of their order."""
    for place, entry in enumerate(entries):
        y = top + 20 * place
        drawing.line((left, y - 4), (left + 32, y - 4), COLOURS[place % len(COLOURS)], 2, DASHES[place % len(DASHES)])
        drawing.text((left + 40, y), entry)


def _places(first: float, last: float) -> Iterable[float]:
    place = first
    while place <= last * (1 + 1e-9) + 1e-9:
        yield place
        place += 1


def _floor_log10(value: float) -> int:
    return int(f"{value:e}".partition("e")[2])


def _tip(text: str) -> str:
    return f"<title>{escape(text)}</title>" if text else ""
