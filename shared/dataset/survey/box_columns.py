"""Which columns of a table are called what the numbers of a box are: `xmin`, `Bbox [x`, `lesion_top_left_y`."""

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from shared.contracts.rules import Box

_SIGNS = (r"x|y|w|h|min|max|start|end|begin|stop|left|right|top|bottom|upper|lower|tl|br|cent(?:er|re|roid)"
          r"|mid(?:dle)?|width|height|low|high|from|to|c")  # fmt: skip
_GLUED = re.compile(rf"(?:b?box|bb|roi)?((?:{_SIGNS})(?:{_SIGNS})*)")
_SIGN = re.compile(_SIGNS)
_LOW = {"min", "start", "begin", "left", "top", "upper", "tl", "low", "from"}
_HIGH = {"max", "end", "stop", "right", "bottom", "lower", "br", "high", "to"}
_MIDDLE = {"center", "centre", "centroid", "mid", "middle", "c"}
_SIZE = {"w": "x", "width": "x", "h": "y", "height": "y"}
_AXIS = {"x": "x", "y": "y", "left": "x", "right": "x", "top": "y", "bottom": "y"}
_USUAL = re.compile(r"b?box(?:es)?|bounding|bb|rect(?:angle)?|coord(?:inate)?s?|pixels?|px|pos(?:ition)?|point|corner"
                    r"|ann(?:otation)?|region|roi|abs")  # fmt: skip
"""Words that say no more than that it is a box."""
_FORMS: dict[Box, tuple[str, str, str, str]] = {
    "corners": ("x low", "y low", "x high", "y high"),
    "size": ("x low", "y low", "x size", "y size"),
    "middle": ("x middle", "y middle", "x size", "y size"),
}


@dataclass(frozen=True)
class Called:
    """Four columns that belong together."""

    columns: tuple[str, str, str, str]
    box: Box
    """What their names say of the numbers."""
    name: str
    """What else the names have in common, such as a structure; '' where it only says that it is a box."""


def called(names: Sequence[str]) -> list[Called]:
    """All fours of columns, by their names."""
    groups: dict[tuple[str, ...], dict[str, str]] = defaultdict(dict)
    numbered: dict[tuple[tuple[str, ...], str], list[tuple[int, str]]] = defaultdict(list)
    for name in names:
        read = _read(name)
        if read is None:
            continue
        rest, axis, role, number = read
        if number is not None:
            numbered[rest, axis].append((number, name))
        elif role:
            groups[rest].setdefault(f"{axis} {role}", name)
    for (rest, axis), pair in numbered.items():
        if len(pair) == 2:  # x0 and x1, or x1 and x2
            groups[rest][f"{axis} low"], groups[rest][f"{axis} high"] = (name for _, name in sorted(pair))
        elif len(pair) == 1:
            groups[rest].setdefault(f"{axis} low", pair[0][1])
    found = []
    for rest, roles in groups.items():
        box: Box
        for box, needed in _FORMS.items():
            if all(role in roles for role in needed):
                a, b, c, d = (roles[role] for role in needed)
                found.append(Called((a, b, c, d), box, " ".join(rest)))
                break
    return found


def _read(name: str) -> tuple[tuple[str, ...], str, str, int | None] | None:
    """What a name says besides; axis; role; and the number that tells two of one axis apart. None where no axis."""
    text = re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", " ", name)
    signs: list[str] = []
    rest: list[str] = []
    number: int | None = None
    for word in re.findall(r"[^\W\d_]+|\d+", text.lower()):
        glued = _GLUED.fullmatch(word)
        if word.isdigit() and signs and number is None:
            number = int(word)
        elif glued:
            signs += _SIGN.findall(glued[1])
        elif not _USUAL.fullmatch(word):
            rest.append(word)
    sizes = [one for one in signs if one in _SIZE]
    if sizes:
        return tuple(rest), _SIZE[sizes[0]], "size", None
    axes = [one for one in signs if one in "xy"] or [_AXIS[one] for one in signs if one in _AXIS]
    if not axes or len(set(axes)) > 1:
        return None
    for role, known in (("low", _LOW), ("high", _HIGH), ("middle", _MIDDLE)):
        if any(one in known for one in signs):
            return tuple(rest), axes[0], role, None
    return tuple(rest), axes[0], "low", number
