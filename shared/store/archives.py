"""Reading archives that nobody vouches for: zip and tar, plain or compressed with gzip, bzip2 or xz.

The format is found by content. Memory does not grow with the size of members, headers or compressed blocks. A link, a
device or anything else that is no plain file or folder is refused.
"""

import bz2
import contextlib
import gzip
import io
import lzma
import stat
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, BinaryIO, cast

from shared.contracts.base import Ref
from shared.store.archive_rules import ArchiveRefused, Limits, Rules, refused

CHUNK = 1 << 20
_HEADER = 1 << 20
"""Bytes that an extended header of a tar may have; a long name needs some hundred."""
_XZ_MEMORY = 512 << 20
_SIGNATURE, _SIZE, _LOCATION = 0, 5, 9
"""Where zipfile keeps what it read of the end of a zip."""
_FORMS = "zip, tar, tar.gz, tar.bz2 or tar.xz"
_DAMAGED = (
    tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, ValueError, OverflowError,
    NotImplementedError, RuntimeError,
)  # fmt: skip


def unpack_seconds(archive: Ref) -> float:
    """What unpacking may take on a slow disk: a minute, and a second for every 4 MB of the archive."""
    return 60 + archive.size / 4e6


@dataclass(frozen=True)
class Member:
    """An admitted member. `read` it before the next one is asked for."""

    path: str
    size: int
    """Bytes, as the archive states."""
    folder: bool
    stream: IO[bytes] | None

    def chunks(self) -> Iterator[bytes]:
        """Its bytes. Raises ArchiveRefused when they are more or fewer than stated."""
        left = self.size
        while self.stream is not None and left >= 0:
            with _whole():
                chunk = self.stream.read(min(CHUNK, left + 1))
            if not chunk:
                break
            left -= len(chunk)
            if left >= 0:
                yield chunk
        if left:
            raise refused(self.path, f"has {'more' if left < 0 else 'fewer'} bytes than the {self.size} it states")


def check_listing(path: Path, limits: Limits) -> Rules:
    """Look at every member without writing any; the answer counts files and bytes. Blocks."""
    rules = Rules(limits, path.stat().st_size)
    for _ in members(path, rules):
        pass
    return rules


def members(path: Path, rules: Rules) -> Iterator[Member]:
    """Every member that is a file or a folder, once the rules have admitted it. Raises ArchiveRefused."""
    size = path.stat().st_size
    if size > rules.limits.sent:
        raise ArchiveRefused(f"It has {size} bytes; at most {rules.limits.sent} are taken (M3_ARCHIVE_BYTES).")
    with path.open("rb") as file, _whole():
        head = file.read(8)
        file.seek(0)
        yield from _zip(file, rules) if head[:4] in (b"PK\3\4", b"PK\5\6") else _tar(file, head, rules)
    rules.finish()


@contextlib.contextmanager
def _whole() -> Iterator[None]:
    """What the libraries raise about bytes that are no archive, as one of our errors."""
    try:
        yield
    except (*_DAMAGED, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise  # of the disk, not of the bytes
        said = f"{type(error).__name__}: {ascii(str(error))[:200]}"
        raise ArchiveRefused(f"It is no whole archive ({said}). Pack it again, as {_FORMS}.") from None


def _zip(file: BinaryIO, rules: Rules) -> Iterator[Member]:
    _count_entries(file, 2 * rules.limits.files)
    with zipfile.ZipFile(file) as archive:
        # A zip has its listing in one place: all of it is looked at before anything is read.
        listing = [
            (info, rules.admit(info.orig_filename, info.file_size, _zip_folder(info))) for info in archive.infolist()
        ]
        for info, path in listing:
            if info.is_dir():
                yield Member(path, 0, True, None)
                continue
            stated = info.file_size
            # More than stated, so that a longer content shows instead of being cut off.
            info.file_size += 2 * CHUNK
            with archive.open(info) as stream:
                yield Member(path, stated, False, stream)


def _count_entries(file: BinaryIO, most: int) -> None:
    """Walk the listing of a zip, of which zipfile would take every entry into memory, whatever number is stated."""
    end: Any = zipfile._EndRecData(file)  # type: ignore[attr-defined]
    if not end:
        raise zipfile.BadZipFile("File is not a zip file")
    left, tail = end[_SIZE], 76 if end[_SIGNATURE] == b"PK\6\6" else 0
    file.seek(max(0, end[_LOCATION] - left - tail))
    for count in range(1, most + 2):
        if left <= 0:
            break
        head = file.read(46)
        if len(head) < 46 or count > most:
            raise ArchiveRefused(f"Its listing has more than {most} entries or is damaged. Pack it again, as {_FORMS}.")
        rest = sum(struct.unpack("<HHH", head[28:34]))
        file.seek(rest, io.SEEK_CUR)
        left -= 46 + rest
    file.seek(0)


def _zip_folder(info: zipfile.ZipInfo) -> bool:
    name, kind = info.orig_filename, stat.S_IFMT(info.external_attr >> 16)
    if info.flag_bits & 0x2041:
        raise refused(name, "is encrypted; pack it without a password")
    if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
        raise refused(
            name, f"is {'a link' if kind == stat.S_IFLNK else 'no plain file'}; replace it by a copy of the file"
        )
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise refused(name, "is compressed in a rare way; pack it with deflate")
    if info.is_dir() and info.file_size:
        raise refused(name, "is a folder with bytes of its own")
    return info.is_dir()


def _tar(file: BinaryIO, head: bytes, rules: Rules) -> Iterator[Member]:
    with contextlib.closing(_decompressed(file, head)) as plain, _open_tar(plain) as archive:
        while (info := archive.next()) is not None:
            # tarfile keeps every header; we need none twice.
            archive.members = []
            path = rules.admit(info.name, info.size if info.isfile() else 0, _tar_folder(info))
            if path or info.isfile():
                yield Member(path, info.size if info.isfile() else 0, info.isdir(), archive.extractfile(info))
        if not archive.ended:
            raise ArchiveRefused(
                f"It is cut off or damaged: the end of the tar is missing. Pack it again, as {_FORMS}."
            )


def _open_tar(plain: IO[bytes]) -> "_Tar":
    try:
        return _Tar(fileobj=cast(Any, _Forward(plain)), mode="r")
    except tarfile.TarError:
        raise ArchiveRefused(f"It is no archive that can be read. Send a folder, or a {_FORMS}.") from None


def _tar_folder(info: tarfile.TarInfo) -> bool:
    if info.issym() or info.islnk():
        raise refused(
            info.name, f"is a {'symbolic' if info.issym() else 'hard'} link; replace it by a copy of the file"
        )
    if not (info.isfile() or info.isdir()) or info.issparse():
        kind = "a sparse file" if info.issparse() else "no plain file (a device, a pipe or the like)"
        raise refused(info.name, f"is {kind}; leave it out")
    return info.isdir()


def _decompressed(file: BinaryIO, head: bytes) -> IO[bytes]:
    if head.startswith(b"\x1f\x8b"):
        return cast(IO[bytes], gzip.GzipFile(fileobj=file))
    if head.startswith(b"BZh"):
        return bz2.BZ2File(file)
    if head.startswith(b"\xfd7zXZ\0"):
        return io.BufferedReader(_Xz(file), CHUNK)
    return file


class _Xz(io.RawIOBase):
    """lzma.LZMAFile with a bound for the memory that a file may ask for."""

    def __init__(self, file: BinaryIO) -> None:
        self._file, self._inner = file, self._new()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = b""
        while not data:
            if self._inner.eof:
                rest = self._inner.unused_data.lstrip(b"\0") or self._file.read(CHUNK).lstrip(b"\0")
                if not rest:
                    return 0
                self._inner = self._new()
                data = self._inner.decompress(rest, len(buffer))
                continue
            more = self._file.read(CHUNK) if self._inner.needs_input else b""
            if self._inner.needs_input and not more:
                raise EOFError("the compressed data end too early")
            data = self._inner.decompress(more, len(buffer))
        buffer[: len(data)] = data
        return len(data)

    @staticmethod
    def _new() -> lzma.LZMADecompressor:
        return lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_XZ_MEMORY)


class _Header(tarfile.TarInfo):
    """Notices the end of the archive, which tarfile does not tell from a damaged header."""

    @classmethod
    def fromtarfile(cls, tarfile: Any) -> Any:
        try:
            return super().fromtarfile(tarfile)
        except _END:
            tarfile.ended = True
            raise


_END: Any = tarfile.EOFHeaderError  # type: ignore[attr-defined]


class _Tar(tarfile.TarFile):
    tarinfo = _Header
    members: list[tarfile.TarInfo]
    ended = False


class _Forward:
    """What tarfile needs of a file, without ever reading anything twice: it skips forward and looks one byte back."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._at = 0
        self._last = b""
        self._back = False

    def tell(self) -> int:
        return self._at - self._back

    def seek(self, to: int) -> int:
        if to == self._at - 1 and self._last:
            self._back = True
            return to
        self._back = False
        while self._at < to and self._take(min(CHUNK, to - self._at)):
            pass
        if self._at < to:
            raise EOFError("the data end too early")
        if self._at > to:
            raise tarfile.ReadError("a header points backwards")
        return to

    def read(self, size: int) -> bytes:
        # tarfile reads headers whole; ours is the only other reader, and asks for no more than this either.
        if size > _HEADER + 1:
            raise ArchiveRefused(f"A header in it has {size} bytes. Pack it again, as {_FORMS}.")
        first = self._last if self._back and size else b""
        if first:
            self._back = False
        return first + self._take(size - len(first))

    def _take(self, size: int) -> bytes:
        found = b""
        while len(found) < size and (chunk := self._stream.read(size - len(found))):
            found += chunk
        self._at += len(found)
        self._last = found[-1:] or self._last
        return found
