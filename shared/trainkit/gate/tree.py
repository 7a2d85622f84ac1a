"""Every name of a dataset, sorted by what the files are; and both ends of a sample of them. Opens nothing whole."""

import os
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from shared.trainkit.gate.findings import Findings
from shared.trainkit.imagefile import IMAGE_SUFFIXES, PICTURE_SUFFIXES, suffix_of
from shared.trainkit.index import natural_key

MOST_NAMES = 200_000
"""Names that are kept; of more, the rest is counted."""
MOST_ENDS = 20_000
_MOST_UNKNOWN = 1_000
IMAGES = IMAGE_SUFFIXES | {".hdr", ".mgz", ".dicom", ".ima", ".gif", ".pth", ".pkl", ".pickle"}
TABLES = frozenset({".csv", ".tsv", ".json", ".jsonl"})
_TEXTS = frozenset(
    {".txt", ".md", ".xml", ".yaml", ".yml", ".xlsx", ".xls", ".pdf", ".html", ".bval", ".bvec", ".ctbl"}
)
_ARCHIVES = frozenset({".zip", ".tar", ".tgz", ".7z", ".rar", ".gz", ".bz2", ".xz"})
_FORMATS = {
    ".png": "PNG", ".jpg": "JPEG", ".jpeg": "JPEG", ".bmp": "BMP", ".gif": "GIF", ".tif": "TIFF", ".tiff": "TIFF",
    ".nii.gz": "gzip", ".nii": "NIfTI", ".npy": "NumPy", ".dcm": "DICOM", ".npz": "zip",
}  # fmt: skip
_CLUTTER = frozenset({"thumbs.db", "desktop.ini", "__macosx"})


@dataclass
class Tree:
    root: Path
    images: list[str] = field(default_factory=list)
    """Relative paths in natural order, as are those of `tables` and `other`."""
    sizes: dict[str, int] = field(default_factory=dict)
    """Bytes of the images."""
    tables: list[str] = field(default_factory=list)
    other: list[str] = field(default_factory=list)
    """Files of no known kind."""
    suffixes: Counter[str] = field(default_factory=Counter)
    """Of images, as they are written on disk."""
    files: int = 0
    folders: int = 0
    bytes: int = 0
    skipped: list[str] = field(default_factory=list)
    """What was not looked at, in sentences."""


def walk(root: Path, findings: Findings) -> Tree:
    """Hidden folders are not entered, links not followed."""
    tree = Tree(root)
    dropped = 0
    stack = [""]
    while stack:
        relative = stack.pop()
        prefix = f"{relative}/" if relative else ""
        try:
            entries = sorted(os.scandir(root / relative), key=lambda entry: natural_key(entry.name))
        except OSError as error:
            findings.add("no_permission", relative or ".", error.strerror or str(error))
            continue
        names = {entry.name for entry in entries}
        below = []
        for entry in entries:
            name = prefix + entry.name
            if entry.is_symlink():
                findings.add("link", _plain(name))
            elif _odd(entry.name):
                findings.add("odd_name", _plain(name))
            elif entry.name.startswith("._"):
                twin = "" if entry.name[2:] in names else "the file that it belongs to is not there"
                findings.add("appledouble", name, twin)
            elif entry.name.startswith(".") or entry.name.lower() in _CLUTTER:
                findings.add("clutter", name)
            elif entry.is_dir():
                below.append(name)
                tree.folders += 1
            elif not entry.is_file():
                findings.add("link", name, "no regular file")
            elif len(tree.images) + len(tree.other) >= MOST_NAMES:
                dropped += 1
                tree.files += 1
            else:
                _sort(tree, name, entry.stat().st_size, findings)
        stack += reversed(below)
    if dropped:
        tree.skipped.append(f"{dropped:,} files beyond the first {MOST_NAMES:,} are counted only")
    return tree


def _sort(tree: Tree, name: str, size: int, findings: Findings) -> None:
    base = name.rpartition("/")[2]
    suffix = suffix_of(base)
    tree.files += 1
    tree.bytes += size
    if suffix in IMAGES:
        tree.images.append(name)
        tree.sizes[name] = size
        tree.suffixes[base[len(base) - len(suffix) :]] += 1
        if size == 0:
            findings.add("empty_file", name)
    elif suffix in TABLES:
        tree.tables.append(name)
    elif suffix in _ARCHIVES:
        findings.add("archive", name)
    elif suffix not in _TEXTS:
        tree.other.append(name)


def sample(names: Sequence[str], most: int) -> list[str]:
    """The same few each time, from all over, in the order of `names`."""
    if len(names) <= most:
        return list(names)
    return [names[number] for number in sorted(random.Random(0).sample(range(len(names)), most))]


def look_at_ends(tree: Tree, findings: Findings) -> set[str]:
    """Files that are damaged for certain, by their first and last bytes. Their content's format is held to the name."""
    bad = {name for name in tree.images if tree.sizes[name] == 0}
    taken = sample([name for name in tree.images if name not in bad], MOST_ENDS)
    odd: Counter[str] = Counter()
    for name in taken:
        try:
            start, end = _ends(tree.root / name)
        except OSError as error:
            findings.add("no_permission", name, error.strerror or "")
            bad.add(name)
            continue
        said, found = _FORMATS.get(suffix_of(name)), format_of(start)
        if (found == "PNG" and b"IEND" not in end) or (found == "JPEG" and b"\xff\xd9" not in end):
            findings.add("truncated", name, f"{found} without its end mark, {tree.sizes[name]} bytes")
            bad.add(name)
        elif said and found and found != said and not {found, said} <= {"DICOM", "TIFF"}:
            findings.add("wrong_extension", name, f"the content is {found}")
            odd[f"{suffix_of(name)} holds {found}"] += 1
    findings.measure("wrong_extension", contents=dict(odd.most_common(5)))
    if len(taken) < len(tree.images) - len(bad):
        tree.skipped.append(f"both ends of {len(taken):,} of {len(tree.images):,} image files were looked at")
    for name in sample(tree.other, _MOST_UNKNOWN):
        try:
            found = format_of(_ends(tree.root / name)[0])
        except OSError:
            continue
        if found and found not in ("gzip", "zip"):
            findings.add("image_by_content", name, f"the content is {found}")
    _extensions(tree, findings)
    return bad


def _extensions(tree: Tree, findings: Findings) -> None:
    """Pictures, or NIfTI files, in several formats or spellings."""
    families: dict[str, Counter[str]] = {}
    for written, count in tree.suffixes.items():
        low = written.lower()
        family = "picture" if low in PICTURE_SUFFIXES else {".nii": "NIfTI", ".nii.gz": "NIfTI"}.get(low, low)
        families.setdefault(family, Counter())[written] = count
    for found in families.values():
        (usual, most), *others = found.most_common()
        for written, count in others:
            findings.add("mixed_extensions", written, f"{count} files; {most} are {usual}", count)


def _ends(path: Path) -> tuple[bytes, bytes]:
    with path.open("rb") as file:
        start = file.read(352)
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - 64))
        return start, file.read(64)


def format_of(start: bytes) -> str | None:
    """By the first 352 bytes; None where they say nothing."""
    if start[128:132] == b"DICM":
        return "DICOM"
    if start[344:347] in (b"n+1", b"ni1") or start[4:7] == b"n+2":
        return "NIfTI"
    magic = {
        b"\x89PNG\r\n": "PNG", b"\xff\xd8\xff": "JPEG", b"GIF8": "GIF", b"II*\0": "TIFF", b"MM\0*": "TIFF",
        b"\x93NUMPY": "NumPy", b"\x1f\x8b": "gzip", b"PK\3\4": "zip",
    }  # fmt: skip
    if found := next((name for head, name in magic.items() if start.startswith(head)), None):
        return found
    return "BMP" if start.startswith(b"BM") and start[6:10] == b"\0\0\0\0" else None


def _odd(name: str) -> bool:
    return "\\" in name or any(char < " " or "\ud800" <= char <= "\udfff" for char in name)


def _plain(name: str) -> str:
    """A name that survives JSON."""
    return name.encode("utf-8", "backslashreplace").decode().encode("unicode_escape").decode() if _odd(name) else name
