"""The index as files: writing, reading and exporting it. Runs in the sandbox, needs the standard library only.

`index.jsonl` holds one sample a line, `index_meta.json` what is true of all (contracts IndexRow and IndexMeta).
"""

import hashlib
import json
import os
import re
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from shared.trainkit.exports import export
from shared.trainkit.imagefile import IMAGE_SUFFIXES, is_hidden, readable, suffix_of

__all__ = [
    "IMAGE_SUFFIXES",
    "SPLITS",
    "IndexInvalid",
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

Row = dict[str, Any]

SPLITS = ("train", "val", "test")
TASKS = ("diagnosis", "organ_segmentation", "anomaly_detection", "report_generation")
SEGMENTATIONS = ("organ_segmentation", "anomaly_detection")
ROW_DEFAULTS: Row = {"study": None, "label": None, "target": None, "attributes": {}}
ROW_FIELDS = ("sample_id", "patient", "study", "label", "target", "files", "attributes", "split")
META_DEFAULTS: Row = {"label_names": [], "label_values": {}, "seed": 0, "excluded": {}, "excluded_counts": {}}
META_FIELDS = (
    "task",
    "dimensions",
    "label_names",
    "label_values",
    "grouping",
    "grouping_from",
    "split_from",
    "seed",
    "excluded",
    "excluded_counts",
)
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


def row_problems(rows: Sequence[Mapping[str, Any]], meta: Mapping[str, Any] | None) -> list[str]:
    """Sentences about rows that do not fit IndexRow; with `meta`, labels are held against its names too."""
    problems: list[str] = []
    seen: Counter[str] = Counter()
    for number, row in enumerate(rows, 1):
        found = _row(row, meta)
        sample_id = row.get("sample_id")
        name = repr(sample_id) if isinstance(sample_id, str) and sample_id else f"number {number}"
        problems += [f"row {name}: {problem}" for problem in found]
        if isinstance(sample_id, str):
            seen[sample_id] += 1
    problems += [
        f"sample_id {name!r} stands in {count} rows; it must be unique" for name, count in seen.items() if count > 1
    ]
    if not rows:
        problems.append("the index has no rows")
    return problems


def meta_problems(meta: Mapping[str, Any]) -> list[str]:
    """Sentences about what does not fit IndexMeta."""
    problems = [f"meta: unknown field {name!r}" for name in meta if name not in META_FIELDS]
    choices: dict[str, tuple[object, ...]] = {
        "task": TASKS,
        "dimensions": (2, 3),
        "grouping": ("stated", "derived", "inferred"),
        "split_from": ("dataset", "made"),
    }
    for field, allowed in choices.items():
        if meta.get(field) not in allowed or isinstance(meta.get(field), bool):
            problems.append(f"meta: {field} is {meta.get(field)!r}; it must be one of {', '.join(map(repr, allowed))}")
    if not _text(meta.get("grouping_from")):
        problems.append("meta: grouping_from must be a sentence that says how patients were told apart")
    names = meta.get("label_names", ())
    if not _texts(names):
        problems.append("meta: label_names must be a list of class names")
    else:
        problems += [f"meta: label name {name!r} is given {n} times" for name, n in Counter(names).items() if n > 1]
        if meta.get("task") == "diagnosis" and not names:
            problems.append("meta: a diagnosis needs label_names, in the order of their numbers 0..N-1")
    problems += _label_values(meta)
    if not _whole(meta.get("seed", 0)):
        problems.append("meta: seed must be a whole number")
    excluded, counts = meta.get("excluded", {}), meta.get("excluded_counts", {})
    if not isinstance(excluded, Mapping) or not all(isinstance(k, str) and _texts(v) for k, v in excluded.items()):
        problems.append("meta: excluded must map a reason to a list of files or samples")
    if not isinstance(counts, Mapping) or not all(isinstance(k, str) and _whole(v) for k, v in counts.items()):
        problems.append("meta: excluded_counts must map a reason to a number")
    return problems


def _label_values(meta: Mapping[str, Any]) -> list[str]:
    values = meta.get("label_values", {})
    if not isinstance(values, Mapping) or not all(isinstance(k, str) and _whole(v) for k, v in values.items()):
        return ["meta: label_values must map a structure to its whole number in the masks"]
    if meta.get("task") not in SEGMENTATIONS:
        return ["meta: label_values are for segmentations only; leave them out"] if values else []
    problems = []
    if not values:
        problems.append("meta: a segmentation needs label_values, which map each structure to its value in the masks")
    elif _texts(names := meta.get("label_names", ())) and set(names) != set(values):
        problems.append("meta: label_names and the keys of label_values must be the same structures")
    if any(value < 1 for value in values.values()):
        problems.append("meta: label_values must be 1 or more; 0 is background and is not listed")
    if len(set(values.values())) < len(values):
        problems.append("meta: two structures have the same value in label_values")
    return problems


def labels_of(row: Mapping[str, Any]) -> tuple[str, ...]:
    """Class names of a row: none, one, or several."""
    label = row.get("label")
    if label is None:
        return ()
    return (label,) if isinstance(label, str) else tuple(label)


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


def outside(file: str) -> bool:
    """Whether a row's file is no path below the dataset's folder (absolute, `..`, backslashes, not normal)."""
    path = PurePosixPath(file)
    # Control characters and undecodable bytes do not survive the way through JSON, tar and object keys.
    odd = "\\" in file or any(c < " " or "\ud800" <= c <= "\udfff" for c in file)
    return path.is_absolute() or ".." in path.parts or odd or str(path) != file or file == "."


def _row(row: Mapping[str, Any], meta: Mapping[str, Any] | None) -> list[str]:
    problems = [f"unknown field {name!r}" for name in row if name not in ROW_FIELDS]
    problems += [f"{field} must be a text" for field in ("sample_id", "patient") if not _text(row.get(field))]
    for field in ("study", "target"):
        if row.get(field) is not None and not isinstance(row[field], str):
            problems.append(f"{field} must be a text or null")
    if row.get("split") not in SPLITS:
        problems.append(f"split is {row.get('split')!r}; it must be train, val or test")
    files = row.get("files")
    if not _texts(files) or not files:
        problems.append("files must be a list of at least one relative path")
    else:
        problems += [f"file {file!r} is no plain path below the dataset's folder" for file in files if outside(file)]
        if len(set(files)) < len(files):
            problems.append("the same file is listed twice")
    if not _json_object(row.get("attributes")):
        problems.append("attributes must be an object of plain JSON values")
    label = row.get("label")
    if label is not None and not isinstance(label, str) and not _texts(label):
        return [*problems, "label must be a class name, a list of class names, or null"]
    if meta is not None:
        problems += _label(row, meta)
    return problems


def _label(row: Mapping[str, Any], meta: Mapping[str, Any]) -> list[str]:
    if meta.get("task") != "diagnosis":
        return [] if _text(row.get("target")) else [f"{meta.get('task')} needs a target (mask path or report text)"]
    known = meta["label_names"] if _texts(meta.get("label_names")) else labels_of(row)
    if row.get("label") is None:
        return ["a diagnosis needs a label"]
    return [f"label {name!r} is not in label_names" for name in labels_of(row) if name not in known]


def _text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _texts(value: object) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(item, str) and item for item in value)


def _whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _json_object(value: object) -> bool:
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        return False
    try:
        json.dumps(dict(value), allow_nan=False)
    except (TypeError, ValueError):
        return False
    return True


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
