"""A runner in miniature: started as root it drops to another user, then runs every case at one level, prints JSON.

Usage: driver.py LEVEL, or driver.py LEVEL BASE hold: start one long command below BASE and wait to be killed.
"""

import asyncio
import contextlib
import json
import os
import socket
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, cast

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from services.tool_runner import sandbox
from services.tool_runner.sandbox import launcher, proc, root
from shared.errors import ToolBroken, UserError

HERE = Path(__file__).resolve().parent
LEVEL = cast(sandbox.Level, sys.argv[1])
UID = {"bwrap": 64329, "landlock": 64331, "none": 64332}[LEVEL]
# Other levels are tried at the same time, and what is left of a run is looked for by its command line.
FORKED = f"m3-fork-{LEVEL}"
CASES: dict[str, Callable[["Bench"], Awaitable[Any]]] = {}


def token(number: int) -> str:
    return f"{86400 + number}.{UID}"


def case(function: Callable[["Bench"], Awaitable[Any]]) -> Callable[["Bench"], Awaitable[Any]]:
    CASES[function.__name__] = function
    return function


class Bench:
    """Folders, a secret outside, and listeners that nobody may reach."""

    def __init__(self, base: Path, small: Path | None = None) -> None:
        self.base = base
        self.small = small
        self.data = base / "data"
        self.packages = base / "packages"
        self.number = 0

    async def run(self, *argv: str, **options: Any) -> dict[str, Any]:
        self.number += 1
        name = f"run{self.number}"
        workspace = options.pop("workspace", None) or self.base / "workspaces" / name
        workspace.mkdir(parents=True, exist_ok=True)
        log = self.base / "logs" / name
        mounts: tuple[sandbox.Mount, ...] = (
            sandbox.Mount(self.data, "/data", env="M3_DATA"),
            sandbox.Mount(self.packages, "/m3"),
        )
        mounts += options.pop("extra", ())
        fields = {"seconds": 30, "memory_mb": 1500, "processes": 128}
        fields |= {name: options.pop(name) for name in list(options) if name in sandbox.Limits.__dataclass_fields__}
        done = await sandbox.run(
            argv, workspace=workspace, mounts=mounts, limits=sandbox.Limits(**fields), log=log, level=LEVEL, **options
        )
        text = log.read_text(errors="replace")
        result = {key: getattr(done, key) for key in done.__dataclass_fields__ if key != "log"}
        return result | {
            "run": name,
            "text": text[-3000:],
            "size": log.stat().st_size,
            "files": [path.name for path in workspace.iterdir()],
        }

    async def python(self, code: str, *args: str, **options: Any) -> dict[str, Any]:
        return await self.run("python", "-c", code, *args, **options)


def alive(token: str) -> list[int]:
    """Processes that carry the token in their command line."""
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            other = entry.name.isdigit() and int(entry.name) != os.getpid()
            if other and token.encode() in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
    return found


def identities() -> list[dict[str, Any]]:
    """Of every process below this one, as seen from outside: name, and real, effective, saved and file system ids."""
    found = []
    for pid in proc.descendants(os.getpid()):
        with contextlib.suppress(OSError):
            fields = dict(line.split(":\t", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
            ids = {key: [int(word) for word in fields[key].split()] for key in ("Uid", "Gid", "Groups")}
            found.append({"name": fields["Name"], **ids})
    return found


def sleeping(token: str) -> list[int]:
    """Those of them that are the command itself, not the launcher that carries it in its specification."""
    return [pid for pid in alive(token) if b"sleep" in Path(f"/proc/{pid}/cmdline").read_bytes()]


async def until(condition: Callable[[], Any], seconds: float = 10) -> Any:
    end = time.monotonic() + seconds
    while not (value := condition()) and time.monotonic() < end:  # noqa: ASYNC110 - what is waited for happens outside
        await asyncio.sleep(0.05)
    return value


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
        "level": LEVEL,
    }
    Path(known["log"]).write_text("a log of another run")
    workspace = bench.base / "workspaces" / "attacker"
    workspace.mkdir()
    (workspace / "inside.py").write_text((HERE / "inside.py").read_text())
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
async def fork_bomb(bench: Bench) -> Any:
    most = 0

    async def count() -> None:
        nonlocal most
        while True:
            most = max(most, len(alive(FORKED)))
            await asyncio.sleep(0.05)

    counting = asyncio.create_task(count())
    code = "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass"
    done = await bench.python(code, FORKED, seconds=2, processes=40)
    counting.cancel()
    after = await bench.run("true")
    return done | {"most": most, "left": alive(FORKED), "after": after["outcome"]}


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


@case
async def many_at_once(bench: Bench) -> Any:
    """Short commands side by side: nothing of one, nor of the machine, may be taken for another's."""
    done = []
    for _ in range(10):
        done += await asyncio.gather(*(bench.run("echo", "hello", memory_mb=300) for _ in range(5)))
    return [(one["outcome"], one["text"]) for one in done]


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
    done = await bench.python(DAEMON + "time.sleep(60)", token(1), seconds=1.5)
    return done | {"left": alive(token(1))}


@case
async def exit_with_daemon(bench: Bench) -> Any:
    done = await bench.python(DAEMON, token(2))
    return done | {"left": alive(token(2))}


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
    running = asyncio.create_task(bench.run("sleep", token(3)))
    started = await until(lambda: sleeping(token(3)), seconds=60)
    running.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running
    return {"started": started, "left": alive(token(3)), "cancelled": running.cancelled()}


@case
async def who_they_are(bench: Bench) -> Any:
    """Run before anything else, so that every process below this one belongs to this command."""
    running = asyncio.create_task(bench.run("bash", "-c", f"sleep {token(5)} & wait"))
    await until(lambda: any(one["name"] == "sleep" for one in identities()), seconds=60)
    found = identities()
    running.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running
    return found


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


@case
async def runner_killed(bench: Bench) -> Any:
    runner = await asyncio.create_subprocess_exec(sys.executable, __file__, LEVEL, str(bench.base), "hold")
    started = await until(lambda: sleeping(token(4)), seconds=60)
    runner.kill()
    await runner.wait()
    return {"started": started, "left": [] if await until(lambda: not alive(token(4))) else alive(token(4))}


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
async def missing_mount(bench: Bench) -> Any:
    try:
        await sandbox.run(
            ["true"],
            workspace=bench.base / "nowhere",
            limits=sandbox.Limits(seconds=5, memory_mb=100),
            log=bench.base / "logs" / "missing",
            level=LEVEL,
        )
    except ToolBroken as error:
        return str(error)
    return ""


async def all_cases(bench: Bench) -> dict[str, Any]:
    results: dict[str, Any] = {}
    # `none` isolates nothing; what is left to see there is how a run ends.
    skipped = {"attacks", "learning", "fork_bomb", "shared_memory_fill", "read_only_workspace", "cancel_ignored"}
    results["who_they_are"] = await who_they_are(bench)
    # It waits for ten seconds, so it begins first.
    waiting = asyncio.create_task(cancel_ignored(bench)) if LEVEL != "none" else None
    if LEVEL == "none":
        results |= dict.fromkeys(skipped)
    else:
        results |= {"attacks": await attacks(bench), "fork_bomb": await fork_bomb(bench), "cancel_ignored": None}
        if LEVEL == "landlock":  # would fill the machine's own; stated in the package's docstring
            results["shared_memory_fill"] = None
    slots = asyncio.Semaphore(3)

    async def one(name: str) -> None:
        async with slots:
            try:
                results[name] = await CASES[name](bench)
            except Exception as error:
                results[name] = {"raised": repr(error)}

    await asyncio.gather(*(one(name) for name in CASES if name not in results))
    if waiting:
        results["cancel_ignored"] = await waiting
    return results


def small_disk(folder: Path) -> Path | None:
    """64 MB and 4,000 files; None where this process may not mount."""
    try:
        root._own_mounts()
        root._mount("tmpfs", str(folder), "tmpfs", 0, f"size=64m,nr_inodes=4000,uid={UID},gid={UID},mode=700")
    except ToolBroken:
        return None
    return folder


def lazily() -> str:
    """A module of the standard library that nothing has loaded yet."""
    import wave

    return str(wave.__file__)


def main() -> None:
    os.environ["M3_S3_SECRET_KEY"] = os.environ.get("M3_S3_SECRET_KEY", "")
    if len(sys.argv) > 2:
        asyncio.run(
            Bench(Path(sys.argv[2])).run("sleep", token(4), workspace=Path(sys.argv[2]) / "workspaces" / "held")
        )
        return
    outer = Path(tempfile.mkdtemp(prefix="m3-sandbox-test-"))
    base = outer / "state"
    for folder in ("outside", "data", "packages", "logs", "tmp", "small", "workspaces/other"):
        (base / folder).mkdir(parents=True)
    (base / "outside" / "secret").write_text("the secret")
    (base / "data" / "scan.txt").write_text("voxels")
    (base / "packages" / "helper.py").write_text("NAME = 'helper'")
    (base / "workspaces" / "other" / "file").write_text("of another run")
    for path in (base, *base.rglob("*")):
        if os.geteuid() == 0:
            os.chown(path, UID, UID)
    os.environ["TMPDIR"] = str(base / "tmp")
    tempfile.tempdir = None
    facts: dict[str, Any] = {"started_as": os.geteuid(), "user": UID}
    small = small_disk(base / "small")
    sandbox.drop_root(UID, [base])  # its parent is closed to others, as mkdtemp made it
    sandbox.drop_root(UID, [base])
    facts |= {"uid": os.getresuid(), "gid": os.getresgid(), "groups": os.getgroups(), "home": os.environ["HOME"]}
    facts["lazy"] = lazily()
    facts["root_listed"] = os.access("/root", os.R_OK)
    try:
        sandbox.detect("strong")
    except UserError as error:
        facts["unknown_level"] = str(error)
    try:
        facts["level"] = sandbox.detect(LEVEL)
    except ToolBroken as error:
        facts["unavailable"] = str(error)
    else:
        facts |= asyncio.run(all_cases(Bench(base, small)))
        facts["auto"] = sandbox.detect("auto")
    facts["homes_left"] = [path.name for path in (base / "tmp").iterdir()]
    facts["base"] = str(outer)
    print(json.dumps(facts))


main()
