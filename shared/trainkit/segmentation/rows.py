"""Which rows are trained on and which choose the weights: the index's own parts, or a fold of the configuration's."""

import hashlib
from collections.abc import Sequence
from typing import Any

from shared.trainkit import checks
from shared.trainkit.index import read_index
from shared.trainkit.segmentation.settings import Fold

Rows = list[dict[str, Any]]


def read_rows(config: Any) -> Rows:
    """Rows with `split` as this training takes it. Raises IndexInvalid, DataProblems."""
    rows = read_index(config.index)
    if config.fold is None:
        return rows
    checks.refuse(fold_problems(rows, config.fold))
    return folded(rows, config.fold)


def split_rows(config: Any, split: str) -> Rows:
    return [row for row in read_rows(config) if row["split"] == split]


def folded(rows: Sequence[dict[str, Any]], fold: Fold) -> Rows:
    """Patients are dealt to the folds in an order that their names do not tell; test rows stay as they are."""
    dealt = sorted(patients(rows), key=lambda name: hashlib.sha256(name.encode()).digest())
    held_out = set(dealt[fold.number :: fold.count])
    return [
        row if row["split"] == "test" else {**row, "split": "val" if str(row["patient"]) in held_out else "train"}
        for row in rows
    ]


def fold_problems(rows: Sequence[dict[str, Any]], fold: Fold) -> list[checks.Problem]:
    many, problems = len(patients(rows)), []
    if fold.number >= fold.count:
        problems.append(checks.Problem("fold", f"number {fold.number} is none of 0 to {fold.count - 1}"))
    if many < fold.count:
        problems.append(checks.Problem("fold", f"{many} patients are too few for {fold.count} folds; take fewer folds"))
    return problems


def patients(rows: Sequence[dict[str, Any]]) -> set[str]:
    return {str(row["patient"]) for row in rows if row["split"] != "test"}
