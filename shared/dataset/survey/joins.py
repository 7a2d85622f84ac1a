"""Tables of a dataset, and how their rows are joined to image files: which column names images, and by what."""

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from math import inf
from pathlib import Path

from shared.dataset.files.looking import Looker
from shared.dataset.files.patterns import compile
from shared.dataset.files.series import headers
from shared.dataset.survey.codebooks import describe
from shared.dataset.survey.evidence import Unit, Units
from shared.dataset.survey.family import Family
from shared.dataset.survey.naming import evenly
from shared.dataset.survey.sides import tell_apart
from shared.dataset.survey.table_looks import TableLook, as_rows, keys_of, plain, read_tables, record_key, tailed
from shared.dataset.survey.table_parts import of_other_images, united
from shared.dataset.survey.weaving import weave
from shared.dataset.tables.forms import code
from shared.dataset.tables.keys import leading, woven
from shared.dataset.tables.tables import TableError

__all__ = ["TableLook", "join_tables", "keys_of", "plain"]


def _tail_of(cells: Sequence[str], keys: set[str]) -> int:
    """How many last parts of paths tell them apart; 0 where one does, or they are no paths."""
    paths = [cell.replace("\\", "/").strip("/") for cell in evenly(cells, 3000)]
    if sum("/" in path for path in paths) * 2 < len(paths):
        return 0
    distinct = len(set(paths))
    for count in range(1, 7):
        if len({tailed(path, count) for path in paths}) >= 0.98 * distinct:
            return 0 if count == 1 else count
    return 0


def join_tables(
    root: Path, families: Sequence[Family], units: Units, skipped: list[str], looker: Looker
) -> list[TableLook]:
    """Tables of the dataset, those that name images first."""
    names: dict[str, set[str]] = defaultdict(set)
    sample = evenly(units.files, 5000)
    keyed = [dict(keys_of(units, unit)) for unit in sample]
    for one in keyed:
        for by, key in one.items():
            names[by].add(key)
    tables = united(read_tables(root, families, looker, skipped))
    for place, table in enumerate(tables):
        if not table.pattern:
            _join(table, names, sample, keyed)
        elif _join_records(table, families, units) > _ONE_EACH:
            # Their names do not tell them apart, such as the numbers of messages: what they say may.
            family = next(one for one in families if one.pattern == table.pattern)
            if (rows := as_rows(root, family, looker)) is not None:
                _join(rows, names, sample, keyed)
                tables[place] = rows if rows.key or not table.fits else table
    for table in of_other_images(tables, keyed):
        _join(table, names, sample, keyed)
    if any((table.key is None and len(table.rows) > 1) or _coarse(table) for table in tables):
        _join_by_headers(tables, units, looker)
    describe(tables)
    for table in tables:
        with looker.timed():
            _read_on(table, units, looker, skipped)
        table.index = table.index or _index(table)
        if table.by in ("", "stem") and not table.pattern:
            _join_woven(table, units)
        if not table.pattern:
            _join_leading(table, units)
        tell_apart(table, units)
        while not table.apart and weave(table, units, names, keyed):
            table.index = _index(table)
            tell_apart(table, units)
    return sorted(tables, key=lambda table: (-table.share, table.file))


_ONE_EACH = 1.5
"""Files of one record each that an image has, on average, where names tell them apart."""


def _join_records(table: TableLook, families: Sequence[Family], units: Units) -> float:
    """Files of one record each belong to the images whose names have the same values in the same fields. How many an
    image has, on average."""
    from shared.dataset.survey.pieces import align_numbers, piece_of

    records = piece_of(next(one for one in families if one.pattern == table.pattern), images=False)
    several = [inf]
    for number, family in units.families.items():
        if (fit := align_numbers(records, piece_of(family))) is not None:
            table.fits[number] = fit.names
            several.append(fit.several if fit.share else inf)
    if table.fits:
        table.key, table.by, table.index = "", "fields", _records_by_fields(table)
        table.share = sum(bool(table.rows_of(units, unit)) for unit in units.files) / max(1, len(units.files))
    return min(several)


def _records_by_fields(table: TableLook) -> dict[str, list[int]]:
    found: dict[str, list[int]] = defaultdict(list)
    looker = compile(table.pattern or "")
    for at, row in enumerate(table.rows):
        fields = looker.match(row[""]) or {}
        for names in {tuple(sorted(one)) for one in table.fits.values()}:
            found[record_key(names, fields)].append(at)
    return dict(found)


_HEADERS = ("PatientID", "AccessionNumber", "StudyInstanceUID", "SeriesInstanceUID", "SOPInstanceUID")
_MOST_HEADERS = 1500
_DECIMAL = re.compile(r"\d+[.,]\d+")
_KEY_WORDS = 6
"""Of a cell, at the most, that may name an image."""
_PERSON = "header.PatientID"
_MOST_CODES = 2000
_FINER, _ALIKE = 1.2, 0.85
"""Times as many values that a key has than one that is too coarse, and its share of the images that one names."""
_NEARLY = 0.9
"""Of the rows whose keys differ, and of the keys that name an image."""
_SOME = 0.1
"""Of the images, which a further column of a row's images names."""


def _join_by_headers(tables: Sequence[TableLook], units: Units, looker: Looker) -> None:
    """Tables that name images by what DICOM headers say, such as the patient."""
    dicom = {
        number
        for number, family in units.families.items()
        if any(look.header and look.header.kind == "dicom" for look in family.looks)
    }
    sample = evenly([unit for unit in units.files if unit[0] in dicom], _MOST_HEADERS)
    if not sample or looker.left <= 0:
        return
    with looker.timed():
        units.headers = headers(looker.root, [file for _, file in sample], _HEADERS)
    keyed = [{f"header.{name}": plain(text) for name, text in units.headers[file].items()} for _, file in sample]
    names: dict[str, set[str]] = defaultdict(set)
    for one in keyed:
        for by, key in one.items():
            names[by].add(key)
    finer = [{by: key for by, key in one.items() if by != _PERSON} for one in keyed]
    for table in tables if names else ():
        if table.key is None and not table.pattern:
            _join(table, names, sample, keyed)
        elif _coarse(table):
            # Its rows are of examinations, perhaps, and its key is the patient that folders are called by.
            other = replace(table, columns=[replace(column) for column in table.columns], key=None, by="", share=0.0)
            _join(other, {by: known for by, known in names.items() if by != _PERSON}, sample, finer)
            if other.key and other.share >= _ALIKE * table.share:
                old, new = (table.column(str(one.key)).distinct for one in (table, other))
                if new > _FINER * old:
                    table.columns, table.key, table.by, table.share = other.columns, other.key, other.by, other.share


def _coarse(table: TableLook) -> bool:
    """Whether a table names images, and has several rows of many of its keys."""
    named = table.key is not None and not table.pattern and len(table.rows) > 1
    return named and table.column(str(table.key)).distinct * _FINER < len(table.rows)


def _join(
    table: TableLook, names: dict[str, set[str]], sample: Sequence[Unit], keyed: Sequence[dict[str, str]]
) -> None:
    """Chooses the column that names most images."""
    best: tuple[float, bool, float, str, str] = (0.0, False, -1.0, "", "")
    examined = (_SOME, "")
    every = set().union(*names.values())
    for column in [one.name for one in table.columns]:
        cells = list({row[column] for row in table.rows if row[column]})
        if not _may_name(cells, every):
            by, share = _by_codes(cells, keyed)
            table.column(column).names_files, table.column(column).by = share, by
            single = len(cells) > 0.95 * len(table.rows) and by not in ("", _PERSON)
            examined = (share, column) if single and share > examined[0] else examined
            continue
        keys = {plain(cell) for cell in cells} - {""}
        tail = _tail_of(cells, keys)
        if tail:
            keys = {tailed(cell, tail) for cell in cells}
        if not keys:
            continue
        if tail:
            keyed_tails = [{f"tail{tail}": tailed(file, tail)} for _, file in sample]
            known = {f"tail{tail}": {one[f"tail{tail}"] for one in keyed_tails}}
            by, share, matched = _best(keys, known, keyed_tails, len(table.rows))
        else:
            by, share, matched = _best(keys, names, keyed, len(table.rows))
            if matched < 0.9 and share * len(sample) > 2 * matched * len(keys) and _counts(table, column):
                continue  # a number of rows, which the numbers of a few folders are among
            if by.startswith("field") and _measured(cells):
                continue
        table.column(column).names_files, table.column(column).by = share, by
        # A row number names some images by chance, but not as many rows; then whole names before numbers in them, and
        # what tells rows apart best. A whole name in each row is its key, though a few of the files are not there.
        single = by == "stem" and matched > _NEARLY and len(keys) > _NEARLY * len(table.rows)
        weight = round(share * (2 if single else 1 + matched), 2)
        # A day alone may be that of several people.
        finer = 0.0 if table.column(column).kind == "date" else len(keys) / max(1, len(table.rows))
        told = (weight, not by.startswith("field"), finer)
        best = (*told, column, by) if told > best[:3] else best
    *_, column, by = best
    share = table.column(column).names_files if column else 0.0
    if by == _PERSON and examined[1]:  # rows of examinations: their patients have others, too
        share, column = examined
        by = table.column(column).by
        rows = {own: at for at, row in enumerate(table.rows) if (own := code(row[column]))}
        table.index = {file: [rows[own]] for (_, file), one in zip(sample, keyed, strict=True)
                       if (own := code(one.get(by, ""))) in rows}  # fmt: skip
    if share < 0.02:
        return
    table.key, table.by, table.share = column, by, share
    alike = [one for one in table.columns if one.by == by and one.names_files >= _SOME and one.name != column]
    together = share + sum(one.names_files for one in alike)
    if (by == "stem" or by.startswith("tail")) and together <= 1.02:
        table.more, table.share = tuple(one.name for one in alike), min(1.0, together)


def _by_codes(cells: Sequence[str], keyed: Sequence[dict[str, str]]) -> tuple[str, float]:
    """What of the images cells name that are written apart in another way (`TC/2020/00123`), and the share named."""
    known = {code(cell) for cell in evenly(cells, _MOST_CODES)} - {""}
    keyed = evenly(keyed, _MOST_CODES) if len(known) * 2 > len(cells) else []
    hits = Counter(by for one in keyed for by, key in one.items() if code(key) in known)
    by, many = max(hits.items(), key=lambda item: item[1], default=("", 0))
    return by, many / max(1, len(keyed))


def _join_woven(table: TableLook, units: Units) -> None:
    """Rows whose keys are several names of an image's path, of one that has no row yet; where no column names images,
    the column with most such keys."""
    known = table.key is not None
    free = {
        at: (unit[1],) for at, unit in enumerate(units.files) if not (known and table.rows_of(units, unit))
    }  # fmt: skip
    stems = {plain(file) for _, file in units.files} if known else set()
    best: tuple[float, str, dict[str, str]] = (0.0 if known else _SOME, "", {})
    for column in table.columns:
        if (known and column.name != table.key) or column.words > _KEY_WORDS:
            continue
        cells = {row[column.name] for row in table.rows if row[column.name]}
        fits = woven([cell for cell in cells if plain(cell) not in stems], free)
        named = {cell: free[min(places)][0] for cell, places in fits.items() if len(places) == 1}
        share = len(named) / max(1, len(units.files))
        if share > best[0] and len(set(named.values())) == len(named):
            best = (share, column.name, named)
    share, key, named = best
    if not key:
        return
    if not known:
        table.key, table.by, table.index, table.column(key).by = key, "path", {}, "path"
    table.share = table.column(key).names_files = table.share + share
    for at, row in enumerate(table.rows):
        if file := named.get(row[key]):
            table.index.pop(plain(row[key]), None)
            table.index.setdefault(file, []).append(at)


def _join_leading(table: TableLook, units: Units) -> None:
    """Rows whose keys folders or names of several images begin with, where no column names half of them otherwise."""
    if table.share > 0.5 or table.rest:
        return
    paths = {at: (file,) for at, (_, file) in enumerate(units.files)}
    for column in table.columns:
        cells = [row[column.name] for row in table.rows]
        if column.kind != "id" or len(set(cells)) < 0.95 * len(cells):
            continue
        fits = leading(filter(None, cells), paths)
        many = sum(map(len, fits.values()))
        share = many / max(1, len(paths))
        if many > 1.1 * len(fits) and share > table.share + _SOME:
            table.key, table.by, table.share, table.more = column.name, "path", share, ()
            table.column(column.name).by, table.column(column.name).names_files = "path", share
            rows = {row[column.name]: at for at, row in enumerate(table.rows)}
            table.index = {paths[at][0]: [rows[key]] for key, places in fits.items() for at in places}


def _counts(table: TableLook, column: str) -> bool:
    """Whether cells are 1, 2, 3 and so on from the first row to the last: a number of each row."""
    cells = [row[column] for row in table.rows]
    whole = [int(cell) for cell in cells if cell.isdecimal() and len(cell) < 9]
    apart = len(whole) >= 0.9 * len(cells) and max(whole) - min(whole) < 1.1 * len(cells)
    return apart and all(one < other for one, other in pairwise(whole))


def _measured(cells: Sequence[str]) -> bool:
    """Whether cells are figures, some of them with decimals: whole ones are among the numbers in names by chance."""
    decimals = sum(bool(_DECIMAL.fullmatch(cell)) for cell in cells)
    return decimals * 20 > len(cells) and all(cell.isdecimal() or _DECIMAL.fullmatch(cell) for cell in cells)


def _read_on(table: TableLook, units: Units, looker: Looker, skipped: list[str]) -> None:
    """Of the rows behind the first of a large table those of the images in question, and how many there are."""
    if not table.rest:
        return
    tail = int(table.by[4:]) if table.by.startswith("tail") else 0
    held = max(1, table.total)
    wanted = {key for unit in units.files for _, key in keys_of(units, unit, (table.by,))} if table.key else set()

    def named(text: str) -> bool:
        return (tailed(text, tail) if tail else plain(text)) in wanted

    try:
        for rest in table.rest:
            for row in rest.where(table.key, named):
                table.total += 1
                if row is not None:
                    table.rows.append(row)
                if table.total % 50_000 == 0 and looker.left <= 0:
                    skipped.append(f"rows of {table.said} behind the first {table.total:,} were not read")
                    return
    except TableError as error:
        skipped.append(f"rows of {table.said} behind the first {table.total:,} were not read: {error}")
    table.rest = []
    for column in table.columns:  # counted in the rows that are held
        column.values = {value: round(count * table.total / held) for value, count in column.values.items()}
    if table.key:
        index = _index(table)
        keys = (dict(keys_of(units, unit, (table.by,))).get(table.by, "") for unit in units.files)
        table.share = sum(key in index for key in keys) / max(1, len(units.files))
        if table.key:
            table.column(table.key).names_files = table.share


def _index(table: TableLook) -> dict[str, list[int]]:
    """Key -> rows."""
    found: dict[str, list[int]] = defaultdict(list)
    tail = int(table.by[4:]) if table.by.startswith("tail") else 0
    for at, row in enumerate(table.rows) if table.key is not None else ():
        for cell in (row[table.key or ""], *(row[name] for name in table.more if row[name])):
            found[tailed(cell, tail) if tail else plain(cell)].append(at)
    return dict(found)


def _may_name(cells: Sequence[str], every: set[str]) -> bool:
    """Whether any of some cells is a name: of a large table most columns are passed over so."""
    return any(plain(cell) in every for cell in evenly(cells, 5000))


def _best(
    keys: set[str], names: dict[str, set[str]], keyed: Sequence[dict[str, str]], rows: int
) -> tuple[str, float, float]:
    """What of the images a set of keys names, the share of images named, and the share of keys that name some."""
    found = ("", 0.0, 0.0)
    for by, known in names.items():
        both = len(keys & known)
        # A folder of a class is in a column, too: it names no image.
        if not both or both < min(3, rows) or (both <= 12 and both * 10 < min(rows, len(keyed))):
            continue
        if both * 20 < len(known) and both * 20 < len(keys):
            continue
        share, matched = sum(key.get(by) in keys for key in keyed) / max(1, len(keyed)), both / len(keys)
        if share * (1 + matched) > found[1] * (1 + found[2]) + 0.005:
            found = (by, share, matched)
    return found
