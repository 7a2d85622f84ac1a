"""The index as files: writing, reading and exporting it. Runs in the sandbox, needs the standard library only.

`index.jsonl` holds one sample a line, `index_meta.json` what is true of all (contracts IndexRow and IndexMeta).
"""

import hashlib
import json
import os
import re
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from shared.trainkit.exports import export
from shared.trainkit.imagefile import IMAGE_SUFFIXES, is_hidden, readable, suffix_of
from shared.trainkit.indexrules import (
    META_DEFAULTS,
    META_FIELDS,
    ROW_DEFAULTS,
    ROW_FIELDS,
    SEGMENTATIONS,
    SPLITS,
    Row,
    labels_of,
    meta_problems,
    outside,
    row_problems,
)

__all__ = [
    "IMAGE_SUFFIXES",
    "SEGMENTATIONS",
    "SPLITS",
    "IndexInvalid",
    "Row",
    "is_hidden",
    "labels_of",
    "natural_key",
    "outside",
    "parse_index",
    "read_index",
    "readable",
    "sample_digest",
    "suffix_of",
    "write_index",
]

_SHOWN = 50


class IndexInvalid(ValueError):
    """`problems` lists everything that is wrong, not only the first; the message shows the first 50."""

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = list(problems)
        more = len(problems) - _SHOWN
        lines = [*problems[:_SHOWN], *([f"... and {more} more"] if more > 0 else [])]
        super().__init__(f"{len(problems)} problem(s) in the index:\n" + "\n".join(f"- {line}" for line in lines))


def write_index(folder: str | Path, rows: Iterable[Mapping[str, Any]], meta: Mapping[str, Any]) -> None:
    """Write index.jsonl, index_meta.json and the exports train.json, test.json, label_dict.json into `folder`.

    Nothing is written when anything is wrong: IndexInvalid lists all problems at once. Existing files are replaced.
    `files` are relative to the dataset's folder (never absolute) and in slice order: sort them with `natural_key`.
    A diagnosis has one label a row (a text), or several in every row (a list, `[]` where none holds).
    In the exports, train.json holds the rows of train and of val; label_dict.json is there for a diagnosis only.
    """
    full_rows = [{**ROW_DEFAULTS, **row} for row in rows]
    full_meta = {**META_DEFAULTS, **meta}
    problems = meta_problems(full_meta) + row_problems(full_rows, full_meta)
    if problems:
        raise IndexInvalid(problems)
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    ordered = [{field: row[field] for field in ROW_FIELDS} for row in full_rows]
    texts = {
        "index.jsonl": "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in ordered),
        "index_meta.json": _pretty({field: full_meta[field] for field in META_FIELDS}),
        "train.json": _pretty(export([row for row in ordered if row["split"] != "test"], full_meta)),
        "test.json": _pretty(export([row for row in ordered if row["split"] == "test"], full_meta)),
    }
    if full_meta["task"] == "diagnosis":
        texts["label_dict.json"] = _pretty({name: number for number, name in enumerate(full_meta["label_names"])})
    for name, text in texts.items():
        _replace(folder / name, text)


def read_index(path: str | Path) -> list[Row]:
    """Rows with every field present. Raises IndexInvalid (all problems, with line numbers) or OSError."""
    rows, problems = parse_index(Path(path).read_text(encoding="utf-8"))
    problems += row_problems(rows, None)
    if problems:
        raise IndexInvalid(problems)
    return rows


def parse_index(text: str) -> tuple[list[Row], list[str]]:
    """The lines that are JSON objects, with defaults filled in, and what is wrong with the others."""
    rows: list[Row] = []
    problems: list[str] = []
    # Not splitlines(): it also breaks at U+2028 and the like, which are legal inside a JSON string.
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except ValueError as error:
            problems.append(f"line {number} is not JSON ({error}); write one object a line")
            continue
        if isinstance(row, dict):
            rows.append({**ROW_DEFAULTS, **row})
        else:
            problems.append(f"line {number} is not an object but {type(row).__name__}")
    return rows, problems


def natural_key(name: str) -> tuple[tuple[str | int, ...], str]:
    """Sort key in which `2.png` comes before `10.png`; case and zero padding do not matter."""
    parts = re.split(r"([0-9]+)", name)
    return tuple(int(part) if odd % 2 else part.lower() for odd, part in enumerate(parts)), name


def sample_digest(files: Iterable[str | Path]) -> str:
    """SHA-256 over the content of the files in the given order; names do not count. Raises OSError."""
    digest = hashlib.sha256()
    for file in files:
        with Path(file).open("rb") as stream:
            digest.update(hashlib.file_digest(stream, "sha256").digest())
    return digest.hexdigest()


def _pretty(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, indent=1) + "\n"


def _replace(path: Path, text: str) -> None:
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as stream:
            stream.write(text)
        # mkstemp makes 0600; the file is read by the runner's other uid too.
        Path(temporary).chmod(0o644)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
