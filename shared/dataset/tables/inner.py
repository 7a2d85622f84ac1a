"""Rows of an XML or JSON file that stand deep in it: the images of the series of a study, the marks of a workspace."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element

from shared.dataset.tables.cells import TableError, nearest
from shared.dataset.tables.documents import Record, flat, flat_xml, load_json, load_xml, tag

MOST = 1 << 20
"""Rows of one file."""


def inner_records(path: Path, each: str) -> list[Record]:
    """A row for each element that the path `each` (`Study/Series/Image`) leads to: its own parts by their names, and
    those of what encloses it behind the enclosing one's (`Series/Laterality`). Raises TableError."""
    steps = [step for step in each.split("/") if step]
    if not steps:
        raise TableError(f"{path.name}: `each` names no element")
    if path.suffix.lower() == ".xml":
        root = load_xml(path)
        rows = _of_element(root, steps[1:] if steps[0] == tag(root) and len(steps) > 1 else steps, {})
    else:
        rows = _of_value(load_json(path), steps, "", {})
    found: list[Record] = []
    for row in rows:
        if len(found) >= MOST:
            raise TableError(f"{path.name} has more than {MOST} elements {each}; split it")
        found.append(row)
    if not found:
        there = sorted(_names(load_xml(path)) if path.suffix.lower() == ".xml" else _keys(load_json(path)))
        raise TableError(f"{path.name} has no element {each}{nearest(steps[-1], there)}")
    return found


def _of_element(element: Element, steps: Sequence[str], told: Mapping[str, str]) -> Iterator[Record]:
    inner = [one for one in element if tag(one) == steps[0]]
    rest = Element(element.tag, element.attrib)
    rest.extend(one for one in element if tag(one) != steps[0])
    told = {**told, **{f"{tag(element)}/{name}": text for name, text in flat_xml(rest).items()}}
    for one in inner:
        if len(steps) == 1:
            yield {**told, **flat_xml(one)}
        else:
            yield from _of_element(one, steps[1:], told)


def _of_value(value: Any, steps: Sequence[str], called: str, told: Mapping[str, str]) -> Iterator[Record]:
    for one in value if isinstance(value, list) else [value]:
        if not isinstance(one, Mapping):
            continue
        if not steps:
            yield {**told, **flat(one)}
            continue
        rest = flat({name: inner for name, inner in one.items() if name != steps[0]})
        own = {f"{called}/{name}" if called else name: text for name, text in rest.items()}
        yield from _of_value(one.get(steps[0]), steps[1:], steps[0], {**told, **own})


def _names(element: Element) -> set[str]:
    return {tag(one) for one in element.iter()}


def _keys(value: Any) -> set[str]:
    inner = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    own = set(map(str, value)) if isinstance(value, Mapping) else set()
    return own.union(*(_keys(one) for one in inner if isinstance(one, Mapping | list)))
