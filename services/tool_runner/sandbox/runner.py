"""`detect` and `run`: the sandbox as the runner uses it."""

import asyncio
import functools
import marshal
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from services.tool_runner.sandbox import landlock, launcher
from services.tool_runner.sandbox.homes import PrivateHome
from services.tool_runner.sandbox.interpreter import passed_on
from services.tool_runner.sandbox.model import Finished, Level, Limits, Mount
from services.tool_runner.sandbox.plan import specification
from shared.errors import ToolBroken, UserError

_START = "import sys; sys.path.insert(0, sys.argv[1]); import launcher; launcher.main()"
_PR_SET_DUMPABLE = 4


async def run(
    argv: Sequence[str],
    *,
    workspace: Path,
    mounts: Sequence[Mount] = (),
    env: Mapping[str, str] | None = None,
    limits: Limits,
    log: Path,
    level: Level,
    cancel: asyncio.Event | None = None,
    stdin: bytes = b"",
    writable_workspace: bool = True,
) -> Finished:
    """Run one command to its end and the end of everything it started; overwrites `log`.

    A child that fails, runs out of time or memory or is cancelled is a result. ToolBroken means that the sandbox could
    not be set up, or that this process is root. `cancel` sends SIGTERM and kills after `limits.grace`; cancelling the
    awaiting task kills at once. `log` must not lie in a folder that the child can write.
    """
    _ready()
    home = None if level == "bwrap" else await asyncio.to_thread(PrivateHome)
    try:
        spec = specification(
            argv,
            workspace=workspace,
            writable_workspace=writable_workspace,
            mounts=mounts,
            env=env or {},
            limits=limits,
            log=log,
            level=level,
            private=home.path if home else None,
            stdin_bytes=len(stdin),
        )
        return _finished(await _launch(_payload(spec) + stdin, cancel), level, log)
    finally:
        if home is not None:
            await asyncio.to_thread(home.remove)


async def _launch(payload: bytes, cancel: asyncio.Event | None) -> dict[str, Any]:
    process = await asyncio.create_subprocess_exec(
        *_command(),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=passed_on(os.environ),
        cwd="/",
        start_new_session=True,
    )
    assert process.stdin and process.stdout and process.stderr
    control = process.stdin
    asking = asyncio.create_task(_ask_to_stop(cancel, control)) if cancel else None
    try:
        control.write(payload)
        out, err = await asyncio.gather(process.stdout.read(), process.stderr.read())
    finally:
        if asking:
            asking.cancel()
        control.close()  # end of file: the launcher ends whatever is left
        await process.wait()
    return _report(out, err)


async def _ask_to_stop(cancel: asyncio.Event, control: asyncio.StreamWriter) -> None:
    await cancel.wait()
    control.write(b"c")


def detect(wanted: str = "auto") -> Level:
    """The strongest level that works here, tried by running a command in it; the answer is kept.

    `wanted` may name one level, which then has to work; `none` is only ever taken when named. Blocks for some 50 ms.
    """
    _ready()
    return _detect(wanted)


@functools.cache
def _detect(wanted: str) -> Level:
    if wanted not in ("auto", "bwrap", "landlock", "none"):
        raise UserError(f"isolation {wanted!r} is unknown; set M3_ISOLATION to auto, bwrap, landlock or none")
    if wanted == "none":
        return "none"
    levels: tuple[Level, ...] = ("bwrap", "landlock") if wanted == "auto" else (cast(Level, wanted),)
    problems = []
    for level in levels:
        try:
            _try(level)
        except ToolBroken as error:
            problems.append(f"{level}: {error}")
        else:
            return level
    raise ToolBroken(
        f"no sandbox works here ({'; '.join(problems)}). Install bubblewrap and allow user namespaces, or use a kernel "
        "with Landlock (5.13 or newer, `landlock` among its security modules). To run without isolation on a machine "
        "where that is acceptable, set M3_ISOLATION=none."
    )


def _try(level: Level) -> None:
    with tempfile.TemporaryDirectory(prefix="m3-probe-") as name:
        folder = Path(name)
        for part in ("work", "home"):
            (folder / part).mkdir()
        spec = specification(
            ["true"],
            workspace=folder / "work",
            writable_workspace=True,
            mounts=(),
            env={},
            limits=Limits(seconds=20, memory_mb=512),
            log=folder / "log",
            level=level,
            private=folder / "home",
            stdin_bytes=0,
        )
        with subprocess.Popen(
            _command(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env=passed_on(os.environ), cwd="/", start_new_session=True,
        ) as process:  # fmt: skip
            assert process.stdin and process.stdout and process.stderr
            process.stdin.write(_payload(spec))
            process.stdin.flush()
            finished = _finished(_report(process.stdout.read(), process.stderr.read()), level, folder / "log")
        if finished.outcome != "ok":
            raise ToolBroken(finished.reason or (folder / "log").read_text(errors="replace")[-500:])


def _ready() -> None:
    """The runner is not root, and nobody with its uid may read its environment or memory."""
    if os.geteuid() == 0:
        raise ToolBroken("code of others is never started by root; call drop_root first or start the runner as a user")
    landlock.prctl(_PR_SET_DUMPABLE, 0)


def _command() -> list[str]:
    # Imported here too, so that its byte code is on disk: compiling it costs more than the rest of the call.
    return [sys.executable, "-I", "-S", "-c", _START, str(Path(launcher.__file__).parent)]


def _payload(spec: dict[str, Any]) -> bytes:
    data = marshal.dumps(spec)
    return len(data).to_bytes(8, "big") + data


def _report(out: bytes, err: bytes) -> dict[str, Any]:
    try:
        report: dict[str, Any] = marshal.loads(out)
    except (EOFError, ValueError):
        report = {"broken": err.decode(errors="replace").strip()[-2000:] or "the launcher was killed"}
    if "broken" in report:
        raise ToolBroken(f"the sandbox could not be set up: {report['broken']}")
    return report


def _finished(report: dict[str, Any], level: Level, log: Path) -> Finished:
    return Finished(**report, level=level, log=log)
