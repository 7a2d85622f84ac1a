"""A dataset on its way from a person's machine to the gateway: looked at first, then sent without a copy on disk."""

import hashlib
import os
import stat
import tarfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from services.gateway.archive import BLOCK, CHUNK, header, padding
from services.gateway.client import Gateway
from shared.contracts.base import Ref
from shared.errors import UserError
from shared.store.archive_rules import ArchiveRefused, Limits, Rules, refused
from shared.store.archives import check_listing

Tell = Callable[[int, int], None]
"""Told the bytes sent so far and those in all."""


@dataclass(frozen=True)
class Parcel:
    """What is sent: `size` bytes, as the chunks that `read` yields."""

    size: int
    read: Callable[[], Iterator[bytes]]


def upload(gateway: Gateway, source: Path, tell: Tell) -> Ref:
    """Send a folder or an archive; the answer names its bytes in the store, with the hash that was taken here.

    Raises UserError for what cannot be a dataset, before anything is sent.
    """
    return _send(gateway, source, look(source, gateway.limits()), tell)


def send_file(gateway: Gateway, source: Path, tell: Tell) -> Ref:
    """Send a file as it is. Raises UserError where there is none that can be read."""
    try:
        if not source.is_file():
            raise UserError(f"{source} is no file on this machine. Check the spelling.")
        with source.open("rb"):
            size = source.stat().st_size
    except PermissionError:
        raise UserError(f"{source} cannot be read. Open it with `chmod u+r {source}`.") from None
    return _send(gateway, source, Parcel(size, lambda: _bytes(source, size)), tell)


def _send(gateway: Gateway, source: Path, parcel: Parcel, tell: Tell) -> Ref:
    digest, sent = hashlib.sha256(), 0

    def chunks() -> Iterator[bytes]:
        nonlocal sent
        for chunk in parcel.read():
            digest.update(chunk)
            sent += len(chunk)
            tell(sent, parcel.size)
            yield chunk

    stored = gateway.send_archive(chunks(), parcel.size)
    if stored.sha256 != digest.hexdigest() or stored.size != parcel.size:
        raise UserError(f"What arrived is not what was sent from {source}. Send it again.")
    return stored


def look(source: Path, limits: Limits) -> Parcel:
    """What of `source` would be sent. Raises UserError, which names the path, when it is no dataset."""
    try:
        kind = source.stat().st_mode
        if stat.S_ISDIR(kind):
            return _folder(source, limits)
        if not stat.S_ISREG(kind):
            raise UserError(f"{source} is neither a folder nor an archive.")
        check_listing(source, limits)
        return Parcel(source.stat().st_size, lambda: _bytes(source, source.stat().st_size))
    except ArchiveRefused as error:
        raise UserError(f"{source} cannot be sent. {error}") from None
    except FileNotFoundError as error:
        raise UserError(f"{error.filename} does not exist on this machine. Check the spelling.") from None
    except PermissionError as error:
        raise UserError(
            f"{error.filename} cannot be read. Open it with `chmod -R u+rX {source}`, or run the command as its owner."
        ) from None


def _folder(source: Path, limits: Limits) -> Parcel:
    """A tar of the folder's files, in order of their names, without owners or times."""
    rules = Rules(limits)
    found: list[tuple[Path, tarfile.TarInfo]] = []
    for path, kind, size in _walk(source, ""):
        info = tarfile.TarInfo(rules.admit(path, size, False))
        if not stat.S_ISREG(kind):
            what = "a symbolic link; replace it by a copy of the file" if stat.S_ISLNK(kind) else "no plain file"
            raise refused(path, f"is {what}")
        with (source / path).open("rb"):
            info.size, info.mode = size, 0o644
        found.append((source / path, info))
    rules.finish()
    size = sum(len(header(info)) + info.size + padding(info.size) for _, info in found) + 2 * BLOCK
    if size > limits.sent:
        raise ArchiveRefused(f"It has {size} bytes; at most {limits.sent} are taken (M3_ARCHIVE_BYTES).")

    def read() -> Iterator[bytes]:
        for path, info in found:
            yield header(info)
            yield from _bytes(path, info.size)
            yield bytes(padding(info.size))
        yield bytes(2 * BLOCK)

    return Parcel(size, read)


def _walk(folder: Path, prefix: str) -> Iterator[tuple[str, int, int]]:
    """Relative path, mode and size of everything but folders."""
    with os.scandir(folder) as listing:
        entries = sorted(listing, key=lambda entry: entry.name)
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            yield from _walk(Path(entry.path), f"{prefix}{entry.name}/")
        else:
            found = entry.stat(follow_symlinks=False)
            yield prefix + entry.name, found.st_mode, found.st_size


def _bytes(path: Path, size: int) -> Iterator[bytes]:
    """Exactly `size` bytes, or an error: what changes while it is sent is not what was looked at."""
    with path.open("rb") as file:
        left = size
        while left and (chunk := file.read(min(CHUNK, left))):
            left -= len(chunk)
            yield chunk
        if left or file.read(1):
            raise UserError(f"{path} changed while it was being sent. Send it again once it is at rest.")
