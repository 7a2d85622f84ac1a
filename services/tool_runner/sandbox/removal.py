"""Taking a folder away that a stranger filled. Also for the launcher: standard library only."""
# pathlib would lengthen the start of the launcher by half, contextlib too.
# ruff: noqa: PTH101, PTH106, PTH108, SIM105

from __future__ import annotations

import os
import stat

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def remove_tree(folder: str | os.PathLike[str]) -> None:
    """Remove all of it that can be removed; follows no link and never raises for what is in it.

    Nested folders are moved up before they are emptied: neither the length of a path nor the number of open files or
    nested calls grows with their depth, which is what shutil.rmtree ends on. Closed folders are opened.
    """
    try:
        if not stat.S_ISDIR(os.lstat(folder).st_mode):
            os.unlink(folder)
            return
        os.chmod(folder, stat.S_IRWXU)
        top = os.open(folder, _FOLDER)
    except OSError:
        return
    try:
        # Reading a folder while it changes may pass names over: they come with the next round.
        while _round(top):
            pass
    finally:
        os.close(top)
    try:
        os.rmdir(folder)
    except OSError:
        pass


def _round(top: int) -> int:
    """How many entries went, or moved up."""
    gone = 0
    with os.scandir(top) as entries:
        for entry in entries:
            try:
                if entry.is_dir(follow_symlinks=False):
                    gone += _emptied(top, entry.name)
                    os.rmdir(entry.name, dir_fd=top)
                else:
                    os.unlink(entry.name, dir_fd=top)
                gone += 1
            except OSError:
                continue
    return gone


def _emptied(top: int, name: str) -> int:
    os.chmod(name, stat.S_IRWXU, dir_fd=top)
    inner = os.open(name, _FOLDER, dir_fd=top)
    gone = 0
    try:
        with os.scandir(inner) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    os.chmod(entry.name, stat.S_IRWXU, dir_fd=inner)
                    os.rename(entry.name, f".{os.urandom(8).hex()}", src_dir_fd=inner, dst_dir_fd=top)
                else:
                    os.unlink(entry.name, dir_fd=inner)
                gone += 1
    finally:
        os.close(inner)
    return gone
