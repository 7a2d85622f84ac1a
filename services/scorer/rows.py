"""What a row of a view says."""

from collections.abc import Sequence

from shared.contracts.data import IndexRow


def label_of(row: IndexRow) -> str | None:
    """The class of a row that has one; None where several may hold."""
    return row.label if isinstance(row.label, str) else None


def several_labels(rows: Sequence[IndexRow]) -> bool:
    """Whether several labels may hold of a case: the labels are lists then."""
    return any(isinstance(row.label, tuple) for row in rows)


def counted_as(row: IndexRow) -> tuple[str, ...]:
    """The names under which a case is counted: its class; where several may hold all of them and `all`."""
    if row.label is None:
        return ("all",)
    return (row.label,) if isinstance(row.label, str) else (*row.label, "all")
