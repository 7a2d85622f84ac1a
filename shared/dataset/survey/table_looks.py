"""Tables of a dataset as they are read: rows, columns, and what a table may call an image."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from shared.dataset.files.looking import Looker
from shared.dataset.survey.column_looks import ColumnLook, column_look
from shared.dataset.survey.evidence import Unit, Units
from shared.dataset.survey.family import Family
from shared.dataset.survey.naming import evenly
from shared.dataset.tables.documents import keys_of_cases
from shared.dataset.tables.forms import numbered
from shared.dataset.tables.large_tables import Rest, read_head
from shared.dataset.tables.tables import TableError, read_record, read_table, sheets
from shared.dataset.tables.visits import Unfilled, of_visit
from shared.imaging.formats import BY_SUFFIX, stem_of, suffix_of

MOST_TABLES = 20
_MOST_BYTES = 64 << 20
_RECORDS = 4000
"""Files of one record each that are read."""
_WORDS = re.compile(r"[^\W_]+")
LETTERED = re.compile(r"([^\W\d_]+)\d+|\d+([^\W\d_]+)")
"""Letters before or behind the number of a word."""
_WORD_END = re.compile(r"[^\W_]*$")
_ZEROS = re.compile(r"(?<!\d)0+(?=\d)")


@dataclass(frozen=True)
class Slot:
    """A word of the images' paths that is one of a few: a folder, or a word of the file's name."""

    place: int
    """Depth of the folder from 0; below 0 the place of the word from the end of the name."""
    letters: bool = False
    """Whether only the letters of a word before or behind a number are meant, as the `l` of `l1`."""
    words: int = 1
    """Of a name that stand there together: three of a day that is written `15-04-2021`."""

    @property
    def field(self) -> str:
        """For patterns of rules."""
        kind = "letters" if self.letters else "day" if self.words > 1 else "word"
        return f"folder{self.place + 1}" if self.place >= 0 else f"{kind}{-self.place}"

    def of(self, file: str) -> str:
        if self.place >= 0:
            parts = file.split("/")[:-1]
            return parts[self.place] if self.place < len(parts) else ""
        name = stem_of(file)
        found = list(_WORDS.finditer(name))
        first = self.place - self.words + 1
        word = name[found[first].start() : found[self.place].end()] if -first <= len(found) else ""
        if not self.letters:
            return word
        return ends[1] or ends[2] if (ends := LETTERED.fullmatch(word)) else ""


@dataclass(frozen=True)
class Apart:
    """What tells the rows of one key apart: the side or visit in a column, which names of images say, too."""

    column: str
    slot: Slot
    called: Mapping[str, str]
    """Cell -> what the names say."""
    placed: bool = True
    """Whether these are sides or visits; else they may be classes of a row, too."""
    empty: Unfilled = field(default_factory=dict)
    form: str = ""
    """Of a day that the names write in a form of their own: `%y%m%d`."""

    def of(self, rows: Sequence[dict[str, str]], file: str) -> list[dict[str, str]]:
        """Those of some rows that are of an image."""
        text = self.slot.of(file)
        return of_visit(rows, self.column, {said for said, own in self.called.items() if own == text}, self.empty)


@dataclass
class TableLook:
    """A table, or a family of files that hold one record each (`pattern`)."""

    file: str
    sheet: str | None
    columns: list[ColumnLook]
    rows: list[dict[str, str]]
    """Of a large table the first 10,000, and those of the images."""
    key: str | None = None
    """Column that names images best; None where none does."""
    more: tuple[str, ...] = ()
    """Further columns that name other images of the row by the same."""
    by: str = ""
    """What of an image it names: `stem`, `path` (several names of it), `folder<depth>`, `field<name>`, `upto<field>`,
    `word<field>`, `header.<DICOM keyword>`, `fields` of files of one record each."""
    share: float = 0.0
    """Of the images that have a row."""
    index: dict[str, list[int]] = field(default_factory=dict, repr=False)
    """Normalised key -> rows; an image's file where a key is several names of its path."""
    pattern: str | None = None
    """Of files that hold one record each; `file` is the first of them then."""
    many: str = ""
    """Of files of records that columns join, not names: pattern of all of them; `file` is the first."""
    unread: str = ""
    """Why it could not be read."""
    total: int = 0
    """Rows of the whole table."""
    rest: list[Rest] = field(default_factory=list, repr=False)
    """Rows that were not read yet."""
    fits: dict[int, dict[str, str]] = field(default_factory=dict, repr=False)
    """Of files of one record each: family of images -> field of the record's name -> field of the image's."""
    also: tuple[str, ...] = ()
    """Further files with the same columns, such as one a side of the split; their rows are in `rows`."""
    sheets: tuple[str, ...] = ()
    """Further sheets of the file, in the same way."""

    apart: tuple[Apart, ...] = ()
    sides: dict[str, tuple[Slot, Mapping[str, str]]] = field(default_factory=dict)
    """Columns of a side or visit each as one, `grade_{word1}` -> what names say -> the column; see `survey.sides`."""
    written: list[ColumnLook] = field(default_factory=list)
    """The columns as they are in the file, where `columns` has such."""

    @property
    def said(self) -> str:
        """For a person."""
        sheet = f" (sheet {' and '.join((self.sheet, *self.sheets)[:2])})" if self.sheet else ""
        return " and ".join((self.pattern or self.many or self.file, *self.also)[:2]) + sheet

    @property
    def name(self) -> str:
        """For `Rules.tables`."""
        stem = (self.many or self.file).rpartition("/")[2].split(".")[0] + (f"_{self.sheet}" if self.sheet else "")
        return re.sub(r"\W+", "_", stem).strip("_").lower() or "table"

    def rows_of(self, units: Units, unit: Unit) -> list[dict[str, str]]:
        """Rows of an image file."""
        if self.pattern:
            fit, values = self.fits.get(unit[0], {}), units.values(unit)
            names = tuple(sorted(fit))
            fields = {name: values.get(fit[name], "") for name in names}
            return [self.rows[at] for at in self.index.get(record_key(names, fields), ())] if fit else []
        key = dict(keys_of(units, unit, (self.by,))).get(self.by)
        found = self.index.get(key, ()) if key else ()
        rows = [self.rows[at] for at in found or self.index.get(unit[1], ())]
        for one in self.apart:
            rows = one.of(rows, unit[1])
        for name, (slot, columns) in self.sides.items():
            column = columns.get(slot.of(unit[1]))
            rows = [{**row, name: row[column] if column else ""} for row in rows]
        return rows

    def spoken(self, name: str) -> str:
        """A column for a person."""
        sides = " or ".join(self.sides[name][1].values()) if name in self.sides else ""
        return f"{sides} (as names of images say)" if sides else name

    def column(self, name: str) -> ColumnLook:
        return next(one for one in self.columns if one.name == name)


def record_key(names: Sequence[str], fields: Mapping[str, str]) -> str:
    """Values of some fields of a name as one key, without zeros before numbers."""
    return "/".join(f"{name}={numbered(fields.get(name, ''))}" for name in names)


def plain(text: str) -> str:
    """A key as it is compared: last part of a path, lower case, without suffix and leading zeros."""
    text = text.strip().lower()
    if "/" in text or "\\" in text:
        text = text.replace("\\", "/").rstrip("/").rpartition("/")[2]
    while (dot := text.rfind(".")) > 0:
        end = text[dot:]
        if end == ".gz" and (whole := text[text.rfind(".", 0, dot) :]) in BY_SUFFIX:
            end = whole
        if end not in BY_SUFFIX and not (end == ".0" and text[:dot].isdigit()):  # 7.0 is a 7 of a spreadsheet
            break
        text = text[: len(text) - len(end)]
    return _ZEROS.sub("", text) if "0" in text else text


def tailed(path: str, count: int) -> str:
    """The last `count` parts of a path, each in its plain form."""
    return "/".join([plain(part) for part in path.replace("\\", "/").strip("/").split("/")[-count:]])


def keys_of(units: Units, unit: Unit, only: Sequence[str] = ()) -> Iterator[tuple[str, str]]:
    """What a table may call an image -> its plain form: stem, each folder, each field of the name, the part of a name
    up to a field or words behind it, as `case_001` and `case_001_base` of `case_001_base_img.png`, and the word that a
    field ends, as `E07` of `sub-S1_ses-E07`."""
    number, file = unit
    parts = file.split("/")
    for by in only:
        if by == "path":
            yield by, file
        elif by.startswith("tail"):
            yield by, tailed(file, int(by[4:]))
        elif by.startswith("header.") and (text := units.headers.get(file, {}).get(by.partition(".")[2])):
            yield by, plain(text)
    if not only or "stem" in only:
        yield "stem", plain(parts[-1])
    for depth, part in enumerate(parts[:-1]):
        if not only or f"folder{depth}" in only:
            yield f"folder{depth}", plain(part)
    if not only or any(one.startswith(("field", "upto", "word")) for one in only):
        found = units.families[number].regex.fullmatch(file)
        places = sorted((*found.span(name), name) for name in found.groupdict()) if found else []
        stem = len(file) - len(suffix_of(file))
        for (start, end, name), (last, *_) in pairwise([*places, (stem, stem, "")]):
            yield f"field{name}", plain(file[start:end])
            first = file.rfind("/", 0, start) + 1
            if first < start:
                whole = file[first:end]
                yield f"upto{name}", plain(whole)
                if end - start < len(word := _WORD_END.findall(whole)[0]) < len(whole):
                    yield f"word{name}", plain(word)
            words = _WORDS.finditer(file, end, last) if "/" not in file[end:last] else ()
            for count, one in enumerate(words, 1):
                if one.end() < stem:
                    yield f"upto{name}+{count}", plain(file[first : one.end()])


def read_tables(root: Path, families: Sequence[Family], looker: Looker, skipped: list[str]) -> list[TableLook]:
    """Single tables, then files of one record each."""
    tables: list[TableLook] = []
    noted = [one for one in families if one.kind in ("annotation", "text")]
    records = [one for one in noted if len(one) > 3 and not _keyed(root, one)]
    single = [one for one in families if one.kind == "table" or (one in noted and one not in records)]
    sizes = {file: one.listing.sizes[at] for one in single for file, at in zip(one.files, one.at, strict=True)}
    if len(sizes) > MOST_TABLES:
        skipped.append(f"{len(sizes) - MOST_TABLES:,} of {len(sizes):,} tables were not read")
    for file in sorted(sizes, key=lambda file: (suffix_of(file) in (".txt", ".md", ".json"), file))[:MOST_TABLES]:
        if sizes[file] > _MOST_BYTES:
            skipped.append(f"{file} was not read: it is larger than {_MOST_BYTES >> 20} MB")
            continue
        with looker.timed():
            tables += _read(root, file)
    tables += [found for one in records if (found := _records(root, one, looker))]
    return tables


def _keyed(root: Path, family: Family) -> bool:
    """Whether a few JSON files hold many cases each, by their names: `{"case_7": ...}`. What is one case's has the same
    keys in every file."""
    if family.suffix != ".json" or len(family) > MOST_TABLES:
        return False
    try:
        keys = [keys_of_cases(root / file) for file in evenly(family.files, 3)]
    except (TableError, OSError):
        return False
    return all(keys) and len(set().union(*keys)) > 1.5 * max(map(len, keys))


def _read(root: Path, file: str) -> list[TableLook]:
    found = []
    try:
        for sheet in sheets(root / file) or (None,):
            table, rest = read_head(root / file, sheet)
            columns = [column_look(name, table.rows) for name in table.columns[:400]]
            found.append(
                TableLook(file, sheet, columns, table.rows, total=len(table.rows), rest=[rest] if rest else [])
            )
    except (TableError, OSError) as error:
        found.append(TableLook(file, None, [], [], unread=str(error)))
    return found


def _records(root: Path, family: Family, looker: Looker) -> TableLook | None:
    rows = _rows_of(root, family, looker, lambda path: [read_record(path)])
    if not rows:
        return None
    columns = [column_look(name, rows) for name in rows[0] if name]
    return TableLook(family.files[0], None, columns, rows, pattern=family.pattern, total=len(family))


def as_rows(root: Path, family: Family, looker: Looker) -> TableLook | None:
    """Files of records as one table, for their columns to say which images they are of."""
    rows = _rows_of(root, family, looker, lambda path: read_table(path).rows)
    if not rows:
        return None
    columns = [column_look(name, rows) for name in rows[0] if name]
    many = re.sub(r"\{\w+\}", "*", family.pattern)
    return TableLook(family.files[0], None, columns, rows, many=many, total=len(rows))


def _rows_of(
    root: Path, family: Family, looker: Looker, read: Callable[[Path], Sequence[Mapping[str, str]]]
) -> list[dict[str, str]]:
    """Rows of the files of a family, each with its file as column ''."""
    rows: list[dict[str, str]] = []
    with looker.timed():
        for file in evenly(family.files, _RECORDS):
            try:
                rows += [{**row, "": file} for row in (read(root / file) if looker.left > 0 else [{}])]
            except (TableError, OSError):
                continue
    names = list(dict.fromkeys(name for row in rows for name in row if name))[:100]
    return [{name: row.get(name, "") for name in ("", *names)} for row in rows]
