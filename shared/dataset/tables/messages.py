"""HL7 v2 messages as records: a row for each order (OBR) of a message, with its report as `text`.

Columns are called as the standard calls fields: `OBR-3` is its first component, `OBR-4.2` a further one.
"""

import re
from collections.abc import Iterator, Sequence

Record = dict[str, str]
_SEGMENT = re.compile(r"[A-Z][A-Z0-9]{2}(?=.)")
_CODED = ("CE", "CWE", "CNE")
_TEXTS = (*_CODED, "TX", "FT", "ST", "")
"""Types of values (OBX-2) that are read as text; others are numbers, documents and pictures."""
_CALLED = {"PID-3": "PID-3 patient", "OBR-25": "OBR-25 status"}
_STATES = {"P": "preliminary", "R": "preliminary", "F": "final", "C": "corrected"}
"""Of OBR-25, in words."""
_FORMAT = re.compile(r"(?i)\.(?:br|sp|ce|in|ti|fi|nf|sk)[ +\-\d]*")


def records(text: str) -> list[Record]:
    """The orders of all messages in a text; a message without one is a record, too."""
    found: list[Record] = []
    for message in re.split(r"(?m)^[\x0b\ufeff ]*(?=MSH.)", text.replace("\r", "\n"))[1:]:
        found += _orders(list(_segments(message)))
    return found


def _segments(message: str) -> Iterator[list[str]]:
    """Segments as fields; a line that is no segment goes on with the one before."""
    mark = message[3]
    lines: list[str] = []
    for line in re.split(r"[\n\x1c]+", message):
        if _SEGMENT.match(line) and line[3:4] == mark:
            lines.append(line)
        elif lines and line.strip():
            lines[-1] += "\n" + line
    for line in lines:
        fields = line.split(mark)
        # The mark itself is the first field of MSH.
        yield [fields[0], mark, *fields[1:]] if fields[0] == "MSH" else fields


def _orders(segments: Sequence[list[str]]) -> Iterator[Record]:
    marks = _marks(segments[0])
    common: Record = {}
    orders: list[tuple[Record, list[str]]] = []
    for fields in segments:
        if fields[0] == "OBR":
            orders.append((dict(common), []))
        if fields[0] == "OBX" and orders and len(fields) > 5 and fields[2] in _TEXTS:
            orders[-1][1].append(_text(fields[5], marks, fields[2] in _CODED))
        if fields[0] not in ("OBX", "NTE"):
            record = orders[-1][0] if orders else common
            record.update({name: value for name, value in _named(fields, marks).items() if name not in record})
    for record, lines in orders:
        state = record.get(_CALLED["OBR-25"], "")
        said = {_CALLED["OBR-25"]: _STATES[state]} if state in _STATES else {}
        yield record | said | {"text": "\n".join(lines).strip()}
    if not orders:
        yield common


def _marks(header: Sequence[str]) -> str:
    """Of components, repetitions, escapes and subcomponents."""
    return (header[2] if len(header) > 2 else "").ljust(4, "\0")


def _named(fields: Sequence[str], marks: str) -> Record:
    found: Record = {}
    for number, field in enumerate(fields[1:], 1):
        if fields[0] == "MSH" and number < 3:
            continue
        name = f"{fields[0]}-{number}"
        for place, part in enumerate(field.split(marks[1])[0].split(marks[0]), 1):
            if value := _plain(part, marks).strip(' "'):  # two quotes stand for a value that was deleted
                found[_CALLED.get(name, name) if place == 1 else f"{name}.{place}"] = value
    return found


def _text(field: str, marks: str, coded: bool) -> str:
    """A value as lines: repetitions are lines of their own, and of a coded value its text counts."""
    lines = [one.split(marks[0])[:2][-1] if coded else one for one in field.split(marks[1])]
    return "\n".join(_plain(line, marks) for line in lines)


def _plain(text: str, marks: str) -> str:
    """Without escapes: `\\T\\` is `&`, `\\.br\\` a new line."""
    escape = marks[2]
    if escape not in text:
        return text
    signs = {"F": "|", "S": marks[0], "R": marks[1], "E": escape, "T": marks[3], "H": "", "N": ""}

    def meant(found: re.Match[str]) -> str:
        code = found[1]
        if code in signs:
            return signs[code]
        if _FORMAT.fullmatch(code):
            return "\n" if code[1:3].lower() in ("br", "sp", "ce") else " "
        if re.fullmatch(r"X(?:[0-9A-Fa-f]{2})+", code):
            return bytes.fromhex(code[1:]).decode("utf-8", "replace")
        return found[0]

    mark = re.escape(escape)
    return re.sub(rf"{mark}([^{mark}\n]{{1,40}}){mark}", meant, text)
