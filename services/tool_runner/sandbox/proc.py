"""Reading and ending a process tree through /proc. For the launcher: standard library only."""
# pathlib would lengthen the start of the launcher by half.
# ruff: noqa: PTH110, PTH116, PTH123, PTH208

from __future__ import annotations

import os
import time

# mypy takes this name for true; importing typing, collections, signal or re would double the launcher's start.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

CHILDREN = os.path.exists(f"/proc/self/task/{os.getpid()}/children")
SIGKILL, SIGTERM, SIGSTOP = 9, 15, 19
PAGE = os.sysconf("SC_PAGE_SIZE")
KERNEL = tuple(int(part) for part in os.uname().release.split("-")[0].split(".")[:2])


class Process:
    """`resident` is in bytes, shared pages included."""

    __slots__ = ("name", "parent", "resident", "threads")

    def __init__(self, name: str, parent: int, threads: int, resident: int) -> None:
        self.name, self.parent, self.threads, self.resident = name, parent, threads, resident


def read(pid: int) -> Process | None:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            name, _, rest = file.read().partition(b"(")[2].rpartition(b")")
    except OSError:
        return None
    fields = rest.split()
    return Process(name.decode(errors="replace"), int(fields[1]), int(fields[17]), int(fields[21]) * PAGE)


def children(pid: int) -> list[int]:
    """Of all threads. May miss one while others come and go, so whoever needs all of them asks again."""
    found = []
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/children", "rb") as file:
                found += [int(word) for word in file.read().split()]
    except OSError:
        return found
    return found


def descendants(root: int) -> dict[int, Process]:
    """All below `root`, not itself; none that went elsewhere, since `root` adopts orphans."""
    tree: dict[int, Process] = {}
    queue = children(root) if CHILDREN else _children_by_scan(root)
    while queue:
        pid = queue.pop()
        if pid not in tree and (process := read(pid)):
            tree[pid] = process
            queue += children(pid) if CHILDREN else _children_by_scan(pid)
    return tree


def _children_by_scan(parent: int) -> list[int]:
    """For kernels that do not list children."""
    every = [int(entry) for entry in os.listdir("/proc") if entry.isdigit()]
    return [pid for pid in every if (process := read(pid)) and process.parent == parent]


def tasks_of(uid: int) -> int:
    """Threads of a user on this machine, as RLIMIT_NPROC counts them."""
    total = 0
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            if os.stat(f"/proc/{entry}").st_uid not in (uid, 0):  # 0 also stands for what may not be dumped
                continue
            with open(f"/proc/{entry}/status") as file:
                fields = dict(line.split(":", 1) for line in file if line.startswith(("Uid:", "Threads:")))
        except OSError:
            continue
        if int(fields["Uid"].split()[0]) == uid:
            total += int(fields["Threads"])
    return total


def send(pids: Iterable[int], number: int) -> None:
    for pid in pids:
        try:  # noqa: SIM105 - contextlib is one of those imports
            os.kill(pid, number)
        except ProcessLookupError:
            pass


def end_all(root: int) -> tuple[dict[int, int], int]:
    """Kill every descendant; (wait status by child, how many refused to die within 10 s).

    They are stopped first: what is stopped neither forks nor makes room below a process limit.
    """
    seen: set[int] = set()
    while fresh := set(descendants(root)) - seen:
        send(fresh, SIGSTOP)
        seen |= fresh
    send(seen, SIGKILL)
    statuses: dict[int, int] = {}
    deadline = time.monotonic() + 10
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return statuses, 0
        if pid:
            statuses[pid] = status
            continue
        left = descendants(root)
        if time.monotonic() > deadline:
            return statuses, len(left)
        send(left, SIGKILL)
        time.sleep(0.001)


def socket_memory(pid: int) -> int:
    """Bytes that all sockets of the network namespace of `pid` may hold, sent and not yet read; in no process's size.

    Those that are open nowhere but under way to another process count too.
    """
    try:
        with open(f"/proc/{pid}/net/sockstat") as file, open("/proc/sys/net/core/wmem_default") as each:
            # The last packet may go beyond the bound by half of it.
            return int(file.readline().split()[2]) * int(each.read()) * 3 // 2
    except (OSError, ValueError, IndexError):
        return 0


class Memory:
    """Memory of a tree. The cheap sum counts shared pages in each process, so only the exact one convicts."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.peak = 0
        self._skip = 0
        self._last = 0

    def measure(self, tree: dict[int, Process], init: int, tmpfs: Sequence[str]) -> int:
        """`init` is the first process of a sandbox with namespaces of its own, where `tmpfs` are; else 0."""
        held = sum(self._held(f"/proc/{init}/root{path}") for path in tmpfs) if init else 0
        sockets = socket_memory(init) if init else 0
        used = sum(process.resident for process in tree.values()) + held + sockets
        if used > self.limit:
            if self._skip:
                self._skip -= 1
                used = self._last
            else:
                used = self._last = self._exact(tree, held) + sockets
                self._skip = 3 if used < 0.7 * self.limit else 0
        self.peak = max(self.peak, used)
        return used

    def _held(self, path: str) -> int:
        """Before bwrap has changed its root, the machine's own disk stands there: ours is known by its size."""
        try:
            disk = os.statvfs(path)
        except OSError:
            return 0
        ours = disk.f_blocks * disk.f_frsize == self.limit
        return (disk.f_blocks - disk.f_bfree) * disk.f_frsize if ours else 0

    @staticmethod
    def _exact(tree: dict[int, Process], held: int) -> int:
        """Anonymous pages shared out among their users, plus shared memory; the page cache can be given back."""
        anonymous = shared = 0
        for pid, process in tree.items():
            try:
                with open(f"/proc/{pid}/smaps_rollup") as file:
                    fields = dict(line.split(":", 1) for line in file if line.startswith("Pss_"))
                anonymous += int(fields["Pss_Anon"].split()[0]) * 1024
                shared += int(fields["Pss_Shmem"].split()[0]) * 1024
            except (FileNotFoundError, ProcessLookupError):
                continue
            except (OSError, KeyError):
                anonymous += process.resident
        return anonymous + max(shared, held)
