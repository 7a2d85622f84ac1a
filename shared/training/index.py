"""Rows of the training index (`train_index.jsonl`): one case a line, as the scorer wrote it. Runs in the sandbox."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from shared.contracts.data import IndexRow

Row = dict[str, Any]
_SHOWN = 50


class IndexInvalid(ValueError):
    """`problems` lists everything that is wrong, not only the first; the message shows the first 50."""

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = list(problems)
        more = len(problems) - _SHOWN
        lines = [*problems[:_SHOWN], *([f"... and {more} more"] if more > 0 else [])]
        super().__init__(f"{len(problems)} problem(s) in the index:\n" + "\n".join(f"- {line}" for line in lines))


def read_index(path: str | Path) -> list[Row]:
    """Rows as plain values with the fields of `IndexRow`. Raises IndexInvalid (all problems, by line) or OSError."""
    rows: list[Row] = []
    problems: list[str] = []
    # Not splitlines(): it also breaks at U+2028 and the like, which are legal inside a JSON string.
    for number, line in enumerate(Path(path).read_text(encoding="utf-8").split("\n"), 1):
        if not line.strip():
            continue
        try:
            rows.append(IndexRow.model_validate_json(line).model_dump(mode="json"))
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, first["loc"])) or "line"
            problems.append(f"line {number} is no row: {where}: {first['msg']}")
    if problems:
        raise IndexInvalid(problems)
    return rows


def labels_of(row: Mapping[str, Any]) -> tuple[str, ...]:
    """Class names of a row: none, one, or several."""
    label = row.get("label")
    if label is None:
        return ()
    return (label,) if isinstance(label, str) else tuple(label)


def several_labels(rows: Iterable[Mapping[str, Any]]) -> bool:
    """Whether several labels may hold of a case: the labels are lists then."""
    return any(isinstance(row.get("label"), list | tuple) for row in rows)


def sample_digest(files: Iterable[str | Path]) -> str:
    """SHA-256 over the content of the files in the given order; names do not count. Raises OSError."""
    digest = hashlib.sha256()
    for file in files:
        with Path(file).open("rb") as stream:
            digest.update(hashlib.file_digest(stream, "sha256").digest())
    return digest.hexdigest()
