"""Masks that a table leads to: one column tells images, another the numbers or names of their masks."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from shared.contracts.values import Source as Value
from shared.contracts.values import Table
from shared.dataset.propose.draft import Draft
from shared.dataset.propose.mask_files import Source, own_name
from shared.dataset.propose.tables import files_of, literal, sheets_of, with_table
from shared.dataset.survey.family import Family
from shared.dataset.survey.joins import TableLook
from shared.dataset.survey.pieces import MOST, Alignment, Piece, braces, piece_of
from shared.dataset.survey.survey import Survey
from shared.dataset.tables.forms import same
from shared.imaging.formats import suffix_of

CODE, NUMBER = "code", "mask_number"
"""Fields of images and of masks by which they are joined."""
_RUN = re.compile(r"[^\W\d_]+|\d+")
_DIGITS = re.compile(r"\d+")
_AGAIN = r"^(.+?)(?:[-_ ]\d{1,2})?$"
"""What a code is without the number of a further examination: of `AB12_2` beside `AB12`."""
_MOST_SHAPES = 8
_LIKELY = 0.6
"""Share of a column's values that name files, and of the files that are named."""
_FEWEST = 3


@dataclass(frozen=True)
class Led:
    """A draft with the table, the masks, and the column that names them."""

    draft: Draft
    source: Source
    table: str
    column: str


def led_by_tables(families: Sequence[Family], draft: Draft, survey: Survey) -> Iterator[Led]:
    """Each way from the images of a draft over two columns of a table to a family of masks."""
    if len(draft.channels) != 1 or isinstance(draft.case, tuple) or draft.channels[0].inside:
        return
    for look in survey.tables:
        if look.unread or look.pattern or look.also or not _FEWEST <= len(look.rows) <= MOST:
            continue
        for family in families:
            if (found := _best(family, look)) is None or (joined := _joined(draft, survey, look)) is None:
                continue
            column, files = found
            made, name, hits = joined
            yield Led(made, _source(family, files, made.channels[0].pieces[0], hits), name, column)


def _best(family: Family, look: TableLook) -> tuple[str, dict[str, str]] | None:
    """The column whose values most files of masks are named by, and the pattern of each of these files."""
    found: list[tuple[int, str, dict[str, str]]] = []
    for column in look.columns:
        values = _values(look, column.name)
        named = _once(_named(family.files, values, NUMBER))
        hits = {value for value, _ in named.values()}
        if len(hits) >= max(_FEWEST, _LIKELY * len(values), _LIKELY * len(family)):
            found.append((len(named), column.name, {file: pattern for file, (_, pattern) in named.items()}))
    return max(found, key=lambda one: one[0])[1:] if found else None


def _once(named: dict[str, tuple[str, str]]) -> dict[str, tuple[str, str]]:
    """Those of the folder that has most, where several folders have a file of one value: others are older drawings."""
    if len({value for value, _ in named.values()}) == len(named):
        return named
    (folder, _), *_ = Counter(file.rpartition("/")[0] for file in named).most_common(1)
    return {file: one for file, one in named.items() if file.rpartition("/")[0] == folder}


def _joined(draft: Draft, survey: Survey, look: TableLook) -> tuple[Draft, str, frozenset[str]] | None:
    """The draft with the table, its name there, and the images that have a row."""
    channel = draft.channels[0]
    files = [file for piece in channel.pieces for file in piece.files][:MOST]
    if look.key is not None and (made := with_table(draft, survey, look)) is not None:
        return *made, frozenset(files)
    if draft.case != "file":
        return None
    best: tuple[str, dict[str, tuple[str, str]]] | None = None
    for column in look.columns:
        named = _named(files, _values(look, column.name), CODE)
        if len(named) >= _LIKELY * len(files) and (best is None or len(named) > len(best[1])):
            best = column.name, named
    if best is None:
        return None
    shapes = Counter(pattern for _, pattern in best[1].values())
    taken = {file: pattern for file, (_, pattern) in best[1].items()}
    pieces = tuple(
        replace(piece, pattern=shape, files=some)
        for piece in channel.pieces
        for shape in shapes
        if (some := tuple(file for file in piece.files if taken.get(file) == shape))
    )
    name = look.name if look.name not in draft.tables else f"{look.name}_"
    table = Table(file=files_of(look), sheet=sheets_of(look), key=best[0], names=CODE)
    made_so = draft.change(channels=(replace(channel, pieces=pieces),), tables={**draft.tables, name: table})
    codes = _values(look, best[0])
    if any((found := re.fullmatch(_AGAIN, code)) and found[1] != code and found[1] in codes for code in codes):
        made_so = made_so.change(patient=Value(field=CODE, part=_AGAIN))
    return made_so, name, frozenset(taken)


def _values(look: TableLook, column: str) -> dict[str, str]:
    """Values of a column that has another one in nearly each row: how it is compared -> as it is written."""
    texts = [row[column] for row in look.rows if row[column]]
    values = {same(text.replace("\\", "/").rpartition("/")[2]): text for text in texts}
    return values if len(values) >= 0.9 * len(texts) and len(texts) * 2 > len(look.rows) else {}


def _named(files: Sequence[str], values: Mapping[str, str], field: str) -> dict[str, tuple[str, str]]:
    """Of files whose names hold one of `values` in whole runs of letters or digits: the value, and the file's pattern
    with `field` in its place. The longest value counts; nothing where the names are of too many shapes."""
    held = {file: span for file in files if values and (span := _longest(file, values))}
    for wide in (("", ""), ("/", ""), ("/", ".")):
        found = {file: (same(file[start:stop]), _pattern(file, start, stop, field, wide))
                 for file, (start, stop) in held.items()}  # fmt: skip
        if len({pattern for _, pattern in found.values()}) <= _MOST_SHAPES:
            return found
    return {}


def _longest(file: str, values: Mapping[str, str]) -> tuple[int, int] | None:
    """Where the longest of `values` stands in a file's name, of several as long the first."""
    runs = list(_RUN.finditer(file, file.rfind("/") + 1, len(file) - len(suffix_of(file))))
    spans = [(one.start(), other.end()) for at, one in enumerate(runs) for other in runs[at:]]
    return max(
        (span for span in spans if same(file[slice(*span)]) in values),
        key=lambda span: (span[1] - span[0], -span[0]),
        default=None,
    )


def _pattern(file: str, start: int, stop: int, field: str, wide: Sequence[str]) -> str:
    """A file's path with `field` in the place of its value; numbers in folders ("/" in `wide`) and behind the value
    (".") may be any."""
    folder, slash, head = literal(file[:start]).rpartition("/")
    folder = _DIGITS.sub("*", folder) if "/" in wide else folder
    rest = literal(file[stop : len(file) - len(suffix_of(file))])
    rest = _DIGITS.sub("*", rest) if "." in wide else rest
    return f"{folder}{slash}{head}{braces(field)}{rest}{suffix_of(file)}"


def _source(family: Family, named: Mapping[str, str], image: Piece, hits: frozenset[str]) -> Source:
    whole = piece_of(family, images=False)
    shapes = Counter(named.values())
    pieces = [
        replace(whole, pattern=shape, files=tuple(file for file, own in named.items() if own == shape))
        for shape in shapes
    ]
    values = tuple(sorted({v for look in family.looks if look.pixels for v in look.pixels.values} - {0}))
    structure = own_name(whole.pattern, image.pattern) if len(values) == 1 else None
    colours = any(value > 65535 for value in values)
    fit = Alignment({}, 1.0, 0.0, 1.0, 1.0)
    return Source(pieces[0], fit, hits, structure, values, colours, whole.pattern, tuple(pieces[1:]))
