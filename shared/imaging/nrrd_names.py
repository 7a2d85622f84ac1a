"""Segments of a 3D Slicer segmentation (`.seg.nrrd`), by its header."""

import re
from collections.abc import Mapping
from pathlib import Path

SUFFIX = ".seg.nrrd"
_LARGEST = 1 << 20
"""Bytes of a header."""
_KEY = re.compile(rb"^Segment(\d+)_(Name|LabelValue|Layer|Tags|ID):=(.*?)\s*$", re.MULTILINE)
_GIVEN = re.compile(r"segment[_ ]?\d*", re.IGNORECASE)
"""A name that the program gave."""


def segments(path: Path) -> dict[tuple[int, int], str]:
    """(layer, value) -> name; where the program gave the name, what the terminology calls it. Segments that overlap lie
    in layers; before Slicer 4.11 each had its own, with the value 1. Empty for other files and without segments."""
    if not path.name.lower().endswith(SUFFIX):
        return {}
    try:
        with path.open("rb") as raw:
            head = raw.read(_LARGEST).replace(b"\r\n", b"\n").split(b"\n\n", 1)[0]
    except OSError:
        return {}
    told: dict[int, dict[str, str]] = {}
    for number, what, text in _KEY.findall(head):
        told.setdefault(int(number), {})[what.decode()] = text.decode("utf-8", "replace")
    old = not any("LabelValue" in one for one in told.values())
    found = {}
    for number, one in sorted(told.items()):
        layer, value = (str(number), "1") if old else (one.get("Layer", "0"), one.get("LabelValue", ""))
        if layer.isdecimal() and value.isdecimal() and (name := _name(one)):
            found[int(layer), int(value)] = name
    return found


def _name(one: Mapping[str, str]) -> str:
    name = one.get("Name", "")
    if name and not _GIVEN.fullmatch(name):
        return name
    entry = one.get("Tags", "").partition("TerminologyEntry:")[2].split("~")
    meaning = entry[2].rpartition("^")[2] if len(entry) > 2 else ""
    return meaning or name
