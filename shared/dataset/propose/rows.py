"""Tables of which each row names several files: the views of one examination, in a column each."""

from shared.dataset.propose.draft import Draft
from shared.dataset.survey.joins import TableLook
from shared.dataset.survey.pieces import Piece, braces
from shared.dataset.survey.table_looks import tailed

_MOST_ROWS = 5000


def rows_of_views(draft: Draft, look: TableLook) -> tuple[Draft, str] | None:
    """The draft with a case for each row of the table, and the table's key; None where rows name one file each, or
    where the fields of the names do not hold the files of a row together."""
    if draft.case != "file" or draft.dimensions == 3 or len(draft.pieces) != 1 or look.pattern:
        return None
    columns = [one for one in look.columns if one.names_files >= 0.1 and (one.by == "stem" or one.by[:4] == "tail")]
    columns = [one for one in columns if one.distinct >= 0.9 * len(look.rows)]
    if len(columns) < 2 or sum(one.names_files for one in columns) < 0.8:
        return None
    piece = draft.pieces[0]
    depths = {one.name: int(one.by[4:]) if one.by != "stem" else 1 for one in columns}
    fields = _same_in_rows(piece, look, depths)
    if not fields or len(look.rows) > 1.05 * len({tuple(row[name] for name in fields) for row in piece.rows}):
        return None
    what = f"a case is all pictures of a row of {look.file} (views of one examination)"
    made = draft.change(case=fields, several="views").said("case", what)
    return made, "\n".join(braces(name) for name in depths)


def _same_in_rows(piece: Piece, look: TableLook, depths: dict[str, int]) -> tuple[str, ...]:
    """Fields that all files of a row have alike, where those of others differ."""
    known = {
        depth: {tailed(file, depth): row for file, row in zip(piece.sample, piece.rows, strict=True)}
        for depth in set(depths.values())
    }
    rows = []
    for cells in look.rows[:_MOST_ROWS]:
        named = [known[depth].get(tailed(cells[name], depth)) for name, depth in depths.items() if cells[name]]
        there = [row for row in named if row is not None]
        if len({tuple(row.values()) for row in there}) > 1:
            rows.append(there)
    if len(rows) * 2 < len(look.rows[:_MOST_ROWS]):
        return ()
    return tuple(name for name in piece.fields if all(len({row[name] for row in some}) == 1 for some in rows))
