"""Landlock and seccomp on the calling process, through ctypes. For the launcher: standard library only.

Both are inherited by every child and cannot be taken back, so `confine` belongs between fork and exec.
"""

from __future__ import annotations

import ctypes
import os
import stat

TYPE_CHECKING = False  # mypy takes it for true; the launcher must start fast
if TYPE_CHECKING:
    from collections.abc import Sequence

_CREATE, _ADD, _RESTRICT = 444, 445, 446
_PR_SET_PDEATHSIG, _PR_SET_SECCOMP, _PR_SET_NO_NEW_PRIVS, _PR_SET_CHILD_SUBREAPER = 1, 22, 38, 36

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
REMOVE_DIR, REMOVE_FILE, MAKE_CHAR, MAKE_DIR, MAKE_REG = 1 << 4, 1 << 5, 1 << 6, 1 << 7, 1 << 8
MAKE_SOCK, MAKE_FIFO, MAKE_BLOCK, MAKE_SYM, REFER, TRUNCATE, IOCTL_DEV = (1 << n for n in range(9, 16))

READ = EXECUTE | READ_FILE | READ_DIR
_WRITE = WRITE_FILE | REMOVE_DIR | REMOVE_FILE | MAKE_DIR | MAKE_REG | MAKE_SOCK | MAKE_FIFO | MAKE_SYM
WRITE = READ | _WRITE | REFER | TRUNCATE
DEVICE = READ_FILE | WRITE_FILE | IOCTL_DEV
SHARED_MEMORY = READ_FILE | WRITE_FILE | MAKE_REG | REMOVE_FILE | TRUNCATE
"""No READ_DIR: what another run keeps there has to be guessed by name."""
_FILE_RIGHTS = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV

_libc = ctypes.CDLL(None, use_errno=True)


class _Ruleset(ctypes.Structure):
    _fields_ = (("fs", ctypes.c_uint64), ("net", ctypes.c_uint64), ("scope", ctypes.c_uint64))


class _Beneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("access", ctypes.c_uint64), ("parent", ctypes.c_int32))


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))


def _check(result: int, what: str) -> int:
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, f"{what}: {os.strerror(error)}")
    return result


def prctl(option: int, value: int = 1) -> None:
    _check(_libc.prctl(option, ctypes.c_ulong(value), 0, 0, 0), f"prctl {option}")


def adopt_orphans() -> None:
    """Descendants whose parent died become children of this process, whatever session they went to."""
    prctl(_PR_SET_CHILD_SUBREAPER)


def die_with_parent() -> None:
    prctl(_PR_SET_PDEATHSIG, 9)


def default_signals() -> None:
    """Python ignores SIGPIPE and SIGXFSZ, and exec would hand that on."""
    for number in (13, 25):
        _libc.signal(number, None)


def abi() -> int:
    """Version of the running kernel's Landlock, 0 where it is missing or switched off."""
    return max(0, int(_libc.syscall(_CREATE, None, 0, 1)))


def confine(rules: Sequence[tuple[str, int]], seccomp: bytes) -> None:
    """Only `rules` (path, rights) stay reachable; no TCP, no abstract sockets or signals outside; then the filter.

    A path that does not exist is left out. Raises OSError; the process must not go on then.
    """
    version = abi()
    if version < 1:
        raise OSError("Landlock is not available")
    handled = (1 << 13) - 1
    handled |= sum(right for right, since in ((REFER, 2), (TRUNCATE, 3), (IOCTL_DEV, 5)) if version >= since)
    attributes = _Ruleset(handled, 3 if version >= 4 else 0, 3 if version >= 6 else 0)
    size = 24 if version >= 6 else 16 if version >= 4 else 8
    ruleset = _check(_libc.syscall(_CREATE, ctypes.byref(attributes), size, 0), "landlock_create_ruleset")
    for path, rights in rules:
        _allow(ruleset, path, rights & handled)
    prctl(_PR_SET_NO_NEW_PRIVS)
    _check(_libc.syscall(_RESTRICT, ruleset, 0), "landlock_restrict_self")
    os.close(ruleset)
    code = _Program(len(seccomp) // 8, seccomp)
    _check(_libc.prctl(_PR_SET_SECCOMP, 2, ctypes.byref(code), 0, 0), "prctl seccomp")


def _allow(ruleset: int, path: str, rights: int) -> None:
    try:
        fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return
    try:
        if not stat.S_ISDIR(os.fstat(fd).st_mode):
            rights &= _FILE_RIGHTS
        beneath = _Beneath(rights, fd)
        _check(_libc.syscall(_ADD, ruleset, 1, ctypes.byref(beneath), 0), f"landlock_add_rule {path}")
    finally:
        os.close(fd)
