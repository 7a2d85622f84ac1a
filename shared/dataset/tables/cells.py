"""What every table has in common: the header, empty cells, limits."""

import difflib
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice

MAX_ROWS = 5_000_000
MAX_CELLS = 60_000_000
MAX_CELL = 2_000_000
"""Characters: a run-length code of a large mask may have hundreds of thousands."""
_EMPTY = frozenset(
    {"", "n/a", "na", "n.a.", "n.d.", "#n/a", "<na>", "nan", "none", "null", "-", "--", ".", "[]", "{}", "()"}
)
_YES = {"1", "yes", "true", "y", "t", "x", "positive", "pos", "present", "+", "ja", "oui", "si", "sí", "checked"}
_NO = {"0", "no", "false", "n", "f", "negative", "neg", "absent", "-", "nein", "non", "unchecked"}
_NONE = "none"
_OPEN = ("[", "(", "{")
_BRACKETS = "[](){},; \t\n"
_QUOTED = re.compile(r"'([^']*)'|\"([^\"]*)\"")
_ITEM = r"\s*[^\W\d][\w/-]*(?: [\w/-]+){0,4}\s*"
_WORDS = re.compile(rf"\[{_ITEM}(?:,{_ITEM})*\]|\{{{_ITEM}(?:,{_ITEM})*\}}")
_LOOKED_AT = 200
"""Rows from which the header is told."""
_CODE = re.compile(r"[-+]?\d+(?:[.,]\d+)?")
_FILE = re.compile(r"\.(png|jpe?g|bmp|tiff?|dcm|dicom|nii|nii\.gz|mha|mhd|nrrd|npy|npz|gif|webp)$", re.IGNORECASE)


class TableError(ValueError):
    """A table that cannot be read, or a column that it does not have; the text says what to do."""


@dataclass(frozen=True)
class Table:
    """Columns in order; rows as column -> text, '' where the cell is empty."""

    columns: tuple[str, ...]
    rows: list[dict[str, str]]

    def column(self, name: str) -> str:
        """The column that `name` means: exactly, else but for case and spaces, else the end of one path. Raises
        TableError with the columns that there are."""
        if name in self.columns:
            return name
        for form in (_loose, _last):
            fitting = [column for column in self.columns if form(column) == form(name)]
            if len(fitting) == 1:
                return fitting[0]
        ends = [column for column in self.columns if _loose(column).endswith("/" + _loose(name))]
        if len(ends) == 1:
            return ends[0]
        raise TableError(f"there is no column {name!r}{nearest(name, self.columns)}")


def nearest(name: str, names: Iterable[str]) -> str:
    """`; did you mean 'x'? There are: a, b, c` of what there is instead of `name`."""
    there = list(names)
    close = difflib.get_close_matches(name.lower(), [one.lower() for one in there], 1, 0.6)
    meant = next((one for one in there if close and one.lower() == close[0]), None)
    shown = ", ".join(there[:30]) + (f" and {len(there) - 30} more" if len(there) > 30 else "")
    return (f"; did you mean {meant!r}?" if meant else ";") + f" There are: {shown or 'none'}"


def cell(text: str) -> str:
    """A cell's text without spaces around it; '' where it says that there is nothing. Items of a list of texts, as
    Python and JSON write it (`['mass', ' nodule']`), stand in lines, each once."""
    text = text.strip()
    if text[:1] in _OPEN and (items := _QUOTED.findall(text)) and not _QUOTED.sub("", text).strip(_BRACKETS):
        text = "\n".join(dict.fromkeys(item for one, other in items if (item := (one or other).strip())))
    return "" if len(text) < 5 and text.lower() in _EMPTY else text


def readable(value: str) -> str:
    """What a person sees of it: without breaks of lines, marks of direction and other signs that are not printed."""
    return " ".join("".join(sign for sign in value if sign.isprintable() or sign.isspace()).split())


def comparable(value: str) -> str:
    """A value as it is compared: `1.0` is `1`, case, spaces and signs that are not printed do not count."""
    text = readable(value).casefold()
    try:
        number = float(text)
    except ValueError:
        return text
    return str(int(number)) if number.is_integer() and abs(number) < 1e15 else text


def mark(text: str) -> str:
    """`1` of a yes, `0` of a no, '' of an empty cell, `?` of anything else."""
    value = comparable(text)
    return "1" if value in _YES else "0" if value in _NO else "?" if value else ""


def present(text: str) -> str:
    """As `mark`, of a cell that may also count things: more than one is a yes."""
    value = comparable(text)
    return "1" if value.isdecimal() and int(value) > 1 else mark(text)


def tidy(record: Mapping[str, str]) -> dict[str, str]:
    return {name: cell(text) for name, text in record.items()}


def named_columns(rows: Iterable[Sequence[str]], table: str) -> Table:
    """A table of raw rows: title rows above the header are passed over, columns without a name (or with one that is
    taken) are called `column_3`. A list of files without any header has such names only."""
    stream = iter(rows)
    head = [list(row) for row in islice(stream, _LOOKED_AT)]
    start, header = _header(head)
    columns = _names(header)
    found: list[dict[str, str]] = []
    said_none: dict[int, list[int]] = {}
    # Short texts recur: one copy of each.
    same: dict[str, str] = {}
    for row in chain(head[start:], stream):
        values = [same.setdefault(text, text) if len(text) < 12 else text for text in map(cell, row)]
        for place, text in enumerate(row):
            if text.strip().lower() == _NONE:
                said_none.setdefault(place, []).append(len(found))
        if not any(values):
            continue
        if len(values) > len(columns):
            columns += _names([*columns, *values[len(columns) :]], len(columns))
        values += [""] * (len(columns) - len(values))
        found.append(dict(zip(columns, values, strict=True)))
        if len(found) > MAX_ROWS or len(found) * len(columns) > MAX_CELLS:
            raise TableError(f"{table} is too large ({len(found)} rows so far); take out columns that are not needed")
    if found and len(found[0]) < len(columns):
        found = [{name: row.get(name, "") for name in columns} for row in found]
    for column in columns:
        _open_lists(found, column)
    for place, rows_of_none in said_none.items():
        _keep_none(found, columns[place], rows_of_none)
    return Table(tuple(columns), found)


def _open_lists(rows: Sequence[dict[str, str]], column: str) -> None:
    """Items of lists without quotes (`{mass,nodule}`, `[mass]`) in lines, where some cell has several."""
    lists = [row for row in rows if row[column][:1] in ("[", "{") and _WORDS.fullmatch(row[column])]
    if any("," in row[column] for row in lists):
        for row in lists:
            row[column] = "\n".join(dict.fromkeys(item.strip() for item in row[column][1:-1].split(",")))


def _keep_none(rows: Sequence[dict[str, str]], column: str, at: Sequence[int]) -> None:
    """`none` beside other words is a value of its own (no effusion) where a column has no other way to say nothing."""
    empty = sum(not row[column] for row in rows)
    worded = [row[column] for row in rows if row[column]]
    if empty != len(at) or not 2 <= empty <= 0.9 * len(rows) or len(set(worded)) > 60:
        return
    if all(re.search(r"[^\W\d]{2}", text) for text in worded):
        for place in at:
            rows[place][column] = _NONE


def _header(head: Sequence[Sequence[str]]) -> tuple[int, list[str]]:
    """Index of the first row of values, and the names above them."""
    filled = [[text for text in row if text.strip()] for row in head]
    if not head:
        return 0, []
    widths = Counter(len(row) for row in head if any(text.strip() for text in row))
    usual = widths.most_common(1)[0][0] if widths else 0
    start = 0
    while start < len(head) - 1 and usual > 1:
        both = _of_two_rows(head[start], head[start + 1])
        if both and not _is_value(both, head[start + 2 :]):
            return start + 2, both
        if not _is_title(head[start], filled[start], usual) and not _above_header(head, filled, start):
            break
        start += 1
    header = [text.strip() for text in head[start]]
    if _is_value(header, head[start + 1 :]):
        return start, [""] * len(header)
    below = {len(row) for row in head[start + 1 :] if row}
    if below == {len(header) + 1} and all(header):
        header = ["", *header]  # as R writes tables: the names of rows have no header
    return start + 1, header


def _is_title(row: Sequence[str], filled: Sequence[str], usual: int) -> bool:
    if not filled:
        return True
    return len(filled) == 1 and (len(row) == 1 or (usual > 2 and bool(row[0].strip())))


def _above_header(head: Sequence[Sequence[str]], filled: Sequence[Sequence[str]], start: int) -> bool:
    """Whether a row of few cells (who graded, by which scale) stands above a row that names all columns."""
    full = sorted(map(len, filled[start:]))[len(filled[start:]) // 2]
    if full < 4 or 2 * len(filled[start]) > full:
        return False
    for at in range(start + 1, min(start + 5, len(head) - 2)):
        if 2 * len(filled[at]) > full:
            named = len({*filled[at]}) == len(filled[at]) >= full and not any(map(_CODE.fullmatch, filled[at]))
            return named and not _is_value([text.strip() for text in head[at]], head[at + 1 :])
    return False


def _of_two_rows(above: Sequence[str], names: Sequence[str]) -> list[str]:
    """Names of columns that stand in two rows, `Right eye` above the first of several columns which recur below `Left
    eye`; empty where they do not."""
    spans, last = [], ""
    for place, _ in enumerate(names):
        last = (above[place].strip() if place < len(above) else "") or last
        spans.append(last)
    below = [text.strip() for text in names]
    again = [name for name, count in Counter(below).items() if name and count > 1]
    held = [[span for span, name in zip(spans, below, strict=True) if name == one] for one in again]
    apart = all(all(own) and len({*own}) == len(own) for own in held)
    if (
        not again
        or not apart
        or any(map(_CODE.fullmatch, below))
        or 2 * sum(bool(text.strip()) for text in above) > sum(map(bool, below))
    ):
        return []
    return [f"{span} {name}" if name in again else name for span, name in zip(spans, below, strict=True)]


def _is_value(header: Sequence[str], below: Sequence[Sequence[str]]) -> bool:
    """Whether the first row is one of values already: it names a file, has numbers where all rows have numbers, or a
    word that recurs."""
    below = [row for row in below if [text.strip() for text in row] != list(header)]
    columns = [[row[at].strip() for row in below if len(row) > at and row[at].strip()] for at in range(len(header))]
    pairs = list(zip(header, columns, strict=True))
    if any(_FILE.search(text) and any(map(_FILE.search, column[:5])) for text, column in pairs):
        return True
    pairs = [(text, column) for text, column in pairs if len(column) > 2]
    over_numbers = [text for text, column in pairs if all(map(_CODE.fullmatch, column))]
    if over_numbers:
        counted = any(header[1:] == [str(at + start) for at in range(1, len(header))] for start in (0, 1, -1))
        named = counted and header[0] in ("", "0", "1")  # columns called 0, 1, 2
        return all(map(_CODE.fullmatch, over_numbers)) and not named
    return any(text and column.count(text) * 20 >= len(column) for text, column in pairs)


def _names(header: Sequence[str], start: int = 0) -> list[str]:
    seen = set(header[:start])
    names: list[str] = []
    for place, text in enumerate(header[start:], start + 1):
        name = " ".join(text.split()) if not start else ""
        if not name or name in seen:
            name = f"column_{place}"
        while name in seen:
            name += "_"
        seen.add(name)
        names.append(name)
    return names


def _loose(name: str) -> str:
    return re.sub(r"[\s_-]+", " ", name.strip().lower())


def _last(name: str) -> str:
    return _loose(name).rpartition("/")[2]


def limited(texts: Iterable[Sequence[str]], table: str) -> Iterator[Sequence[str]]:
    """Rows as they are, checked for cells that are too long: those come from a quote that is never closed."""
    for number, row in enumerate(texts, 1):
        if max(map(len, row), default=0) > MAX_CELL:
            raise TableError(f"{table}: row {number} has a cell of over {MAX_CELL} characters; look for an open quote")
        yield row
