"""The small process between the runner and one sandboxed command; `runner` starts `main` in a bare interpreter.

In on fd 0: the length of a marshalled specification, itself, the bytes of the command's stdin; afterwards `c` asks for
an orderly stop, and end of file (the runner is gone) ends everything. Out on fd 1: one marshalled report. Both ends are
the same interpreter; json, typing and the like would double the start-up time, which every call pays.
It confines and starts the command, writes its output to the log, watches memory, time, processes and disk, and does
not end before every descendant is dead. Standard library only; nothing of it runs inside the sandbox.
"""
# ruff: noqa: PTH123

from __future__ import annotations

import marshal
import os
import resource
import select
import time

TYPE_CHECKING = False  # mypy takes it for true
if TYPE_CHECKING:
    from typing import Any
if TYPE_CHECKING or __package__:
    from services.tool_runner.sandbox import held, landlock, proc, removal
else:  # alone, with nothing but this folder on the path
    import held
    import landlock
    import proc
    import removal

TICK = 0.25
CHUNK = 1 << 16
MB = 1 << 20
FILES = 10_000
"""That a disk must still be able to take."""
TO_REMOVE = 2.0
"""Seconds in which a command can empty a workspace that holds too much."""
SHELLS = ("sh", "bash", "dash")


class Broken(Exception):
    """The sandbox itself could not be set up."""


def read_exactly(fd: int, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        if not (part := os.read(fd, min(size - len(data), 1 << 20))):
            raise Broken("the runner went away")
        data += part
    return bytes(data)


def memory_file(data: bytes) -> int:
    """An inheritable descriptor from which `data` can be read once."""
    fd = os.memfd_create("m3", 0)
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


def free(disk: str) -> tuple[int, int]:
    """Bytes and files that still fit."""
    status = os.statvfs(disk)
    return status.f_bavail * status.f_frsize, status.f_favail


def reserve(disk: str, room: int) -> tuple[int, int]:
    """Bytes and files that are to stay free, whatever is free now; of a small disk an eighth."""
    status = os.statvfs(disk)
    return min(room, status.f_blocks * status.f_frsize // 8), min(FILES, status.f_files // 8)


def number_after(key: bytes, text: bytes) -> int | None:
    """From bwrap's status, which is JSON of one number a key."""
    words = text.partition(key)[2].replace(b",", b" ").replace(b"}", b" ").split()
    return int(words[0]) if words else None


class Run:
    """One command from start to the death of its last descendant."""

    def __init__(self, spec: dict[str, Any], stdin: bytes) -> None:
        self.spec = spec
        self.stdin = stdin
        self.status_text = b""
        self.status_r = self.block_w = -1
        self.init = 0  # pid 1 of the bwrap sandbox, numbered as seen from here
        self.log_bytes = 0
        self.cut = False
        self.stopped = ""
        self.reason = ""
        self.memory = proc.Memory(spec["memory_mb"] * MB)
        self.orphaned = False  # nobody else will remove the private home
        self.warned = False
        self.stop_at = 0.0  # end of the grace after an orderly stop
        self.log = os.open(spec["log"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        self.disk = held.Held(spec["cwd"]) if spec["disk_mb"] else None
        self.reserves = {disk: reserve(disk, spec["disk_reserve_mb"] * MB) for disk in spec["disks"]}

    def start(self) -> None:
        self.output, output_w = os.pipe()
        error_r, error_w = os.pipe()
        status_w = block_r = -1
        if self.spec["level"] == "bwrap":
            self.status_r, status_w = os.pipe()
            block_r, self.block_w = os.pipe()
        self.began = time.monotonic()
        self.main = os.fork()
        if self.main == 0:
            try:
                self.become(output_w, status_w, block_r)
            except BaseException as error:
                os.write(error_w, str(error).encode())
            finally:
                os._exit(125)
        for fd in (output_w, error_w, status_w, block_r):
            if fd >= 0:
                os.close(fd)
        if problem := os.read(error_r, 4096):
            os.waitpid(self.main, 0)
            raise Broken(problem.decode(errors="replace"))
        os.close(error_r)
        os.set_blocking(self.output, False)
        self.watch = os.pidfd_open(self.main)

    def become(self, output_w: int, status_w: int, block_r: int) -> None:
        spec = self.spec
        os.setsid()
        landlock.default_signals()
        landlock.die_with_parent()
        with open("/proc/self/oom_score_adj", "w") as file:
            file.write("1000")
        os.dup2(memory_file(self.stdin) if self.stdin else os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(output_w, 1)
        os.dup2(output_w, 2)
        for name, (soft, hard) in spec["rlimits"].items():
            kind = getattr(resource, name)
            ceiling = resource.getrlimit(kind)[1]
            if ceiling != resource.RLIM_INFINITY:
                soft, hard = min(soft, ceiling), min(hard, ceiling)
            resource.setrlimit(kind, (soft, hard))
        argv = spec["argv"]
        if spec["level"] == "bwrap":
            fds = {"@status": status_w, "@block": block_r}
            fds |= {f"@{name}": memory_file(data) for name, data in spec["files"].items()}
            for fd in (status_w, block_r):
                os.set_inheritable(fd, True)
            argv = [str(fds[word]) if word in fds else word for word in spec["prefix"]] + argv
        else:
            resource.setrlimit(resource.RLIMIT_NPROC, (proc.tasks_of(os.getuid()) + 2 * spec["processes"],) * 2)
            os.chdir(spec["cwd"])
        if spec["level"] == "landlock":
            rules = [*spec["rules"], (f"/proc/{os.getpid()}", landlock.READ)]
            landlock.confine(rules, spec["files"]["seccomp"])
        try:
            os.execvpe(argv[0], argv, spec["env"])
        except OSError as error:
            if spec["level"] == "bwrap":
                raise
            os.write(2, f"{argv[0]}: {error.strerror}\n".encode())
            os._exit(127 if isinstance(error, FileNotFoundError) else 126)

    def pump(self) -> bool:
        """Move output to the log; False at its end."""
        for _ in range(16):
            try:
                data = os.read(self.output, CHUNK)
            except BlockingIOError:
                return True
            if not data:
                return False
            room = self.spec["output_bytes"] - self.log_bytes
            self.cut = self.cut or len(data) > room
            if kept := data[: max(room, 0)]:
                self.log_bytes += len(kept)
                while kept:
                    kept = kept[os.write(self.log, kept) :]
        return True

    def read_status(self) -> None:
        """bwrap says its child's pid once, upon which the child's limit is set and it may go on."""
        data = os.read(self.status_r, 4096)
        self.status_text += data
        if not self.init and b"\n" in self.status_text:
            self.init = number_after(b'"child-pid":', self.status_text) or 0
            # The kernel counts per user namespace from 5.14 on; bwrap's own two processes come on top.
            count = 2 if proc.KERNEL >= (5, 14) else proc.tasks_of(os.getuid())
            limit = self.spec["processes"] + count
            try:
                resource.prlimit(self.init, resource.RLIMIT_NPROC, (limit, limit))
                os.write(self.block_w, b"x")
            except (ProcessLookupError, BrokenPipeError):
                return
        if not data:
            os.close(self.status_r)
            self.status_r = -1

    def follow(self) -> None:
        """Until the command ended or has to be ended."""
        poll = select.poll()
        poll.register(0, select.POLLIN)
        poll.register(self.watch, select.POLLIN)
        poll.register(self.output, select.POLLIN)
        if self.status_r >= 0:
            poll.register(self.status_r, select.POLLIN)
        next_look = self.began + 0.05
        while True:
            ready = {fd for fd, _ in poll.poll(max(0.0, min(TICK, next_look - time.monotonic())) * 1000)}
            if self.output in ready and not self.pump():
                poll.unregister(self.output)
            if self.status_r in ready:
                status = self.status_r
                self.read_status()
                if self.status_r < 0:
                    poll.unregister(status)
            if self.watch in ready:
                return
            if 0 in ready:
                order = os.read(0, 1)
                if not order:
                    self.orphaned = True
                    return self.stop("cancelled", "the runner went away")
                self.stopped = "cancelled"
                self.stop_at = time.monotonic() + self.spec["grace"]
                self.terminate()
            now = time.monotonic()
            if now >= next_look:
                next_look = now + TICK
                if self.look(now):
                    return

    def look(self, now: float) -> bool:
        """True when a limit is passed and everything has to end."""
        spec = self.spec
        tree = proc.descendants(os.getpid())
        used = self.memory.measure(tree, self.init, spec["tmpfs"])
        tasks = sum(entry.threads for entry in tree.values())
        if self.stop_at and not self.warned:
            self.terminate()
        if self.stop_at and now >= self.stop_at:
            self.stop("cancelled", f"still there {spec['grace']:g} s after SIGTERM")
        elif now - self.began >= spec["seconds"]:
            self.stop("timeout", f"the limit of {spec['seconds']:g} s was reached")
        elif used > self.memory.limit:
            self.stop("memory", f"{used // MB} MB resident, the limit is {spec['memory_mb']} MB")
        elif tasks > spec["processes"] + 4:
            self.stop("failed", f"{tasks} processes and threads, the limit is {spec['processes']}")
        elif self.disk and now - self.began > TO_REMOVE and (held_now := self.disk.look()) > spec["disk_mb"] * MB:
            self.stop("failed", f"the workspace holds {held_now // MB} MB, the limit is {spec['disk_mb']} MB")
        else:
            for disk, (room, files) in self.reserves.items():
                left, files_left = free(disk)
                if left < room or files_left < files:
                    what = f"{room // MB} MB" if left < room else f"{files} files"
                    self.stop("failed", f"less than {what} are left on the disk of {disk}")
        return bool(self.reason)

    def stop(self, outcome: str, reason: str) -> None:
        self.stopped, self.reason = outcome, reason

    def terminate(self) -> None:
        """SIGTERM to the command alone, so that its workers live while it saves; through a shell to what it runs."""
        tree = proc.descendants(os.getpid())
        roots = [pid for pid, entry in tree.items() if entry.parent == (self.init or os.getpid())]
        for pid in roots:
            if pid in tree and tree[pid].name in SHELLS:
                proc.send([child for child, entry in tree.items() if entry.parent == pid], proc.SIGTERM)
        proc.send(roots, proc.SIGTERM)
        self.warned = bool(roots)

    def end(self) -> dict[str, Any]:
        """Kill what is left, reap everything, empty the pipe, report."""
        statuses, left = proc.end_all(os.getpid())
        while self.pump() and select.select([self.output], [], [], 0)[0]:
            pass
        while self.status_r >= 0 and select.select([self.status_r], [], [], 0)[0]:
            self.read_status()
        code: int | None = os.waitstatus_to_exitcode(statuses.get(self.main, 0))
        if self.spec["level"] == "bwrap":
            inner = number_after(b'"exit-code":', self.status_text)
            if inner is None and not self.stopped and code == 1:
                with open(self.spec["log"], errors="replace") as file:
                    words = file.read(2000).strip()
                # A command's own output cannot come here: with a command there is an exit code.
                if not words.startswith("bwrap: execvp"):
                    raise Broken(words or "bwrap could not start the command")
                inner = 127 if words.endswith("No such file or directory") else 126
            code = inner if inner is not None else code
        if code is not None and code < 0:
            code = 128 - code
        peak = max(self.memory.peak, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024)
        outcome = self.stopped or ("ok" if code == 0 else "failed")
        if not self.stopped and code == 137 and peak > 0.8 * self.memory.limit:
            outcome, self.reason = "memory", "killed by the kernel, near the limit"
        return {
            "outcome": outcome,
            "exit_code": None if self.reason else code,
            "seconds": time.monotonic() - self.began,
            "peak_memory_mb": round(peak / MB, 1),
            "log_bytes": self.log_bytes,
            "output_cut": self.cut,
            "reason": self.reason + (f"; {left} processes could not be ended" if left else ""),
        }


def main() -> None:
    try:
        spec = marshal.loads(read_exactly(0, int.from_bytes(read_exactly(0, 8), "big")))
        stdin = read_exactly(0, spec["stdin_bytes"])
        if os.geteuid() == 0:
            raise Broken("refusing to start a child as root")
        landlock.adopt_orphans()
        run = Run(spec, stdin)
        try:
            run.start()
            run.follow()
            report = run.end()
            if run.orphaned and spec["private"]:
                removal.remove_tree(spec["private"])
                removal.remove_tree(spec["private"] + ".lock")
        except BaseException:
            proc.end_all(os.getpid())
            raise
    except (Broken, OSError) as error:
        report = {"broken": str(error)}
    os.write(1, marshal.dumps(report))
