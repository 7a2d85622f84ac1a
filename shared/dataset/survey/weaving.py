"""Keys that are woven of several columns: `{record_id}_{event}` of `12-1_baseline_hand.png`, where a column that names
images has a row for each visit."""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import product

from shared.dataset.survey.column_looks import ColumnLook, column_look
from shared.dataset.survey.evidence import Units
from shared.dataset.survey.naming import evenly
from shared.dataset.survey.pieces import braces
from shared.dataset.survey.table_looks import TableLook, plain

_LOOKED_AT = 1000
_SEVERAL = 0.1
"""Of the images with a row, those that have several."""
_NAMES = 0.3
"""Of the images, which a column names that is a part of a key."""
_MOST = 60
"""Values of a column that is the other part, such as visits."""
_FEW, _CELLS = 5, 500
"""Values of a column that are no numbers of people yet, and those that are looked at."""
_WRITTEN = 0.5
"""Of values of a column, those that names of images hold."""
_AS_MANY = 0.8
"""Of the images with a row, which a woven key names, too."""
_SINGLE = 0.9
"""Of the rows of a table: values of a column that tells them apart."""
_JOINTS = ("_", "-", ".", " ", "")


def weave(table: TableLook, units: Units, names: Mapping[str, set[str]], keyed: Sequence[Mapping[str, str]]) -> bool:
    """Gives a table whose rows its key does not tell apart, or that has none, a further column with a woven key, where
    images are called so. `keyed` is what a table may call each image of a sample, and `names` all that it may call
    any."""
    if table.pattern or table.more or table.rest or not keyed or table.by in ("stem", "path", "fields"):
        return False
    rows = [some for unit in evenly(units.files, _LOOKED_AT) if (some := table.rows_of(units, unit))]
    if table.key is not None and sum(len(some) > 1 for some in rows) <= _SEVERAL * len(rows):
        return False
    single = [one for one in table.columns if one.distinct >= _SINGLE * len(table.rows)]
    if any(one.names_files >= _AS_MANY * table.share > 0 for one in single):
        return False  # a number of the examination names images alone
    best: tuple[float, int, str, str, list[str]] = (max(_NAMES, _AS_MANY * table.share), 0, "", "", [])
    for name, cells in _woven(table, "\n".join(names["stem"])):
        keys = {plain(cell) for cell in cells if cell}
        for by, known in names.items():
            share = sum(one.get(by) in keys for one in keyed) / len(keyed) if len(keys & known) > 1 else 0.0
            best = max(best, (round(share, 2), len(keys), name, by, cells))
    share, _, name, by, cells = best
    if not name:
        return False
    for row, cell in zip(table.rows, cells, strict=True):
        row[name] = cell
    made = column_look(name, [{name: cell} for cell in cells])
    made.names_people, made.names_files, made.by = False, share, by
    table.written = table.written or table.columns
    table.columns = [*table.columns, made]
    table.key, table.by, table.share = name, by, share
    return True


def _woven(table: TableLook, written: str) -> Iterator[tuple[str, list[str]]]:
    """Columns woven of one that names images and one that tells rows of it apart, as the name and the cell of each."""

    def told(column: ColumnLook) -> bool:
        cells = evenly(list({plain(row[column.name]) for row in table.rows} - {""}), _CELLS)
        return sum(cell in written for cell in cells) >= _WRITTEN * len(cells) > 0

    firsts = [one for one in table.columns if one.names_files >= _NAMES or (one.distinct > _FEW and told(one))]
    others = [one for one in table.columns if 1 < len(one.values) <= _MOST and "{" not in one.name and told(one)]
    for one, other in product(firsts, others):
        pairs = {(row[one.name], row[other.name]) for row in table.rows}
        if one is other or len(pairs) <= 1.1 * one.distinct:
            continue
        for first, second in ((one, other), (other, one)):
            for joint in _JOINTS:
                name = f"{_template(first)}{joint}{_template(second)}"
                yield name, [_cell((row[first.name], row[second.name]), joint) for row in table.rows]


def _cell(texts: Sequence[str], joint: str) -> str:
    """Blanks in them are written as what joins them is; empty where one of them is."""
    return re.sub(r"\s+", joint or " ", joint.join(texts)) if all(texts) else ""


def _template(column: ColumnLook) -> str:
    return column.name if "{" in column.name else braces(column.name)
