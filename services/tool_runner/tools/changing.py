"""write_files and edit_files: with copy_files the only ones that change the workspace from the runner's own process."""

import asyncio
import difflib
import hashlib
import json
import os
import re
from dataclasses import dataclass

from pydantic import JsonValue

from services.tool_runner.paths import Place, kind_of, open_file
from services.tool_runner.tools.context import Answer, Context
from services.tool_runner.tools.staging import Staging
from services.tool_runner.tools.syntax import find_problem
from services.tool_runner.tools.text import clip, count_text, decode, numbered, size_text
from services.tool_runner.tools.yaml_keys import as_config, near, set_keys, value_of
from shared.contracts.tools import MAX_RESULT_CHARS, EditFiles, WriteFiles
from shared.errors import ToolRefused

_MAX_TEXT = 2_000_000


async def write_files(args: WriteFiles, context: Context) -> Answer:
    places = {path: context.roots.locate(path, for_write=True) for path in args.files}
    if len({place.parts for place in places.values()}) < len(places):
        raise ToolRefused("Two of the paths name the same file. Give each file once. Nothing was written.")
    problems = []
    for path, text in args.files.items():
        if len(text) > _MAX_TEXT:
            raise ToolRefused(f"{path} has more than {_MAX_TEXT:,} characters. Make such a file with run_script.")
        _encode(path, text)
        if problem := await find_problem(places[path].virtual, text, context.execute):
            problems.append(str(problem))
    if problems:
        raise ToolRefused("Nothing was written.\n" + "\n".join(problems))
    return await asyncio.to_thread(_write, args, places)


def _write(args: WriteFiles, places: dict[str, Place]) -> Answer:
    written: dict[str, JsonValue] = {}
    unchanged: list[str] = []
    diffs: list[str] = []
    refused: list[str] = []
    with Staging() as staging:
        for path, text in args.files.items():
            place = places[path]
            content = _encode(path, text)
            old = _content(place)
            if old == content:
                unchanged.append(place.virtual)
                continue
            if old is not None and not args.overwrite:
                refused.append(place.virtual)
                continue
            staging.add(place, content)
            lines = len(text.splitlines())
            written[place.virtual] = {
                "lines": lines,
                "size": len(content),
                "sha256": hashlib.sha256(content).hexdigest(),
            }
            if old is not None and args.diff:
                diffs.append(_diff(place, decode(old)[0], text))
        if refused:
            raise ToolRefused(
                f"Nothing was written: {', '.join(refused)} exists with other content. "
                "Use edit_files to change it, or set overwrite to replace it."
            )
        staging.commit()
    total = sum(len(text.splitlines()) for path, text in args.files.items() if places[path].virtual in written)
    said = []
    if written:
        said.append(f"Wrote {count_text(len(written), 'file')}, {count_text(total, 'line')}: {', '.join(written)}.")
    if unchanged:
        said.append(f"Already there with the same content: {', '.join(unchanged)}.")
    text, cut = clip("\n".join([*said, *diffs]), MAX_RESULT_CHARS)
    return Answer(True, text, {"written": written, "unchanged": list(unchanged)}, truncated=cut)


async def edit_files(args: EditFiles, context: Context) -> Answer:
    place = context.roots.locate(args.path, for_write=True)
    raw = await asyncio.to_thread(_content, place)
    if raw is None:
        raise ToolRefused(
            f"{place.virtual} does not exist. Use write_files to create it, list_files to see what is there."
        )
    if len(raw) > _MAX_TEXT or b"\0" in raw[:8192]:
        raise ToolRefused(
            f"{place.virtual} is binary or too long to edit ({size_text(len(raw))}). Change it with run_script."
        )
    text, encoding = decode(raw)
    change = await asyncio.to_thread(_keys_set if args.set else _text_replaced, place, text, args)
    if change.text == text:
        return Answer(True, change.said, {"path": place.virtual, "already_applied": True})
    if problem := await find_problem(place.virtual, change.text, context.execute):
        raise ToolRefused(f"Nothing was changed, since the result would not parse.\n{problem}")
    try:
        content = change.text.encode(encoding)
    except UnicodeEncodeError:
        content = change.text.encode("utf-8", "replace")
    await asyncio.to_thread(_replace, place, raw, content)
    data: dict[str, JsonValue] = {"path": place.virtual, "line": change.line, "already_applied": False}
    shown, cut = clip(_diff(place, text, change.text), MAX_RESULT_CHARS - 200) if args.diff else ("", False)
    return Answer(True, f"{change.said}\n{shown}".strip(), data, truncated=cut)


@dataclass(frozen=True)
class _Change:
    """What an edit makes of a text, the first line that it touches, and how it is told."""

    text: str
    line: int
    said: str


def _keys_set(place: Place, text: str, args: EditFiles) -> _Change:
    if not place.name.endswith((".yaml", ".yml")):
        raise ToolRefused(f"{place.virtual} is no YAML, of which keys can be set. Give old and new.")
    config, changed = as_config(place.virtual, text), set_keys(place.virtual, text, args.set)
    told = []
    for key, value in args.set.items():
        new = json.dumps(value, ensure_ascii=False)
        try:
            old = json.dumps(value_of(config, key), ensure_ascii=False, default=str)  # as text: true is not 1
            told += [] if old == new else [f"{key} {_short(old)} -> {_short(new)}"]
        except KeyError:
            told.append(f"{key} {_short(new)}, which was not there.{near(config, key)}")
    if not told:
        return _Change(text, 1, f"Already applied: the keys of {place.virtual} have these values.")
    pairs = zip(text.splitlines(), changed.splitlines(), strict=False)
    line = next((number for number, (one, other) in enumerate(pairs, 1) if one != other), 1)
    return _Change(changed, line, f"Set in {place.virtual}: {'; '.join(told)}")


def _short(text: str) -> str:
    return text if len(text) <= 80 else f"{text[:77]}..."


def _text_replaced(place: Place, text: str, args: EditFiles) -> _Change:
    old, new = args.old, str(args.new)
    if old == new:
        raise ToolRefused(
            "old and new are the same text. Nothing to do; give the text that should stand there instead."
        )
    if "\r\n" in text and "\r\n" not in old and old not in text:
        old, new = old.replace("\n", "\r\n"), new.replace("\n", "\r\n")
    at = _occurrences(text, old)
    # Where new contains old, a repeated edit would apply a second time: each old must stand outside of every new.
    inside = _occurrences(text, new) if new and old in new else []
    fresh = [start for start in at if not any(begin <= start < begin + len(new) for begin in inside)]
    if (not at and new and new in text) or (at and not fresh):
        line = text[: text.find(new)].count("\n") + 1
        said = f"Already applied: {place.virtual} has the new text at line {line}, and the old text nowhere else."
        return _Change(text, line, said)
    if not at:
        raise ToolRefused(f"The old text is not in {place.virtual}. Nothing was changed.\n{_nearest(text, old)}")
    if len(at) > 1:
        lines = ", ".join(str(text[:start].count("\n") + 1) for start in at[:50])
        raise ToolRefused(
            f"The old text occurs {len(at)} times in {place.virtual}, at lines {lines}. Nothing was changed. "
            "Give more of the lines around the one you mean."
        )
    line = text[: at[0]].count("\n") + 1
    gone, come = (count_text(len(part.splitlines()), "line") for part in (old, new))
    said = f"Edited {place.virtual} at line {line}: {come} in place of {gone}."
    return _Change(text[: at[0]] + new + text[at[0] + len(old) :], line, said)


def _replace(place: Place, before: bytes, content: bytes) -> None:
    with Staging() as staging:
        staging.add(place, content)
        if _content(place) != before:
            raise ToolRefused(f"{place.virtual} was changed by something else meanwhile. Read it again, then edit.")
        staging.commit()


def _content(place: Place) -> bytes | None:
    if kind_of(place) == "nothing":
        return None
    with open_file(place) as file:
        if os.fstat(file.fileno()).st_size > 4 * _MAX_TEXT:
            raise ToolRefused(f"{place.virtual} is too big to replace or edit as text. Use run_script.")
        return file.read()


def _encode(path: str, text: str) -> bytes:
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError:
        raise ToolRefused(
            f"{path}: the text has characters that UTF-8 cannot hold (lone surrogates). Remove them."
        ) from None


def _occurrences(text: str, part: str) -> list[int]:
    found, start = [], text.find(part)
    while start >= 0:
        found.append(start)
        start = text.find(part, start + 1)
    return found


def _diff(place: Place, before: str, after: str) -> str:
    name = place.virtual.lstrip("/")
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), f"a/{name}", f"b/{name}", n=3, lineterm="")
    return "\n".join(lines)


def _nearest(text: str, old: str) -> str:
    """Where the core most likely meant: the same text with other white space, else the most similar lines."""
    lines = text.splitlines()[:20_000]
    wanted = [line for line in old.splitlines() if line.strip()] or [old]
    squeezed = [re.sub(r"\s+", "", line) for line in lines]
    first = re.sub(r"\s+", "", wanted[0])
    exact = [number for number, line in enumerate(squeezed, 1) if first and line == first]
    if exact:
        places = "\n...\n".join(numbered(lines, number, len(wanted) + 1) for number in exact[:3])
        return (
            f"Its first line stands here with the same words; compare white space and the lines that follow:\n{places}"
        )
    near = difflib.get_close_matches(
        wanted[0].strip(), {line.strip() for line in lines if line.strip()}, n=3, cutoff=0.4
    )
    numbers = [number for word in near for number, line in enumerate(lines, 1) if line.strip() == word][:3]
    if not numbers:
        return "No line resembles it. Read the file again with read_files."
    return "The nearest lines:\n" + "\n...\n".join(numbered(lines, number, 2) for number in numbers)
