"""Private homes of runs at the levels without a tmpfs, and the removal of those that a killed runner left behind."""

import fcntl
import os
import tempfile
from contextlib import suppress
from pathlib import Path

from services.tool_runner.sandbox.removal import remove_tree

_PREFIX, _LOCK = "m3-run-", ".lock"


class PrivateHome:
    """An empty folder of the current user. A lock beside it, which ends with this process, tells that it is in use."""

    def __init__(self) -> None:
        self._descriptor, lock = tempfile.mkstemp(prefix=_PREFIX, suffix=_LOCK)
        fcntl.flock(self._descriptor, fcntl.LOCK_EX)
        self._lock = Path(lock)
        self.path = self._lock.with_suffix("")
        self.path.mkdir(mode=0o700)

    def remove(self) -> None:
        remove_tree(self.path)
        self._lock.unlink(missing_ok=True)
        os.close(self._descriptor)


def sweep_homes() -> list[Path]:
    """Remove the homes that nobody uses any more: ours by owner, and with a lock that no process holds. Blocks."""
    swept = []
    for lock in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*{_LOCK}"):
        with suppress(OSError):
            descriptor = os.open(lock, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            try:
                home = lock.with_suffix("")
                if {os.fstat(descriptor).st_uid, _owner(home)} - {None} != {os.geteuid()}:
                    continue
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                remove_tree(home)
                lock.unlink()
                swept.append(home)
            finally:
                os.close(descriptor)
    return swept


def _owner(folder: Path) -> int | None:
    try:
        return folder.lstat().st_uid
    except FileNotFoundError:
        return None
