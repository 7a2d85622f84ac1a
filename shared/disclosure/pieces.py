"""A text in pieces that can be judged: words, numbers, dates, and what stands between."""

import re
import urllib.parse
from dataclasses import dataclass

from shared.disclosure.known import known
from shared.disclosure.surrogates import DATE

_ESCAPED = r"\\u[0-9a-fA-F]{4}|\\x[0-9a-fA-F]{2}|%[0-9a-fA-F]{2}|&\#?\w{1,8};"
_JOINED = (
    r"\\(?!u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2})[A-Za-z]"
    rf"|(?P<joined>(?:\w|{_ESCAPED}|(?<=\w)[./+^\-](?=[\w\\%]))+)"
)
"""What is written in one: a path, a name with its ending, an identifier, a number. `\\n` and `\\d` are none."""
_DAY, _MONTH = r"(?:0[1-9]|[12]\d|3[01])", r"(?:0[1-9]|1[0-2])"
_OF_A_PERSON = (
    rf"(?<![\d.])(?:(?:0?[1-9]|1[0-2])(?P<s3>[-/.])(?:0?[1-9]|{_DAY})(?P=s3)(?:19|20)\d\d"
    rf"|{_DAY}(?P<s4>[-/.]){_DAY}(?P=s4)\d\d|\d\d-{_MONTH}-{_DAY}"
    r"|(?=(?:\d-?){8})\d{2,4}(?:-\d{2,4}){2,})(?!\.?\d)"
)
"""Dates with the month first or with two digits of a year, grouped numbers: `2/13/1957`, `03.02.57`, `219-09-9999`."""
_ALONE, _END = r"(?<![\w.(\[])(?<![\d(\[] )", r"(?![\w)\]]|\.\d| \d)"
_SPACED = (
    rf"{_ALONE}(?:\d{{3}} \d{{2,3}} \d{{4}}|(?:\+\d{{1,3}}|0\d{{1,4}})(?: \d{{2,4}}){{2,4}}"
    r"|(?<=[\"',;|])\d{2,4}(?: \d{2,4}){2,4}(?=[\"',;|]))" + _END
)
"""Numbers of a person in groups: `943 476 5919`, `219 09 9999`, `+48 601 234 567`; all of a cell, also `601 234 567`.
In brackets or beside other numbers they are sizes and positions."""
_PIECE = re.compile(
    rf"(?P<date>{DATE.pattern}|{_OF_A_PERSON})"
    rf"|(?P<uid>(?<![\d.])\d+(?:(?:\.\d+){{3,}}|\.\d+\.\d{{9,}})(?!\.?\d))"
    rf"|(?P<word>(?:[^\W_]|{_ESCAPED})+)|(?P<gap>.)",
    re.DOTALL,
)
_WHOLE = re.compile(rf"(?P<spaced>{_SPACED})|{_JOINED}")
_LED = re.compile(r"([^\W\d_]+)(\d+)")
LINK = re.compile(r"[,.;]?(?: |\n|\\n)+")
"""Between words of a text."""


@dataclass
class Piece:
    text: str
    kind: str
    """word (letters), digits, mixed (letters with digits or escapes), date, uid, or gap: what stands between."""
    of: int
    """Number of what it is written in one with; -1 for gaps between those."""
    shown: bool = True
    supported: bool = False
    """Whether the word beside it follows it in a text of ours, too."""
    public: bool = False


def pieces(text: str) -> list[Piece]:
    """All of a text, in order."""
    found: list[Piece] = []
    end = 0
    for number, joined in enumerate(one for one in _WHOLE.finditer(text) if one["joined"] or one["spaced"]):
        if joined.start() > end:
            found.append(Piece(text[end : joined.start()], "gap", -1))
        found += [Piece(joined[0], "date", number)] if joined["spaced"] else _written_in_one(joined[0], number)
        end = joined.end()
    if end < len(text):
        found.append(Piece(text[end:], "gap", -1))
    return found


def _written_in_one(text: str, number: int) -> list[Piece]:
    found = []
    for piece in _PIECE.finditer(text):
        one, kind = piece[0], next(name for name in ("date", "uid", "word", "gap") if piece[name])
        if kind == "word" and one.isdecimal():
            kind = "digits"
        elif kind == "word" and not one.isalpha():
            kind = "mixed"
            if one not in known().exact and (led := _LED.fullmatch(one)):
                found.append(Piece(led[1], "word", number))
                one, kind = led[2], "digits"
        found.append(Piece(one, kind, number))
    return found


def plain(text: str) -> str:
    """Without escapes."""
    if "\\" in text:
        text = re.sub(r"\\(?:u(.{4})|x(.{2}))", lambda found: chr(int(found[1] or found[2], 16)), text)
    return urllib.parse.unquote(text) if "%" in text else text


def beside(found: list[Piece], number: int, step: int) -> str:
    """The word before (-1) or behind (1) a piece, in lower case; empty where something else stands there."""
    gap, word = number + step, number + 2 * step
    if 0 <= word < len(found) and found[word].kind == "word" and LINK.fullmatch(found[gap].text):
        return found[word].text.lower()
    return ""


def in_one(found: list[Piece]) -> list[list[int]]:
    """Places of the pieces that are written in one."""
    wholes: dict[int, list[int]] = {}
    for at, one in enumerate(found):
        if one.of >= 0:
            wholes.setdefault(one.of, []).append(at)
    return list(wholes.values())
