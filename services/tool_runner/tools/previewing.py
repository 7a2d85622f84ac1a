"""Previews, rules and views: image parsers run as probes in the sandbox, never in this process."""

import asyncio
import base64
import binascii
import hashlib
import json
import re

from pydantic import JsonValue

from services.tool_runner.paths import Place, kind_of, open_file
from services.tool_runner.tools.context import Answer, Context, Executed
from services.tool_runner.tools.naming import Cases, named
from services.tool_runner.tools.staging import Staging
from services.tool_runner.tools.text import clip, tidy_output
from shared.contracts.tools import (
    MAX_PICTURE_BYTES,
    MAX_RESULT_CHARS,
    Picture,
    PreviewDirs,
    PreviewFiles,
    ProposeRules,
    TryRules,
    ViewImage,
)
from shared.errors import ToolRefused

_SECONDS = 180.0
_RULES_SECONDS = 570.0
_STARTS = {b"\x89PNG\r\n\x1a\n": "png", b"\xff\xd8\xff": "jpg"}


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
    # Names of raw data are never drawn: what may leave for an endpoint is decided by words, which pixels hide. Only the
    # Data Engineer, who sees raw data, has no templates.
    written_below = context.roots.templates is not None
    cases = await asyncio.to_thread(Cases, context.roots) if written_below and not args.captions else None
    if not args.paths and (args.overlays or not (cases and cases.rows)):
        raise ToolRefused(
            "Give paths. Without any argument, cases of every class are shown to a role that has an index."
        )
    paths, missing = await asyncio.to_thread(named, context.roots, args.paths)
    masks, more = await asyncio.to_thread(named, context.roots, args.overlays, True)
    if cases and not paths:
        paths, masks = await asyncio.to_thread(cases.of_every_class)
    for name, given in (("overlays", masks), ("captions", args.captions)):
        if given and len(given) != len(paths):
            raise ToolRefused(f"{len(paths)} paths have {len(given)} {name}. Give one for each, or none.")
    wanted: list[dict[str, str]] = []
    missing += more
    overlays, captions = masks or [""] * len(paths), args.captions or [""] * len(paths)
    for path, overlay, caption in zip(paths, overlays, captions, strict=True):
        try:
            found = [await asyncio.to_thread(_existing, context, one) if one else "" for one in (path, overlay)]
            caption = caption or (cases.classes.get(found[0], "") if cases else "")
            written = (caption or found[0].rpartition("/")[2]) if written_below else ""
            wanted.append({"path": found[0], "overlay": found[1], "caption": caption, "written": written})
        except ToolRefused as refused:
            missing.append(str(refused))
    if not wanted:
        raise ToolRefused("\n".join(missing))
    answer = await _probe(context, "view_image.py", json.dumps(wanted))
    if not answer.ok:
        return answer
    data = dict(answer.data)
    try:
        picture = base64.b64decode(str(data.pop("picture", "")), validate=True)
    except binascii.Error:
        picture = b""
    # The probe has parsed a foreign file, so its word for what this is does not count.
    suffix = next((end for start, end in _STARTS.items() if picture.startswith(start)), None)
    if suffix is None or len(picture) > MAX_PICTURE_BYTES:
        raise ToolRefused(f"{wanted[0]['path']} could not be rendered. Look at its numbers with preview_files.")
    if len(wanted) == 1:
        first = re.sub(r"[^A-Za-z0-9_-]+", "_", "_".join(wanted[0]["path"].split("/")[2:][-3:]))[-80:].strip("_")
        name = f"{first or 'image'}{'-overlay' if wanted[0]['overlay'] else ''}"
    else:
        name = f"montage-{hashlib.sha256(json.dumps(wanted).encode()).hexdigest()[:8]}"
    target = context.roots.locate(f"views/{name}.{suffix}", for_write=True)
    await asyncio.to_thread(_write, target, picture)
    data["view"] = target.virtual
    shown = Picture(
        name=target.virtual,
        media_type="image/png" if suffix == "png" else "image/jpeg",
        content=base64.b64encode(picture).decode(),
    )
    summary = "\n".join([answer.summary, *missing, f"Picture: {target.virtual}"])
    return Answer(True, summary, data, answer.truncated, answer.executed, (shown,))


def _existing(context: Context, path: str) -> str:
    """The virtual path of what is there. Raises ToolRefused."""
    place = context.roots.locate(path)
    if kind_of(place) != "folder":
        with open_file(place):
            pass
    return place.virtual


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
        paths = ", ".join(re.findall(r"/(?:data|workspace|templates)\b[^\"]*", " ".join(arguments)))
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
