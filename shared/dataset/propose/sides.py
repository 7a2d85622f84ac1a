"""Sides and visits in names as fields of their own, for tables that say them in rows or columns (`survey.sides`)."""

import re
from dataclasses import replace

from shared.dataset.files.patterns import PatternError, compile
from shared.dataset.propose.draft import Draft
from shared.dataset.survey.naming import evenly
from shared.dataset.survey.pieces import Piece, braces
from shared.dataset.survey.table_looks import Slot, TableLook
from shared.dataset.tables.forms import same
from shared.imaging.formats import suffix_of

_WORD = re.compile(r"(?:\{\w+\}|[^\W_])+")
_CHECKED = 500


def with_sides(draft: Draft, look: TableLook) -> tuple[Draft, dict[str, dict[str, str]]]:
    """The draft with fields for what tells the rows and columns of a table apart, and `rows` and `called` for the
    table; as it was where names hold them in no order."""
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
        made = _with_field(made, slot) if made and slot.field not in made.pieces[0].fields else made
    return (made, {"rows": rows, "called": called}) if made else (draft, {})


def sideless(column: str) -> str:
    """What a column of sides is about: `edema` of `edema_{word1}`."""
    return re.sub(r"[\W_]*\{\w+\}[\W_]*$|^\{\w+\}[\W_]*|\{\w+\}", "", column)


def _with_field(draft: Draft, slot: Slot) -> Draft | None:
    able = ("file", "folder", "series") if slot.place >= 0 else ("file",)
    if len(draft.channels) > 1 or draft.case not in able or draft.channels[0].inside:
        return None
    pieces = [_piece(piece, slot, draft.used) for piece in draft.pieces]
    made = tuple(piece for piece in pieces if piece)
    return draft.change(channels=(replace(draft.channels[0], pieces=made),)) if len(made) == len(pieces) else None


def _piece(piece: Piece, slot: Slot, used: set[str]) -> Piece | None:
    """With the folder or word as a field; None where another part needs what stands there."""
    parts = piece.pattern.split("/")
    place = slot.place
    if place < 0:
        end = len(parts[-1]) - len(suffix_of(parts[-1]))
        opened, suffix = _opened(piece, parts[-1][:end]), parts[-1][end:]
        words = list(_WORD.finditer(opened))
        if len(words) <= -place:
            return None
        start, stop = words[place].span()
        word, lead, tail = opened[start:stop], "/".join([*parts[:-1], opened[:start]]), opened[stop:] + suffix
    else:
        word, lead = parts[place], "".join(f"{part}/" for part in parts[:place])
        tail = "".join(f"/{part}" for part in parts[place + 1 :])
    inner = re.findall(r"\{(\w+)\}", word)
    if any(name in used or (braces(name) in lead + tail and word != braces(name)) for name in inner):
        return None
    if inner:
        lead, tail = (text.replace(word, braces(slot.field)) for text in (lead, tail))
    made = replace(piece, pattern=f"{lead}{braces(slot.field)}{tail}")
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
