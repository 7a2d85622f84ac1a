"""Signs on the chest film that are no disease of a lung's zone: devices, spine, aorta, hernia, how far the lungs reach.

Coordinates and sides as in `xray`. All are in form and place: where one adds light, films without it have as much of
it where it means nothing.
"""

from collections.abc import Callable, Collection
from dataclasses import replace

import numpy as np

from m3bench.phantoms.xray import Film, Mask, Person

LOW, HIGH = "Low lung volumes", "Hyperinflation"
DEVICES = ("Pacemaker", "Port", "Sternal wires")
METAL = 1.1
Sign = Callable[[Film, int], None]


def person_with(person: Person, names: Collection[str], rng: np.random.Generator) -> Person:
    """How far the lungs reach down is anatomy; what they gain in height they lose in width."""
    dome, scale = (
        ((-0.30, -0.24), (1.10, 1.0)) if LOW in names else ((0.20, 0.28), (0.84, 1.14)) if HIGH in names
        else ((-0.08, 0.04), (1.0, 1.0))
    )  # fmt: skip
    wide, high = person.lung
    return replace(person, dome=float(rng.uniform(*dome)), lung=(wide * scale[0], high * scale[1]))


def draw_sign(film: Film, name: str, side: int) -> None:
    """Paint a sign on a frontal film; `side` is not looked at where it has none."""
    if name in _SIGNS:
        _SIGNS[name](film, side)


def draw_instead(film: Film, names: Collection[str]) -> None:
    """A film without metal in the body has a plate of lead in a corner: brightness is no clue."""
    if not set(names) & set(DEVICES):
        film.light[(np.abs(film.x - 0.86) < 0.11) & (np.abs(film.y + 0.86) < 0.07)] = METAL


def _line(film: Film, start: tuple[float, float], end: tuple[float, float], width: float) -> Mask:
    (x0, y0), (x1, y1) = start, end
    length = float(np.hypot(x1 - x0, y1 - y0))
    along = ((film.x - x0) * (x1 - x0) + (film.y - y0) * (y1 - y0)) / length
    across = ((film.x - x0) * (y1 - y0) - (film.y - y0) * (x1 - x0)) / length
    return np.asarray((along > 0) & (along < length) & (np.abs(across) < width))


def _pacemaker(film: Film, side: int) -> None:
    box = (np.abs(film.x - side * 0.52) < 0.13) & (np.abs(film.y + 0.60) < 0.10)
    film.light[box | _line(film, (side * 0.45, -0.5), (0.02, -0.35), 0.02)] = METAL
    film.light[_line(film, (0.02, -0.35), (0.22, 0.34), 0.02)] = METAL


def _port(film: Film, side: int) -> None:
    ring = np.hypot(film.x - side * 0.48, film.y + 0.30)
    film.light[(ring < 0.11) & (ring > 0.05)] = METAL
    film.light[_line(film, (side * 0.46, -0.38), (side * 0.12, -0.66), 0.018)] = METAL
    film.light[_line(film, (side * 0.12, -0.66), (-0.05, 0.02), 0.018)] = METAL


def _wires(film: Film, side: int) -> None:
    for level in (-0.42, -0.26, -0.10, 0.06, 0.22):
        film.light[(np.abs(film.y - level - 0.4 * np.abs(film.x)) < 0.024) & (np.abs(film.x) < 0.1)] = METAL


def _scoliosis(film: Film, side: int) -> None:
    """The spine bends towards `side`, and is seen through the heart."""
    straight = (np.abs(film.x) < 0.085) & (film.y > -0.55)
    film.light[straight] = 0.66
    bent = np.abs(film.x - side * (0.30 * np.cos(1.7 * (film.y + 0.05)) - 0.10)) < 0.085
    film.light[bent & (film.y > -0.95)] = (0.84 + 0.07 * np.sin(42 * film.y))[bent & (film.y > -0.95)]


def _aorta(film: Film, side: int) -> None:
    """A wide knob beside the spine, from which the vessel swings out and comes back."""
    knob = np.hypot(film.x - 0.22, film.y + 0.34) < 0.15
    swing = np.abs(film.x - 0.27 + 0.9 * (film.y + 0.05) ** 2) < 0.055
    film.light[knob | (swing & (film.y > -0.35) & (film.y < 0.42))] = 0.8


def _hernia(film: Film, side: int) -> None:
    """A pouch behind the heart with air over fluid."""
    pouch = np.hypot(film.x - 0.02, (film.y - 0.28) / 0.9)
    film.light[pouch < 0.19] = 0.92
    film.light[(pouch < 0.145) & (film.y < 0.30)] = 0.30


_SIGNS: dict[str, Sign] = {
    "Pacemaker": _pacemaker, "Port": _port, "Sternal wires": _wires, "Scoliosis": _scoliosis,
    "Tortuous aorta": _aorta, "Hiatal hernia": _hernia,
}  # fmt: skip
