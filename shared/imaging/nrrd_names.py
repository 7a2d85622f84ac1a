"""Names of segments in the header of a 3D Slicer segmentation (`.seg.nrrd`)."""

import re
from pathlib import Path

_LARGEST = 1 << 20
"""Bytes of a header."""
_KEY = re.compile(rb"^Segment(\d+)_(Name|LabelValue|Layer):=(.*?)\s*$", re.MULTILINE)


def segments(path: Path) -> dict[int, str]:
    """Value -> name. Empty for other files, for one without names, and where segments overlap (in several layers one
    value means several)."""
    if not path.name.lower().endswith(".seg.nrrd"):
        return {}
    try:
        with path.open("rb") as raw:
            head = raw.read(_LARGEST).replace(b"\r\n", b"\n").split(b"\n\n", 1)[0]
    except OSError:
        return {}
    told: dict[bytes, dict[bytes, str]] = {}
    for number, what, text in _KEY.findall(head):
        told.setdefault(number, {})[what] = text.decode("utf-8", "replace")
    if len({one.get(b"Layer", "0") for one in told.values()}) > 1:
        return {}
    named = [(one[b"LabelValue"], one[b"Name"]) for one in told.values() if one.get(b"Name") and b"LabelValue" in one]
    return {int(value): name for value, name in named if value.isdecimal()}
