"""list_files and read_files: they only look, in the runner's own process."""

import hashlib
import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from pydantic import JsonValue

from services.tool_runner.paths import Place, kind_of, open_file, open_folder
from services.tool_runner.tools.context import Answer, Context
from services.tool_runner.tools.text import clip, count_text, decode, natural_key, share, size_text
from shared.contracts.tools import MAX_FILE_CHARS, MAX_READ_CHARS, MAX_RESULT_CHARS, ListFiles, ReadFiles
from shared.errors import ToolRefused

CROWDED = 1000
"""Folders with more files than this are counted, not listed."""
_MANY_OTHERS = 5
"""Up to so many files that are no text are named in a folder; more are counted by extension."""
_MAX_LISTED = 1000
_MAX_DEPTH = 40
_MAX_BYTES = 64 * 1024 * 1024
_CODE = (".py", ".pyi", ".sh", ".ipynb", ".md", ".rst", ".txt", ".log", ".lock", ".html", ".xml")
_CONFIGURATION = (".json", ".jsonl", ".yaml", ".yml", ".toml", ".ini", ".cfg")
_TEXT = (*_CODE, *_CONFIGURATION, ".csv", ".tsv", ".xlsx")
_HINTS = {
    "image": "Use preview_files for its header and intensities, view_image to see it.",
    "archive": "It is an archive; open it in run_script with the module that fits.",
    "weights": "It holds tensors; load it in run_script (torch.load with weights_only=True).",
    "other": "Use preview_files, or open it in run_script with the module that fits.",
}
_KINDS = {
    "image": (".png", ".jpg", ".jpeg", ".bmp", ".tif", ".tiff", ".nii", ".nii.gz", ".dcm", ".npy", ".npz", ".mha"),
    "archive": (".zip", ".tar", ".gz", ".tgz", ".7z", ".xz", ".bz2"),
    "weights": (".pt", ".pth", ".ckpt", ".safetensors", ".bin"),
}


@dataclass
class _Listing:
    lines: list[str] = field(default_factory=list)
    files: dict[str, JsonValue] = field(default_factory=dict)
    not_listed: dict[str, JsonValue] = field(default_factory=dict)
    count: int = 0
    size: int = 0
    cut: bool = False


def list_files(args: ListFiles, context: Context) -> Answer:
    place = context.roots.locate(args.path)
    if kind_of(place) == "file":
        with open_file(place) as file:
            size = os.fstat(file.fileno()).st_size
        return Answer(
            True, f"{place.virtual} is a file of {size_text(size)}.", {"path": place.virtual, "files": {".": size}}
        )
    listing = _Listing()
    _list_folder(place, "", listing, 0)
    data: dict[str, JsonValue] = {"path": place.virtual, "files": listing.files, "not_listed": listing.not_listed}
    if not listing.lines:
        return Answer(True, f"{place.virtual} is empty: no files and no folders.", data)
    heading = f"{place.virtual}: {count_text(listing.count, 'file')} listed or counted, {size_text(listing.size)}"
    text, cut = clip("\n".join([heading, *listing.lines]), MAX_RESULT_CHARS)
    if listing.cut:
        text += f"\nMore than {_MAX_LISTED:,} entries; the rest is left out. List a folder below."
    return Answer(True, text, data, truncated=cut or listing.cut)


def _list_folder(place: Place, prefix: str, listing: _Listing, depth: int) -> None:
    folders: list[str] = []
    files: list[tuple[str, int]] = []
    extensions: Counter[str] = Counter()
    crowded = 0
    with open_folder(place) as descriptor, os.scandir(descriptor) as entries:
        for entry in entries:
            if entry.is_symlink():
                listing.lines.append(f"{prefix}{_shown(entry.name)}  link, not followed")
            elif entry.is_dir(follow_symlinks=False):
                folders.append(entry.name)
            else:
                crowded += 1
                extensions[_suffix(entry.name)] += 1
                if crowded <= CROWDED:
                    files.append((entry.name, _size(entry)))
    if crowded > CROWDED:
        listing.count += crowded
        listing.not_listed[prefix or "."] = crowded
        listing.lines.append(
            f"{prefix or './'}  {crowded:,} files ({_counts(extensions)}), not listed: use preview_dirs"
        )
        names = sorted(folders, key=natural_key)
        listing.lines.extend(f"{prefix}{_shown(name)}/  not entered" for name in names[:20])
        if len(names) > 20:
            listing.lines.append(f"{prefix}  and {len(names) - 20:,} more folders, not entered")
        return
    listing.count += len(files)
    listing.size += sum(size for _, size in files)
    others = [name for name, _ in files if not name.lower().endswith(_TEXT)]
    hide = set(others) if len(others) > _MANY_OTHERS else set()
    for name, size in sorted(files, key=lambda item: natural_key(item[0])):
        if name not in hide:
            _add(listing, f"{prefix}{_shown(name)}  {size_text(size)}", prefix + name, size)
    if hide:
        kinds = Counter(_suffix(name) for name in hide)
        total = size_text(sum(size for name, size in files if name in hide))
        listing.not_listed[prefix or "."] = len(hide)
        listing.lines.append(
            f"{prefix or './'}  and {_counts(kinds)} ({total}), not listed one by one: use preview_dirs"
        )
    for name in sorted(folders, key=natural_key):
        inner = f"{prefix}{name}/"
        if name == "__pycache__" or depth >= _MAX_DEPTH:
            listing.lines.append(f"{prefix}{_shown(name)}/  not entered")
        elif len(listing.lines) >= _MAX_LISTED:
            listing.cut = True
            return
        else:
            before = len(listing.lines)
            try:
                _list_folder(place.below(name), inner, listing, depth + 1)
            except ToolRefused as refused:
                listing.lines.append(f"{prefix}{_shown(name)}/  not entered: {refused}")
            if len(listing.lines) == before:
                listing.lines.append(f"{prefix}{_shown(name)}/  empty folder")


def _add(listing: _Listing, line: str, name: str, size: int) -> None:
    if len(listing.lines) >= _MAX_LISTED:
        listing.cut = True
        return
    listing.lines.append(line)
    listing.files[name] = size


def _size(entry: os.DirEntry[str]) -> int:
    try:
        return entry.stat(follow_symlinks=False).st_size
    except FileNotFoundError:
        return 0


def _counts(extensions: Counter[str]) -> str:
    return ", ".join(f"{number:,} {name}" for name, number in extensions.most_common(6))


def _suffix(name: str) -> str:
    return ".nii.gz" if name.lower().endswith(".nii.gz") else PurePosixPath(name).suffix or "without extension"


def _shown(name: str) -> str:
    return name if name.isprintable() else repr(name)


def read_files(args: ReadFiles, context: Context) -> Answer:
    if args.last_line is not None and args.last_line < args.first_line:
        raise ToolRefused(f"last_line {args.last_line} is before first_line {args.first_line}. Give them in order.")
    texts: list[tuple[str, str, str]] = []
    files: dict[str, dict[str, JsonValue]] = {}
    errors: dict[str, JsonValue] = {}
    for path in dict.fromkeys(args.paths):
        try:
            place = context.roots.locate(path)
            heading, text, facts = _read(place, args.first_line, args.last_line)
        except ToolRefused as refused:
            errors[path] = str(refused)
            continue
        texts.append((place.virtual, heading, text))
        files[place.virtual] = facts
    room = (
        MAX_READ_CHARS
        - sum(len(heading) + 12 for _, heading, _ in texts)
        - sum(len(str(e)) + 8 for e in errors.values())
    )
    allowed = share([min(len(text), MAX_FILE_CHARS) for _, _, text in texts], max(room, 1000))
    truncated = False
    parts = []
    for (virtual, heading, text), limit in zip(texts, allowed, strict=True):
        lines = files[virtual]["lines"]
        assert isinstance(lines, int)
        shown, cut = clip(text, limit, args.first_line, lines, "read with first_line={}")
        truncated |= cut
        files[virtual] |= {"text": shown, "truncated": cut}
        parts.append(f"=== {heading}\n{shown}" if shown else f"=== {heading}")
    parts.extend(f"=== not read: {error}" for error in errors.values())
    return Answer(bool(files), "\n".join(parts), {"files": {**files}, "errors": errors}, truncated=truncated)


def _read(place: Place, first: int, last: int | None) -> tuple[str, str, dict[str, JsonValue]]:
    with open_file(place) as file:
        size = os.fstat(file.fileno()).st_size
        start = file.read(8192)
        if b"\0" in start or start.startswith(b"\x1f\x8b"):
            raise ToolRefused(f"{place.virtual} is binary ({size_text(size)}), not text. {_hint(place.name)}")
        if size > _MAX_BYTES:
            raise ToolRefused(
                f"{place.virtual} has {size_text(size)}, too much to read as text. "
                "Use preview_files for its shape, or run_script with head, tail or grep."
            )
        content = start + file.read(_MAX_BYTES)
    text, encoding = decode(content)
    bom = text.startswith("\ufeff")
    text = text.removeprefix("\ufeff")
    lines = text.splitlines(keepends=True)
    facts: dict[str, JsonValue] = {
        "lines": len(lines),
        "size": size,
        "encoding": encoding,
        "sha256": hashlib.sha256(content).hexdigest(),
    }
    heading = f"{place.virtual} ({count_text(len(lines), 'line')}, {size_text(size)}"
    heading += ", not UTF-8, read as Latin-1" if encoding != "utf-8" else ""
    heading += ", begins with a byte order mark" if bom else ""
    if not lines:
        return f"{heading}): the file is empty", "", facts
    if first > len(lines):
        return f"{heading}): it has no line {first}", "", facts
    if first > 1 or last is not None:
        heading += f"; lines {first} to {min(last or len(lines), len(lines))}"
    return f"{heading})", "".join(lines[first - 1 : last]).rstrip("\n"), facts


def _hint(name: str) -> str:
    kinds: Iterator[str] = (kind for kind, suffixes in _KINDS.items() if name.lower().endswith(suffixes))
    return _HINTS[next(kinds, "other")]
