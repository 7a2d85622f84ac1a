"""Several files written as one: under temporary names beside their targets, then renamed together or not at all."""

import os
import secrets
import shutil
import stat
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import BinaryIO, Self

from services.tool_runner.paths import Place, entry_of, open_folder
from shared.errors import ToolRefused


@dataclass(frozen=True)
class _Staged:
    place: Place
    temporary: str
    aside: str | None
    """Second name of the file that is replaced, to put back when a later rename fails; None when there was no file."""


class Staging:
    """Use as a context manager; what was not committed is taken away again, made folders included."""

    def __init__(self) -> None:
        self._staged: list[_Staged] = []
        self._made: list[Place] = []
        self._committed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._committed:
            return
        for staged in self._staged:
            _remove(staged.place, staged.temporary)
        for place in reversed(self._made):
            with suppress(OSError, ToolRefused), open_folder(place.parent) as folder:
                os.rmdir(place.name, dir_fd=folder)

    def add(self, place: Place, content: bytes | BinaryIO, mode: int | None = None) -> None:
        """Write `content` beside `place`; `mode` None keeps that of an existing file, else 0644."""
        if not place.parts:
            raise ToolRefused(f"{place.virtual} is a folder. Give the name of a file below it.")
        self.make_folder(place.parent)
        with open_folder(place.parent) as folder:
            found = entry_of(folder, place.name)
            if found is not None and not stat.S_ISREG(found.st_mode):
                kind = "a folder" if stat.S_ISDIR(found.st_mode) else "a link or special file"
                raise ToolRefused(f"{place.virtual} is {kind} and cannot be written as a file. Use another name.")
            temporary = f".{secrets.token_hex(8)}.m3tmp"
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            descriptor = os.open(temporary, flags, 0o600, dir_fd=folder)
            self._staged.append(_Staged(place, temporary, f".{secrets.token_hex(8)}.m3tmp" if found else None))
            with os.fdopen(descriptor, "wb") as out:
                if isinstance(content, bytes):
                    out.write(content)
                else:
                    shutil.copyfileobj(content, out, 1 << 20)
                keep = stat.S_IMODE(found.st_mode) & 0o777 if found is not None else 0o644
                os.fchmod(out.fileno(), keep if mode is None else mode)

    def make_folder(self, place: Place) -> None:
        """Make a folder and its parents; existing ones are kept."""
        for depth in range(1, len(place.parts) + 1):
            here = Place(place.root, place.top, place.parts[:depth])
            with open_folder(here.parent) as folder:
                entry_of(folder, here.name)  # says so when the name is too long
                with suppress(FileExistsError):
                    os.mkdir(here.name, 0o755, dir_fd=folder)
                    self._made.append(here)
            with open_folder(here):
                pass

    def commit(self) -> None:
        done: list[_Staged] = []
        try:
            for staged in self._staged:
                with open_folder(staged.place.parent) as folder:
                    if staged.aside:
                        with suppress(FileNotFoundError):
                            os.link(
                                staged.place.name, staged.aside,
                                src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False,
                            )  # fmt: skip
                    os.rename(staged.temporary, staged.place.name, src_dir_fd=folder, dst_dir_fd=folder)
                done.append(staged)
        except (OSError, ToolRefused):
            self._roll_back(done)
            raise
        finally:
            for staged in self._staged:
                if staged.aside:
                    _remove(staged.place, staged.aside)
        self._committed = True

    def _roll_back(self, done: list[_Staged]) -> None:
        for staged in done:
            with suppress(OSError, ToolRefused), open_folder(staged.place.parent) as folder:
                if staged.aside:
                    os.rename(staged.aside, staged.place.name, src_dir_fd=folder, dst_dir_fd=folder)
                else:
                    os.unlink(staged.place.name, dir_fd=folder)


def _remove(place: Place, name: str) -> None:
    """Take away what lies under `name` beside `place`, if it is there."""
    with suppress(OSError, ToolRefused), open_folder(place.parent) as folder:
        os.unlink(name, dir_fd=folder)
