"""A stored folder as one tar, made while it is sent: nothing is written on this machine but one file at a time."""

import tarfile
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from shared.contracts.base import Ref
from shared.store import FolderManifest, Store

CHUNK = 1 << 20
BLOCK = 512


@dataclass(frozen=True)
class FolderTar:
    """The entries of a folder manifest, in order. `size` is known before the first byte is sent."""

    files: tuple[tuple[tarfile.TarInfo, Ref], ...]
    links: tuple[tarfile.TarInfo, ...]
    added: tuple[tuple[tarfile.TarInfo, bytes], ...]

    @classmethod
    def of(cls, manifest: FolderManifest, added: Mapping[str, bytes]) -> "FolderTar":
        """`added` are further files, in the place of those of the same name."""
        files = {name: entry for name, entry in sorted(manifest.files.items()) if name not in added}
        return cls(
            tuple((_file(name, entry.ref.size, entry.mode), entry.ref) for name, entry in files.items()),
            tuple(_link(name, target) for name, target in sorted(manifest.links.items()) if name not in added),
            tuple((_file(name, len(content), 0o644), content) for name, content in added.items()),
        )

    @property
    def size(self) -> int:
        infos = [info for info, _ in (*self.files, *self.added)]
        files = sum(len(header(info)) + info.size + padding(info.size) for info in infos)
        return files + sum(len(header(info)) for info in self.links) + 2 * BLOCK

    def stream(self, store: Store) -> Iterator[bytes]:
        """Blocking; every file is verified against its digest before its first byte goes out."""
        with tempfile.TemporaryDirectory(prefix="m3-tar-") as scratch:
            local = Path(scratch) / "file"
            for info, ref in self.files:
                store.get_file(ref, local)
                yield header(info)
                with local.open("rb") as file:
                    while chunk := file.read(CHUNK):
                        yield chunk
                yield bytes(padding(info.size))
        for info, content in self.added:
            yield header(info) + content + bytes(padding(info.size))
        for info in self.links:
            yield header(info)
        yield bytes(2 * BLOCK)


def _file(name: str, size: int, mode: int) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.size, info.mode = size, 0o755 if mode & 0o100 else 0o644
    return info


def _link(name: str, target: str) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = tarfile.SYMTYPE, target
    return info


def header(info: tarfile.TarInfo) -> bytes:
    return info.tobuf(tarfile.PAX_FORMAT)


def padding(size: int) -> int:
    return -size % BLOCK
