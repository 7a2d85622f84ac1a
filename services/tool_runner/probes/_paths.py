"""Virtual paths inside the sandbox."""

import os
import re
from pathlib import Path

_TOPS = {"workspace": "M3_WORKSPACE", "data": "M3_DATA", "templates": "M3_TEMPLATES", "package": "M3_PACKAGE"}


def real_path(virtual: str) -> Path:
    """Where `/data/x` lies at this sandbox level: below M3_DATA if that is set, else at its own name."""
    _, top, *rest = virtual.split("/")
    root = os.environ.get(_TOPS[top]) or (str(Path.cwd()) if top == "workspace" else f"/{top}")
    return Path(root, *rest)


def reason(error: BaseException) -> str:
    """An error in a line, without the real folder that a library may have put into it."""
    said = re.sub(r"\s+", " ", str(error)).strip()
    # Errors of ours are sentences; of any other the kind says most.
    if not said or not type(error).__module__.startswith("shared."):
        said = f"{type(error).__name__}: {said or 'no reason given'}"
    for variable in _TOPS.values():
        if root := os.environ.get(variable):
            said = said.replace(root + "/", "")
    return said[:300]
