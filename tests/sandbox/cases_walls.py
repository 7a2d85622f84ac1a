"""Cases of the driver: what a command is kept from, and what it needs and gets."""

import asyncio
import contextlib
import json
import os
import socket
from pathlib import Path
from typing import Any

from services.tool_runner import sandbox
from shared.errors import ToolBroken
from tests.sandbox.bench import Bench, case, identities, until

HERE = Path(__file__).resolve().parent


@case
async def who_they_are(bench: Bench) -> Any:
    """Run before anything else, so that every process below this one belongs to this command."""
    running = asyncio.create_task(bench.run("bash", "-c", f"sleep {bench.token(5)} & wait"))
    await until(lambda: any(one["name"] == "sleep" for one in identities()), seconds=60)
    found = identities()
    running.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running
    return found


@case
async def attacks(bench: Bench) -> Any:
    tcp, udp = socket.create_server(("127.0.0.1", 0)), socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    udp.bind(("127.0.0.1", 0))
    udp.setblocking(False)
    abstract = socket.socket(socket.AF_UNIX)
    abstract.bind(f"\0m3-test-{os.getpid()}")
    abstract.listen()
    known = {
        "tcp": tcp.getsockname()[1],
        "udp": udp.getsockname()[1],
        "abstract": f"\0m3-test-{os.getpid()}",
        "secret": str(bench.base / "outside" / "secret"),
        "other": str(bench.base / "workspaces" / "other" / "file"),
        "log": str(bench.base / "logs" / "attacks"),
        "runner": os.getpid(),
        "runner_parent": os.getppid(),
        "password": os.environ["M3_S3_SECRET_KEY"],
        "level": bench.level,
    }
    Path(known["log"]).write_text("a log of another run")
    workspace = bench.base / "workspaces" / "attacker"
    workspace.mkdir()
    for part in HERE.glob("inside*.py"):
        (workspace / part.name).write_text(part.read_text())
    before = (bench.data / "scan.txt").stat()
    done = await bench.run("python", "inside.py", json.dumps(known), workspace=workspace, seconds=300)
    results = json.loads((bench.base / "logs" / done["run"]).read_text())
    try:
        udp.recv(10)
        results["udp_arrived"] = "ESCAPED: datagram arrived"
    except BlockingIOError:
        results["udp_arrived"] = "refused: nothing arrived"
    for name, path in (("other_intact", known["other"]), ("secret_intact", known["secret"])):
        results[name] = "refused: intact" if Path(path).read_text() else "ESCAPED: changed"
    after = (bench.data / "scan.txt").stat()
    same = (before.st_mtime_ns, before.st_size, before.st_nlink) == (after.st_mtime_ns, after.st_size, after.st_nlink)
    results["data_intact"] = "refused: intact" if same else "ESCAPED: changed"
    return results


@case
async def learning(bench: Bench) -> Any:
    code = """
import numpy, torch
from torch.utils.data import DataLoader, TensorDataset
print(float(torch.ones(2) @ torch.ones(2)), numpy.arange(3).sum())
loader = DataLoader(TensorDataset(torch.arange(8.0)), batch_size=2, num_workers=2)
print(sum(float(batch[0].sum()) for batch in loader))
model = torch.nn.Linear(4, 1)
model(torch.ones(2, 4)).sum().backward()
torch.save(model.state_dict(), "model.pt")
import multiprocessing
with multiprocessing.get_context("spawn").Pool(2) as pool:
    print(pool.map(abs, [-1, -2]))
import helper
print(helper.NAME, open(__import__("os").environ["M3_DATA"] + "/scan.txt").read())
"""
    workspace = bench.base / "workspaces" / "learning"
    workspace.mkdir()
    (workspace / "train.py").write_text(
        "def main():\n" + "".join(f"    {line}\n" for line in code.splitlines()) + "if __name__ == '__main__': main()\n"
    )
    return await bench.run("python", "train.py", workspace=workspace, seconds=100, memory_mb=3000)


@case
async def loopback(bench: Bench) -> Any:
    code = """
import socket
server = socket.create_server(("127.0.0.1", 0))
with socket.create_connection(server.getsockname()) as client:
    peer, _ = server.accept()
    client.send(b"x")
    print(peer.recv(1))
print(socket.if_nameindex())
for family, protocol in ((socket.AF_NETLINK, 15), (socket.AF_PACKET, 0)):
    try:
        socket.socket(family, socket.SOCK_RAW, protocol)
    except PermissionError:
        print("refused")
"""
    return await bench.python(code, loopback=True)


@case
async def device(bench: Bench) -> Any:
    """A device node is bound as one, at the place of a GPU's."""
    mounts = (sandbox.Mount(Path("/dev/zero"), "/dev/nvidia0", env="M3_DEVICE"),)
    return await bench.python("import os; print(open(os.environ['M3_DEVICE'], 'rb').read(2))", extra=mounts)


@case
async def read_only_workspace(bench: Bench) -> Any:
    return await bench.python("open('x', 'w')", writable_workspace=False)


@case
async def private_home(bench: Bench) -> Any:
    code = "import os, pathlib\nh = pathlib.Path.home() / 'a' / 'b'\nh.mkdir(parents=True)\n(h / 'f').write_text('x')\n"
    done = await bench.python(code + "os.chmod(h, 0); os.chmod(h.parent, 0); print(pathlib.Path.home())")
    home = Path(done["text"].strip())
    return done | {"left": home != Path("/tmp") and home.exists()}


@case
async def many_at_once(bench: Bench) -> Any:
    """Short commands side by side: nothing of one, nor of the machine, may be taken for another's."""
    done = []
    for _ in range(10):
        done += await asyncio.gather(*(bench.run("echo", "hello", memory_mb=300) for _ in range(5)))
    return [(one["outcome"], one["text"]) for one in done]


@case
async def missing_mount(bench: Bench) -> Any:
    try:
        await sandbox.run(
            ["true"],
            workspace=bench.base / "nowhere",
            limits=sandbox.Limits(seconds=5, memory_mb=100),
            log=bench.base / "logs" / "missing",
            level=bench.level,
        )
    except ToolBroken as error:
        return str(error)
    return ""
