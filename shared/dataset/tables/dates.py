"""Dates and numbers of a column as they follow each other."""

import re
from collections.abc import Sequence
from datetime import date

_ISO = re.compile(r"(\d{4})[-/. ]?(\d{2})[-/. ]?(\d{2})(.*)")
_SHORT = re.compile(r"(\d{1,2})[-/. ](\d{1,2})[-/. ](\d{4}|\d{2})(?!\d)(.*)")
_NUMBER = re.compile(r"-?\d+(?:[.,]\d+)?")

Order = tuple[float, ...]


def orders(texts: Sequence[str]) -> list[Order | None]:
    """Of each text a key that sorts from first to last; None of one that is empty. Raises ValueError where one is
    neither date nor number, or where nothing tells days and months apart."""
    written = [text.strip() for text in texts]
    if all(not text or (_NUMBER.fullmatch(text) and len(text) != 8) for text in written):
        return [None if (number := number_of(text)) is None else (number,) for text in written]
    short = [found for text in written if not _ISO.match(text) and (found := _SHORT.match(text))]
    first, second = (max((int(found[place]) for found in short), default=0) for place in (1, 2))
    if max(first, second) <= 12 and any("/" in found[0] for found in short):
        raise ValueError("nothing tells days and months apart: no number is larger than 12")
    return [_order(text, months_first=second > 12) if text else None for text in written]


def number_of(text: str) -> float | None:
    """A number as people write it; None of any other text."""
    text = text.strip()
    return float(text.replace(",", ".")) if _NUMBER.fullmatch(text) else None


def formatted(texts: Sequence[str], form: str) -> dict[str, str]:
    """Each date as `form` (`%y%m%d`) has it; '' of an empty text. Raises ValueError for what is no date."""
    written = {}
    for text, order in zip(texts, orders(texts), strict=True):
        if order is not None and len(order) < 3:
            raise ValueError(f"{text!r} is no date")
        written[text] = date(int(order[0]), int(order[1]), int(order[2])).strftime(form) if order else ""
    return written


def _order(text: str, months_first: bool) -> Order:
    if found := _ISO.match(text):
        year, month, day = (int(found[place]) for place in (1, 2, 3))
    elif found := _SHORT.match(text):
        day, month, year = (int(found[place]) for place in (1, 2, 3))
        day, month = (month, day) if months_first else (day, month)
        year += 2000 if year < 50 else 1900 if year < 100 else 0
    else:
        raise ValueError(f"{text!r} is neither a date nor a number")
    if not (1 <= month <= 12 and 1 <= day <= 31):
        raise ValueError(f"{text!r} is no date")
    return (year, month, day, *map(float, re.findall(r"\d+(?:\.\d+)?", found[4])))
