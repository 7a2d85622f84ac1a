"""Runs inside the sandbox: tries each way out and prints {name: "refused: why" or "ESCAPED: how"}.

Arguments: a JSON object with what the attacker is assumed to know (paths, ports and pids outside).
"""
# The calls are what is tried, so they stand here bare.
# ruff: noqa: PTH115, PTH208

import ctypes
import errno
import json
import os
import resource
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

KNOWN = json.loads(sys.argv[1])
DATA = Path(os.environ["M3_DATA"])
libc = ctypes.CDLL(None, use_errno=True)


def syscall(number: int, *words: object) -> str:
    result = libc.syscall(number, *words)
    if result < 0:
        raise OSError(ctypes.get_errno(), "syscall")
    return f"syscall {number} answered {result}"


def unshare(flags: int) -> str:
    if libc.unshare(flags) != 0:
        raise OSError(ctypes.get_errno(), "unshare")
    return "unshared"


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


def symlink() -> str:
    Path("way_out").symlink_to(KNOWN["secret"])
    return Path("way_out").read_text()


def hard_link(source: str) -> str:
    os.link(source, "hard")
    return "linked " + Path("hard").read_text()


def move_in(source: Path) -> str:
    source.rename("moved")
    return "moved"


def other_environments() -> str:
    """Every environment that /proc lets us read."""
    hits = []
    for pid in (KNOWN["runner"], KNOWN["runner_parent"], 1, os.getppid()):
        try:
            text = Path(f"/proc/{pid}/environ").read_bytes()
        except OSError:
            continue
        if KNOWN["password"].encode() in text:
            hits.append(pid)
    if not hits:
        raise PermissionError(errno.EACCES, "none readable")
    return f"password read from {hits}"


def own_environment() -> str:
    if any(KNOWN["password"] in value for value in os.environ.values()):
        return "password in the environment"
    if set(os.environ) & {"M3_S3_SECRET_KEY", "AWS_SECRET_ACCESS_KEY"}:
        return "name of a secret in the environment"
    raise KeyError("absent")


def kill(pid: int) -> str:
    os.kill(pid, 0)
    return f"may signal {pid}"


def command(*words: str) -> str:
    done = subprocess.run(words, capture_output=True, text=True, timeout=10)
    if done.returncode:
        raise PermissionError(errno.EPERM, done.stderr[-100:])
    return done.stdout


def descriptors() -> str:
    extra = []
    for fd in range(3, 64):
        try:
            extra.append(os.readlink(f"/proc/self/fd/{fd}"))
        except OSError:
            continue
    extra = [name for name in extra if name != f"/proc/{os.getpid()}/fd"]
    if extra:
        return f"inherited {extra}"
    raise OSError(errno.EBADF, "none")


def capabilities() -> str:
    status = dict(line.split(":\t", 1) for line in Path("/proc/self/status").read_text().splitlines() if ":\t" in line)
    held = [name for name in ("CapPrm", "CapEff", "CapInh", "CapAmb") if int(status[name], 16)]
    if held or status["NoNewPrivs"] != "1" or status["Seccomp"] != "2":
        return f"{held}, NoNewPrivs {status['NoNewPrivs']}, Seccomp {status['Seccomp']}"
    raise PermissionError(errno.EPERM, "no capability, no new privileges, filtered")


def root_home() -> str:
    """Only the way to the interpreter, if that lies there, may be seen."""
    way = {part for prefix in (sys.prefix, sys.base_prefix) for part in Path(prefix).parts}
    if names := set(os.listdir("/root")) - way:
        return f"listed {names}"
    raise PermissionError(errno.EACCES, "nothing but the interpreter")


def limit_of_runner() -> str:
    resource.prlimit(KNOWN["runner"], resource.RLIMIT_NOFILE, (1, 1))
    return "lowered the runner's limits"


X86 = os.uname().machine == "x86_64"
PTRACE, KEYCTL, BPF, PERF, URING, UFFD, HANDLE, VM_READ, CLONE3 = (
    (101, 250, 321, 298, 425, 323, 304, 310, 435) if X86 else (117, 219, 280, 241, 425, 282, 265, 270, 435)
)
NEWUSER, NEWNS = 0x10000000, 0x00020000
FILE = DATA / "scan.txt"

ATTACKS: dict[str, Callable[[], object]] = {
    "tcp_loopback": lambda: connect(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", KNOWN["tcp"])),
    "tcp_ipv6": lambda: connect(socket.AF_INET6, socket.SOCK_STREAM, ("::1", KNOWN["tcp"])),
    "tcp_outside": lambda: connect(socket.AF_INET, socket.SOCK_STREAM, ("192.0.2.1", 80)),
    "udp_loopback": lambda: connect(socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", KNOWN["udp"])),
    "dns": lambda: socket.getaddrinfo("example.org", 80),
    "netlink": lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0),
    "packet": lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0),
    "vsock": lambda: socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM, 0),
    "kernel_crypto": lambda: socket.socket(socket.AF_ALG, socket.SOCK_SEQPACKET, 0),
    "abstract_socket": lambda: connect(socket.AF_UNIX, socket.SOCK_STREAM, KNOWN["abstract"]),
    "read_secret": lambda: opened(KNOWN["secret"]),
    "list_secret_folder": lambda: os.listdir(Path(KNOWN["secret"]).parent),
    "read_other_workspace": lambda: opened(KNOWN["other"]),
    "write_other_workspace": lambda: opened(KNOWN["other"], os.O_WRONLY),
    "truncate_other_workspace": lambda: os.truncate(KNOWN["other"], 0),
    "truncate_by_open": lambda: opened(KNOWN["other"], os.O_RDONLY | os.O_TRUNC),
    "read_log": lambda: opened(KNOWN["log"]),
    "list_root_home": root_home,
    "read_shadow": lambda: opened("/etc/shadow"),
    "read_hostname": lambda: opened("/etc/hostname"),
    "list_tmp_of_host": lambda: [name for name in os.listdir(Path(KNOWN["secret"]).parent.parent)],
    "proc_root_of_init": lambda: opened("/proc/1/root/etc/hostname"),
    "proc_root_of_runner": lambda: opened(f"/proc/{KNOWN['runner']}/root/etc/hostname"),
    "proc_fd_of_runner": lambda: os.listdir(f"/proc/{KNOWN['runner']}/fd"),
    "proc_mem_of_runner": lambda: opened(f"/proc/{KNOWN['runner']}/mem"),
    "proc_environ_of_others": other_environments,
    "data_create": lambda: create(DATA / "new"),
    "data_overwrite": lambda: create(FILE),
    "data_truncate": lambda: os.truncate(FILE, 0),
    "data_unlink": lambda: FILE.unlink(),
    "data_move": lambda: move_in(FILE),
    "data_hard_link": lambda: hard_link(str(FILE)),
    "system_write": lambda: create(Path("/usr/bin/m3-escaped")),
    "interpreter_write": lambda: create(Path(sys.prefix) / "m3-escaped"),
    "root_write": lambda: create(Path("/m3-escaped")),
    "symlink_outside": symlink,
    "hard_link_outside": lambda: hard_link(KNOWN["secret"]),
    "hard_link_other_workspace": lambda: hard_link(KNOWN["other"]),
    "own_environment": own_environment,
    "ptrace_attach_runner": lambda: syscall(PTRACE, 16, KNOWN["runner"], 0, 0),
    "ptrace_traceme": lambda: syscall(PTRACE, 0, 0, 0, 0),
    "process_vm_readv": lambda: syscall(VM_READ, KNOWN["runner"], 0, 0, 0, 0, 0),
    "signal_runner": lambda: kill(KNOWN["runner"]),
    "signal_runner_parent": lambda: kill(KNOWN["runner_parent"]),
    "limit_of_runner": limit_of_runner,
    "user_namespace": lambda: unshare(NEWUSER),
    "user_namespace_clone3": lambda: syscall(CLONE3, ctypes.byref((ctypes.c_uint64 * 8)(NEWUSER)), 64),
    "user_namespace_tool": lambda: command("unshare", "-Ur", "true"),
    "nested_bwrap": lambda: command("bwrap", "--ro-bind", "/", "/", "true"),
    "mount_namespace": lambda: unshare(NEWNS),
    "mount": lambda: command("mount", "-t", "tmpfs", "none", "/tmp"),
    "chroot": lambda: os.chroot("."),
    "setuid": lambda: os.setuid(0),
    "keyctl": lambda: syscall(KEYCTL, 0, -3, 0),
    "bpf": lambda: syscall(BPF, 0, 0, 0),
    "perf_event_open": lambda: syscall(PERF, 0, 0, -1, -1, 0),
    "io_uring": lambda: syscall(URING, 1, ctypes.byref((ctypes.c_char * 256)())),
    "userfaultfd": lambda: syscall(UFFD, 1),
    "open_by_handle": lambda: syscall(HANDLE, 3, ctypes.byref((ctypes.c_char * 256)()), 0),
    "personality": lambda: syscall(135 if X86 else 92, 0x40000),
    "terminal_injection": lambda: syscall(16 if X86 else 29, 0, 0x5412, ctypes.byref(ctypes.c_char(b"x"))),
    "disk_device": lambda: opened("/dev/vda"),
    "kernel_log": lambda: opened("/dev/kmsg"),
    "device_node": lambda: os.mknod("node", 0o60666, os.makedev(254, 0)),
    "kernel_setting": lambda: opened("/proc/sys/kernel/core_pattern", os.O_WRONLY),
    "cgroup_write": lambda: create(Path("/sys/fs/cgroup/m3-escaped")),
    "inherited_descriptors": descriptors,
    "capabilities": capabilities,
}


def main() -> None:
    results = {}
    for name, attack in ATTACKS.items():
        try:
            results[name] = f"ESCAPED: {attack()!r:.200}"
        except (OSError, KeyError) as error:
            results[name] = f"refused: {error!r:.200}"
        for left in ("way_out", "hard", "moved"):
            Path(left).unlink(missing_ok=True)
    print(json.dumps(results))


main()
