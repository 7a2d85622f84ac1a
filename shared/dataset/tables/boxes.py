"""Forms as REDCap and others export them: a column for each check box of a question, one for the state of each form,
one for each upload, and the records of a study, which are its people."""

import re
from collections.abc import Collection, Iterable, Sequence

_BOX = re.compile(r"(.+?)___(\w+)|(.+?) \(choice=(.+)\)", re.DOTALL)
_OWN = re.compile(r"redcap_(?:event_name|repeat_instrument|repeat_instance|data_access_group|survey_identifier)")
"""Columns that no one else names so."""
_STATE = re.compile(r".+_complete|complete\?", re.IGNORECASE)
_RAW, _WORDED = {"0", "1", "2"}, {"incomplete", "unverified", "complete"}
"""States of a form as numbers and in words."""

_UPLOAD = re.compile(r"\[document\]|[^/\\]+\.[a-z]\w{1,4}", re.IGNORECASE)
"""A cell of a column of uploads: what REDCap writes there, or the name that the file had."""


def box(header: str) -> tuple[str, str]:
    """Question and answer of a check box: `signs` and `2` of `signs___2`, which is `Signs (choice=Oedema)` with labels;
    both empty for any other column."""
    found = _BOX.fullmatch(header)
    question, answer = (found[1] or found[3], found[2] or found[4]) if found else ("", "")
    return question, re.sub(r"^_(?=\d)", "-", answer)  # no header may hold the sign of a number


def is_record(headers: Sequence[str]) -> bool:
    """Whether the first column numbers the people of a study."""
    forms = any(map(_STATE.fullmatch, headers)) and re.fullmatch(r"record[_ ]id", headers[0], re.IGNORECASE)
    return any(map(_OWN.fullmatch, headers)) or bool(forms)


def complete(header: str, values: Collection[str]) -> tuple[str, ...] | None:
    """Of a column with the states of a form the value by which it is complete; None of any other column."""
    held = {value.lower() for value in values}
    worded = held <= _WORDED and len(held) > 1
    if not worded and not (_STATE.fullmatch(header) and held <= _RAW):
        return None
    return tuple(value for value in values if value.lower() in ("2", "complete"))


def are_uploads(cells: Iterable[str]) -> bool:
    """Whether the cells of a column say that a file was uploaded."""
    held = [bool(_UPLOAD.fullmatch(cell)) for cell in cells if cell]
    return bool(held) and all(held)
