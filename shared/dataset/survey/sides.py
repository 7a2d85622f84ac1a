"""Tables with a row or a column for each side or visit, which the names of images tell: `KL_left`, `month_24` of
`P07_M24_L.dcm`."""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from shared.dataset.survey.column_looks import column_look
from shared.dataset.survey.evidence import Unit, Units
from shared.dataset.survey.naming import evenly
from shared.dataset.survey.table_looks import Apart, Slot, TableLook
from shared.dataset.survey.pieces import braces
from shared.dataset.tables.forms import same

MOST = 12
"""Sides, or visits."""
_ENOUGH = 0.9
_LOOKED_AT = 3000
_APART = re.compile(r"[^\W_]+")
_WORD = re.compile(r"[A-Z]*[a-z]+\d*|[A-Z]+\d*|\d+[A-Za-z]*|[^\W\d_]+")
_SIDES = {
    "left": "l left lt os li links izq izda izquierda izquierdo gauche g sin sinistra sx",
    "right": "r right rt od re rechts der dcha derecha derecho droite droit d dex destra dx",
}
_SIDE = {word: side for side, words in _SIDES.items() for word in words.split()}
_FIRST = re.compile(r"(?:bl|base ?line|base|screening|scr|sc|initial|pre)")
_UNITS = {"m": "m", "mo": "m", "mon": "m", "month": "m", "months": "m", "y": "y", "yr": "y", "year": "y", "years": "y",
          "w": "w", "wk": "w", "week": "w", "weeks": "w", "d": "d", "day": "d", "days": "d",
          "v": "v", "visit": "v", "t": "v", "tp": "v", "timepoint": "v", "ses": "v", "session": "v", "wave": "v",
          "fu": "f", "followup": "f", "follow up": "f"}  # fmt: skip
_NUMBER = re.compile(r"(?:([a-z]+(?: up)?) ?0*(\d+)|0*(\d+) ?([a-z]+))")
_EVENT_ARM = re.compile(r" arm \d+$")
_VISIT = re.compile(r"visit|event|session|time ?point|wave|viscode|\bses\b", re.IGNORECASE)
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


def tell_apart(table: TableLook, units: Units) -> None:
    """Gives a table what of the images' names tells its rows and columns apart, where several images or rows are of one
    key."""
    known = [unit for unit in evenly(units.files, _LOOKED_AT) if table.rows_of(units, unit)]
    if not known or table.pattern or table.more or table.by in ("stem", "path", "fields"):
        return
    slots = {slot: texts for slot in _slots(known) if (texts := _texts(slot, known))}
    rows = [table.rows_of(units, unit) for unit in known]
    if any(len(some) > 1 for some in rows):
        told = max(_by_rows(table, slots, known, rows), key=lambda one: one[0], default=None)
        if told is not None:
            table.apart = told[1]
    for slot, texts in slots.items():
        for stem_of, columns in _by_columns(table, texts).items():
            _add(table, slot, stem_of, columns)


def _slots(known: Sequence[Unit]) -> Iterator[Slot]:
    deepest = max(file.count("/") for _, file in known)
    yield from map(Slot, range(deepest))
    yield from (Slot(-place) for place in range(1, 5))


def _texts(slot: Slot, known: Sequence[Unit]) -> dict[str, str]:
    """Sign -> text of a slot; empty where it is not one of a few in nearly each name."""
    texts = [slot.of(file) for _, file in known]
    found = {text for text in texts if text}
    signs = {sign(text): text for text in found}
    few = 2 <= len(signs) <= MOST and len(found) == len(signs)
    return signs if few and sum(map(bool, texts)) >= _ENOUGH * len(texts) else {}


def _by_rows(
    table: TableLook, slots: Mapping[Slot, Mapping[str, str]], known: Sequence[Unit], rows: Sequence[list[dict[str, str]]]
) -> Iterator[tuple[float, "Apart"]]:
    """Columns whose values are what a slot says, and how many images with several rows have one by them."""
    several = [(unit, some) for unit, some in zip(known, rows, strict=True) if len(some) > 1]
    for column in table.columns:
        if not 2 <= column.distinct <= MOST or column.name == table.key:
            continue
        for slot, texts in slots.items():
            called = {value: texts[one] for value in column.values if (one := sign(value)) in texts}
            worded = all(re.search(r"[^\W\d_]", value) for value in called) or bool(_VISIT.search(column.name))
            if len(called) < 2 or not worded:
                continue
            single = sum(
                sum(called.get(row[column.name]) == slot.of(unit[1]) for row in some) == 1 for unit, some in several
            )
            if single >= _ENOUGH * len(several):
                yield single + 0.1 * len(called), Apart(column.name, slot, called)


def _by_columns(table: TableLook, texts: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """Names of columns that differ in one word, what a slot says, as `grade_{}` -> text of the slot -> column."""
    found: dict[str, dict[str, str]] = defaultdict(dict)
    for column in table.columns:
        if column.name in (table.key, table.apart.column if table.apart else "") or column.names_files > 0.2:
            continue
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
    whole = name.format(braces(slot.field))
    table.sides = {**table.sides, whole: (slot, columns)}
    cells = [{whole: row[column]} for row in table.rows for column in columns.values()]
    table.written = table.written or table.columns
    own = [one for one in table.columns if one.name in columns.values()]
    made = replace(column_look(whole, cells), about=own[0].about, codes=own[0].codes)
    table.columns = [*(one for one in table.columns if one not in own), made]
    for row in table.rows:
        row[whole] = next((row[column] for column in columns.values() if row[column]), "")
