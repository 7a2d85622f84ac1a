"""Which kinds of images a request means, by words that files use, too: `PA views`, `the processed scans`."""

import re
from collections.abc import Sequence

from shared.dataset.survey.naming import evenly
from shared.dataset.survey.pieces import Piece
from shared.dataset.survey.splits import split_of
from shared.dataset.survey.table_looks import TableLook
from shared.dataset.tables.column_words import label_likeness
from shared.dataset.tables.words import overlap, says_nothing, wanted

_WORD = re.compile(r"[^\W_]+")
_WEIGHTED = re.compile(r"\b(T[12]|PD)[- ]?weighted", re.I)
_WORDS = 200
"""Of names of files that are looked at."""
_LOOKED_AT = 2000
_ENOUGH = 0.3
"""Of the largest kind of files: with fewer, those that are named are hardly what is meant."""
_LONGEST = 8
"""Words of a value, as a request may write them apart."""
_FEWEST_ROWS = 4
_SHORT = 3
"""Letters up to which a word counts only as it is written: `PA`, `pre`."""


def chosen(target: str, values: Sequence[str], most: int = 12) -> tuple[str, ...]:
    """Of 2 to `most` values those that the request names, or all but those that it does not want; empty where it says
    nothing of them, or names all."""
    if not 2 <= len(values) <= most:
        return ()
    said, refused = map(_short, wanted(target))
    named = [value for value in values if _stands(value, said) or any(code in value for code in _codes(said))]
    kept = [value for value in named or values if not _stands(value, refused)]
    return tuple(kept) if 0 < len(kept) < len(values) else ()


def unasked(header: str, values: Sequence[str], target: str) -> tuple[str, ...]:
    """Values of a column of how images were taken that the request does not mean."""
    # What stands beside `normal` is a class, and beside `train` a side.
    if label_likeness(header) > 0.1 or any(split_of(value) or says_nothing(value) for value in values):
        return ()
    kept = chosen(target, values)
    return tuple(value for value in values if value not in kept) if kept else ()


def classes_beside(tables: Sequence[TableLook], target: str) -> bool:
    """Whether a table that leads to no image has a column of the classes that the request lists: then parts of names
    which it does not mention are hardly the classes."""
    for table in tables:
        if table.key is None and not table.pattern and len(table.rows) >= _FEWEST_ROWS:
            for column in table.columns:
                values = {text.casefold() for text in column.values if not text.isdecimal()}
                if sum(overlap(target, text) >= 1 for text in values) > 1:
                    return True
    return False


def _codes(target: str) -> list[str]:
    """Words that are copied from names: `t2_tse_tra`."""
    return [code for code in re.findall(r"\w+", target) if "_" in code.strip("_")]


def _short(text: str) -> str:
    """With sequences as names of files have them, too: `T1w` beside `T1-weighted`."""
    return text + " " + " ".join(f"{found[1]}w" for found in _WEIGHTED.finditer(text))


def _stands(value: str, text: str) -> bool:
    """Whether the words of a value stand in a text one after the other, however they are joined (`T2SPIR`)."""
    sought, said = "".join(_WORD.findall(value)), _WORD.findall(text)
    if len(sought) < 2 or not re.search(r"[A-Za-z]", sought):
        return False
    if len(sought) > _SHORT:
        sought, said = sought.lower(), [word.lower() for word in said]
    spans = ((start, start + many) for start in range(len(said)) for many in range(1, _LONGEST + 1))
    return any("".join(said[start:end]) == sought for start, end in spans)


def meant_pieces(pieces: Sequence[Piece], target: str) -> list[Piece]:
    """The parts of pieces whose names hold most of what the request names; empty where it names none of several."""
    parts = [part for piece in pieces for part in _parts(piece, target)]
    own = [_words(part.pattern) | {code for code in _codes(target) if code in part.pattern} for part in parts]
    common = set.intersection(*own)
    apart = sorted({word for words in own for word in words - common if not split_of(word)})
    kept = set(() if any(map(says_nothing, apart)) else chosen(target, apart, _WORDS))
    most = max(len(words & kept) for words in own)
    parts = [part for part, words in zip(parts, own, strict=True) if len(words & kept) == most]
    held, whole = (sum(len(one.files) for one in some) for some in (parts, pieces))
    return parts if _ENOUGH * max(len(one.files) for one in pieces) <= held < whole else []


def _words(pattern: str) -> set[str]:
    return set(_WORD.findall(re.sub(r"\{\w+\}", " ", pattern)))


def _parts(piece: Piece, target: str) -> list[Piece]:
    for name in piece.fields:
        values = sorted({*evenly(piece.column(name), _LOOKED_AT)})
        # What stands beside `normal` is a class, and beside `train` a side.
        kinds = not any(split_of(value) or says_nothing(value) for value in values)
        if kinds and (kept := chosen(target, values)):
            return [part for value, one in piece.split(name).items() if value in kept for part in _parts(one, target)]
    return [piece]
