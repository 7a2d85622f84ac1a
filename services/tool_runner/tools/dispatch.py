"""From a call's name and arguments to its result. Nothing a core can write makes this raise."""

import asyncio
import errno
import json
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from pydantic import JsonValue, ValidationError

from services.tool_runner.paths import Roots
from services.tool_runner.tools.changing import edit_files, write_files
from services.tool_runner.tools.context import Answer, Context, Execute
from services.tool_runner.tools.copying import copy_files
from services.tool_runner.tools.previewing import preview_dirs, preview_files, propose_rules, try_rules, view_image
from services.tool_runner.tools.reading import list_files, read_files
from services.tool_runner.tools.script import run_script
from services.tool_runner.tools.text import clip, sendable
from shared.contracts.base import ToolArgs
from shared.contracts.starting import STARTERS
from shared.contracts.tools import MAX_READ_CHARS, MAX_RESULT_CHARS, TOOLS, ProposeRules, ReadFiles, ToolResult
from shared.errors import ToolBroken, ToolRefused

_MAX_DATA = 180_000
"""Bytes of `data` and pictures: with the summary they have to fit into one message."""
_OURS = {errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ESTALE}

_Tool = Callable[[Any, Context], Awaitable[Answer]]


def _threaded(function: Callable[[Any, Context], Answer]) -> _Tool:
    async def call(args: Any, context: Context) -> Answer:
        return await asyncio.to_thread(function, args, context)

    return call


_FUNCTIONS: dict[str, _Tool] = {
    "list_files": _threaded(list_files),
    "read_files": _threaded(read_files),
    "copy_files": _threaded(copy_files),
    "write_files": write_files,
    "edit_files": edit_files,
    "run_script": run_script,
    "preview_dirs": preview_dirs,
    "preview_files": preview_files,
    "propose_rules": propose_rules,
    "try_rules": try_rules,
    "view_image": view_image,
}


async def run_tool(
    name: str, arguments: Mapping[str, JsonValue], roots: Roots, execute: Execute, call_id: str
) -> ToolResult:
    """Run one tool. What the core can mend comes back with ok=False and a text that says how; only ToolBroken flies.

    Safe to call twice with the same arguments: a repeated write, edit or copy says that it is already there.
    """
    started = time.monotonic()
    try:
        answer = await _run(name, arguments, Context(roots, execute, call_id))
    except ToolRefused as refused:
        answer = Answer(False, str(refused))
    except OSError as error:
        if error.errno in _OURS:
            raise ToolBroken(f"{name}: {error.strerror}") from error
        answer = Answer(False, f"{name} could not be done: {error.strerror or error}. Check the path and call again.")
    # With proposals that explain little comes the page of rules, which is of no use in parts.
    most = MAX_READ_CHARS if name in (ReadFiles.tool, ProposeRules.tool) else MAX_RESULT_CHARS
    summary, cut = clip(str(sendable(answer.summary)).strip() or f"{name} is done; there is nothing to show.", most)
    data, dropped = _bounded(answer.data, _MAX_DATA - sum(len(one.content) for one in answer.pictures))
    done = answer.executed
    return ToolResult(
        call_id=call_id,
        tool=name,
        ok=answer.ok,
        summary=summary,
        data=data,
        pictures=answer.pictures,
        truncated=answer.truncated or cut or dropped,
        log=done.log if done else None,
        exit_code=done.exit_code if done else None,
        seconds=round(time.monotonic() - started, 3),
        isolation=done.isolation if done else "",
    )


async def _run(name: str, arguments: Mapping[str, JsonValue], context: Context) -> Answer:
    if name in STARTERS:
        raise ToolBroken("handled by the service")
    if name not in _FUNCTIONS:
        raise ToolRefused(f"There is no tool {name}. The tools are {', '.join(_FUNCTIONS)}.")
    try:
        args = TOOLS[name].model_validate(dict(arguments))
    except ValidationError as error:
        raise ToolRefused(_in_words(name, error)) from None
    return await _FUNCTIONS[name](args, context)


def _in_words(name: str, error: ValidationError) -> str:
    model: type[ToolArgs] = TOOLS[name]
    said = []
    for problem in error.errors(include_url=False, include_context=False):
        where = ".".join(str(part) for part in problem["loc"]) or "arguments"
        match problem["type"]:
            case "missing":
                said.append(f"{where} is missing")
            case "extra_forbidden":
                said.append(f"{where} is not an argument of {name}")
            case "tuple_type":
                said.append(f'{where} must be a list, for example ["a.txt"]')
            case _:
                said.append(f"{where}: {problem['msg'][0].lower()}{problem['msg'][1:]}")
    needed = ", ".join(
        f"{key}{'' if field.is_required() else ' (optional)'}" for key, field in model.model_fields.items()
    )
    return f"{name} was not called: {'; '.join(said[:10])}. Its arguments are {needed}."


def _bounded(data: dict[str, JsonValue], most: int) -> tuple[dict[str, JsonValue], bool]:
    """Data that fits into a message: the largest entries go first, by name, until it does."""
    clean = sendable(data)
    assert isinstance(clean, dict)
    sizes = {key: len(json.dumps(value)) for key, value in clean.items()}
    dropped = []
    while sum(sizes.values()) > most:
        largest = max(sizes, key=lambda key: sizes[key])
        dropped.append(largest)
        del sizes[largest], clean[largest]
    if dropped:
        clean["dropped"] = list(dropped)
    return clean, bool(dropped)
