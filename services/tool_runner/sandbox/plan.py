"""From a request to the launcher's specification: the bwrap command line, or the Landlock rules."""

import os
import resource
import shutil
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from services.tool_runner.sandbox import landlock, seccomp
from services.tool_runner.sandbox.interpreter import child_env, python_env
from services.tool_runner.sandbox.model import Level, Limits, Mount
from shared.errors import ToolBroken

MB = 1 << 20
DISK_RESERVE_MB = 512
WORKSPACE = "/workspace"
PACKAGES = "/m3"
INNER_ID = "65534"

SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
ETC = ("/etc/alternatives", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/localtime")
SYS = ("/sys/devices/system/cpu", "/sys/devices/system/node")
SYS_CUDA = ("/sys/bus/pci", "/sys/devices", "/sys/module/nvidia", "/sys/module/nvidia_uvm")
DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
# Landlock denies the rest of /proc, other processes' folders above all.
PROC = ("cpuinfo", "meminfo", "stat", "loadavg", "version", "filesystems", "devices", "driver/nvidia", "sys/kernel",
        "sys/vm")  # fmt: skip
TMPFS = ("/tmp", "/dev/shm")
PASSWD = f"root:x:0:0::/nonexistent:/bin/false\nsandbox:x:{INNER_ID}:{INNER_ID}::/tmp:/bin/sh\n"
GROUP = f"root:x:0:\nsandbox:x:{INNER_ID}:\n"


def specification(
    argv: Sequence[str],
    *,
    workspace: Path,
    writable_workspace: bool,
    mounts: Sequence[Mount],
    env: Mapping[str, str],
    limits: Limits,
    log: Path,
    level: Level,
    private: Path | None,
    stdin_bytes: int,
) -> dict[str, Any]:
    """`private` is the fresh home at the levels without a tmpfs. Raises ToolBroken for what cannot be mounted."""
    for path in (workspace, *(mount.source for mount in mounts)):
        if not path.exists():
            raise ToolBroken(
                f"the sandbox cannot mount {path}: it does not exist or user {os.geteuid()} may not reach it"
            )
    if not argv:
        raise ToolBroken("the sandbox was given no command")
    remapped = level == "bwrap"
    environment = child_env(limits, "/tmp" if remapped else str(private))
    environment["M3_WORKSPACE"] = WORKSPACE if remapped else str(workspace.absolute())
    for mount in mounts:
        place = mount.target if remapped else str(mount.source.absolute())
        if mount.env:
            environment[mount.env] = place
        if mount.target == PACKAGES:
            environment["PYTHONPATH"] = place
    spec: dict[str, Any] = {
        "argv": [str(word) for word in argv],
        "env": {str(name): str(value) for name, value in (environment | dict(env)).items()},
        "cwd": str(workspace.absolute()),
        "log": str(log.absolute()),
        "disks": [str(workspace.absolute())],
        "disk_reserve_mb": DISK_RESERVE_MB,
        "disk_mb": limits.disk_mb if writable_workspace else 0,
        "level": level,
        "private": str(private) if private else None,
        "stdin_bytes": stdin_bytes,
        "seconds": limits.seconds,
        "grace": limits.grace,
        "memory_mb": limits.memory_mb,
        "processes": limits.processes,
        "output_bytes": limits.output_mb * MB,
        "rlimits": _rlimits(limits),
        "tmpfs": [],
        "files": {},
    }
    try:
        if level == "bwrap":
            spec["tmpfs"] = list(TMPFS)
            spec["prefix"] = bwrap_command(workspace, writable_workspace, mounts, limits)
            code = seccomp.program(loopback=limits.loopback)
            spec["files"] = {"seccomp": code, "passwd": PASSWD.encode(), "group": GROUP.encode()}
        elif level == "landlock":
            assert private is not None
            spec["disks"] += [str(private), "/dev/shm"]
            spec["rules"] = landlock_rules(workspace, writable_workspace, mounts, private, limits)
            version = landlock.abi()
            code = seccomp.program(shield=(os.getpid(),), no_truncate=version < 3)
            spec["files"] = {"seccomp": code}
    except OSError as error:
        raise ToolBroken(f"no sandbox on this machine: {error}") from error
    return spec


def _rlimits(limits: Limits) -> dict[str, tuple[int, int]]:
    wanted = {"RLIMIT_CORE": 0, "RLIMIT_FSIZE": limits.file_mb * MB, "RLIMIT_NOFILE": 4096}
    if not limits.cuda:
        # Libraries map and reserve gigabytes that they never touch; this only stops the absurd request early.
        wanted["RLIMIT_AS"] = (2 * limits.memory_mb + 24 * 1024) * MB
    return {name: (min(value, resource.RLIM_INFINITY & (2**63 - 1)),) * 2 for name, value in wanted.items()}


def bwrap_command(workspace: Path, writable: bool, mounts: Sequence[Mount], limits: Limits) -> list[str]:
    """Everything before the child's own command; words with @ are descriptors that the launcher opens."""
    bwrap = shutil.which("bwrap")
    if bwrap is None:
        raise ToolBroken("bwrap is not installed; install the package bubblewrap")
    words = [bwrap, "--unshare-all", "--unshare-user", "--uid", INNER_ID, "--gid", INNER_ID, "--hostname", "sandbox"]
    words += ["--cap-drop", "ALL", "--new-session", "--die-with-parent", "--proc", "/proc", "--dev", "/dev"]
    for name in TMPFS:
        words += ["--perms", "1777", "--size", str(limits.memory_mb * MB), "--tmpfs", name]
    for name in SYSTEM:
        path = Path(name)
        if path.is_symlink():
            words += ["--symlink", str(path.readlink()), name]
        elif path.is_dir():
            words += ["--ro-bind", name, name]
    for name in (*ETC, *SYS, *(SYS_CUDA if limits.cuda else ())):
        words += ["--ro-bind-try", name, name]
    words += ["--ro-bind-data", "@passwd", "/etc/passwd", "--ro-bind-data", "@group", "/etc/group"]
    for folder in python_env().folders:
        if not folder.is_relative_to("/usr"):
            words += ["--ro-bind", str(folder), str(folder)]
    words += ["--bind" if writable else "--ro-bind", str(workspace.absolute()), WORKSPACE]
    for mount in mounts:
        kind = "--dev-bind" if is_device(mount.source) else "--bind" if mount.writable else "--ro-bind"
        words += [kind, str(mount.source.absolute()), mount.target]
    # Both are memory without a size of their own, and complete now.
    words += ["--remount-ro", "/dev", "--remount-ro", "/", "--chdir", WORKSPACE]
    return [*words, "--json-status-fd", "@status", "--block-fd", "@block", "--seccomp", "@seccomp", "--"]


def landlock_rules(
    workspace: Path, writable: bool, mounts: Sequence[Mount], private: Path, limits: Limits
) -> list[tuple[str, int]]:
    """(path, rights); what is not named is denied. Rights of nested paths add up."""
    read = [*SYSTEM, *ETC, "/etc/passwd", "/etc/group", *SYS, *(SYS_CUDA if limits.cuda else ())]
    read += [f"/proc/{name}" for name in PROC]
    read += [str(folder) for folder in python_env().folders]
    rules = [(path, landlock.READ) for path in read]
    rules += [(path, landlock.DEVICE) for path in DEVICES]
    rules += [("/dev/shm", landlock.SHARED_MEMORY), (str(private), landlock.WRITE)]
    rules.append((str(workspace.absolute()), landlock.WRITE if writable else landlock.READ))
    for mount in mounts:
        rights = landlock.WRITE if mount.writable else landlock.READ
        rules.append((str(mount.source.absolute()), landlock.DEVICE if is_device(mount.source) else rights))
    return rules


def is_device(path: Path) -> bool:
    return stat.S_ISCHR(path.stat().st_mode)
