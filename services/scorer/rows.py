"""What a row of an index says."""

from collections.abc import Sequence

from shared.contracts.base import SEGMENTATIONS, TaskKind
from shared.contracts.data import IndexRow


def label_of(row: IndexRow) -> str | None:
    """The class of a row that has one; None where several may hold."""
    return row.label if isinstance(row.label, str) else None


def several_labels(rows: Sequence[IndexRow]) -> bool:
    """Whether several labels may hold of a sample: the labels of an index are lists then."""
    return any(isinstance(row.label, tuple) for row in rows)


def files_of(row: IndexRow, task: TaskKind) -> tuple[str, ...]:
    """All files that belong to a row: its images, and its mask where the task has masks."""
    return (*row.files, row.target) if task in SEGMENTATIONS and row.target else row.files
