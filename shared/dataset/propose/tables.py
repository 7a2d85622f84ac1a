"""Tables of the survey as tables of rules: their key, and chains over another table."""

import re
from collections.abc import Mapping, Sequence
from itertools import count, takewhile

from shared.contracts.values import Source, Table
from shared.dataset.files.patterns import compile
from shared.dataset.propose.beside import told_apart
from shared.dataset.propose.draft import Draft
from shared.dataset.propose.released import released
from shared.dataset.propose.rows import rows_of_views
from shared.dataset.propose.sides import with_days, with_sides
from shared.dataset.survey.joins import TableLook, plain
from shared.dataset.survey.pieces import align, align_numbers, braces, piece_of
from shared.dataset.survey.survey import Survey
from shared.dataset.tables.forms import bare
from shared.dataset.tables.words import slug

_ENOUGH = 0.05
_MOST_ROWS = 20_000
_WORD_END = re.compile(r"(?:\{\w+\}|[^\W_])*$")
_TOKEN = re.compile(r"(\{\w+\})|[^\W_]+")
_FEWEST_TABLES = 3
"""Tables of one kind that are one for each patient."""


def with_table(draft: Draft, survey: Survey, look: TableLook, beside: bool = True) -> tuple[Draft, str] | None:
    """The draft with a table, and its name there. None where nothing of it names a case. `beside`: rows of one key may
    be told apart by another table."""
    records = _record_each(draft, survey, look) if look.pattern else None
    if look.pattern and records is None:
        return None
    file = records.file if records else _by_side(draft, look, files_of(look))
    sheet = sheets_of(look)
    for name, one in draft.tables.items():
        if one.file == file and one.sheet == sheet:
            return draft, name
    name = slug(look.name, "table")
    while name in draft.tables:
        name += "_"
    if records:
        return draft.change(tables={**draft.tables, name: records}), name
    if (several := rows_of_views(draft, look)) is not None:
        table = Table(file=file, sheet=sheet, key=several[1], names="path")
        return several[0].change(tables={**draft.tables, name: table}), name
    if look.key and look.more:
        table = Table(file=file, sheet=sheet, key="\n".join(map(braces, (look.key, *look.more))), names="path")
        return draft.change(tables={**draft.tables, name: table}), name
    if look.key and look.share >= _ENOUGH:
        key, by = _finest(look, len(survey.units.files) / max(1, survey.units.total))
        draft, told = with_sides(draft, look)
        draft, names = _named(draft, look, key, by)
        table = Table(file=file, sheet=sheet, key=key, names=names, only=released(look, key), **told)
        table = with_days(table, look, draft)
        if beside and not table.rows and not table.only and "{" not in (table.key or ""):
            draft, rows = _rows_beside(draft, survey, look, key)
            table = table.model_copy(update={"rows": rows})
        return draft.change(tables={**draft.tables, name: table}), name
    if (column := path_column(look)) is not None:
        table = Table(file=file, sheet=sheet, key=column, names="path")
        return draft.change(tables={**draft.tables, name: table}), name
    if (subject := _one_each(draft, survey, look)) is not None:
        return draft.change(tables={**draft.tables, name: subject}), name
    chain = _chain(survey, look)
    if chain is None:
        return None
    key, other, theirs = chain
    inner = with_table(draft, survey, other)
    if inner is None:
        return None
    draft, first = inner
    table = Table(file=file, sheet=sheet, key=key, names=f"{first}.{theirs}", only=released(look, key))
    return draft.change(tables={**draft.tables, name: table}), name


def _rows_beside(draft: Draft, survey: Survey, look: TableLook, key: str) -> tuple[Draft, dict[str, str]]:
    """`rows` of a table, by fields that a table of the images tells."""
    found = told_apart(survey, look, key)
    made = with_table(draft, survey, found[0], beside=False) if found else None
    if found is None or made is None:
        return draft, {}
    draft, name = made
    known = {field for piece in draft.pieces for field in piece.fields}
    rows, fields = {}, dict(draft.fields)
    for column in found[1]:
        field = slug(column, "row")
        while field in known or fields.get(field, source := Source(table=name, column=column)) != source:
            field += "_"
        fields[field], rows[column] = Source(table=name, column=column), field
    return draft.change(fields=fields), rows


def _record_each(draft: Draft, survey: Survey, look: TableLook) -> Table | None:
    """Files of one record for each image, or for images that agree in fields of their names."""
    family = next(one for one in survey.families if one.pattern == look.pattern)
    records = piece_of(family, images=False)
    fit = align_numbers(records, draft.channels[0].pieces[0])
    if fit is None or fit.share < _ENOUGH:
        return None
    names = {name: fit.names.get(name, f"record_{name}") for name in records.fields}
    return Table(file=records.renamed(names).pattern)


def _one_each(draft: Draft, survey: Survey, look: TableLook) -> Table | None:
    """A small table for each patient (`sub-01/sub-01_sessions.tsv`) with a row a visit, which a field of the images'
    names tells, too."""
    family = next((one for one in survey.families if one.role == "other" and one.has(look.file)), None)
    if family is None or len(family) < _FEWEST_TABLES or not family.fields or len(draft.pieces) != 1:
        return None
    image = draft.pieces[0]
    records = piece_of(family, images=False)
    fit = align(records, image)
    if fit is None or fit.share < 0.5:
        return None
    free = [name for name in image.fields if name not in fit.names.values()]
    for column in look.columns:
        keys = {bare(row[column.name]) for row in look.rows[:_MOST_ROWS] if row[column.name]}
        for name in free:
            values = {bare(value) for value in image.column(name)}
            if len(values) > 1 and len(values & keys) >= 0.8 * len(values):
                names = {one: fit.names.get(one, f"table_{one}") for one in records.fields}
                return Table(file=records.renamed(names).pattern, sheet=look.sheet, key=column.name, names=name)
    return None


def _by_side(draft: Draft, look: TableLook, file: str) -> str:
    """The pattern of a table's files with a field of the images for `{side}`, where images of both sides have the same
    names, so that `train.json` tells of those in `train`."""
    if "{side}" not in file:
        return file
    read = [compile(file).match(one) or {} for one in (look.file, *look.also)]
    sides = {field: {fields.get(field, "").lower() for fields in read} for field in compile(file).fields}
    rows = [row for piece in draft.channels[0].pieces for row in piece.rows]
    for name in draft.channels[0].pieces[0].fields:
        if not all(name in piece.fields for piece in draft.pieces):
            continue
        values = {row[name].lower() for row in rows}
        field = next((field for field, known in sides.items() if known == values), None)
        apart = [one for one in draft.pieces[0].fields if one != name and not _follows(rows, one, name)]
        if field and len({tuple(row[one] for one in apart) for row in rows}) < len(rows):
            return file.replace(braces(field), braces(name))
    return file


def _follows(rows: Sequence[Mapping[str, str]], field: str, other: str) -> bool:
    """Whether a field says what another says, too: `Training` beside `a`."""
    pairs = {(row[field], row[other]) for row in rows}
    return len(pairs) == len({one for one, _ in pairs}) == len({other for _, other in pairs})


def files_of(look: TableLook) -> str:
    """Pattern of the files of a table; where they are parts of one, what differs is `{side}`."""
    files = [look.file, *look.also]
    if len(files) == 1 or look.many:
        return look.many or literal(look.file)
    split = [file.split("/") for file in files]
    if len({len(parts) for parts in split}) > 1:
        return literal(look.file)
    made: list[str] = []
    for column in zip(*split, strict=True):
        made.append(_differing(column, sum(part.count("{side") for part in made)))
    return "/".join(made)


def sheets_of(look: TableLook) -> str | None:
    """The sheet of a table, or a pattern of its sheets, in which what differs is `{side}`."""
    return _differing((look.sheet, *look.sheets)) if look.sheet and look.sheets else look.sheet


def _differing(names: Sequence[str], known: int = 0) -> str:
    """A pattern of names, in which what differs is a field: `side`, `side2` and so on behind those that are `known`.
    None where a name has nothing of its own, as in `a`, `a_2`."""
    if len(set(names)) == 1:
        return literal(names[0])
    fields = (f"side{number if number > 1 else ''}" for number in count(known + 1))
    words = [re.findall(r"[^\W_]+|[\W_]", name) for name in names]
    if len({len(one) for one in words}) == 1:
        columns = zip(*words, strict=True)
        return "".join(literal(one[0]) if len(set(one)) == 1 else braces(next(fields)) for one in columns)
    head, tail = shared_ends(names)
    whole = any(len(name) <= len(head) + len(tail) for name in names)
    return "*" if whole else f"{literal(head)}{braces(next(fields))}{literal(tail)}"


def shared_ends(names: Sequence[str]) -> tuple[str, str]:
    """What names begin and end with alike, in whole words."""
    split = [re.findall(r"[^\W_]+|[\W_]", name) for name in names]
    head = _alike(split)
    tail = _alike([one[len(head) :][::-1] for one in split])[::-1]
    return "".join(head), "".join(tail)


def _alike(rows: Sequence[Sequence[str]]) -> list[str]:
    columns = takewhile(lambda column: len(set(column)) == 1, zip(*rows, strict=False))
    return [column[0] for column in columns]


def _finest(look: TableLook, sampled: float) -> tuple[str, str]:
    """The column that names images one by one where there is one, rather than their patients; and what it names."""
    assert look.key is not None
    rows = max(1, len(look.rows))
    best = look.column(look.key)
    for column in look.columns:
        single = column.by == "stem" or column.distinct >= 0.9 * rows
        finer = single and column.distinct > 1.1 * best.distinct and column.kind != "date"
        # Of many images a part was looked at, and a column of files names no others.
        if finer and column.names_files >= 0.85 * min(look.share, sampled) and not column.by.startswith("upto"):
            best = column
    return (look.key, look.by) if best.name == look.key else (best.name, best.by)


def _named(draft: Draft, look: TableLook, key: str, by: str) -> tuple[Draft, str]:
    """What of a case the key names (`Table.names`): a folder or a part of the name that is no field of its own yet
    becomes one."""
    if by.startswith("header."):
        return draft, by
    first = draft.channels[0].pieces[0]
    keys = {plain(row[key]) for row in look.rows if row[key]}
    if by.startswith("folder"):
        depth = int(by.removeprefix("folder"))
        parts = [piece.level(depth) for piece in draft.pieces]
        if all(parts):
            inner = {name for part in parts for name in re.findall(r"\{(\w+)\}", part)}
            if len(set(parts)) == 1 and re.fullmatch(r"\{\w+\}", parts[0]):
                return draft, parts[0][1:-1]
            # Fields of a folder's name may tell its patient from a visit, so that they stay.
            last = all(depth == piece.pattern.count("/") - 1 for piece in draft.pieces)
            if last and (draft.case == "folder" or len(inner) > 1):
                return draft, "folder"
            fields = all("{" in part for part in parts)
            if fields and not inner & draft.used and "unit" not in first.fields:
                return draft.with_level(depth, "unit"), "unit"
            # Others name its fields: the whole of it, in their patterns, too.
            if (
                inner
                and len(set(parts)) == 1
                and "unit" not in first.fields
                and (made := draft.replaced(parts[0], "unit"))
            ):
                return made, "unit"
            return draft, min(inner) if len(inner) == 1 else "auto"
    if by.startswith("field"):
        own = by.removeprefix("field")
        for name in sorted(first.fields, key=lambda name: name != own):
            column = first.column(name)
            named = sum(plain(value) in keys for value in column) >= 0.5 * look.share * len(column)
            if column and named and all(name in piece.fields for piece in draft.pieces):
                return draft, name
    if by.startswith(("upto", "word")) and (found := _upto(draft, keys, look.share, by.startswith("word"))) is not None:
        return found
    return draft, "path" if by in ("stem", "path") else "auto"


def _upto(draft: Draft, keys: set[str], share: float, word: bool) -> tuple[Draft, str] | None:
    """The beginning of the files' names up to where the key ends as one field, in folders, too; of `word` that of a
    word up to a field."""
    first = draft.channels[0].pieces[0]
    if len(draft.pieces) > 1:
        return None
    name = first.pattern if word else first.pattern.rpartition("/")[2]
    for found in reversed([*_TOKEN.finditer(name.removesuffix(first.family.suffix))]):
        if word and not found[1]:
            continue
        start = found.start() - len(_WORD_END.findall(name[: found.start()])[0]) if word else 0
        whole = name[start : found.end()]
        made, field = (draft, whole[1:-1]) if whole == found[1] else (draft.replaced(whole, "unit"), "unit")
        column = made.pieces[0].column(field) if made else []
        if made and sum(plain(value) in keys for value in column) >= 0.5 * share * len(column) > 0:
            return made, field
    return None


def literal(file: str) -> str:
    """A path as a pattern that takes it alone; the few characters that mean something there may be any."""
    return re.sub(r"[{}*\\]+", "*", file)


def path_column(look: TableLook) -> str | None:
    """A column of whole paths."""
    for column in look.columns:
        cells = [row[column.name] for row in look.rows[:200] if row.get(column.name)]
        if cells and sum("/" in cell or "\\" in cell for cell in cells) >= 0.9 * len(cells) and column.distinct > 1:
            return column.name
    return None


def _chain(survey: Survey, look: TableLook) -> tuple[str, TableLook, str] | None:
    """A column whose values are in a column of a table that names images: key, that table, its column."""
    best: tuple[float, str, TableLook, str] | None = None
    for column in look.columns:
        keys = {plain(row[column.name]) for row in look.rows[:_MOST_ROWS] if row[column.name]} - {""}
        if len(keys) < 3 or len(keys) < 0.9 * len(look.rows[:_MOST_ROWS]):
            continue
        for other in survey.tables:
            if other is look or not other.key or other.share < 0.5 or other.pattern:
                continue
            for theirs in other.columns:
                if theirs.distinct < 3 or theirs.name == other.key:
                    continue
                values = {plain(row[theirs.name]) for row in other.rows[:_MOST_ROWS] if row[theirs.name]} - {""}
                share = len(values & keys) / max(1, len(values))
                if share >= 0.6 and (best is None or share > best[0]):
                    best = (share, column.name, other, theirs.name)
    return best[1:] if best else None


_SLOPE = re.compile(r"rescale[ _]?slope$|^slope$", re.I)
_INTERCEPT = re.compile(r"rescale[ _]?intercept$|^intercept$", re.I)


def with_rescaling(draft: Draft, survey: Survey) -> Draft:
    """With slope and intercept of CT where a table has them."""
    if draft.dimensions != 3:
        return draft
    for look in survey.tables:
        names = [one.name for one in look.columns if one.kind in ("integer", "number")]
        slope = next((name for name in names if _SLOPE.search(name)), None)
        intercept = next((name for name in names if _INTERCEPT.search(name)), None)
        if intercept and look.key and not look.pattern and (made := with_table(draft, survey, look)):
            draft, name = made
            return draft.change(
                slope=Source(table=name, column=slope) if slope else None,
                intercept=Source(table=name, column=intercept),
            )
    return draft
