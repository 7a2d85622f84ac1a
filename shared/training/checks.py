"""Rows of the training index, and what is wrong with them: told all at once, with sample ids, before anything else."""

import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from shared.contracts.data import IndexRow
from shared.training.configfile import Source

Row = Mapping[str, Any]
SHOWN = 20
NO_REPORT = ("", "nan", "none", "null", "n/a")
"""What a table's empty cell may have become."""
NO_TEXT = (".txt", ".json", ".xml", ".csv", ".png", ".jpg", ".nii", ".nii.gz", ".dcm")


@dataclass(frozen=True)
class Problem:
    where: str
    """A sample id, or what the whole is called: `train_index.jsonl`."""
    text: str


class DataProblems(Exception):
    """`problems` is complete; the message shows the first twenty."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        lines = [f"- {problem.where}: {problem.text}" for problem in self.problems[:SHOWN]]
        more = len(self.problems) - SHOWN
        lines += [f"... and {more} more"] if more > 0 else []
        super().__init__("\n".join([f"{len(self.problems)} problem(s) in the data; nothing was trained:", *lines]))


class TrainingFailed(Exception):
    """The training cannot go on; the text says what happened and, on a second line, what to change."""


def read_index(path: str | Path) -> list[dict[str, Any]]:
    """Rows of `train_index.jsonl`, one case a line, with the fields of `IndexRow`. Raises DataProblems or OSError."""
    rows, problems = [], []
    # Not splitlines(): it also breaks at U+2028 and the like, which are legal inside a JSON string.
    for number, line in enumerate(Path(path).read_text(encoding="utf-8").split("\n"), 1):
        try:
            if line.strip():
                rows.append(IndexRow.model_validate_json(line).model_dump(mode="json"))
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, first["loc"])) or "line"
            problems.append(Problem(f"{Path(path).name} line {number}", f"is no row: {where}: {first['msg']}"))
    refuse(problems)
    return rows


def labels_of(row: Mapping[str, Any]) -> tuple[str, ...]:
    """Class names of a row: none, one, or several."""
    label = row.get("label")
    if label is None:
        return ()
    return (label,) if isinstance(label, str) else tuple(label)


def split_problems(rows: Sequence[Row], source: Source) -> list[Problem]:
    """No data, no training or validation rows, or a patient on both sides. Test rows have no place here either."""
    counts = Counter(str(row["split"]) for row in rows)
    sides = Counter(patient for patient, _ in {(str(row["patient"]), row["split"]) for row in rows})
    wrong = {
        "there is no row with split train": not counts["train"],
        "there is no row with split val; give some training patients' rows the split val": not counts["val"],
        f"{counts['test']} rows have split test; test samples are not for training": counts["test"],
    }
    problems = [Problem(source.index, text) for text, holds in wrong.items() if holds]
    if not source.data_folder.is_dir():
        problems.insert(0, Problem("data_root", f"{source.data_folder} is no folder; set data_root or M3_DATA"))
    text = "stands on both sides of the split; keep each patient on one side"
    return problems + [Problem(f"patient {one}", text) for one in sorted(sides) if sides[one] > 1]


def label_problems(rows: Sequence[Row], names: Sequence[str]) -> list[Problem]:
    """Labels that the label map does not hold, rows without one, splits in which nothing can be told apart."""
    problems = []
    several = any(isinstance(row["label"], list) for row in rows)
    for row in rows:
        found, sample = labels_of(row), str(row["sample_id"])
        if row["label"] is None:
            problems.append(Problem(sample, "has no label"))
        elif several and isinstance(row["label"], str):
            problems.append(Problem(sample, "has its label as a text, others have lists; all rows must be alike"))
        problems += [Problem(sample, f"lists {label!r} twice") for label, n in Counter(found).items() if n > 1]
        problems += [
            Problem(sample, f"has the label {label!r}, which is not in the label map ({', '.join(names)})")
            for label in found
            if label not in names
        ]
    if several and not names:
        problems.append(Problem("label map", "names no label"))
    if not several and len(names) < 2:
        problems.append(Problem("label map", f"names {len(names)} class; a diagnosis needs at least two"))
    for split in ("train", "val"):
        held = [labels_of(row) for row in rows if row["split"] == split]
        counts = Counter(label for labels in held for label in set(labels))
        same = [name for name in names if counts[name] in (0, len(held))] if held else []
        if several and split == "train":
            text = "row has the label {!r}: nothing can be told apart; leave it out of the label map"
            told = [f"{'every' if counts[name] else 'no'} {text.format(name)}" for name in same]
        elif several:
            text = "there is no label that some rows have and others lack: give it more rows"
            told = [text] if names and len(same) == len(names) else []
        else:
            told = [f"holds the class {min(counts)!r} only; nothing can be told apart"] if len(counts) == 1 else []
        problems += [Problem(f"split {split}", text) for text in told]
    return problems


def report_problems(rows: Sequence[Row]) -> list[Problem]:
    """Samples without a report, file names in the place of one, and reports that are all the same."""
    problems = []
    for row in rows:
        text, sample = str(row["target"] or "").strip(), str(row["sample_id"])
        if text.lower() in NO_REPORT:
            problems.append(Problem(sample, f"has no report (target is {row['target']!r})"))
        elif not any(letter.isalnum() for letter in text):
            problems.append(Problem(sample, f"has a report without a word: {text[:40]!r}"))
        elif text.lower().endswith(NO_TEXT) and len(text.split()) == 1:
            wrong = f"has the file {text} as report; target must be the text itself"
            problems.append(Problem(sample, wrong))
    texts = {str(row["target"]).strip() for row in rows if row["split"] == "train"}
    if len(texts) == 1 and not problems:
        problems.append(Problem("split train", "every report is the same; nothing can be told from the images"))
    return problems


def value_problems(values: Mapping[str, int]) -> list[Problem]:
    """What is wrong with a segmentation's label map, structure -> value in the masks."""
    problems = [] if values else [Problem("label map", "names no structure")]
    for value in sorted(set(values.values())):
        names = [name for name in values if values[name] == value]
        if value == 0:
            problems.append(Problem("label map", f"{names[0]!r} has the value 0, which is background"))
        if len(names) > 1:
            problems.append(Problem("label map", f"{', '.join(names)} have the same value {value}"))
    return problems


def read_all(rows: Sequence[Row], read: Callable[[Row], object]) -> list[Problem]:
    """Call `read` on each row; what it raises as ValueError or OSError becomes a problem of that sample."""

    def attempt(row: Row) -> Problem | None:
        try:
            read(row)
        except (ValueError, OSError) as error:
            return Problem(str(row["sample_id"]), str(error) or type(error).__name__)
        return None

    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        return [problem for problem in pool.map(attempt, rows) if problem is not None]


def refuse(problems: Sequence[Problem]) -> None:
    """Raises DataProblems if there are any."""
    if problems:
        raise DataProblems(problems)
