"""Ways to other processes: what /proc tells of them, signals, tracing, limits and priorities."""
# The calls are what is tried, so they stand here bare.
# ruff: noqa: PTH115, PTH123, PTH208

import ctypes
import errno
import fcntl
import os
import resource
from collections.abc import Callable
from pathlib import Path

from inside_common import KNOWN, X86, libc, opened, syscall

IOPRIO_SET = 251 if X86 else 30
PTRACE, VM_READ = (101, 310) if X86 else (117, 270)


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


def limit_of_runner() -> str:
    resource.prlimit(KNOWN["runner"], resource.RLIMIT_NOFILE, (1, 1))
    return "lowered the runner's limits"


def signal_by_file() -> str:
    """The kernel sends the signal in our place when the pipe can be read."""
    r, _ = os.pipe()
    fcntl.fcntl(r, fcntl.F_SETOWN, KNOWN["runner"])
    fcntl.fcntl(r, 10, 0)  # F_SETSIG, SIGIO
    fcntl.fcntl(r, fcntl.F_SETFL, os.O_ASYNC)
    return "may have signals sent to the runner"


def slow_runner() -> str:
    before = os.sched_getaffinity(KNOWN["runner"])
    os.sched_setaffinity(KNOWN["runner"], {min(before)})
    if os.sched_getaffinity(KNOWN["runner"]) != {min(before)} or len(before) == 1:
        raise PermissionError(errno.EPERM, "it runs where it ran")
    return "bound the runner to one core"


def nice_runner() -> str:
    before = os.getpriority(os.PRIO_PROCESS, KNOWN["runner"])
    os.setpriority(os.PRIO_PROCESS, KNOWN["runner"], before + 1)
    return "made the runner nicer"


def nice_user() -> str:
    os.setpriority(os.PRIO_USER, os.getuid(), 19)
    return "made all processes of the user nicer"


def scheduler_of_runner() -> str:
    os.sched_setscheduler(KNOWN["runner"], os.SCHED_IDLE, os.sched_param(0))
    if os.sched_getscheduler(KNOWN["runner"]) != os.SCHED_IDLE:
        raise PermissionError(errno.EPERM, "it is scheduled as before")
    return "made the runner idle"


def disk_priority_of_runner() -> str:
    return syscall(IOPRIO_SET, 1, KNOWN["runner"], 3 << 13)


def session_of_runner() -> str:
    os.setpgid(KNOWN["runner"], 0)
    return "moved the runner to another group"


def proc_of_runner(name: str) -> str:
    with open(f"/proc/{KNOWN['runner']}/{name}", "rb") as file:
        text = file.read(200)
    return f"read {text!r}"


def oom_first() -> str:
    Path(f"/proc/{KNOWN['runner']}/oom_score_adj").write_text("1000")
    return "made the runner the first to go"


def own_oom_last() -> str:
    Path("/proc/self/oom_score_adj").write_text("-900")
    return "made itself the last to go"


def descriptor_of_runner() -> str:
    fd = libc.syscall(434, KNOWN["runner"], 0)
    if fd < 0:
        raise OSError(ctypes.get_errno(), "pidfd_open")
    return f"holds the runner as {fd}"


def through_thread() -> str:
    return opened(f"/proc/{KNOWN['runner']}/task/{KNOWN['runner']}/environ")


PROCESSES: dict[str, Callable[[], object]] = {
    "inherited_descriptors": descriptors,  # first, before others leave some open
    "proc_root_of_init": lambda: opened("/proc/1/root/etc/hostname"),
    "proc_root_of_runner": lambda: opened(f"/proc/{KNOWN['runner']}/root/etc/hostname"),
    "proc_fd_of_runner": lambda: os.listdir(f"/proc/{KNOWN['runner']}/fd"),
    "proc_mem_of_runner": lambda: opened(f"/proc/{KNOWN['runner']}/mem"),
    "proc_environ_of_others": other_environments,
    "own_environment": own_environment,
    "ptrace_attach_runner": lambda: syscall(PTRACE, 16, KNOWN["runner"], 0, 0),
    "ptrace_traceme": lambda: syscall(PTRACE, 0, 0, 0, 0),
    "process_vm_readv": lambda: syscall(VM_READ, KNOWN["runner"], 0, 0, 0, 0, 0),
    "signal_runner": lambda: kill(KNOWN["runner"]),
    "signal_runner_parent": lambda: kill(KNOWN["runner_parent"]),
    "limit_of_runner": limit_of_runner,
    "signal_by_file": signal_by_file,
    "signal_group_of_runner": lambda: os.killpg(os.getpgid(KNOWN["runner"]), 0),
    "signal_all": lambda: kill(-1) if KNOWN["level"] == "landlock" else kill(KNOWN["runner_parent"]),
    "runner_on_one_core": slow_runner,
    "runner_nicer": nice_runner,
    "user_nicer": nice_user,
    "runner_idle": scheduler_of_runner,
    "runner_disk_priority": disk_priority_of_runner,
    "runner_moved": session_of_runner,
    "runner_descriptor": descriptor_of_runner,
    "runner_oom": oom_first,
    "own_oom": own_oom_last,
    "runner_maps": lambda: proc_of_runner("maps"),
    "runner_command_line": lambda: proc_of_runner("cmdline"),
    "runner_stack": lambda: proc_of_runner("stack"),
    "runner_status": lambda: proc_of_runner("status"),
    "runner_working_folder": lambda: os.listdir(f"/proc/{KNOWN['runner']}/cwd"),
    "runner_thread_environment": through_thread,
}
