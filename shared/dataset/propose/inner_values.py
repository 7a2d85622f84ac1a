"""Values beside images in files of arrays, and tables that name the images inside."""

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from shared.contracts.values import Source, Table
from shared.dataset.files.held import SUFFIXES, Held, held
from shared.dataset.files.inside import filled, texts_of
from shared.dataset.propose.draft import Draft
from shared.dataset.propose.inner import beside, partners
from shared.dataset.propose.tables import files_of
from shared.dataset.propose.values import look_at, share
from shared.dataset.survey.joins import TableLook, plain
from shared.dataset.survey.pieces import braces
from shared.dataset.survey.survey import Survey
from shared.dataset.tables.column_words import label_likeness
from shared.dataset.tables.words import slug

_SECONDS = 8.0
_MOST_ROWS = 20_000


@dataclass(frozen=True)
class Inner:
    """A source of values that names of files do not tell."""

    source: Source
    name: str
    """Of the array or column."""
    where: str
    values: list[str | None]
    """Of each image of `look_at`."""
    table: Table | None = None
    case: tuple[str, ...] = ()
    """Fields of a case that the table's key names together."""
    stem: str = ""
    """Stretch of the patterns that becomes the field `file` for it."""

    def added(self, draft: Draft) -> Draft | None:
        """The draft with what the source needs; None where the files cannot be named so."""
        if self.table is None or self.source.table is None:
            return draft
        made = draft.replaced(self.stem, "file") if self.stem and "file" not in draft.pieces[0].fields else draft
        if made is None or (self.case and not set(self.case) <= set(made.pieces[0].fields)):
            return None
        tables = {**made.tables, self.source.table: self.table}
        return made.change(tables=tables, case=self.case or made.case)

    @property
    def likely(self) -> float:
        """How much it sounds like a class, and how many images have one."""
        name = re.sub(r"\{\w+\}|\.\w+$", " ", self.name.rpartition("/")[2])
        said = 1.0 if re.fullmatch(r"[\W_]*y[\W_]*", name, re.IGNORECASE) else label_likeness(name)
        return 0.35 * said + 0.35 * share(self.values) + 0.1


@dataclass(frozen=True)
class _Unit:
    """An image: its file, and where it stands there."""

    file: str
    fields: Mapping[str, str]
    """Of what is inside."""
    outer: Mapping[str, str]
    """Of the file's path."""
    count: int | None
    index: int


def inner_values(draft: Draft, survey: Survey) -> list[Inner]:
    """Whatever has a value for most images."""
    channel = draft.channels[0]
    if channel.pieces[0].family.suffix not in SUFFIXES:
        return []
    end = time.monotonic() + _SECONDS
    units = list(_units(draft, survey, end))
    found = _arrays(units, survey, end)
    if channel.inside:
        found += [one for table in survey.tables for one in _columns(draft, survey, table)]
    return found


def _units(draft: Draft, survey: Survey, end: float) -> Iterator[_Unit]:
    channel = draft.channels[0]
    for piece in channel.pieces:
        for path, fields in zip(piece.sample, piece.rows, strict=True):
            file, _, array, index = channel.parts(path, draft.case == "entry")
            inner = {name: text for name, text in fields.items() if name in channel.fields and name != "entry"}
            outer = {name: text for name, text in fields.items() if name not in channel.fields}
            if index is None:
                yield _Unit(file, inner, outer, None, 0)
            else:
                image = (held(survey.root / file) if time.monotonic() < end else Held()).images.get(array)
                yield _Unit(file, inner, outer, image.entries if image else 0, index)


def _arrays(units: Sequence[_Unit], survey: Survey, end: float) -> list[Inner]:
    """Arrays of the images' own files, and of files of values beside them."""
    if not units:
        return []
    first = units[0]
    own = [(None, name) for name in held(survey.root / first.file).values]
    others = partners(survey, first.file) if first.count is not None and not own else []
    beside_it = [(beside(file, first.outer), name) for file in others for name in held(survey.root / file).values]
    found = []
    for file, name in dict.fromkeys((file, beside(name, first.fields)) for file, name in (*own, *beside_it)):
        known: dict[tuple[str, str], list[str] | None] = {}
        values: list[str | None] = []
        for unit in units:
            place = (filled(file, unit.outer) or "" if file else unit.file, filled(name, unit.fields) or "")
            if place not in known:
                inner = held(survey.root / place[0]) if time.monotonic() < end else Held()
                array = inner.values.get(place[1])
                known[place] = texts_of(array, unit.count) if array is not None else None
            texts = known[place]
            values.append(texts[unit.index] or None if texts else None)
        if any(values):
            where = f"array {name} of {file}" if file and name else file or f"array {name}"
            found.append(Inner(Source(array=name, file=file), name or file or "", where, values))
    return found


def _columns(draft: Draft, survey: Survey, table: TableLook) -> list[Inner]:
    """Columns of a table whose key names the images inside: an array by its name, an entry by its number, or those
    together with a part of the file's name."""
    if table.pattern or not table.rows:
        return []
    channel = draft.channels[0]
    piece = channel.pieces[0]
    rows = [row for one in channel.pieces for row in one.rows]
    inner = [name for name in channel.fields if name in piece.fields]
    fields = {name: [plain(row.get(name, "")) for row in rows] for name in piece.fields}
    # The file's name as a whole, of which the pattern may have a part only.
    file = channel.parts(piece.pattern, draft.case == "entry")[0]
    stem = file.rpartition("/")[2].removesuffix(piece.family.suffix)
    if "{" in stem and stem != braces(stem[1:-1]) and "file" not in fields:
        fields["file"] = [plain(unit) for _, unit in look_at(draft).units]
    keys: list[tuple[str, ...]] = [(name,) for name in inner]
    if isinstance(draft.case, tuple):
        keys += [(outer, name) for name in inner for outer in fields if outer not in inner]
    cells = {one.name: {plain(row[one.name]) for row in table.rows[:_MOST_ROWS]} for one in table.columns}
    for names in keys:
        columns = [column for name in names if (column := _naming(cells, set(fields[name]))) is not None]
        told = list(zip(*(fields[name] for name in names), strict=True))
        if len(set(columns)) < len(names) or len(set(told)) < len(told):
            continue
        index = {tuple(plain(row[column]) for column in columns): row for row in table.rows[:_MOST_ROWS]}
        if sum(key in index for key in told) < 0.5 * len(told):
            continue
        alone = len(names) == 1
        made = Table(
            file=files_of(table),
            sheet=table.sheet,
            key=columns[0] if alone else "/".join(map(braces, columns)),
            names=names[0] if alone else "case",
        )
        name = slug(table.name, "table")
        return [
            Inner(
                source=Source(table=name, column=column.name),
                name=column.name,
                where=f"column {column.name} of {table.file}",
                values=[index[key].get(column.name) or None if key in index else None for key in told],
                table=made,
                case=() if alone else names,
                stem=stem if "file" in names else "",
            )
            for column in table.columns
            if column.name not in columns[-1:]
        ]
    return []


def _naming(cells: Mapping[str, set[str]], values: set[str]) -> str | None:
    """The column that has most of the values, and few others."""
    best = max(cells, key=lambda name: (len(cells[name] & values), -len(cells[name])), default=None)
    if best is None or len(cells[best] & values) < 0.8 * len(values):
        return None
    return best
