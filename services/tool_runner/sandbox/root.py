"""From root to an ordinary user, in a process that goes on working although its Python may lie below /root."""

import ctypes
import os
import stat
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from services.tool_runner.sandbox import landlock
from services.tool_runner.sandbox.interpreter import python_env
from shared.errors import ToolBroken

_CLONE_NEWNS = 0x00020000
_MS_BIND, _MS_REC, _MS_SLAVE, _MS_NOSUID, _MS_NODEV = 4096, 16384, 1 << 19, 2, 4
_PR_SET_NO_NEW_PRIVS = 38


def drop_root(uid: int, keep: Sequence[Path]) -> None:
    """Become user and group `uid` for good; does nothing when not root. First thing in `main`, before any thread.

    The interpreter, this project and every path in `keep` stay reachable: where an ancestor is closed to others (such
    as /root, mode 0700), this process gets a mount namespace of its own in which the ancestor is covered by an empty
    folder that holds just the paths needed. Nothing is chowned: what must be writable in `keep` has to belong to
    `uid` already. Later mounts of the machine still appear. HOME becomes the first folder of `keep` that `uid` owns.
    ToolBroken when a path cannot be made reachable.
    """
    if os.geteuid() != 0:
        return
    if uid == 0:
        raise ToolBroken("the runner's uid must not be 0; set M3_RUNNER_UID")
    threads = len(list(Path("/proc/self/task").iterdir()))
    if threads > 1:
        raise ToolBroken(f"drop_root came too late: {threads} threads run already, and only one would be moved")
    project = Path(__file__).resolve().parents[3]
    loading = [Path(entry) for entry in sys.path if entry and Path(entry).exists()]
    asked = [*keep, *python_env().folders, project]
    needed = [variant for path in asked for variant in dict.fromkeys((path.absolute(), path.resolve()))]
    covers = _covers([*needed, *(p.absolute() for p in loading if _open_to(p, uid))], uid)
    cwd = Path.cwd()
    if covers:
        _own_mounts()
        for ancestor, paths in covers.items():
            _cover(ancestor, paths)
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
    landlock.prctl(_PR_SET_NO_NEW_PRIVS)  # bwrap makes its namespaces without gaining privileges
    os.environ["HOME"] = str(next((p for p in keep if p.is_dir() and p.stat().st_uid == uid), "/nonexistent"))
    for name in ("USER", "LOGNAME", "XDG_RUNTIME_DIR"):
        os.environ.pop(name, None)
    try:
        os.chdir(cwd)
    except OSError:
        os.chdir("/")
    for path in needed:
        if not os.access(path, os.R_OK | (os.X_OK if path.is_dir() else 0)):
            raise ToolBroken(f"{path} cannot be read by user {uid}; change its owner or mode, or move it")


def _open_to(path: Path, uid: int) -> bool:
    return _allows(path, uid, stat.S_IROTH)


def _allows(path: Path, uid: int, other: int) -> bool:
    """Whether the mode gives user and group `uid` the right, given as the bit for others."""
    status = path.stat()
    shift = 6 if status.st_uid == uid else 3 if status.st_gid == uid else 0
    return bool(status.st_mode & other << shift)


def _covers(paths: Iterable[Path], uid: int) -> dict[Path, list[Path]]:
    """Outermost closed ancestor -> paths below it that are needed, none within another."""
    found: dict[Path, set[Path]] = {}
    for path in paths:
        for ancestor in reversed(path.parents):
            if not _allows(ancestor, uid, stat.S_IXOTH):
                found.setdefault(ancestor.resolve(), set()).add(path)
                break
    return {
        ancestor: sorted(p for p in below if not any(p != other and p.is_relative_to(other) for other in below))
        for ancestor, below in found.items()
    }


def _call(result: int, what: str) -> None:
    if result != 0:
        error = ctypes.get_errno()
        raise ToolBroken(
            f"{what}: {os.strerror(error)}. Python, the project or the data lie in a folder that only root may enter, "
            "and no mount namespace can be made here; start the runner as an ordinary user, or move them"
        )


_libc = ctypes.CDLL(None, use_errno=True)


def _mount(source: str, target: str, kind: str | None, flags: int, options: str | None = None) -> None:
    words = [word.encode() if word is not None else None for word in (source, target, kind, options)]
    _call(_libc.mount(words[0], words[1], words[2], ctypes.c_ulong(flags), words[3]), f"mount {target}")


def _own_mounts() -> None:
    _call(_libc.unshare(_CLONE_NEWNS), "unshare")
    _mount("none", "/", None, _MS_REC | _MS_SLAVE)


def _cover(ancestor: Path, paths: Sequence[Path]) -> None:
    sources = {path: os.open(path, os.O_PATH | os.O_CLOEXEC) for path in paths}
    umask = os.umask(0o022)  # the folders on the way are for the user to come
    _mount("tmpfs", str(ancestor), "tmpfs", _MS_NOSUID | _MS_NODEV, "mode=0711,size=1m")
    try:
        for path, fd in sources.items():
            if stat.S_ISDIR(os.fstat(fd).st_mode):
                path.mkdir(mode=0o755, parents=True, exist_ok=True)
            else:
                path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
                path.touch()
            _mount(f"/proc/self/fd/{fd}", str(path), None, _MS_BIND | _MS_REC)
    finally:
        os.umask(umask)
        for fd in sources.values():
            os.close(fd)
