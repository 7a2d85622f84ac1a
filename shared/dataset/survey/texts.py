"""Columns and files with sentences, joined to images: what a report may be made of."""

import re
from collections.abc import Sequence
from dataclasses import replace

from shared.dataset.survey.candidates import of_column
from shared.dataset.survey.evidence import Evidence, Units
from shared.dataset.survey.table_looks import TableLook
from shared.imaging.formats import suffix_of

_TEXT = re.compile(
    r"find|impress|report|text|caption|conclusi[oó]n|narrative|befund|beurteilung|hallazg|r[ée]sultat", re.IGNORECASE
)
_WORDS = 8
"""Median words of a cell from which it is a text, or half of them where the column's name says that it is one."""


def text_evidence(units: Units, tables: Sequence[TableLook]) -> list[Evidence]:
    """Best first: by the share of images that have a text, then by its length."""
    found = []
    for table in tables:
        if table.key is None:
            continue
        for column in table.columns:
            hinted = bool(_TEXT.search(column.name))
            if column.words < (_WORDS / 2 if hinted else _WORDS) or column.distinct < 3 or column.name == table.key:
                continue
            if column.names_files > 0.2 or all(suffix_of(row[column.name]) for row in table.rows[:20]):
                continue
            if column.kind in ("integer", "number", "date") or _numbers(table, column.name):
                continue
            one = of_column(units, table, column, together="\n\n")
            # A few sentences again and again are no reports, unless the header says that they are.
            fewest = 3 if hinted and _sentences(table, column.name) else 5
            if (
                one.share > 0
                and one.distinct >= min(fewest, 0.5 * len(units.files))
                and one.distinct * 50 >= len(units.files) * one.share
            ):
                score = one.share * (0.5 + 0.3 * hinted + 0.2 * min(1.0, column.words / 20))
                found.append(replace(one, score=round(score, 3)))
    return sorted(found, key=lambda one: (-one.score, one.where))[:8]


def _numbers(table: TableLook, column: str) -> bool:
    """Whether cells are lists of numbers, as run-length codes are."""
    cells = [row[column] for row in table.rows[:200] if row[column]]
    return sum(len(re.findall(r"[^\W\d]{2,}", cell)) >= 2 for cell in cells) * 2 < len(cells)


def _sentences(table: TableLook, column: str) -> bool:
    cells = [row[column] for row in table.rows[:200] if row[column]]
    return sum(cell.rstrip().endswith(".") for cell in cells) * 2 > len(cells)
