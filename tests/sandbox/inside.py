"""Runs inside the sandbox: tries each way out and prints {name: "refused: why" or "ESCAPED: how"}.

Arguments: a JSON object with what the attacker is assumed to know (paths, ports and pids outside).
"""
# The calls are what is tried, so they stand here bare.
# ruff: noqa: PTH101, PTH108, PTH115, PTH116, PTH123, PTH208

import ctypes
import errno
import fcntl
import json
import mmap
import os
import resource
import shutil
import socket
import subprocess
import sys
import time
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


def changed(path: str, look: Callable[[os.stat_result], object], change: Callable[[], object]) -> str:
    """What counts is the file afterwards: a call that answers 'done' and does nothing has changed nothing."""
    before = look(os.stat(path))
    change()
    if (after := look(os.stat(path))) == before:
        raise PermissionError(errno.EPERM, f"answered, and {before} it is still")
    return f"{before} became {after}"


def mode(path: str | Path) -> str:
    return changed(str(path), lambda found: found.st_mode, lambda: os.chmod(path, 0o700))


def mode_by_descriptor(path: str | Path) -> str:
    fd = os.open(path, os.O_RDONLY)
    return changed(str(path), lambda found: found.st_mode, lambda: os.fchmod(fd, 0o777))


def times(path: str | Path) -> str:
    return changed(str(path), lambda found: found.st_mtime, lambda: os.utime(path, (1, 1)))


def owner(path: str | Path) -> str:
    return changed(str(path), lambda found: found.st_ctime_ns, lambda: os.chown(path, os.getuid(), os.getgid()))


def attribute(path: str | Path) -> str:
    os.setxattr(path, "user.m3", b"x")
    return f"gave {path} an attribute"


def set_user_id(make: Callable[[], object]) -> str:
    make()
    found = os.stat("elevated").st_mode
    if not found & 0o6000:
        raise PermissionError(errno.EPERM, "the bit was not set")
    return f"made a file of mode {found:o}"


def lease(path: str | Path) -> str:
    with open(path, "rb") as file:
        fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_RDLCK)
    return "got a lease"


def notified(path: str | Path) -> str:
    fd = libc.inotify_init1(0)
    if fd < 0:
        raise OSError(ctypes.get_errno(), "inotify_init1")
    if libc.inotify_add_watch(fd, str(path).encode(), 0xFFF) < 0:
        raise OSError(ctypes.get_errno(), "inotify_add_watch")
    return f"is told of what happens in {path}"


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


def tmpfile_link() -> str:
    fd = os.open(FILE, os.O_RDONLY)
    os.link(f"/proc/self/fd/{fd}", "hard", follow_symlinks=True)
    return "linked a file of the data by its descriptor"


def reopened() -> str:
    fd = os.open(FILE, os.O_RDONLY)
    return opened(f"/proc/self/fd/{fd}", os.O_WRONLY)


def mapped() -> str:
    with open(FILE, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_WRITE) as view:
        view[0] = 0
    return "wrote to a map of a file of the data"


def swapped() -> str:
    Path("mine").write_text("x")
    result = libc.renameat2(-100, b"mine", -100, str(FILE).encode(), 2)
    if result < 0:
        raise OSError(ctypes.get_errno(), "renameat2")
    return "exchanged a file of the data for its own"


def socket_in_data() -> str:
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(str(DATA / "s"))
    return "made a socket in the data"


def metadata_service() -> str:
    return connect(socket.AF_INET, socket.SOCK_STREAM, ("169.254.169.254", 80))


def resolver() -> str:
    return connect(socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.53", 53))


def raised_limit(kind: int) -> str:
    _, hard = resource.getrlimit(kind)
    if hard == resource.RLIM_INFINITY:
        return "there is no limit"
    resource.setrlimit(kind, (hard + 1, hard + 1))
    return f"raised a limit above {hard}"


def through_parent_folders() -> str:
    return opened("/".join([".."] * 30) + KNOWN["secret"])


def through_own_root() -> str:
    return opened("/proc/self/root" + KNOWN["secret"])


def through_thread() -> str:
    return opened(f"/proc/{KNOWN['runner']}/task/{KNOWN['runner']}/environ")


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


X86 = os.uname().machine == "x86_64"
IOPRIO_SET = 251 if X86 else 30
PTRACE, KEYCTL, BPF, PERF, URING, UFFD, HANDLE, VM_READ, CLONE3 = (
    (101, 250, 321, 298, 425, 323, 304, 310, 435) if X86 else (117, 219, 280, 241, 425, 282, 265, 270, 435)
)
NEWUSER, NEWNS = 0x10000000, 0x00020000
FILE = DATA / "scan.txt"

ATTACKS: dict[str, Callable[[], object]] = {
    "inherited_descriptors": descriptors,  # first, before others leave some open
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
    "data_mode": lambda: mode(FILE),
    "data_mode_by_descriptor": lambda: mode_by_descriptor(FILE),
    "data_folder_mode": lambda: mode(DATA),
    "data_times": lambda: times(FILE),
    "data_owner": lambda: owner(FILE),
    "data_attribute": lambda: attribute(FILE),
    "data_lease": lambda: lease(FILE),
    "data_by_own_descriptor": reopened,
    "data_by_map": mapped,
    "data_exchange": swapped,
    "data_socket": socket_in_data,
    "data_fifo": lambda: os.mkfifo(DATA / "fifo"),
    "data_folder": lambda: (DATA / "new").mkdir(),
    "data_link_by_descriptor": tmpfile_link,
    "data_append": lambda: opened(str(FILE), os.O_WRONLY | os.O_APPEND),
    "other_mode": lambda: mode(KNOWN["other"]),
    "other_times": lambda: times(KNOWN["other"]),
    "other_attribute": lambda: attribute(KNOWN["other"]),
    "other_owner": lambda: owner(KNOWN["other"]),
    "other_watched": lambda: notified(Path(KNOWN["other"]).parent),
    "other_unlink": lambda: os.unlink(KNOWN["other"]),
    "other_move": lambda: move_in(Path(KNOWN["other"])),
    "set_user_id_by_chmod": lambda: set_user_id(lambda: (create(Path("elevated")), os.chmod("elevated", 0o4755))),
    "set_group_id_by_chmod": lambda: set_user_id(lambda: (create(Path("elevated")), os.chmod("elevated", 0o2755))),
    "set_user_id_by_open": lambda: set_user_id(lambda: os.open("elevated", os.O_CREAT | os.O_WRONLY, 0o4755)),
    "set_user_id_by_descriptor": lambda: set_user_id(
        lambda: os.fchmod(os.open("elevated", os.O_CREAT | os.O_WRONLY, 0o755), 0o4755)
    ),
    "set_user_id_by_node": lambda: set_user_id(lambda: os.mknod("elevated", 0o104755)),
    "set_user_id_programs": run_set_user_id_programs,
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
    "metadata_service": metadata_service,
    "resolver": resolver,
    "icmp": lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM, socket.IPPROTO_ICMP),
    "raw_socket": lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW),
    "bluetooth": lambda: socket.socket(31, socket.SOCK_RAW, 1),
    "dotdot": through_parent_folders,
    "own_root": through_own_root,
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
    "docker_socket": lambda: connect(socket.AF_UNIX, socket.SOCK_STREAM, "/var/run/docker.sock"),
    "capabilities": capabilities,
}


def main() -> None:
    results = {}
    for name, attack in ATTACKS.items():
        try:
            results[name] = f"ESCAPED: {attack()!r:.200}"
        except (OSError, KeyError, ValueError) as error:
            results[name] = f"refused: {error!r:.200}"
        for left in ("way_out", "hard", "moved", "elevated", "mine"):
            Path(left).unlink(missing_ok=True)
    print(json.dumps(results))


main()
