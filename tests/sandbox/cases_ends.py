"""Cases of the driver: how commands end, and that nothing of them stays."""

import asyncio
import contextlib
import sys
from pathlib import Path
from typing import Any

from tests.sandbox.bench import Bench, alive, case, sleeping, until

DRIVER = Path(__file__).with_name("driver.py")

DAEMON = """
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.execvp("sleep", ["sleep", sys.argv[1]])
    os._exit(0)
os.wait()
time.sleep(0.3)
"""


@case
async def exit_code(bench: Bench) -> Any:
    return await bench.run("bash", "-c", "echo out; echo err >&2; exit 7")


@case
async def death_by_signal(bench: Bench) -> Any:
    return await bench.python("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)")


@case
async def killed_without_cause(bench: Bench) -> Any:
    return await bench.python("import os, signal; os.kill(os.getpid(), signal.SIGKILL)")


@case
async def unknown_command(bench: Bench) -> Any:
    return await bench.run("m3-no-such-command")


@case
async def standard_input(bench: Bench) -> Any:
    return await bench.run("cat", stdin=b"a" * 300_000 + b"end")


@case
async def timeout_with_daemon(bench: Bench) -> Any:
    done = await bench.python(DAEMON + "time.sleep(60)", bench.token(1), seconds=1.5)
    return done | {"left": alive(bench.token(1))}


@case
async def exit_with_daemon(bench: Bench) -> Any:
    done = await bench.python(DAEMON, bench.token(2))
    return done | {"left": alive(bench.token(2))}


@case
async def cancel_saves(bench: Bench) -> Any:
    code = """
import pathlib, signal, sys, time
def save(*_):
    pathlib.Path("saved").write_text("x")
    sys.exit(0)
signal.signal(signal.SIGTERM, save)
pathlib.Path("ready").write_text("x")
time.sleep(60)
"""
    workspace, cancel = bench.base / "workspaces" / "saves", asyncio.Event()
    running = asyncio.create_task(bench.python(code, workspace=workspace, cancel=cancel))
    await until((workspace / "ready").exists)
    cancel.set()
    return await running


@case
async def cancel_ignored(bench: Bench) -> Any:
    code = "import signal, time, pathlib\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    workspace, cancel = bench.base / "workspaces" / "ignores", asyncio.Event()
    running = asyncio.create_task(
        bench.python(code + "pathlib.Path('ready').write_text('x')\ntime.sleep(60)", workspace=workspace, cancel=cancel)
    )
    await until((workspace / "ready").exists)
    cancel.set()
    return await running


@case
async def task_cancelled(bench: Bench) -> Any:
    running = asyncio.create_task(bench.run("sleep", bench.token(3)))
    started = await until(lambda: sleeping(bench.token(3)), seconds=60)
    running.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running
    return {"started": started, "left": alive(bench.token(3)), "cancelled": running.cancelled()}


@case
async def runner_killed(bench: Bench) -> Any:
    runner = await asyncio.create_subprocess_exec(sys.executable, str(DRIVER), bench.level, str(bench.base), "hold")
    started = await until(lambda: sleeping(bench.token(4)), seconds=60)
    runner.kill()
    await runner.wait()
    return {"started": started, "left": [] if await until(lambda: not alive(bench.token(4))) else alive(bench.token(4))}
