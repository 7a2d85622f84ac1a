"""Cases of the driver: commands that take more than they may have."""

import asyncio
from typing import Any

from services.tool_runner import sandbox
from services.tool_runner.sandbox import launcher
from tests.sandbox.bench import Bench, alive, case


@case
async def fork_bomb(bench: Bench) -> Any:
    most, forked = 0, f"m3-fork-{bench.level}"

    async def count() -> None:
        nonlocal most
        while True:
            most = max(most, len(alive(forked)))
            await asyncio.sleep(0.05)

    counting = asyncio.create_task(count())
    code = "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass"
    done = await bench.python(code, forked, seconds=2, processes=40)
    counting.cancel()
    after = await bench.run("true")
    return done | {"most": most, "left": alive(forked), "after": after["outcome"]}


@case
async def memory_bomb(bench: Bench) -> Any:
    return await bench.python("x = []\nwhile True: x.append(bytearray(20_000_000))", memory_mb=300)


@case
async def memory_bomb_spread(bench: Bench) -> Any:
    code = "import os, time\nos.fork(); os.fork(); x = b'x' * 150_000_000; time.sleep(20)"
    return await bench.python(code, memory_mb=400)


@case
async def memory_shared_by_workers(bench: Bench) -> Any:
    code = "import os, time\nx = b'x' * 200_000_000\nfor _ in range(3):\n  if os.fork() == 0: break\ntime.sleep(1.5)"
    return await bench.python(code, memory_mb=400)


@case
async def shared_memory_fill(bench: Bench) -> Any:
    """Many files, so that the bound on one file does not end it first."""
    code = """
import os
for n in range(16):
    with open(f"/dev/shm/m3-{os.getpid()}-{n}", "wb") as f:
        f.write(bytes(50_000_000))
    print(n + 1, flush=True)
"""
    return await bench.python(code, memory_mb=300)


@case
async def device_folder_fill(bench: Bench) -> Any:
    return await bench.python("open('/dev/fill', 'wb').write(bytes(1000))")


@case
async def socket_fill(bench: Bench) -> Any:
    """Pairs of sockets whose one end is written to and never read, each with as large a buffer as it gets."""
    code = """
import socket, time
held, pairs = 0, []
for _ in range(2000):
    pair = socket.socketpair()
    pair[0].setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4_000_000)
    pair[0].setblocking(False)
    try:
        while True: held += pair[0].send(bytes(100_000))
    except BlockingIOError:
        pairs.append(pair)
    print(held, flush=True)
time.sleep(2)
"""
    return await bench.python(code, memory_mb=200)


@case
async def absurd_allocation(bench: Bench) -> Any:
    return await bench.python("bytearray(1 << 45)")


@case
async def file_size(bench: Bench) -> Any:
    workspace = bench.base / "workspaces" / "big"
    code = "f = open('big', 'wb', buffering=0)\nwhile True: f.write(b'x' * 500_000)"
    done = await bench.python(code, workspace=workspace, file_mb=3)
    return done | {"bytes": (workspace / "big").stat().st_size}


@case
async def endless_output(bench: Bench) -> Any:
    return await bench.run("yes", output_mb=1, seconds=1.5)


@case
async def long_output(bench: Bench) -> Any:
    return await bench.python("import sys\nprint('x' * 3_000_000)\nsys.exit(7)", output_mb=1)


FILL_DISK = "import time\nf = open('f', 'wb', buffering=0)\nwhile True: f.write(b'x' * 100_000); time.sleep(.01)"
FILL_NODES = "import time\nn = 0\nwhile True:\n  n += 1; open(str(n), 'w').close(); time.sleep(.002)"


@case
async def fills(bench: Bench) -> Any:
    """One after the other on a small disk, which only root can make."""
    found = {}
    for name, code in (("disk", FILL_DISK), ("inodes", FILL_NODES)):
        if bench.small:
            found[name] = await bench.python(code, workspace=bench.small / name, seconds=120)
            again = await bench.python(code.replace("'f'", "'g'"), workspace=bench.small / name, seconds=120)
            found[name] |= {"again": again["reason"], "free": list(launcher.free(str(bench.small)))}
            sandbox.remove_tree(bench.small / name)
    return found


@case
async def quota(bench: Bench) -> Any:
    """More than is allowed in many folders; and the same workspace again, by a command that makes room."""
    code = "import os, time\nfor n in range(30): os.mkdir(str(n)); open(f'{n}/f', 'wb').write(bytes(1 << 20))\n"
    workspace = bench.base / "workspaces" / "quota"
    over = await bench.python(code + "time.sleep(20)", workspace=workspace, disk_mb=20)
    freed = await bench.run("bash", "-c", "rm -r 2*; sleep 4", workspace=workspace, disk_mb=20)
    return {"over": over, "freed": freed}


@case
async def sparse_file(bench: Bench) -> Any:
    return await bench.python("open('sparse', 'wb').truncate(1 << 40)")
