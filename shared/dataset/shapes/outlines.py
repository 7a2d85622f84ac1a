"""Outlines in JSON, however a program nests them: lists of points, lists of x and of y, or a box."""

from collections.abc import Iterator, Mapping
from typing import Any

_AXES = (("x", "y"), ("xs", "ys"), ("all_points_x", "all_points_y"))
_NAMES = ("label", "classtitle", "class", "classname", "category", "name", "title", "structure", "type", "tag")
_DEEPEST = 12


def polygons_in(value: Any, depth: int = 0) -> Iterator[tuple[float, ...]]:
    """Polygons of a shape as x, y, x, y, ...; of an outline with holes the outer one. Nothing where there is none."""
    if depth > _DEEPEST:
        return
    if isinstance(value, Mapping):
        if (points := _by_axes(value)) is not None:
            yield points
        else:
            for inner in [value["exterior"]] if "exterior" in value else value.values():
                yield from polygons_in(inner, depth + 1)
    elif isinstance(value, list):
        pairs = [_pair(one) for one in value]
        if len(pairs) > 2 and all(pairs):
            yield tuple(number for pair in pairs if pair for number in pair)
        else:
            for inner in value:
                yield from polygons_in(inner, depth + 1)


def named_outlines(value: Any, depth: int = 0) -> Iterator[tuple[str, tuple[float, ...]]]:
    """Name and polygon of each object of a file that has both."""
    if isinstance(value, Mapping):
        given = {str(key).replace("_", "").lower(): one for key, one in value.items()}
        name = next((given[key].strip() for key in _NAMES if isinstance(given.get(key), str)), "")
        found = [] if any(_objects(one) for one in value.values()) else list(polygons_in(value))
        if name and found:
            yield from ((name, polygon) for polygon in found)
            return
    inner = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    for one in inner if depth < _DEEPEST else ():
        yield from named_outlines(one, depth + 1)


def _objects(value: Any) -> bool:
    """Whether something is a list of objects that are no points."""
    return isinstance(value, list) and any(isinstance(one, Mapping) and _pair(one) is None for one in value)


def _by_axes(value: Mapping[str, Any]) -> tuple[float, ...] | None:
    for first, second in _AXES:
        xs, ys = value.get(first), value.get(second)
        if isinstance(xs, list) and isinstance(ys, list) and len(xs) == len(ys) > 2 and all(map(_number, [*xs, *ys])):
            return tuple(float(number) for pair in zip(xs, ys, strict=True) for number in pair)
    box = [value.get(name) for name in ("x", "y", "width", "height")]
    if not all(map(_number, box)):
        return None
    x, y, width, height = map(float, box)  # type: ignore[arg-type]  # numbers, see above
    return (x, y, x + width, y, x + width, y + height, x, y + height)


def _pair(value: Any) -> tuple[float, float] | None:
    """A point."""
    two = [value.get("x"), value.get("y")] if isinstance(value, Mapping) else value
    if not isinstance(two, list) or len(two) != 2 or not all(map(_number, two)):
        return None
    return float(two[0]), float(two[1])


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
