"""Previews, rules and views: image parsers run as probes in the sandbox, never in this process."""

import asyncio
import base64
import binascii
import json
import re

from pydantic import JsonValue

from services.tool_runner.paths import Place, kind_of, open_file
from services.tool_runner.tools.context import Answer, Context, Executed
from services.tool_runner.tools.staging import Staging
from services.tool_runner.tools.text import clip, tidy_output
from shared.contracts.tools import MAX_RESULT_CHARS, PreviewDirs, PreviewFiles, ProposeRules, TryRules, ViewImage
from shared.errors import ToolRefused

_SECONDS = 180.0
_RULES_SECONDS = 570.0
_MAX_PNG = 150_000


async def preview_dirs(args: PreviewDirs, context: Context) -> Answer:
    return await _probe(context, "preview_dirs.py", await _folder(context, args.path))


async def propose_rules(args: ProposeRules, context: Context) -> Answer:
    return await _probe(context, "propose_rules.py", args.model_dump_json(), seconds=_RULES_SECONDS)


async def try_rules(args: TryRules, context: Context) -> Answer:
    place = context.roots.locate(args.path, for_write=args.text is not None)
    if place.parts and not place.virtual.startswith("/workspace/"):
        raise ToolRefused("rules lie in the workspace: give a path below /workspace")
    if args.text is not None:
        await asyncio.to_thread(_write, place, args.text.encode())
    return await _probe(context, "resolve_rules.py", place.virtual, seconds=_RULES_SECONDS)


async def _folder(context: Context, path: str) -> str:
    place = context.roots.locate(path)
    kind = await asyncio.to_thread(kind_of, place)
    if kind == "file":
        raise ToolRefused(f"{place.virtual} is a file. Use preview_files.")
    if kind == "nothing":
        context.roots.resolve(path)
    return place.virtual


async def preview_files(args: PreviewFiles, context: Context) -> Answer:
    there: list[str] = []
    errors: dict[str, JsonValue] = {}
    for path in dict.fromkeys(args.paths):
        try:
            place = context.roots.locate(path)
            with open_file(place):
                there.append(place.virtual)
        except ToolRefused as refused:
            errors[path] = {"error": str(refused)}
    notes = "".join(f"\n{path}: {entry['error']}" for path, entry in errors.items() if isinstance(entry, dict))
    if not there:
        return Answer(False, f"None of the files could be opened.{notes}", {"files": errors})
    answer = await _probe(context, "preview_files.py", "--rows", str(args.rows), *there)
    files = answer.data.get("files")
    data: dict[str, JsonValue] = {**answer.data, "files": {**(files if isinstance(files, dict) else {}), **errors}}
    return Answer(answer.ok, answer.summary + notes, data, answer.truncated, answer.executed)


async def view_image(args: ViewImage, context: Context) -> Answer:
    place = context.roots.locate(args.path)
    await asyncio.to_thread(_must_exist, place)
    arguments = [place.virtual]
    if args.overlay is not None:
        overlay = context.roots.locate(args.overlay)
        await asyncio.to_thread(_must_exist, overlay)
        arguments.append(overlay.virtual)
    answer = await _probe(context, "view_image.py", *arguments)
    if not answer.ok:
        return answer
    data = dict(answer.data)
    try:
        png = base64.b64decode(str(data.pop("png", "")), validate=True)
    except binascii.Error:
        png = b""
    # The probe has parsed a foreign file, so its word for what this is does not count.
    if not png.startswith(b"\x89PNG\r\n\x1a\n") or len(png) > _MAX_PNG:
        raise ToolRefused(f"{place.virtual} could not be rendered. Look at its numbers with preview_files.")
    name = re.sub(r"[^A-Za-z0-9_-]+", "_", "_".join(place.parts[-3:]))[-80:].strip("_") or "image"
    target = context.roots.locate(f"views/{name}{'-overlay' if args.overlay else ''}.png", for_write=True)
    await asyncio.to_thread(_write, target, png)
    data["view"] = target.virtual
    return Answer(True, f"{answer.summary}\nPicture: {target.virtual}", data, answer.truncated, answer.executed)


def _must_exist(place: Place) -> None:
    if kind_of(place) != "folder":
        with open_file(place):
            pass


def _write(target: Place, content: bytes) -> None:
    with Staging() as staging:
        staging.add(target, content)
        staging.commit()


async def _probe(context: Context, script: str, *arguments: str, seconds: float = _SECONDS) -> Answer:
    done = await context.execute(context.execute.probe_argv(script, *arguments), seconds=seconds, probe=True)
    found = _last_object(done)
    if found is None:
        reason = {"timeout": f"took more than {seconds:.0f} s", "memory": "needed too much memory"}.get(done.outcome)
        why = reason or f"failed (exit code {done.exit_code})"
        paths = ", ".join(argument for argument in arguments if argument.startswith("/"))
        said = tidy_output(done.output)[-600:]
        raise ToolRefused(
            f"The preview of {paths} {why}. Look at fewer or smaller files, or use run_script.\n{said}".strip()
        )
    ok = done.exit_code == 0 and not found.get("failed")
    text, cut = clip(str(found.get("summary") or "The preview has nothing to say."), MAX_RESULT_CHARS)
    data = found.get("data")
    return Answer(ok, text, data if isinstance(data, dict) else {}, truncated=cut, executed=done)


def _last_object(done: Executed) -> dict[str, JsonValue] | None:
    line = done.output.rstrip().rpartition(b"\n")[2]
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) and "summary" in found else None
