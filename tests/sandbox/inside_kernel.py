"""Ways to more rights: namespaces, calls of the kernel that are seldom needed, devices, limits."""
# The calls are what is tried, so they stand here bare.
# ruff: noqa: PTH116

import ctypes
import errno
import os
import resource
import shutil
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from inside_common import X86, create, libc, opened, syscall

KEYCTL, BPF, PERF, URING, UFFD, HANDLE, CLONE3 = (
    (250, 321, 298, 425, 323, 304, 435) if X86 else (219, 280, 241, 425, 282, 265, 435)
)
NEWUSER, NEWNS = 0x10000000, 0x00020000


def unshare(flags: int) -> str:
    if libc.unshare(flags) != 0:
        raise OSError(ctypes.get_errno(), "unshare")
    return "unshared"


def command(*words: str) -> str:
    done = subprocess.run(words, capture_output=True, text=True, timeout=10)
    if done.returncode:
        raise PermissionError(errno.EPERM, done.stderr[-100:])
    return done.stdout


def capabilities() -> str:
    status = dict(line.split(":\t", 1) for line in Path("/proc/self/status").read_text().splitlines() if ":\t" in line)
    held = [name for name in ("CapPrm", "CapEff", "CapInh", "CapAmb") if int(status[name], 16)]
    if held or status["NoNewPrivs"] != "1" or status["Seccomp"] != "2":
        return f"{held}, NoNewPrivs {status['NoNewPrivs']}, Seccomp {status['Seccomp']}"
    raise PermissionError(errno.EPERM, "no capability, no new privileges, filtered")


def raised_limit(kind: int) -> str:
    _, hard = resource.getrlimit(kind)
    if hard == resource.RLIM_INFINITY:
        return "there is no limit"
    resource.setrlimit(kind, (hard + 1, hard + 1))
    return f"raised a limit above {hard}"


def run_set_user_id_programs() -> str:
    """A program with the bit set runs as whoever started it."""
    for name in ("su", "passwd", "newgrp", "mount", "chsh"):
        path = shutil.which(name)
        if path and os.stat(path).st_mode & 0o4000:
            libc.prctl(38, 0, 0, 0, 0)
            if libc.prctl(39, 0, 0, 0, 0) != 1:
                return "may gain privileges"
    raise PermissionError(errno.EPERM, "no new privileges, whatever the bit says")


def shared_segment() -> str:
    return syscall(29 if X86 else 194, 0, 4096, 0o1666)


def hidden_memory() -> str:
    return syscall(447, 0)


def kernel_module() -> str:
    return syscall(313 if X86 else 273, 0, 0, 0)


def clock() -> str:
    time.clock_settime(time.CLOCK_REALTIME, time.time())
    return "set the clock"


KERNEL: dict[str, Callable[[], object]] = {
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
    "more_memory": lambda: raised_limit(resource.RLIMIT_AS),
    "more_processes": lambda: raised_limit(resource.RLIMIT_NPROC),
    "larger_files": lambda: raised_limit(resource.RLIMIT_FSIZE),
    "more_descriptors": lambda: raised_limit(resource.RLIMIT_NOFILE),
    "core_dumps": lambda: raised_limit(resource.RLIMIT_CORE),
    "shared_segment": shared_segment,
    "hidden_memory": hidden_memory,
    "kernel_module": kernel_module,
    "clock": clock,
    "host_name": lambda: socket.sethostname("m3"),
    "memory_device": lambda: opened("/dev/mem"),
    "fuse": lambda: opened("/dev/fuse", os.O_RDWR),
    "kvm": lambda: opened("/dev/kvm", os.O_RDWR),
    "tun": lambda: opened("/dev/net/tun", os.O_RDWR),
    "magic_key": lambda: opened("/proc/sysrq-trigger", os.O_WRONLY),
    "kernel_symbols_of_core": lambda: opened("/proc/kcore"),
    "set_user_id_programs": run_set_user_id_programs,
    "capabilities": capabilities,
}
