"""What is wrong with reports, told before training."""

from collections.abc import Mapping, Sequence
from typing import Any

from shared.training.checks import Problem

EMPTY = ("", "nan", "none", "null", "n/a")
"""What a table's empty cell may have become."""
FILES = (".txt", ".json", ".xml", ".csv", ".png", ".jpg", ".nii", ".nii.gz", ".dcm")


def report_problems(rows: Sequence[Mapping[str, Any]]) -> list[Problem]:
    """Samples without a report, file names in the place of one, and reports that are all the same."""
    problems = []
    for row in rows:
        text, sample = str(row["target"] or "").strip(), str(row["sample_id"])
        if text.lower() in EMPTY:
            problems.append(Problem(sample, f"has no report (target is {row['target']!r})"))
        elif not any(letter.isalnum() for letter in text):
            problems.append(Problem(sample, f"has a report without a word: {text[:40]!r}"))
        elif text.lower().endswith(FILES) and len(text.split()) == 1:
            wrong = f"has the file {text} as report; target must be the text itself"
            problems.append(Problem(sample, wrong))
    texts = {str(row["target"]).strip() for row in rows if row["split"] == "train"}
    if len(texts) == 1 and not problems:
        problems.append(Problem("split train", "every report is the same; nothing can be told from the images"))
    return problems
