"""Ways to files: those outside, those of the data, those of other runs, and files that run as their owner."""
# The calls are what is tried, so they stand here bare.
# ruff: noqa: PTH101, PTH108, PTH116, PTH123, PTH208

import ctypes
import errno
import fcntl
import mmap
import os
import socket
import sys
from collections.abc import Callable
from pathlib import Path

from inside_common import DATA, FILE, KNOWN, create, libc, opened


def symlink() -> str:
    Path("way_out").symlink_to(KNOWN["secret"])
    return Path("way_out").read_text()


def hard_link(source: str) -> str:
    os.link(source, "hard")
    return "linked " + Path("hard").read_text()


def move_in(source: Path) -> str:
    source.rename("moved")
    return "moved"


def root_home() -> str:
    """Only the way to the interpreter, if that lies there, may be seen."""
    way = {part for prefix in (sys.prefix, sys.base_prefix) for part in Path(prefix).parts}
    if names := set(os.listdir("/root")) - way:
        return f"listed {names}"
    raise PermissionError(errno.EACCES, "nothing but the interpreter")


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


def through_parent_folders() -> str:
    return opened("/".join([".."] * 30) + KNOWN["secret"])


def through_own_root() -> str:
    return opened("/proc/self/root" + KNOWN["secret"])


FILES: dict[str, Callable[[], object]] = {
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
    "dotdot": through_parent_folders,
    "own_root": through_own_root,
}
