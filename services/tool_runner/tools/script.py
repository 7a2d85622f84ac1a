"""run_script: a bash command or the text of a Python script, in the sandbox."""

import asyncio
import json
import re
from pathlib import PurePosixPath

from pydantic import JsonValue

from services.tool_runner.paths import SCRIPTS, Roots
from services.tool_runner.tools.context import Answer, Context, Executed
from services.tool_runner.tools.staging import Staging
from services.tool_runner.tools.syntax import python_problem
from services.tool_runner.tools.text import clip, tidy_output
from shared.contracts.tools import MAX_RESULT_CHARS, RunScript
from shared.errors import ToolRefused

# The script may lie in .scripts/, yet it imports the workspace's modules; ours keep their precedence.
_PYTHON = 'PYTHONPATH="${PYTHONPATH:+$PYTHONPATH:}$PWD" exec python -u "$0" "$@"'
PIPE_CLOSED = 141
"""Exit code of a pipe of which a later part stopped reading."""
_FRAME = re.compile(r'^\s*(?:\|\s*)?File "([^"]+)", line (\d+)')
_ERROR = re.compile(r"^([A-Za-z_][\w.]*?)(?::\s(.*))?$", re.DOTALL)
_NOT_OWN = ("/site-packages/", "/dist-packages/", "/lib/python", "<frozen", "<string>", "/shared/training/", "/m3/")
_HINTS = {
    "timeout": "It ran out of time after {asked:.0f} s and was stopped. Work on fewer cases, or ask for more seconds "
    "(up to 600); training is a job, not a script.",
    "memory": "It was stopped for want of memory (peak {peak:.0f} MB). Load less at a time: smaller batches, "
    "fewer workers, one case after the other.",
}


async def run_script(args: RunScript, context: Context) -> Answer:
    if (args.command is None) == (args.script is None):
        raise ToolRefused("Give exactly one of command (a bash line) and script (Python source).")
    if args.script is None:
        if args.save_as is not None:
            raise ToolRefused("save_as belongs to script. To keep a command, write it to a .sh file with write_files.")
        if not (args.command or "").strip():
            raise ToolRefused("The command is empty. Give a bash line such as `python train.py --smoke`.")
        argv = ["bash", "-o", "pipefail", "-c", args.command or "", "bash", *args.args]
        saved = None
    else:
        place = context.roots.locate(args.save_as or f"{SCRIPTS}/{context.call_id}.py", for_write=True)
        if problem := await asyncio.to_thread(python_problem, place.virtual, args.script):
            return Answer(
                False,
                f"Not run.\n{problem}",
                {
                    "exit_code": None,
                    "seconds": 0.0,
                    "outcome": "not_run",
                    "traceback": {
                        "type": "SyntaxError",
                        "message": problem.message,
                        "file": place.virtual,
                        "line": problem.line,
                    },
                },
            )
        await asyncio.to_thread(_save, context.roots, place.virtual, args.script)
        saved = place.virtual
        argv = ["bash", "-c", _PYTHON, str(PurePosixPath(*place.parts)), *args.args]
    if any("\0" in part for part in argv):
        raise ToolRefused("The command or its arguments hold a NUL character. Remove it.")
    done = await context.execute(argv, seconds=args.seconds)
    return _answer(done, args.seconds, saved, context.roots)


def _save(roots: Roots, virtual: str, script: str) -> None:
    try:
        content = script.encode("utf-8")
    except UnicodeEncodeError:
        raise ToolRefused("The script has characters that UTF-8 cannot hold (lone surrogates). Remove them.") from None
    with Staging() as staging:
        staging.add(roots.locate(virtual, for_write=True), content)
        staging.commit()


def _answer(done: Executed, asked: float, saved: str | None, roots: Roots) -> Answer:
    text = tidy_output(done.output)
    data: dict[str, JsonValue] = {
        "exit_code": done.exit_code,
        "seconds": round(done.seconds, 3),
        "outcome": done.outcome,
        "peak_memory_mb": round(done.peak_memory_mb, 1),
    }
    if saved is not None:
        data["script"] = saved
    found = last_traceback(text, roots)
    if found is not None and done.exit_code != 0:
        data["traceback"] = found
    result = last_json(text)
    if result is not None:
        data["last_json"] = result
    closed = done.exit_code == PIPE_CLOSED and saved is None
    ended = f"Exit code {done.exit_code}" if done.exit_code is not None else f"Stopped ({done.outcome})"
    if done.exit_code == 127:
        ended += " (command not found: nothing can be installed here, so do without it)"
    elif closed:
        ended += " (a part of the pipe had read enough, as head does)"
    elif done.exit_code is not None and done.exit_code > 128:
        ended += f" (ended by signal {done.exit_code - 128})"
    head = f"{ended} after {done.seconds:.1f} s."
    if done.outcome in _HINTS:
        head += " " + _HINTS[done.outcome].format(asked=asked, peak=done.peak_memory_mb)
    if saved is not None:
        head += f" Script: {saved}."
    shown, cut = clip(text, MAX_RESULT_CHARS - len(head) - 200, more="print less, or write to a file and read that")
    cut = cut or len(done.output) >= 400_000
    if cut and done.log is not None:
        head += " The whole output is stored."
    body = shown if text.strip() else "The program printed nothing."
    return Answer(done.exit_code == 0 or closed, f"{head}\n{body}", data, truncated=cut, executed=done)


def last_traceback(text: str, roots: Roots) -> dict[str, JsonValue] | None:
    """Type and message of the last Python traceback, with its innermost frame in code of the core's own."""
    start = text.rfind("Traceback (most recent call last):")
    if start < 0:
        # A script that does not compile reports its place without the heading.
        start = text.rfind('  File "')
        if start < 0 or not re.search(r"^(SyntaxError|IndentationError|TabError)", text[start:], re.MULTILINE):
            return None
    frames: list[tuple[str, int]] = []
    lines = text[start:].split("\n")
    kind, message = "", ""
    for number, line in enumerate(lines):
        if frame := _FRAME.match(line):
            frames.append((frame[1], int(frame[2])))
        elif frames and line and not line[0].isspace() and (error := _ERROR.match(line)):
            kind = error[1].rpartition(".")[2]
            rest = [error[2] or "", *lines[number + 1 : number + 20]]
            message = "\n".join(rest).split("\n\n")[0].strip()[:2000]
            break
    if not frames or not kind:
        return None
    own = [frame for frame in frames if not any(mark in frame[0] for mark in _NOT_OWN)]
    file, line_number = (own or frames)[-1]
    return {"type": kind, "message": message, "file": roots.display(file), "line": line_number}


def last_json(text: str) -> dict[str, JsonValue] | None:
    """The last of the final 200 lines that is a JSON object."""
    for line in reversed(text.split("\n")[-200:]):
        line = line.strip()
        if line.startswith("{") and line.endswith("}") and len(line) <= 50_000:
            try:
                found = json.loads(line)
            except (ValueError, RecursionError):
                continue
            if isinstance(found, dict):
                return found
    return None
