"""Milliseconds for one call of `true` at each level, beside a bare subprocess of the same event loop.

    python bench/sandbox.py [--rounds 40]

Levels and the bare call take turns, so that a busy machine slows all alike; the ratio of medians is the figure.
`cpu ms` is what the processes of one call used, which a busy machine does not change much.
"""

import argparse
import asyncio
import os
import resource
import shutil
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from services.tool_runner import sandbox
from shared.errors import ToolBroken

UID = 64321


async def bare() -> None:
    process = await asyncio.create_subprocess_exec("true")
    await process.wait()


def confined(level: sandbox.Level, base: Path) -> Callable[[], Awaitable[None]]:
    async def call() -> None:
        limits = sandbox.Limits(seconds=20, memory_mb=512)
        await sandbox.run(["true"], workspace=base / "workspace", limits=limits, log=base / "log", level=level)

    return call


async def measure(calls: dict[str, Callable[[], Awaitable[None]]], rounds: int) -> dict[str, list[tuple[float, float]]]:
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in calls}
    for turn in range(rounds + 3):
        for name, call in calls.items():
            began, used = time.perf_counter(), children_cpu()
            await call()
            if turn >= 3:
                times[name].append(((time.perf_counter() - began) * 1000, (children_cpu() - used) * 1000))
    return times


def children_cpu() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=40)
    rounds = parser.parse_args().rounds
    base = Path(tempfile.mkdtemp(prefix="m3-bench-"))
    (base / "workspace").mkdir()
    if os.geteuid() == 0:
        for path in (base, base / "workspace"):
            os.chown(path, UID, UID)
    sandbox.drop_root(UID, [base])
    calls: dict[str, Callable[[], Awaitable[None]]] = {"subprocess": bare}
    levels: tuple[sandbox.Level, ...] = ("none", "landlock", "bwrap")
    for level in levels:
        try:
            sandbox.detect(level)
        except ToolBroken as error:
            print(f"{level}: left out, {error}")
        else:
            calls[level] = confined(level, base)
    times = asyncio.run(measure(calls, rounds))
    floor = statistics.median(wall for wall, _ in times["subprocess"])
    print(f"{'':12}{'median ms':>10}{'p95 ms':>10}{'ratio':>8}{'cpu ms':>8}   ({rounds} rounds)")
    for name, values in times.items():
        walls = sorted(wall for wall, _ in values)
        middle, cpu = statistics.median(walls), statistics.mean(cpu for _, cpu in values)
        print(f"{name:12}{middle:10.1f}{walls[int(0.95 * len(walls))]:10.1f}{middle / floor:8.1f}{cpu:8.1f}")
    shutil.rmtree(base, ignore_errors=True)


if __name__ == "__main__":
    main()
