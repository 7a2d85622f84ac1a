"""What a training leaves behind while it runs and at its end: `progress.jsonl`, `metrics.json`."""

import json
import math
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

Json = Any
FIELDS = ("step", "epoch", "epochs", "loss", "metric", "metric_name", "eta_seconds", "gpu_memory_mb", "text")
"""Of a progress line: those of the contract JobProgress without the ids."""


def write_json(path: Path, value: Json) -> None:
    """Whole or not at all, readable by other users. NaN and infinity become null: JSON has none."""
    write_text(path, json.dumps(plain(value), indent=1, ensure_ascii=False) + "\n")


def read_json(path: Path) -> dict[str, Json]:
    """A JSON object, empty where there is none or a torn one."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def write_text(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(text)
    Path(name).chmod(0o644)
    Path(name).replace(path)


def plain(value: Json) -> Json:
    """The same with NumPy scalars as numbers and without NaN."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if hasattr(value, "item") and not isinstance(value, str | bytes):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value


def tell_progress(**fields: Json) -> None:
    """Append a line to progress.jsonl: FIELDS that are not None. A reader, or a successor after kill -9, sees it."""
    if unknown := sorted(set(fields) - set(FIELDS)):
        raise ValueError(f"a progress line has no field {', '.join(unknown)}")
    line = {key: value for key, value in plain(fields).items() if value is not None}
    with Path("progress.jsonl").open("ab+") as file:
        # A line that a killed writer left unfinished must not swallow ours.
        torn = file.tell() and (file.seek(-1, os.SEEK_END), file.read(1))[1] != b"\n"
        file.write(b"\n" * bool(torn) + json.dumps(line, ensure_ascii=False).encode() + b"\n")
