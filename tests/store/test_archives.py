"""Uploaded archives: whole ones arrive as they are, wicked ones are refused by name and leave nothing behind."""

import asyncio
import io
import os
import stat
import struct
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from services.tool_runner.archives import unpacked
from shared.settings import Settings
from shared.store import Store
from shared.store.archive_rules import ArchiveRefused, Limits
from shared.store.archives import check_listing

LIMITS = Limits(sent=64 << 20, unpacked=512 << 20, files=1000)
FILES = {"p1/sick/a.png": b"a" * 511, "p1/b.png": b"b" * 512, "p2/größe.txt": b"", "p2/c.bin": os.urandom(1 << 20)}
MODES = ("w", "w:gz", "w:bz2", "w:xz")


def tar(path: Path, *entries: tuple[str, bytes | str], mode: str = "w") -> Path:
    """Members in order: bytes are a file's content, a text is a type flag with its link target after it."""
    with tarfile.open(path, mode) as archive:
        for name, what in entries:
            info = tarfile.TarInfo(name)
            if isinstance(what, str):
                info.type, info.linkname = what[:1].encode(), what[1:]
            else:
                info.size = len(what)
            archive.addfile(info, io.BytesIO(what) if isinstance(what, bytes) else None)
    return path


def zipped(path: Path, *entries: tuple[str, bytes], method: int = zipfile.ZIP_DEFLATED, mode: int = 0) -> Path:
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, content in entries:
            info = zipfile.ZipInfo(name)
            info.filename, info.compress_type, info.external_attr = name, method, mode << 16
            archive.writestr(info, content)
    return path


def patched(path: Path, old: bytes, new: bytes, times: int = -1) -> Path:
    """`path` with bytes exchanged that must be there."""
    content = path.read_bytes()
    assert old in content
    path.write_bytes(content.replace(old, new, times))
    return path


def cut(path: Path, keep: float) -> Path:
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * keep)])
    return path


def restated(path: Path, size: int) -> Path:
    """The only member of a stored or deflated zip, said to be `size` bytes long in its central directory."""
    content = bytearray(path.read_bytes())
    at = content.index(b"PK\1\2")
    content[at + 24 : at + 28] = struct.pack("<I", size)
    path.write_bytes(content)
    return path


def enlarged_header(path: Path) -> Path:
    """A tar whose extended header claims to be gigabytes long, with the bytes behind it to read."""
    info = tarfile.TarInfo("././@PaxHeader")
    info.type, info.size = tarfile.XHDTYPE, 3 << 30
    path.write_bytes(info.tobuf(tarfile.USTAR_FORMAT) + b"\0" * 4096)
    os.truncate(path, 48 << 20)
    return path


WICKED: dict[str, tuple[Callable[[Path], Path], str]] = {
    "absolute": (lambda at: tar(at, ("/etc/passwd", b"x")), "'/etc/passwd' has an absolute name"),
    "parent": (lambda at: tar(at, ("ok", b""), ("a/../../b", b"x")), "'a/../../b' has '..'"),
    "zip parent": (lambda at: zipped(at, ("../evil", b"x")), "'../evil' has '..'"),
    "drive": (lambda at: zipped(at, ("C:/x", b"x")), "'C:/x' has an absolute name"),
    "backslash": (lambda at: zipped(at, ("a\\..\\b", b"x")), "has a backslash"),
    "symbolic link": (lambda at: tar(at, ("in", "2/etc")), "'in' is a symbolic link"),
    "hard link": (lambda at: tar(at, ("a", b"x"), ("b", "1a")), "'b' is a hard link"),
    "zip link": (lambda at: zipped(at, ("in", b"/etc"), mode=stat.S_IFLNK | 0o777), "'in' is a link"),
    "device": (lambda at: tar(at, ("null", "3")), "'null' is no plain file"),
    "fifo": (lambda at: tar(at, ("pipe", "6")), "'pipe' is no plain file"),
    "twice": (lambda at: tar(at, ("a/b", b"1"), ("./a//b", b"2")), "b' occurs twice"),
    "other case": (lambda at: zipped(at, ("a/B.png", b"1"), ("a/b.PNG", b"2")), "'a/b.PNG' occurs twice"),
    "folder case": (lambda at: tar(at, ("A/x", b"1"), ("a/y", b"2")), "'a/y' lies in a folder whose name 'a' occurs"),
    "below a file": (lambda at: tar(at, ("a", b"1"), ("a/b", b"2")), "'a/b' lies below a name that is a file"),
    "control": (lambda at: tar(at, ("a\x1b[2Jb", b"1")), "control character"),
    "bidi": (lambda at: zipped(at, ("a\u202egnp.exe", b"1")), "control character"),
    "not text": (lambda at: tar(at, ("a\udcffb", b"1")), "not UTF-8"),
    "encrypted": (
        lambda at: patched(zipped(at, ("a", b"1")), b"PK\1\2\x14\x03\x14\0\0\0", b"PK\1\2\x14\x03\x14\0\1\0"),
        "'a' is encrypted",
    ),
    "zip longer": (lambda at: restated(zipped(at, ("a", b"x" * 900)), 100), "'a' has more bytes than the 100"),
    "zip shorter": (lambda at: restated(zipped(at, ("a", b"x" * 900)), 9000), "'a' has fewer bytes than the 9000"),
    "stored longer": (lambda at: restated(zipped(at, ("a", b"x" * 900), method=0), 100), "'a' has more bytes"),
    "zip bzip2": (lambda at: zipped(at, ("a", b"x" * 900), method=zipfile.ZIP_BZIP2), "is compressed in a rare way"),
    "zip bomb": (lambda at: zipped(at, ("a", bytes(100 << 20))), "'a' makes it unpack to more than 200 times"),
    "tar bomb": (lambda at: tar(at, ("a", bytes(100 << 20)), mode="w:bz2"), "'a' makes it unpack to more than 200"),
    "many": (lambda at: tar(at, *((f"{n}", b"") for n in range(1001))), "'1000' is one file more than the 1000"),
    "deep": (lambda at: tar(at, ("/".join("d" * 40), b"")), "lies more than 32 folders deep"),
    "long name": (lambda at: tar(at, ("n" * 256, b"")), "name that is too long"),
    "long path": (lambda at: zipped(at, ("/".join(["n" * 100] * 11), b"")), "name that is too long"),
    "huge header": (enlarged_header, "A header in it has"),
    "no archive": (lambda at: at.write_bytes(b"hello" * 999) and at, "no archive that can be read"),
    "no bytes": (lambda at: at.write_bytes(b"") or at, "no archive that can be read"),
    "gzip of a text": (lambda at: patched(at, b"", b"") if at.exists() else _gzipped(at, b"hello" * 999), "no archive"),
    "cut tar": (lambda at: cut(tar(at, ("a", os.urandom(9999)), ("b", os.urandom(99999))), 0.5), "no whole archive"),
    "cut gz": (lambda at: cut(tar(at, ("a", os.urandom(99999)), mode="w:gz"), 0.5), "no whole archive|cut off"),
    "cut xz": (lambda at: cut(tar(at, ("a", os.urandom(99999)), mode="w:xz"), 0.5), "no whole archive|cut off"),
    "cut bz2": (lambda at: cut(tar(at, ("a", os.urandom(99999)), mode="w:bz2"), 0.5), "no whole archive|cut off"),
    "cut zip": (lambda at: cut(zipped(at, ("a", os.urandom(9999))), 0.9), "no whole archive"),
    "cut at a member": (lambda at: _first_blocks(tar(at, ("a", b"x" * 512), ("b", b"y")), 2), "end of the"),
    "damaged header": (lambda at: patched(tar(at, ("a", b""), ("bcdef", b"")), b"bcdef", b"bXdef"), "end of the"),
    "damaged content": (lambda at: patched(zipped(at, ("a", b"x" * 99), method=0), b"xxx", b"xyx", 1), "CRC"),
    "empty tar": (lambda at: tar(at), "no file in it"),
    "empty zip": (lambda at: zipped(at), "no file in it"),
    "only folders": (lambda at: tar(at, ("a", "5"), ("b", "5")), "no file in it"),
}  # fmt: skip


def _gzipped(at: Path, content: bytes) -> Path:
    import gzip

    at.write_bytes(gzip.compress(content))
    return at


def _first_blocks(at: Path, blocks: int) -> Path:
    os.truncate(at, blocks * 512)
    return at


@pytest.fixture
def home(settings: Settings) -> Settings:
    return settings.model_copy(
        update={"archive_bytes": LIMITS.sent, "unpacked_bytes": LIMITS.unpacked, "unpacked_files": LIMITS.files}
    )


def left(settings: Settings) -> list[str]:
    folder = settings.home / "runner" / "datasets"
    return sorted(path.name for path in folder.iterdir() if path.suffix != ".lock")


@pytest.mark.parametrize("name", WICKED)
async def test_a_wicked_archive_is_refused_by_name_and_leaves_nothing(
    name: str, store: Store, home: Settings, tmp_path: Path
) -> None:
    make, says = WICKED[name]
    path = make(tmp_path / "archive")
    archive = store.put_file("data", path)
    with pytest.raises(ArchiveRefused, match=says):
        await unpacked(archive, store, home)
    assert left(home) == []


@pytest.mark.parametrize(
    "name", sorted(WICKED.keys() - {"zip longer", "zip shorter", "stored longer", "damaged content"})
)
def test_what_the_listing_tells_is_refused_before_it_is_sent(name: str, tmp_path: Path) -> None:
    make, says = WICKED[name]
    with pytest.raises(ArchiveRefused, match=says):
        check_listing(make(tmp_path / "archive"), LIMITS)


@pytest.mark.parametrize("mode", [*MODES, "zip", "stored", "two streams gz", "two streams xz", "two streams bz2"])
async def test_a_whole_archive_arrives_read_only_whatever_its_name(
    mode: str, store: Store, home: Settings, tmp_path: Path
) -> None:
    path = tmp_path / "archive.exe"
    if mode in MODES:
        tar(path, ("./", "5"), *((f"./{name}", content) for name, content in FILES.items()), ("empty", "5"), mode=mode)
    elif mode.startswith("two"):
        import bz2
        import gzip
        import lzma

        plain = tar(path, *FILES.items()).read_bytes()
        pack = {"gz": gzip.compress, "xz": lzma.compress, "bz2": bz2.compress}[mode.split()[-1]]
        path.write_bytes(pack(plain[:5000]) + pack(plain[5000:]))
    else:
        zipped(path, *FILES.items(), method=zipfile.ZIP_STORED if mode == "stored" else zipfile.ZIP_DEFLATED)
    found = check_listing(path, LIMITS)
    assert (found.files, found.bytes) == (len(FILES), sum(map(len, FILES.values())))
    folder = await unpacked(store.put_file("data", path), store, home)
    assert {str(one.relative_to(folder)): one.read_bytes() for one in folder.rglob("*") if one.is_file()} == FILES
    for one in (folder, *folder.rglob("*")):
        assert stat.S_IMODE(one.stat().st_mode) == (0o555 if one.is_dir() else 0o444)


async def test_it_is_unpacked_once_also_by_callers_at_once_and_after_a_killed_runner(
    store: Store, home: Settings, tmp_path: Path
) -> None:
    archive = store.put_file("data", tar(tmp_path / "a", *FILES.items()))
    half = home.home / "runner" / "datasets" / f"{archive.sha256}.part" / "p1"
    half.mkdir(parents=True)
    (half / "leftover").write_text("half")
    half.chmod(0o555)
    folders = await asyncio.gather(*(unpacked(archive, store, home) for _ in range(4)))
    assert len(set(folders)) == 1 and not list(folders[0].rglob("leftover"))
    made = folders[0].stat().st_ctime_ns
    assert (await unpacked(archive, store, home)).stat().st_ctime_ns == made
    assert left(home) == [archive.sha256]


def test_memory_does_not_grow_with_a_bomb(tmp_path: Path) -> None:
    """Three gigabytes of zeros in a few kilobytes of bzip2, listed by a process of its own with 300 MB to live on."""
    import bz2

    info = tarfile.TarInfo("a")
    info.size = 3 << 30
    packer = bz2.BZ2Compressor()
    with (tmp_path / "bomb").open("wb") as file:
        file.write(packer.compress(info.tobuf()))
        for _ in range(100):
            file.write(packer.compress(bytes(1 << 20)))
        file.write(packer.flush())
    code = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))\n"
        "from pathlib import Path\nfrom shared.store.archives import check_listing\n"
        "from shared.store.archive_rules import Limits\n"
        "check_listing(Path(sys.argv[1]), Limits(1 << 30, 1 << 30, 10))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "bomb")], capture_output=True, text=True, check=False
    )
    assert "exceeds the 1073741824 bytes" in done.stderr and "MemoryError" not in done.stderr
