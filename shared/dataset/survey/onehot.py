"""Columns with yes and no that are classes together."""

from collections.abc import Sequence

from shared.contracts.values import Source
from shared.dataset.survey.column_looks import ColumnLook
from shared.dataset.survey.evidence import Evidence, Units
from shared.dataset.survey.table_looks import TableLook
from shared.dataset.tables.boxes import box
from shared.dataset.tables.cells import comparable, mark
from shared.dataset.tables.column_words import verdict

_FEWEST = 2
FEW = 4
"""Findings of which one may be meant; more are meant together."""


def is_flag(column: ColumnLook) -> bool:
    """Whether cells say yes or no; -1 is what labellers of reports write for unsure."""
    marks = {mark(value) for value in column.values if comparable(value) != "-1"}
    return "1" in marks and "?" not in marks


def onehot_evidence(units: Units, table: TableLook) -> list[Evidence]:
    """The flag columns of a table, where there are two or more: the check boxes of each question, and all others."""
    asked: dict[str, list[str]] = {}
    for one in table.columns:
        # What readers agreed upon is a class of its own, beside what each of them found.
        if is_flag(one) and one.name != table.key and not verdict(one.name):
            asked.setdefault(box(one.name)[0], []).append(one.name)
    return [found for names in asked.values() if len(names) >= _FEWEST for found in _together(units, table, names)]


def _together(units: Units, table: TableLook, names: Sequence[str]) -> list[Evidence]:
    """Some flag columns as one evidence; none where no image has a yes."""

    def of(number: int, file: str) -> str | None:
        rows = table.rows_of(units, (number, file))
        held = [name for name in names if any(mark(row[name]) == "1" for row in rows)]
        return "|".join(held) if rows else None

    counts = dict.fromkeys(names, 0)
    having = 0
    for unit in units.files:
        value = of(*unit)
        having += value is not None
        for name in (value or "").split("|"):
            if name:
                counts[name] += 1
    if not any(counts.values()):
        return []
    share = having / max(1, len(units.files))
    said = [f"{choice} ({name})" if (choice := table.column(name).choice) else name for name in names[:4]]
    shown = ", ".join(said) + (f" and {len(names) - 4} more" if len(names) > 4 else "")
    return [
        Evidence(
            Source(table=table.name, column=names[0]),
            f"columns {shown} of {table.said} (yes or no)",
            len(names), share, {name: round(count * units.scale) for name, count in counts.items()},
            of, table=table.file, columns=tuple(names), separator="|",
            score=round(share * (0.9 if len(names) > 2 else 0.7), 3),
        )
    ]  # fmt: skip
