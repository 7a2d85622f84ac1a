"""What the attacks are given, and what several of them do."""

import ctypes
import json
import os
import socket
import sys
from pathlib import Path

KNOWN = json.loads(sys.argv[1])
DATA = Path(os.environ["M3_DATA"])
FILE = DATA / "scan.txt"
X86 = os.uname().machine == "x86_64"
libc = ctypes.CDLL(None, use_errno=True)


def syscall(number: int, *words: object) -> str:
    result = libc.syscall(number, *words)
    if result < 0:
        raise OSError(ctypes.get_errno(), "syscall")
    return f"syscall {number} answered {result}"


def opened(path: str, flags: int = os.O_RDONLY) -> str:
    fd = os.open(path, flags)
    return f"opened {path}: {os.read(fd, 80) if not flags & os.O_WRONLY else 'for writing'!r}"


def connect(family: int, kind: int, address: object) -> str:
    with socket.socket(family, kind) as sock:
        sock.settimeout(2)
        sock.connect(address)
        sock.send(b"out")
    return f"connected to {address}"


def create(path: Path) -> str:
    path.write_text("x")
    return f"wrote {path}"
