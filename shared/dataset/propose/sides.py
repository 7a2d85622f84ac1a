"""Sides and visits in names as fields of their own, for tables that say them in rows or columns (`survey.sides`)."""

import re
from dataclasses import replace

from shared.contracts.values import Table
from shared.dataset.files.patterns import PatternError, compile
from shared.dataset.propose.draft import Draft
from shared.dataset.survey.naming import evenly
from shared.dataset.survey.pieces import Piece, braces
from shared.dataset.survey.table_looks import Slot, TableLook
from shared.dataset.tables.forms import same
from shared.imaging.formats import suffix_of

_WORD = re.compile(r"(?:\{\w+\}|[^\W_])+")
_CHECKED = 500
_ODD = 0.1
"""Share of the images whose names may hold no side: then they have no row or no value."""


def with_sides(draft: Draft, look: TableLook) -> tuple[Draft, dict[str, dict[str, str]]]:
    """The draft with fields for what tells the rows and columns of a table apart, and `rows` and `called` for the
    table; as it was where names hold them in no order. See `with_days` for days that names write in another form."""
    called: dict[str, str] = {}
    slots = [slot for slot, _ in look.sides.values()]
    for name, (_, columns) in look.sides.items():
        head, _, tail = re.sub(r"\{\w+\}", "\0", name).partition("\0")
        words = {column[len(head) : len(column) - len(tail)]: text for text, column in columns.items()}
        called |= {word: text for word, text in words.items() if same(word) != same(text)}
    slots += [one.slot for one in look.apart]
    for one in look.apart:
        called |= {text: said for text, said in one.called.items() if same(text) != same(said)}
    rows = {one.column: one.slot.field for one in look.apart}
    made: Draft | None = draft
    for slot in dict.fromkeys(slots):
        known = made is None or any(slot.field in piece.fields for piece in made.pieces)
        made = made if known or made is None else _with_field(made, slot)
    return (made, {"rows": rows, "called": called}) if made else (draft, {})


def with_days(table: Table, look: TableLook, draft: Draft) -> Table:
    """A table with the days that its names write in a form of their own in its key, where a field names its rows."""
    days = [one for one in look.apart if one.form and one.column in table.rows]
    if not days or not any(table.names in piece.fields for piece in draft.pieces):
        return table
    written = {text for one in days for text in one.called}
    return table.model_copy(update={
        "key": "/".join([braces(str(table.key)), *(braces(f"{one.column}:{one.form}") for one in days)]),
        "names": "/".join(map(braces, [table.names, *(one.slot.field for one in days)])),
        "rows": {column: field for column, field in table.rows.items() if all(column != one.column for one in days)},
        "called": {text: said for text, said in table.called.items() if text not in written},
    })  # fmt: skip


def sideless(column: str) -> str:
    """What a column of sides is about: `edema` of `edema_{word1}`."""
    return re.sub(r"[\W_]*\{\w+\}[\W_]*$|^\{\w+\}[\W_]*|\{\w+\}", "", column)


def _with_field(draft: Draft, slot: Slot) -> Draft | None:
    able = ("file", "folder", "series") if slot.place >= 0 else ("file",)
    if len(draft.channels) > 1 or draft.case not in able or draft.channels[0].inside:
        return None
    pieces = [(_piece(piece, slot, draft.used), piece) for piece in draft.pieces]
    odd = sum(len(piece.files) for made, piece in pieces if made is None)
    if odd > _ODD * sum(len(piece.files) for _, piece in pieces):
        return None
    kept = tuple(made or piece for made, piece in pieces)
    return draft.change(channels=(replace(draft.channels[0], pieces=kept),))


def _piece(piece: Piece, slot: Slot, used: set[str]) -> Piece | None:
    """With the folder or word as a field; None where another part needs what stands there."""
    parts = piece.pattern.split("/")
    place = slot.place
    if place < 0:
        end = len(parts[-1]) - len(suffix_of(parts[-1]))
        opened, suffix = _opened(piece, parts[-1][:end]), parts[-1][end:]
        words = list(_WORD.finditer(opened))
        first = place - slot.words + 1
        if len(words) < -first:
            return None
        start, stop = words[first].start(), words[place].end()
        word, lead, tail = opened[start:stop], "/".join([*parts[:-1], opened[:start]]), opened[stop:] + suffix
    else:
        word, lead = parts[place], "".join(f"{part}/" for part in parts[:place])
        tail = "".join(f"/{part}" for part in parts[place + 1 :])
    inner = re.findall(r"\{(\w+)\}", word)
    if slot.letters:
        if not used.isdisjoint(inner):
            return None
        forms = (_checked(piece, slot, f"{lead}{form}{tail}") for form in _lettered(word, braces(slot.field)))
        return next(filter(None, forms), None)
    if any(name in used or (braces(name) in lead + tail and word != braces(name)) for name in inner):
        return None
    if inner:
        lead, tail = (text.replace(word, braces(slot.field)) for text in (lead, tail))
    return _checked(piece, slot, f"{lead}{braces(slot.field)}{tail}")


def _lettered(word: str, field: str) -> tuple[str, ...]:
    """Patterns that the word may have with the letters before or behind its number as a field: `{letters1}{part2}` of
    a `{part2}` that is `l1`, `{part2}{letters1}` of `{part2}R`."""
    parts = re.split(r"(\{\w+\})", word)
    if any(parts[::2]):  # letters that are the same in all names of the pattern
        return ("".join(part if at % 2 else re.sub(r"[^\W\d_]+", field, part) for at, part in enumerate(parts)),)
    return f"{field}{word}", f"{word}{field}"


def _checked(piece: Piece, slot: Slot, pattern: str) -> Piece | None:
    """A piece with another pattern; None where the pattern reads something else than the slot says."""
    made = replace(piece, pattern=pattern)
    try:
        looker = compile(made.pattern)
    except PatternError:
        return None
    told = [(looker.match(file) or {}).get(slot.field) == slot.of(file) for file in evenly(piece.sample, _CHECKED)]
    return made if all(told) else None


def _opened(piece: Piece, name: str) -> str:
    """The pattern of a file's name with a field for each word, where one field is several."""
    for field in re.findall(r"\{(\w+)\}", name):
        shapes = {re.sub(r"[^\W_]+", "\0", value) for value in piece.column(field)}
        shape = shapes.pop() if len(shapes) == 1 else ""
        if shape.count("\0") > 1 and braces(field) not in piece.pattern.rpartition("/")[0]:
            for number in range(1, shape.count("\0") + 1):
                shape = shape.replace("\0", braces(f"{field}_{number}"), 1)
            name = name.replace(braces(field), shape)
    return name
