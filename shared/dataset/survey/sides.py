"""Tables with a row or a column for each side or visit, which the names of images tell: `KL_left`, `month_24` of
`P07_M24_L.dcm`."""

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise, zip_longest
from math import inf

from shared.dataset.survey.box_columns import called
from shared.dataset.survey.column_looks import column_look
from shared.dataset.survey.evidence import Unit, Units
from shared.dataset.survey.naming import evenly
from shared.dataset.survey.pieces import braces
from shared.dataset.survey.table_looks import Apart, Slot, TableLook
from shared.dataset.tables.boxes import are_uploads
from shared.dataset.tables.dates import formatted
from shared.dataset.tables.forms import DAY, same
from shared.dataset.tables.visits import unfilled

MOST, MOST_DAYS = 12, 5000
"""Sides, or visits; days, which are visits, too."""
_DEEPEST = 7
"""One more than the words from the end of a name that are looked at."""
_ENOUGH = 0.9
_LOOKED_AT = 1000
_APART = re.compile(r"[^\W_]+")
_WORD = re.compile(r"[A-Z]*[a-z]+\d*|[A-Z]+\d*|\d+[A-Za-z]*|[^\W\d_]+")
_SIDES = {
    "left": """
        l left lt le la os oi og oe li s i e links linke linken linker linkes izq izda izquierda izquierdo gauche g sin
        sinistra sinistro sx esquerda esquerdo
    """,
    "right": """
        r right rt re ra od rechts rechte rechten rechter rechtes der dcha derecha derecho droite droit d dex destra
        destro dx direita direito
    """,
}
_BOTH = _SIDES.keys()
_SIDE = {word: side for side, words in _SIDES.items() for word in words.split()}
_FIRST = re.compile(r"(?:bl|base ?line|base|screening|scr|sc|initial|pre)")
_FORMS = ("%Y%m%d", "%y%m%d", "%d%m%Y", "%d%m%y", "%m%d%Y", "%m%d%y", "%Y-%m-%d", "%d-%m-%Y", "%m-%d-%Y")
"""In which names write days."""
_UNITS = {"m": "m", "mo": "m", "mon": "m", "month": "m", "months": "m", "y": "y", "yr": "y", "year": "y", "years": "y",
          "w": "w", "wk": "w", "week": "w", "weeks": "w", "d": "d", "day": "d", "days": "d",
          "v": "v", "visit": "v", "t": "v", "tp": "v", "timepoint": "v", "ses": "v", "session": "v", "wave": "v",
          "fu": "f", "followup": "f", "follow up": "f"}  # fmt: skip
_NUMBER = re.compile(r"(?:([a-z]+(?: up)?) ?0*(\d+)|0*(\d+) ?([a-z]+))")
_PLACED = tuple(map(re.compile, ("left|right", r"[mwdvf]\d+", DAY.pattern)))
"""What `sign` makes of sides, visits and days."""
_EVENT_ARM = re.compile(r" arm \d+.*")
_VISIT = re.compile(r"visit|event|session|time ?point|wave|instance|viscode|\bses\b", re.IGNORECASE)
"""Of a header: its bare numbers are visits, too."""


def sign(text: str) -> str:
    """One form of a side or a visit: `OD` and `right`, `month_24_arm_1` and `M24`; the text itself of anything else."""
    plain = " ".join(_APART.findall(re.sub(r"(?<=[a-z])(?=[A-Z])", " ", text).lower()))
    plain = _EVENT_ARM.sub("", plain)
    if plain in _SIDE:
        return _SIDE[plain]
    if _FIRST.fullmatch(plain):
        return "m0"
    if found := _NUMBER.fullmatch(plain):
        unit, number = found[1] or found[4], int(found[2] or found[3])
        if kind := _UNITS.get(unit):
            return f"m{12 * number}" if kind == "y" else f"{kind}{number}" if number or kind == "v" else "m0"
    return same(plain)


def are_visits(texts: Collection[str], tables: Sequence[TableLook]) -> bool:
    """Whether words are of visits that a column names, such as `baseline` and `12` of `month_12_arm_1`."""
    worded = any(re.search(r"[^\W\d_]", text) for text in texts)
    for column in (one for table in tables if worded for one in table.columns if _VISIT.search(one.name)):
        placed = [value for value in column.values if any(kind.fullmatch(sign(value)) for kind in _PLACED)]
        called = {word for value in placed for word in (sign(value), *_APART.findall(value.lower()))}
        if len(texts) > 1 and all(text.lower() in called or sign(text) in called for text in texts):
            return True
    return False


def mirrored(one: str, other: str) -> bool:
    """Whether two texts differ in words for the left and the right side only."""
    pairs = list(zip_longest(*map(_WORD.findall, (one, other)), fillvalue=""))
    unlike = [(first, second) for first, second in pairs if first != second]
    # A column `D` beside `E` is a class more likely.
    sided = [{sign(first), sign(second)} == _BOTH and (len(first + second) > 2 or "l" in (first + second).lower())
             for first, second in unlike]  # fmt: skip
    return bool(sided) and all(sided)


def tell_apart(table: TableLook, units: Units) -> None:
    """Gives a table what of the images' names tells its rows and columns apart, where several images or rows are of one
    key."""
    known = [unit for unit in evenly(units.files, _LOOKED_AT) if table.rows_of(units, unit)]
    if not known or table.pattern or table.more or table.by == "fields":
        return
    single = table.by in ("stem", "path")  # a row is of one image, and may say what is true of the other side, too
    slots = {slot: texts for slot in _slots(known) if (texts := _texts(slot, known))}
    rows = [table.rows_of(units, unit) for unit in known]
    several = [(unit[1], some) for unit, some in zip(known, rows, strict=True) if len(some) > 1]
    table.apart = _by_rows(table, slots, several) if several and not single else ()
    for slot, texts in slots.items():
        if single and not texts.keys() <= _BOTH:
            continue
        for stem_of, columns in _by_columns(table, texts).items():
            _add(table, slot, stem_of, columns)


def _slots(known: Sequence[Unit]) -> Iterator[Slot]:
    deepest = max(file.count("/") for _, file in known)
    yield from map(Slot, range(deepest))
    yield from (Slot(-place, letters) for letters in (False, True) for place in range(1, _DEEPEST))
    yield from (Slot(-place, words=3) for place in range(1, _DEEPEST))


def _texts(slot: Slot, known: Sequence[Unit]) -> dict[str, str]:
    """Sign -> text of a slot; empty where it is not one of a few in nearly each name. A few odd names among those of
    sides, of visits or of days do not count."""
    counts = Counter(text for _, file in known if (text := slot.of(file)))
    signed = {text: sign(text) for text in counts}
    for kind in _PLACED:
        placed = [text for text, one in signed.items() if kind.fullmatch(one)]
        if sum(counts[text] for text in placed) >= _ENOUGH * len(known):
            signed = {text: signed[text] for text in placed}
    signs = {one: text for text, one in signed.items()}
    few = 2 <= len(signs) <= _at_most(signs) and len(signed) == len(signs)
    few = few and (signs.keys() <= _BOTH or not slot.letters) and (all(map(DAY.fullmatch, signs)) or slot.words == 1)
    return signs if few and sum(counts[text] for text in signed) >= _ENOUGH * len(known) else {}


def _at_most(signs: Iterable[str]) -> int:
    return MOST_DAYS if all(map(DAY.fullmatch, signs)) else MOST


def _by_rows(
    table: TableLook, slots: Mapping[Slot, Mapping[str, str]], several: Sequence[tuple[str, list[dict[str, str]]]]
) -> tuple[Apart, ...]:
    """What leaves images that have several rows with one; nothing where that is true of too few."""
    found: list[Apart] = []
    able = list(_able(table, slots))
    able += _days(table, [file for file, _ in several], {one.column for one in able})
    while able:
        left = [[(file, one.of(some, file)) for file, some in several] for one in able]
        counts = [sum(len(some) for _, some in kept) if _most(map(bool, (s for _, s in kept)), several) else inf
                  for kept in left]  # fmt: skip
        place = counts.index(min(counts))
        if counts[place] >= sum(len(some) for _, some in several):
            break
        found.append(able[place])
        several = left[place]
        able = [one for one in able if one.column != found[-1].column and one.slot != found[-1].slot]
    return tuple(found) if _most((len(some) == 1 for _, some in several), several) else ()


def _most(held: Iterable[bool], of: Sequence[object]) -> bool:
    return sum(held) >= _ENOUGH * len(of)


def _able(table: TableLook, slots: Mapping[Slot, Mapping[str, str]]) -> Iterator[Apart]:
    """Columns some of whose values are what a slot says."""
    for column in table.columns:
        for slot, texts in slots.items():
            if not 2 <= column.distinct <= _at_most(texts) or column.name == table.key:
                continue
            values = column.values or sorted({row[column.name] for row in table.rows})
            signs = {value: one for value in values if (one := _signed(value, column.name, texts))}
            if len(signs) > 1:
                placed = all(any(kind.fullmatch(one) for kind in _PLACED) for one in signs.values())
                told = {value: texts[one] for value, one in signs.items()}
                yield Apart(column.name, slot, told, placed, unfilled(table.rows, column.name))


def _days(table: TableLook, files: Sequence[str], known: Collection[str]) -> Iterator[Apart]:
    """Columns of days, other than those `known`, that names write in a form of their own."""
    slots = [one for one in _slots([(0, file) for file in files]) if not one.letters]
    texts = {slot: Counter(text for file in files if (text := slot.of(file))) for slot in slots}
    for column in table.columns:
        cells = sorted({row[column.name] for row in table.rows} - {""})
        if not 2 <= len(cells) <= MOST_DAYS or column.name in {table.key, *known} or re.search("[{}:]", column.name):
            continue
        for form in _FORMS:
            try:
                written = formatted(cells, form)
            except ValueError:
                break
            for slot, counts in texts.items():
                days = {same(text): text for text in counts}
                told = {cell: days[same(day)] for cell, day in written.items() if same(day) in days}
                if sum(counts[text] for text in {*told.values()}) >= _ENOUGH * len(files):
                    yield Apart(column.name, slot, told, True, unfilled(table.rows, column.name), form)


def _signed(value: str, header: str, texts: Mapping[str, str]) -> str:
    """The sign of a value that is among those of a slot; of a bare number only where the header says that it is a
    visit's."""
    if re.search(r"[^\W\d_]", value) or DAY.fullmatch(sign(value)):
        forms = [sign(value)]
    else:
        forms = [sign(form.format(value)) for form in ("{}", "v{}", "m{}")] if _VISIT.search(header) else []
    return next((one for one in forms if one in texts), "")


def _by_columns(table: TableLook, texts: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """Names of columns that differ in one word, what a slot says, as `grade_{}` -> text of the slot -> column."""
    found: dict[str, dict[str, str]] = defaultdict(dict)
    boxes = {name for one in called([column.name for column in table.columns]) for name in one.columns}
    taken = {table.key, *(one.column for one in table.apart), *boxes}
    for column in table.columns:
        if column.name in taken or column.names_files > 0.2 or re.search("[{}]", column.name):
            continue
        if are_uploads(row[column.name] for row in table.rows):
            continue  # their names end with its own
        for start, end in _words(column.name):
            one = sign(word := column.name[start:end])
            if one in texts and re.search(r"[^\W\d_]", word):
                found[f"{column.name[:start]}{{}}{column.name[end:]}"][texts[one]] = column.name
    whole = {name: columns for name, columns in found.items() if len(columns) == len(texts)}
    # A column `D` is a class more likely than the right side.
    return {name: some for name, some in whole.items() if _APART.search(name) or min(map(len, some.values())) > 1}


def _words(name: str) -> Iterator[tuple[int, int]]:
    """Where words of a header are, alone and with the one behind, as in `month_24`."""
    spans = [found.span() for found in _WORD.finditer(name)]
    yield from spans
    yield from ((start, end) for (start, _), (_, end) in pairwise(spans))


def _add(table: TableLook, slot: Slot, name: str, columns: Mapping[str, str]) -> None:
    """One column in place of those of each side."""
    whole = name.replace("{}", braces(slot.field))
    own = [one for one in table.columns if one.name in columns.values()]
    if len(own) < len(columns):
        return  # another name has taken some
    table.sides = {**table.sides, whole: (slot, columns)}
    cells = [{whole: row[column]} for row in table.rows for column in columns.values()]
    table.written = table.written or table.columns
    made = replace(column_look(whole, cells), about=own[0].about, codes=own[0].codes, choice=own[0].choice)
    table.columns = [*(one for one in table.columns if one not in own), made]
    for row in table.rows:
        row[whole] = next((row[column] for column in columns.values() if row[column]), "")
