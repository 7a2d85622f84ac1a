"""Pictures that were uploaded into a form: their names end with the header of the column that holds them, as `12_hand`
and `12_consent` do beside columns `hand` and `consent` of uploads."""

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import replace

from shared.dataset.propose.released import form
from shared.dataset.survey.naming import evenly
from shared.dataset.survey.pieces import Piece
from shared.dataset.survey.table_looks import TableLook
from shared.dataset.tables.boxes import are_uploads
from shared.imaging.formats import stem_of

_CELLS = 200


def by_upload(group: list[Piece], tables: Sequence[TableLook]) -> list[list[Piece]]:
    """Pieces of pictures, those of each column together; all of them where no two columns have some."""
    headers = {name for table in tables for name in _headers(table)}
    found: dict[str, list[Piece]] = defaultdict(list)
    for piece in group if len(headers) > 1 else ():
        for header, part in _parts(piece, headers).items():
            found[header].append(part)
    return list(found.values()) if len(found) > 1 else [group]


def _parts(piece: Piece, headers: Collection[str]) -> dict[str, Piece]:
    """Column -> the part of a piece; all of a piece some of whose files are of none as that of ''."""
    kinds: dict[str, list[str]] = defaultdict(list)
    for file in piece.files if piece.family.kind == "picture" else ():
        kinds[_column_of(stem_of(file), headers)].append(file)
    if len(kinds) < 2 or "" in kinds:
        return {next(iter(kinds)) if len(kinds) == 1 else "": piece}
    folder = piece.pattern[: piece.pattern.rfind("/") + 1]
    ends = {header: f"_{header}{piece.family.suffix}" for header in kinds}
    return {one: replace(piece, pattern=f"{folder}{{unit}}{ends[one]}", files=files) for one, files in kinds.items()}


def of_another_form(pieces: Sequence[Piece], table: TableLook, columns: Collection[str]) -> bool:
    """Whether columns of a table are of another form than that into which the images were uploaded."""
    headers = _headers(table)
    held = {one for piece in pieces if (one := _column_of(stem_of(piece.pattern), headers))}
    return any(form(table, [one])[0] != form(table, columns)[0] for one in held)


def _headers(table: TableLook) -> set[str]:
    """Columns of uploads."""
    columns = table.written or table.columns if not table.pattern else ()
    rows = evenly(table.rows, _CELLS)
    return {column.name for column in columns if are_uploads(row[column.name] for row in rows)}


def _column_of(name: str, headers: Collection[str]) -> str:
    """The longest header with which a name ends."""
    return max((one for one in headers if f"_{name}".lower().endswith(f"_{one.lower()}")), key=len, default="")
