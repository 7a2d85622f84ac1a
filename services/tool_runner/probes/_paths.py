"""Virtual paths inside the sandbox. Standalone: the probes import nothing of ours but their siblings."""

import os
import re
from pathlib import Path

_TOPS = {"workspace": "M3_WORKSPACE", "data": "M3_DATA", "templates": "M3_TEMPLATES"}


def real_path(virtual: str) -> Path:
    """Where `/data/x` lies at this sandbox level: below M3_DATA if that is set, else at its own name."""
    _, top, *rest = virtual.split("/")
    root = os.environ.get(_TOPS[top]) or (str(Path.cwd()) if top == "workspace" else f"/{top}")
    return Path(root, *rest)


def natural_key(name: str) -> list[tuple[int, int, str]]:
    """Sort key that puts `slice 9` before `slice 10`."""
    return [(0, int(part), "") if part.isdecimal() else (1, 0, part.casefold()) for part in re.split(r"(\d+)", name)]


def extension(name: str) -> str:
    """Extension as it is on disk, `.nii.gz` kept whole; empty for none and for numbers as in `1.2.840.113`."""
    stem, dot, last = name.rpartition(".")
    if not dot or not stem.strip(".") or not last or len(last) > 10 or last.isdecimal() or " " in last:
        return ""
    if last.lower() in ("gz", "bz2", "xz", "zst"):
        inner = stem.rpartition(".")
        if inner[1] and inner[0] and inner[2].isalpha() and len(inner[2]) <= 5:
            return f".{inner[2]}.{last}"
    return f".{last}"


def reason(error: BaseException) -> str:
    """An error in a line, without the real folder that a library may have put into it."""
    said = re.sub(r"\s+", " ", str(error)).strip() or "no reason given"
    for variable in _TOPS.values():
        if root := os.environ.get(variable):
            said = said.replace(root + "/", "")
    return f"{type(error).__name__}: {said[:300]}"
