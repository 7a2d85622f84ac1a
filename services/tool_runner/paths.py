"""Virtual paths (`/workspace/...`, `/data/...`, `/templates/...`, `/m3/...`) and opening what they name, safely.

Scripts of a core write into the workspace while tools read it, so nothing here trusts a name twice: every component
is opened relative to its parent with O_NOFOLLOW. A symbolic link is refused wherever it stands, wherever it points.
"""

import difflib
import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from shared.errors import ToolRefused

SCRIPTS = ".scripts"
"""Folder of a workspace for the scripts that were run and have no name of their own."""
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@dataclass(frozen=True)
class Place:
    """A position below a root, by name only: nothing was looked at on disk yet."""

    root: Path
    top: str
    """`/workspace`, `/data`, `/templates` or `/m3`."""
    parts: tuple[str, ...]

    @property
    def virtual(self) -> str:
        return "/".join((self.top, *self.parts))

    @property
    def parent(self) -> "Place":
        return Place(self.root, self.top, self.parts[:-1])

    @property
    def name(self) -> str:
        return self.parts[-1] if self.parts else self.top.strip("/")

    def below(self, *parts: str) -> "Place":
        return Place(self.root, self.top, (*self.parts, *parts))


@dataclass(frozen=True)
class Roots:
    """Real folders behind the virtual ones; None where a role has no such folder."""

    workspace: Path
    data: Path | None = None
    templates: Path | None = None
    library: Path | None = None
    """Code of ours that scripts of the workspace import, as `/m3`."""

    def _tops(self) -> list[tuple[str, Path]]:
        pairs = {"/workspace": self.workspace, "/data": self.data, "/templates": self.templates, "/m3": self.library}
        return [(top, root) for top, root in pairs.items() if root is not None]

    def locate(self, virtual: str, for_write: bool = False) -> Place:
        """Turn a path as a core writes it into a place. Raises ToolRefused; does not touch the disk.

        `..` is resolved by name, which is exact because links are never followed. A real path below a root is taken
        for the virtual one, since scripts at the landlock level see and print real paths.
        """
        if not virtual.strip() or "\0" in virtual:
            raise ToolRefused("The path is empty. Give one such as /workspace/train.py or /data.")
        path = virtual if virtual.startswith("/") else f"/workspace/{virtual}"
        parts = Path(os.path.normpath(path)).parts[1:]
        # normpath has eaten `..` already, so a path that climbs out of its root names another top folder here.
        for top, root in self._tops():
            if parts[:1] == (top[1:],):
                return self._checked(Place(root, top, parts[1:]), virtual, for_write)
        for top, root in self._tops():
            real = root.parts[1:]
            if real and parts[: len(real)] == real:
                return self._checked(Place(root, top, parts[len(real) :]), virtual, for_write)
        known = ", ".join(top for top, _ in self._tops())
        if parts[:1] in {("data",), ("templates",), ("m3",)}:
            raise ToolRefused(f"{virtual}: there is no /{parts[0]} for this role. You have {known}.")
        raise ToolRefused(
            f"{virtual} is outside the folders that tools can reach: {known}. Use a path below one of them."
        )

    @staticmethod
    def _checked(place: Place, virtual: str, for_write: bool) -> Place:
        if for_write and place.top != "/workspace":
            raise ToolRefused(
                f"{virtual} is read-only. Write below /workspace; copy the file there first to change it."
            )
        return place

    def resolve(self, virtual: str, for_write: bool = False) -> Path:
        """The real path of something that exists (or, for a write, may come to exist) with no link on the way.

        The answer can be outdated by the time it is used: only for handing to a sandboxed process.
        """
        place = self.locate(virtual, for_write)
        if place.parts:
            with _open_parent_if_there(place, for_write) as folder:
                if folder is not None:
                    _refuse_link(place, entry_of(folder, place.name))
                    if not for_write and entry_of(folder, place.name) is None:
                        raise ToolRefused(_missing(place, folder))
        return place.root.joinpath(*place.parts)

    def display(self, real: str | Path) -> str:
        """The virtual path of a real one below a root; anything else unchanged."""
        parts = Path(os.path.normpath(real)).parts
        for top, root in self._tops():
            if parts[: len(root.parts)] == root.parts:
                return "/".join((top, *parts[len(root.parts) :]))
        return str(real)


@contextmanager
def open_folder(place: Place) -> Iterator[int]:
    """File descriptor of an existing folder. Raises ToolRefused when it is missing, a file, or behind a link."""
    folder = _descend(place)
    try:
        yield folder
    finally:
        os.close(folder)


@contextmanager
def open_file(place: Place) -> Iterator[BinaryIO]:
    """A regular file for reading. Raises ToolRefused for everything else: folder, link, pipe, device, nothing."""
    if not place.parts:
        raise ToolRefused(_is_folder(place))
    with open_folder(place.parent) as folder:
        found = entry_of(folder, place.name)
        if found is None:
            raise ToolRefused(_missing(place, folder))
        _refuse_link(place, found)
        if stat.S_ISDIR(found.st_mode):
            raise ToolRefused(_is_folder(place))
        _refuse_special(place, found)
        try:
            descriptor = os.open(place.name, _FILE, dir_fd=folder)
        except PermissionError:
            raise ToolRefused(f"{place.virtual} may not be read by this runner.") from None
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.ENOENT):
                raise ToolRefused(f"{place.virtual} changed while it was being opened. Call again.") from None
            raise
    with os.fdopen(descriptor, "rb") as file:
        _refuse_special(place, os.fstat(file.fileno()))
        yield file


def entry_of(folder: int, name: str) -> os.stat_result | None:
    """What stands under `name` in the folder, links not followed; None for nothing."""
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            raise ToolRefused(f"The name {name[:40]}... is too long. Use a shorter one.") from None
        raise


def kind_of(place: Place) -> str:
    """`folder`, `file` or `nothing`. Raises ToolRefused for links and special files."""
    if not place.parts:
        return "folder"
    with _open_parent_if_there(place, may_be_missing=True) as folder:
        found = entry_of(folder, place.name) if folder is not None else None
    if found is None:
        return "nothing"
    _refuse_link(place, found)
    if stat.S_ISDIR(found.st_mode):
        return "folder"
    _refuse_special(place, found)
    return "file"


def _descend(place: Place) -> int:
    try:
        current = os.open(place.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        raise ToolRefused(f"{place.top} does not exist on this runner.") from None
    for number, part in enumerate(place.parts, 1):
        here = Place(place.root, place.top, place.parts[:number])
        try:
            following = os.open(part, _FOLDER, dir_fd=current)
        except PermissionError:
            raise ToolRefused(f"{here.virtual} may not be read by this runner.") from None
        except OSError as error:
            found = entry_of(current, part)
            _refuse_link(here, found)
            if found is None:
                raise _Missing(_missing(here, current)) from None
            if error.errno in (errno.ENOTDIR, errno.ELOOP):
                raise ToolRefused(f"{here.virtual} is a file, not a folder.") from None
            raise
        finally:
            os.close(current)
        current = following
    return current


class _Missing(ToolRefused):
    """A folder on the way does not exist, as opposed to being a link or a file."""


@contextmanager
def _open_parent_if_there(place: Place, may_be_missing: bool) -> Iterator[int | None]:
    try:
        folder: int | None = _descend(place.parent)
    except _Missing:
        if not may_be_missing:
            raise
        folder = None
    try:
        yield folder
    finally:
        if folder is not None:
            os.close(folder)


def _refuse_link(place: Place, found: os.stat_result | None) -> None:
    if found is not None and stat.S_ISLNK(found.st_mode):
        raise ToolRefused(f"{place.virtual} is a symbolic link; links are not followed. Use the path of the real file.")


def _refuse_special(place: Place, found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise ToolRefused(f"{place.virtual} is no regular file (a pipe, socket or device).")


def _is_folder(place: Place) -> str:
    with open_folder(place) as folder:
        return f"{place.virtual} is a folder. {_holds(place, _names(folder))}"


def _missing(place: Place, folder: int) -> str:
    names = _names(folder)
    close = difflib.get_close_matches(place.name, names, n=3, cutoff=0.6)
    if close:
        return f"{place.virtual} does not exist. Near names in {place.parent.virtual}: {', '.join(close)}."
    return f"{place.virtual} does not exist. {_holds(place.parent, names)}"


def _names(folder: int) -> list[str]:
    with os.scandir(folder) as entries:
        return [entry.name for _, entry in zip(range(2000), entries, strict=False)]


def _holds(place: Place, names: list[str]) -> str:
    if not names:
        return f"{place.virtual} is empty."
    more = f" and {len(names) - 10} more." if len(names) > 10 else "."
    return f"{place.virtual} holds: {', '.join(sorted(names)[:10])}{more}"
