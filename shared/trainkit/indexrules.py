"""What an index may say: its fields, and what is wrong with rows and meta. Needs the standard library only.

A diagnosis has one label a sample, a text, or several, a list (of none, too); all rows of an index are alike in that.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

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
EVERY = "all"
"""Under which every sample is counted where classes cannot tell how many there are."""


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
    return problems + _mixture(rows)


def _mixture(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    lists = sum(isinstance(row.get("label"), list | tuple) for row in rows)
    texts = sum(isinstance(row.get("label"), str) for row in rows)
    if not lists or not texts:
        return []
    return [
        f"{lists} rows have a list of labels and {texts} a label as a text: where several may hold every row has a "
        "list, `[]` where none does; else every row has a text"
    ]


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


def several_labels(rows: Iterable[Mapping[str, Any]]) -> bool:
    """Whether several labels may hold of a sample: the labels are lists then."""
    return any(isinstance(row.get("label"), list | tuple) for row in rows)


def counted_as(label: object) -> tuple[str, ...]:
    """The names under which a sample is counted: its class, or each of its labels and `EVERY`; `EVERY` without any."""
    if isinstance(label, list | tuple):
        return (*label, EVERY)
    return (label,) if isinstance(label, str) else (EVERY,)


def labels_of(row: Mapping[str, Any]) -> tuple[str, ...]:
    """Class names of a row: none, one, or several."""
    label = row.get("label")
    if label is None:
        return ()
    return (label,) if isinstance(label, str) else tuple(label)


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
    problems += [f"label {name!r} is listed {n} times" for name, n in Counter(labels_of(row)).items() if n > 1]
    if isinstance(label, list | tuple) and EVERY in label:
        problems.append(f"no label may be called {EVERY!r} where several may hold: it counts the samples")
    if meta is not None:
        problems += _label(row, meta)
    return problems


def _label(row: Mapping[str, Any], meta: Mapping[str, Any]) -> list[str]:
    if meta.get("task") != "diagnosis":
        return [] if _text(row.get("target")) else [f"{meta.get('task')} needs a target (mask path or report text)"]
    known = meta["label_names"] if _texts(meta.get("label_names")) else labels_of(row)
    if row.get("label") is None:
        return ["a diagnosis needs a label, or a list of labels (`[]` where none holds)"]
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
