"""Text for a core: bounded, tidy, never silently cut."""

import math
import re
from collections.abc import Sequence

from pydantic import JsonValue

_ANSI = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")


def natural_key(name: str) -> list[tuple[int, int, str]]:
    """Sort key that puts `slice 9` before `slice 10`, whatever the case."""
    return [(0, int(part), "") if part.isdecimal() else (1, 0, part.casefold()) for part in re.split(r"(\d+)", name)]


def size_text(size: int) -> str:
    if size < 1000:
        return f"{size} B"
    value = float(size)
    for unit in ("kB", "MB", "GB"):
        value /= 1000
        if value < 1000:
            return f"{value:.1f} {unit}"
    return f"{value / 1000:.1f} TB"


def count_text(number: int, one: str, many: str | None = None) -> str:
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def clip(text: str, limit: int, first: int = 1, of: int = 0, more: str = "") -> tuple[str, bool]:
    """Head and tail of a text of more than `limit` characters, with the lines that are left out named between them.

    `first` is the number of the text's first line in a file of `of` lines; `more` says how to get at a line, as
    `read with first_line={}`.
    """
    if len(text) <= limit:
        return text, False
    head_room, tail_room = int(limit * 0.4), int(limit * 0.6) - 120
    head, tail = text[:head_room], text[-tail_room:] if tail_room > 0 else ""
    # Cut at line ends unless the lines are longer than the room.
    head = head[: head.rfind("\n") + 1] or head
    start = tail.find("\n")
    tail = tail[start + 1 :] if 0 <= start < len(tail) - 1 else tail
    before, lines = head.count("\n"), text[len(head) : len(text) - len(tail)].count("\n")
    if lines:
        total = of or text.rstrip("\n").count("\n") + 1
        gone = f"lines {first + before:,} to {first + before + lines - 1:,} of {total:,} left out"
        gone += f"; {more.format(first + before)}" if more else ""
    else:
        gone = f"characters {len(head) + 1:,} to {len(text) - len(tail):,} of {len(text):,} left out"
    return f"{head.rstrip(chr(10))}\n[... {gone} ...]\n{tail}", True


def share(lengths: Sequence[int], room: int) -> list[int]:
    """How many characters each text may take when all must fit into `room`: short ones whole, long ones evenly."""
    allowed = [0] * len(lengths)
    open_ones = sorted(range(len(lengths)), key=lambda index: lengths[index])
    for position, index in enumerate(open_ones):
        even = room // (len(open_ones) - position)
        allowed[index] = min(lengths[index], even)
        room -= allowed[index]
    return allowed


def numbered(lines: Sequence[str], centre: int, around: int = 5) -> str:
    """Lines around `centre` (counted from 1) with their numbers, the centre marked."""
    first = max(1, centre - around)
    last = min(len(lines), centre + around)
    shown = (
        f"{'>' if number == centre else ' '}{number:5d} | {lines[number - 1][:200]}"
        for number in range(first, last + 1)
    )
    return "\n".join(shown)


def decode(data: bytes) -> tuple[str, str]:
    """Text and the name of its encoding: UTF-8, else Latin-1, which never fails."""
    try:
        return data.decode("utf-8"), "utf-8"
    except UnicodeDecodeError:
        return data.decode("latin-1"), "latin-1"


def tidy_output(output: bytes) -> str:
    """Program output as it would look on a screen: colours gone, progress bars at their last state, repeats counted."""
    text = _ANSI.sub("", output.decode("utf-8", "replace")).replace("\r\n", "\n")
    lines: list[str] = []
    repeats = 0
    for raw in text.split("\n"):
        states = [state for state in raw.split("\r") if state.strip()] if "\r" in raw else [raw]
        line = (states[-1] if states else "").replace("\0", "").rstrip()
        if lines and line == lines[-1] and line:
            repeats += 1
            continue
        if repeats:
            lines.append(f"[the line above {count_text(repeats, 'more time')}]")
        repeats = 0
        lines.append(line)
    if repeats:
        lines.append(f"[the line above {count_text(repeats, 'more time')}]")
    return "\n".join(lines).strip("\n")


def sendable(value: JsonValue) -> JsonValue:
    """The same value fit for JSON: file names that are no UTF-8 get replacement marks, NaN and infinity become null."""
    match value:
        case str():
            return value.encode("utf-8", "replace").decode("utf-8")
        case float() if not math.isfinite(value):
            return None
        case dict():
            return {str(sendable(key)): sendable(item) for key, item in value.items()}
        case list() | tuple():
            return [sendable(item) for item in value]
        case _:
            return value
