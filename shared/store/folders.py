"""Folders as stored objects: a manifest of content-addressed files, written last."""

import os
import stat
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from pydantic import Field, ValidationError

from shared.contracts.base import Contract, Ref
from shared.errors import ToolBroken, UserError
from shared.store.paths import UnsafePath, make_parents, open_inside, parts_of

if TYPE_CHECKING:
    from shared.store.client import Store

Excluded = Callable[[str], bool]
"""Relative path of a file or folder -> True to leave it out."""

THREADS = 8
MAX_DEPTH = 64
"""Folders in each other: what a script nests deeper is not stored."""


class FileEntry(Contract):
    ref: Ref
    mode: int
    """Permission bits; only those of the owner are kept on the way back, never set-uid."""


class FolderManifest(Contract):
    """Relative path -> file. Equal folders have equal bytes, hence one Ref."""

    files: dict[str, FileEntry] = Field(default_factory=dict)
    links: dict[str, str] = Field(default_factory=dict)
    """Relative path -> target relative to the link's own folder; `..` only in front."""

    def encode(self) -> bytes:
        ordered = FolderManifest(files=dict(sorted(self.files.items())), links=dict(sorted(self.links.items())))
        return ordered.model_dump_json().encode()

    @classmethod
    def decode(cls, data: bytes) -> "FolderManifest":
        """Raises ToolBroken for bytes that are no manifest, UnsafePath when a path or link in it leaves the folder."""
        try:
            manifest = cls.model_validate_json(data)
        except ValidationError as error:
            raise ToolBroken(f"the object is no folder manifest: {error.error_count()} faults") from None
        manifest.check()
        return manifest

    def check(self) -> None:
        for path in self.files:
            parts_of(path)
        for path, target in self.links.items():
            _check_link(path, target)
        leaves = {*self.files, *self.links}
        for path in leaves:
            parts = path.split("/")
            above = next((up for end in range(1, len(parts)) if (up := "/".join(parts[:end])) in leaves), None)
            if above:
                raise UnsafePath(f"{path!r} lies below {above!r}, which is no folder")
        if both := self.files.keys() & self.links.keys():
            raise UnsafePath(f"{sorted(both)} are files and links at once")


class Found(NamedTuple):
    """A file as `scan` saw it."""

    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int
    mode: int

    @classmethod
    def of(cls, info: os.stat_result) -> "Found":
        mode = stat.S_IMODE(info.st_mode)
        return cls(info.st_size, info.st_mtime_ns, info.st_ctime_ns, info.st_ino, mode)


class Scan(NamedTuple):
    files: dict[str, Found]
    links: dict[str, str]
    """Links that stay inside, with normalised targets."""
    refused: dict[str, str]
    """What cannot be stored, and why: links that lead out of the folder, names that are no text, deep folders."""


def scan(root: Path, exclude: Excluded | None = None) -> Scan:
    """Walk a folder without following links. What vanishes meanwhile, and special files, are skipped."""
    result = Scan({}, {}, {})
    for relative, entry in _walk(str(root), "", exclude):
        with suppress(FileNotFoundError):
            if not _is_text(relative):
                result.refused[ascii(relative)] = "its name is not UTF-8"
                continue
            if entry.is_dir(follow_symlinks=False):
                result.refused[relative] = f"lies more than {MAX_DEPTH} folders deep"
                continue
            if entry.is_symlink():
                _scan_link(root.resolve(), relative, entry.path, result)
                continue
            info = entry.stat(follow_symlinks=False)
            if stat.S_ISREG(info.st_mode):
                result.files[relative] = Found.of(info)
    return result


def store_folder(store: "Store", bucket: str, folder: Path, exclude: Excluded | None) -> FolderManifest:
    """Upload a folder's files; the caller stores the manifest."""
    if not folder.is_dir():
        raise UserError(f"{folder} is no folder")
    found = scan(folder, exclude)
    if found.refused:
        named = ", ".join(f"{path} ({why})" for path, why in sorted(found.refused.items())[:20])
        raise UserError(
            f"{len(found.refused)} files cannot be stored: {named}. Replace links by copies; rename the rest."
        )

    def upload(path: str) -> FileEntry:
        with open_inside(folder, path) as stream:
            return FileEntry(ref=store.put_stream(bucket, stream), mode=found.files[path].mode)

    with ThreadPoolExecutor(THREADS) as pool:
        return FolderManifest(
            files=dict(zip(found.files, pool.map(upload, found.files), strict=True)), links=found.links
        )


def fetch_files(store: "Store", manifest: FolderManifest, folder: Path) -> None:
    """Write a manifest's files, then its links. All paths are checked first; a link on the way is refused."""
    manifest.check()

    def fetch(item: tuple[str, FileEntry]) -> None:
        path, entry = item
        place = make_parents(folder, path)
        store.get_file(entry.ref, place)
        place.chmod(entry.mode & 0o755 | 0o600)

    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(fetch, manifest.files.items()))
    for path, target in manifest.links.items():
        place = make_parents(folder, path)
        if place.is_symlink():
            place.unlink()
        place.symlink_to(target)


def _walk(folder: str, prefix: str, exclude: Excluded | None, depth: int = 1) -> Iterator[tuple[str, os.DirEntry[str]]]:
    """Everything but folders, and the folders that are too deep to be entered."""
    with suppress(FileNotFoundError, NotADirectoryError), os.scandir(folder) as entries:
        for entry in entries:
            relative = prefix + entry.name
            if exclude and exclude(relative):
                continue
            if depth < MAX_DEPTH and entry.is_dir(follow_symlinks=False):
                yield from _walk(entry.path, relative + "/", exclude, depth + 1)
            else:
                yield relative, entry


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _scan_link(root: Path, relative: str, path: str, result: Scan) -> None:
    # By its resolved end, so that a stored target never says `..` after a name that could itself be a link.
    end = Path(path).resolve()
    if not end.is_relative_to(root):
        result.refused[relative] = f"leads out of the folder, to {Path(path).readlink()}"
    elif end.exists():
        result.links[relative] = os.path.relpath(end, Path(path).parent.resolve())


def _check_link(path: str, target: str) -> None:
    depth = len(parts_of(path)) - 1
    parts = target.split("/")
    ups = next((number for number, part in enumerate(parts) if part != ".."), len(parts))
    if parts[ups:] and parts[ups:] != ["."]:
        parts_of("/".join(parts[ups:]))
    if ups > depth:
        raise UnsafePath(f"the link {path!r} leads out of its folder ({target!r})")
