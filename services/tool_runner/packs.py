"""Packs: one deterministic, uncompressed tar a sample, stored by content, so that equal samples are stored once."""

import asyncio
import hashlib
import os
import tarfile
import tempfile
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO, TYPE_CHECKING, BinaryIO, cast

from shared.contracts.data import IndexRow, PackedSample, PackList
from shared.errors import ToolBroken, ToolRefused
from shared.looks import RECORD, content_of
from shared.store import Store
from shared.store.client import THREADS
from shared.store.paths import UnsafePath, make_parents, open_inside, parts_of

if TYPE_CHECKING:
    from services.tool_runner.looking import Looking, Looks

MEDIA_TYPE = "application/x-tar"
_SPOOL = 64 << 20
_NAMED = 200

# What a reader has to see in a name. Any other ending may carry an id and is dropped.
_IMAGES = (".bmp", ".gif", ".jpeg", ".jpg", ".png", ".tif", ".tiff", ".webp")
_SCANS = (".dcm", ".h5", ".hdf5", ".ima", ".mha", ".mhd", ".nii", ".nii.gz", ".npy", ".npz", ".nrrd", ".raw")
_SUFFIXES = frozenset((*_IMAGES, *_SCANS, ".csv", ".json", ".mat", ".txt"))


def rows_of(index: bytes) -> list[IndexRow]:
    return [IndexRow.model_validate_json(line) for line in index.splitlines() if line.strip()]


async def pack_dataset(
    root: Path, rows: Sequence[IndexRow], store: Store, looking: "Looking", with_targets: bool = False
) -> PackList:
    """Look at every sample in the sandbox, then store all of them, test rows in the bucket sealed (`pack_samples`)."""
    root = await asyncio.to_thread(root.resolve, strict=True)
    found = await asyncio.to_thread(find_files, root, rows, with_targets)
    looks = await looking(root, [paths[: len(row.files)] for row, paths in zip(rows, found, strict=True)])

    def bucket_of(row: IndexRow) -> str:
        return "sealed" if row.split == "test" else "data"

    try:
        return await asyncio.to_thread(pack_samples, root, rows, store, bucket_of, with_targets, looks, found)
    finally:
        looks.close()


def find_files(root: Path, rows: Sequence[IndexRow], with_targets: bool = False) -> list[list[str]]:
    """The files of every row, links resolved, relative to `root`, which is itself resolved; blocks.

    Raises ToolRefused that names every file that is missing, leaves `root` or is no regular file.
    """

    def find(row: IndexRow) -> tuple[list[str], list[str]]:
        found, faults = [], []
        for path in (*row.files, *_mask(row, with_targets)):
            try:
                found.append(_inside(root, path))
            except (UnsafePath, OSError) as error:
                faults.append(f"{row.sample_id}: {path} ({_reason(error)})")
        return found, faults

    with ThreadPoolExecutor(THREADS) as pool:
        checked = list(pool.map(find, rows))
    if faults := [fault for _, faults in checked for fault in faults]:
        more = f" and {len(faults) - _NAMED} more" if len(faults) > _NAMED else ""
        raise ToolRefused(
            f"{len(faults)} files of the index cannot be packed: {'; '.join(faults[:_NAMED])}{more}. "
            "Give paths of existing regular files relative to the dataset's folder."
        )
    return [found for found, _ in checked]


def pack_samples(
    root: Path,
    rows: Sequence[IndexRow],
    store: Store,
    bucket_of: Callable[[IndexRow], str],
    with_targets: bool = False,
    looks: "Looks | None" = None,
    found: Sequence[Sequence[str]] | None = None,
) -> PackList:
    """Store the files of every row; blocks. Test rows get opaque member names, the others their relative paths.

    `with_targets` adds a row's `target` file (a mask) behind its files; a test row's becomes an object of its own.
    A digest of each sample and its look go to an object of their own in the bucket sealed (`PackList.looks`). `found`
    is what `find_files` answers, if it was asked before.
    """
    root = root.resolve(strict=True)
    found = find_files(root, rows, with_targets) if found is None else found

    def pack(row: IndexRow, found: Sequence[str], number: int) -> PackedSample:
        sealed = row.split == "test"
        names = opaque_names(row.files) if sealed else (*row.files, *_mask(row, with_targets))
        target = None
        with tempfile.SpooledTemporaryFile(max_size=_SPOOL) as spool:
            try:
                digests = _write_tar(cast(IO[bytes], spool), root, found[: len(names)], names)
                if sealed and len(found) > len(names):
                    with open_inside(root, found[-1]) as mask:
                        target = store.put_stream(bucket_of(row), mask)
            except (OSError, UnsafePath) as error:
                raise ToolRefused(f"{row.sample_id} changed while it was packed: {_reason(error)}") from None
            ref = store.put_stream(bucket_of(row), cast("IO[bytes]", spool), MEDIA_TYPE)  # type: ignore[arg-type]
        record = bytearray(RECORD.itemsize)
        record[:32] = content_of(digests[: len(row.files)])
        if looks is not None:
            looks.fill(record, number)
        os.pwrite(records.fileno(), record, number * len(record))
        return PackedSample(sample_id=row.sample_id, pack=ref, files=tuple(names), target=target)

    with ThreadPoolExecutor(THREADS) as pool, tempfile.TemporaryFile() as records:
        samples = tuple(pool.map(pack, rows, found, range(len(rows))))
        return PackList(samples=samples, looks=store.put_stream("sealed", records))


def opaque_names(files: Iterable[str]) -> tuple[str, ...]:
    """`000.png`, `001.png`, ... in the order given: nothing of a name is left but a known image suffix."""
    listed = list(files)
    width = max(3, len(str(len(listed) - 1)))
    return tuple(f"{number:0{width}d}{suffix_of(path)}" for number, path in enumerate(listed))


def suffix_of(path: str) -> str:
    """The lower-case suffix when it is one that readers know (`.nii.gz` whole), else nothing."""
    name = path.rpartition("/")[2].lower()
    suffixes = Path(name).suffixes
    for suffix in ("".join(suffixes[-2:]), "".join(suffixes[-1:])):
        if suffix in _SUFFIXES:
            return suffix
    return ""


def unpack(sample: PackedSample, store: Store, folder: Path, names: Sequence[str] | None = None) -> None:
    """Write a sample's files below `folder`, under `names` instead of its own when given; blocks.

    Raises ToolBroken when the pack holds anything but the declared regular files in their order.
    """
    names = sample.files if names is None else names
    for name in names:
        parts_of(name)
    with tempfile.TemporaryDirectory(dir=folder, prefix=".unpack-") as scratch:
        packed = Path(scratch) / "pack.tar"
        store.get_file(sample.pack, packed)
        try:
            with tarfile.open(packed, "r:") as tar:
                _extract(tar, sample, folder, names, Path(scratch) / "member")
        except tarfile.TarError as error:
            raise ToolBroken(f"the pack of {sample.sample_id} is no readable tar: {error}") from None


def _extract(tar: tarfile.TarFile, sample: PackedSample, folder: Path, names: Sequence[str], partial: Path) -> None:
    left = sample.pack.size
    expected = iter(zip(sample.files, names, strict=True))
    for member in tar:
        declared, name = next(expected, (None, ""))
        left -= member.size
        if member.name != declared or member.type != tarfile.REGTYPE or member.issparse() or left < 0:
            raise ToolBroken(f"the pack of {sample.sample_id} holds {member.name!r} where {declared!r} was declared")
        content = tar.extractfile(member)
        assert content is not None
        with partial.open("wb") as file:
            while chunk := content.read(1 << 20):
                file.write(chunk)
        partial.replace(make_parents(folder, name))
    if (missing := next(expected, None)) is not None:
        raise ToolBroken(f"the pack of {sample.sample_id} lacks {missing[0]!r}")


def _mask(row: IndexRow, with_targets: bool) -> tuple[str, ...]:
    return (row.target,) if with_targets and row.target else ()


def _inside(root: Path, path: str) -> str:
    """The path with links resolved, relative to `root`; only what is a regular file below it passes."""
    parts_of(path)
    real = (root / path).resolve(strict=True)
    if not real.is_relative_to(root):
        raise UnsafePath("leaves the dataset's folder")
    if not real.is_file():
        raise UnsafePath("is no regular file")
    return real.relative_to(root).as_posix()


class _Hashed:
    """A stream that is hashed while it is read."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream, self._digest = stream, hashlib.sha256()

    def read(self, size: int = -1) -> bytes:
        data = self._stream.read(size)
        self._digest.update(data)
        return data

    def digest(self) -> bytes:
        return self._digest.digest()


def _write_tar(spool: IO[bytes], root: Path, found: Sequence[str], names: Sequence[str]) -> list[bytes]:
    """The digest of each file."""
    digests = []
    with tarfile.open(fileobj=spool, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for path, name in zip(found, names, strict=True):
            # Links were resolved before; one that appears since is refused here.
            with open_inside(root, path) as stream:
                info = tarfile.TarInfo(name)
                info.size = os.fstat(stream.fileno()).st_size
                info.mode = 0o644
                hashed = _Hashed(stream)
                tar.addfile(info, cast("IO[bytes]", hashed))
                digests.append(hashed.digest())
    return digests


def _reason(error: Exception) -> str:
    if isinstance(error, FileNotFoundError):
        return "missing"
    return (error.strerror or type(error).__name__) if isinstance(error, OSError) else str(error)
