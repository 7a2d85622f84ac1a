"""The shape of a folder tree, as one JSON line: {"summary", "data"}.

Counts every file, looks at a sample of names, opens a few images.

Usage: preview_dirs.py /data/folder
"""

import json
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

MAX_ENTRIES = 3_000_000
MAX_SECONDS = 90.0
_SAMPLED = 200
"""Names that are looked at in one folder; all are counted."""
_NAMES_KEPT = 500
_KEYS_KEPT = 200
"""Of so many pairs of top folder and extension, so many names each are candidates for being opened."""
_TABLES = (".csv", ".tsv", ".json", ".jsonl", ".xlsx", ".txt")
_IMAGES = 12
_CHECKED = 1500


@dataclass
class Level:
    folders: int = 0
    files: int = 0
    extensions: Counter[str] = field(default_factory=Counter)
    names: dict[str, None] = field(default_factory=dict)
    examples: list[str] = field(default_factory=list)
    per_folder: Counter[int] = field(default_factory=Counter)
    tables: list[str] = field(default_factory=list)


@dataclass
class Tree:
    root: Path
    levels: list[Level] = field(default_factory=list)
    hidden: Counter[str] = field(default_factory=Counter)
    unreadable: list[dict[str, str]] = field(default_factory=list)
    candidates: dict[tuple[str, str], list[str]] = field(default_factory=dict)
    branches: dict[str, str] = field(default_factory=dict)
    skipped: list[str] = field(default_factory=list)
    sampled: int = 0
    entries: int = 0


def walk(tree: Tree) -> bool:
    """Count everything; False when the bounds of entries or time were reached first."""
    from _paths import natural_key  # type: ignore[import-not-found]

    deadline = time.monotonic() + MAX_SECONDS
    # A stack of iterators rather than of names: a folder's subfolders are held only while it is open.
    stack: list[Iterator[str]] = [iter([""])]
    hidden: list[bool] = [False]
    while stack:
        relative = next(stack[-1], None)
        if relative is None:
            stack.pop()
            hidden.pop()
            continue
        if tree.entries > MAX_ENTRIES or time.monotonic() > deadline:
            tree.skipped.append(
                f"stopped at {relative or '.'} after {tree.entries:,} entries; what follows is not counted"
            )
            return False
        inside = hidden[-1] or relative.endswith("__MACOSX")
        folders = _scan(tree, relative, len(stack) - 1, inside)
        if folders:
            prefix = f"{relative}/" if relative else ""
            stack.append(iter([prefix + name for name in sorted(folders, key=natural_key)]))
            hidden.append(inside)
    return True


def _scan(tree: Tree, relative: str, depth: int, inside_hidden: bool) -> list[str]:
    from _paths import extension, natural_key

    while len(tree.levels) <= depth:
        tree.levels.append(Level())
    level = tree.levels[depth]
    folders: list[str] = []
    sample: list[str] = []
    files = 0
    try:
        with os.scandir(tree.root / relative if relative else tree.root) as entries:
            for entry in entries:
                name = entry.name
                tree.entries += 1
                if entry.is_dir(follow_symlinks=False):
                    if name.startswith(".") and not inside_hidden:
                        tree.hidden["hidden folders, not entered"] += 1
                    else:
                        folders.append(name)
                elif inside_hidden:
                    tree.hidden["files below __MACOSX"] += 1
                elif not entry.is_file(follow_symlinks=False):
                    tree.hidden["links and special files, not followed"] += 1
                elif name.startswith("."):
                    tree.hidden[_hidden_kind(name)] += 1
                else:
                    files += 1
                    level.extensions[extension(name) or "(none)"] += 1
                    # Beyond the first names, those at doubling distances, so that a sample reaches all over.
                    if files <= _SAMPLED or files & (files - 1) == 0:
                        sample.append(name)
    except OSError as error:
        tree.unreadable.append({"path": relative or ".", "error": error.strerror or str(error)})
    if inside_hidden:
        # Walked only to count what is not shown.
        return folders
    shown = [name for name in folders if name != "__MACOSX"]
    level.folders += len(shown)
    level.files += files
    level.per_folder[files] += 1
    sample.sort(key=natural_key)
    tree.sampled += files > len(sample)
    for name in sorted(shown, key=natural_key)[:50] if len(level.names) < 50 else ():
        if len(level.names) < 50:
            level.names[name] = None
    _keep(tree, level, relative, sample)
    return folders


def _keep(tree: Tree, level: Level, relative: str, sample: list[str]) -> None:
    from _images import FORMATS  # type: ignore[import-not-found]
    from _paths import extension

    prefix = f"{relative}/" if relative else ""
    top = relative.split("/")[0]
    if sample and top:
        tree.branches.setdefault(top, prefix + sample[0]) if len(tree.branches) < 50 else None
    if len(level.examples) < 10:
        # One of each folder first, so that ten examples show ten folders.
        level.examples.extend(prefix + name for name in (sample[:10] if not relative else sample[:1]))
    for name in sample:
        kind = extension(name).lower()
        if kind in _TABLES and len(level.tables) < 50:
            level.tables.append(prefix + name)
    images = [name for name in sample if extension(name).lower() in FORMATS]
    for name in images:
        key = (top, extension(name))
        if key not in tree.candidates and len(tree.candidates) >= _KEYS_KEPT:
            key = ("", extension(name))
        names = tree.candidates.setdefault(key, [])
        names.append(prefix + name)
        if len(names) > _NAMES_KEPT:
            # Thinned out rather than cut off, so that what is left still comes from all over.
            del names[1::2]


def _hidden_kind(name: str) -> str:
    if name.startswith("._"):
        return "._ AppleDouble"
    return ".DS_Store" if name == ".DS_Store" else "other dot files"


def spread(candidates: dict[tuple[str, str], list[str]], number: int) -> list[str]:
    """Up to `number` files, extensions first, then top folders, then positions within them."""
    chosen: list[str] = []
    by_extension: dict[str, list[list[str]]] = {}
    share = max(1, number // max(1, len(candidates)))
    for (_, kind), names in sorted(candidates.items()):
        spaced = [names[len(names) * step // share] for step in range(share)] if len(names) > share else []
        by_extension.setdefault(kind, []).append(list(dict.fromkeys([*spaced, *names[:number]])))
    turn = 0
    while len(chosen) < number and turn < number * 50:
        for lists in by_extension.values():
            names = lists[turn % len(lists)]
            position = turn // len(lists)
            if position < len(names) and names[position] not in chosen and len(chosen) < number:
                chosen.append(names[position])
        turn += 1
    return chosen


def damaged(path: Path) -> str | None:
    """A cheap look at both ends of a file: empty, no such format, cut off."""
    with path.open("rb") as file:
        start = file.read(8)
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - 16))
        end = file.read(16)
    if size == 0:
        return "empty (0 bytes)"
    name = path.name.lower()
    if start.startswith(b"\x89PNG"):
        return None if b"IEND" in end else "PNG that is cut off (no end mark)"
    if name.endswith(".png") and start[:2] not in (b"\xff\xd8", b"BM", b"GI"):
        return "no PNG by its first bytes"
    if start.startswith(b"\xff\xd8"):
        return None if b"\xff\xd9" in end else "JPEG that may be cut off (no end mark)"
    if name.endswith((".jpg", ".jpeg")) and not start.startswith((b"\x89PNG", b"BM")):
        return "no JPEG by its first bytes"
    return "no gzip by its first bytes" if name.endswith(".gz") and start[:2] != b"\x1f\x8b" else None


def look_at_images(tree: Tree) -> tuple[list[dict[str, Any]], int]:
    from _images import FORMATS, describe
    from _paths import extension, reason

    seen: set[str] = set()
    checked = [name for names in tree.candidates.values() for name in names]
    checked = checked[:: -(-len(checked) // _CHECKED) or 1]
    for name in checked:
        try:
            problem = damaged(tree.root / name)
        except OSError as error:
            problem = error.strerror or str(error)
        if problem:
            seen.add(name)
            tree.unreadable.append({"path": name, "error": problem})
    images: list[dict[str, Any]] = []
    started = time.monotonic()
    for name in spread(tree.candidates, _IMAGES):
        if name in seen or time.monotonic() - started > 60:
            continue
        try:
            facts = describe(tree.root / name, FORMATS[extension(name).lower()])
        except Exception as error:
            tree.unreadable.append({"path": name, "error": reason(error)})
            continue
        facts.pop("tags", None)
        images.append({"path": name, **facts})
    return images, len(checked)


def median(counts: Counter[int]) -> int:
    half, passed = (sum(counts.values()) + 1) // 2, 0
    for value in sorted(counts):
        passed += counts[value]
        if passed >= half:
            return value
    return 0


def level_data(depth: int, level: Level) -> dict[str, Any]:
    lower: Counter[str] = Counter()
    for kind, number in level.extensions.items():
        lower[kind.lower()] += number
    return {
        "depth": depth,
        "folders": level.folders,
        "files": level.files,
        "extensions": dict(level.extensions.most_common(50)),
        "extensions_lower": dict(lower.most_common(50)),
        "folder_names": list(level.names),
        "file_examples": level.examples[:10],
        "files_per_folder": {
            "min": min(level.per_folder, default=0),
            "median": median(level.per_folder),
            "max": max(level.per_folder, default=0),
        },
    }


def summarise(data: dict[str, Any], checked: int) -> str:
    lines = [f"{data['path']}: {data['total_files']:,} files in {data['total_folders']:,} folders below it"]
    lines[0] += "." if data["complete"] else " so far; NOT COMPLETE."
    if not data["total_files"] and not data["total_folders"]:
        lines[0] = f"{data['path']} is empty: no files and no folders."
    for level in data["levels"]:
        kinds = ", ".join(f"{number:,} {kind}" for kind, number in list(level["extensions"].items())[:8])
        per = level["files_per_folder"]
        lines.append(
            f"Level {level['depth']}: {level['folders']:,} folders, {level['files']:,} files"
            + (f" ({kinds})" if kinds else "")
        )
        if level["depth"] and level["files"]:
            lines[-1] += f"; files a folder min {per['min']}, median {per['median']}, max {per['max']}"
        if level["folder_names"]:
            names = level["folder_names"]
            lines.append(
                "  folders: "
                + ", ".join(names[:15])
                + (f" and more ({level['folders']:,})" if level["folders"] > 15 else "")
            )
        if level["file_examples"]:
            lines.append("  files: " + ", ".join(level["file_examples"][:4]))
    if data["tables"]:
        lines.append("Tables and texts: " + ", ".join(data["tables"][:15]))
    if data["images"]:
        lines.append(f"Images opened ({len(data['images'])}):")
    for image in data["images"]:
        parts = [f"{'x'.join(map(str, image.get('shape', [])))} {image.get('dtype', '')}".strip()]
        parts += [f"spacing {'x'.join(f'{value:g}' for value in image['spacing'])}"] if image.get("spacing") else []
        parts += [image["orientation"]] if image.get("orientation") else []
        parts += [f"{image['min']:g} to {image['max']:g}, mean {image['mean']:g}"] if "mean" in image else []
        parts += [f"values {', '.join(list(image['values'])[:12])}"] if "values" in image else []
        lines.append(
            f"  {image['path']}: {image['format']}, "
            + ", ".join(parts)
            + "".join(f"; {note}" for note in image.get("notes", ()))
        )
    if data["unreadable"]:
        lines.append(f"Unreadable or damaged ({len(data['unreadable'])}):")
        lines.extend(f"  {item['path']}: {item['error']}" for item in data["unreadable"][:8])
    if data["hidden"]:
        lines.append(
            "Not counted as files: " + ", ".join(f"{number:,} {kind}" for kind, number in data["hidden"].items())
        )
    if checked:
        lines.append(f"Both ends of {checked:,} image files were checked; files in between may still be damaged.")
    lines.extend(f"Skipped: {said}" for said in data["skipped"][:5])
    return "\n".join(lines[:75])


def preview(virtual: str) -> dict[str, Any]:
    from _paths import real_path

    tree = Tree(real_path(virtual))
    complete = walk(tree)
    if tree.sampled:
        tree.skipped.append(
            f"all files are counted; of {tree.sampled:,} folders some {_SAMPLED} names each were looked at"
        )
    images, checked = look_at_images(tree)
    while len(tree.levels) > 1 and not (tree.levels[-1].files or tree.levels[-1].folders):
        tree.levels.pop()
    data: dict[str, Any] = {
        "path": virtual,
        "total_files": sum(level.files for level in tree.levels),
        "total_folders": sum(level.folders for level in tree.levels),
        "complete": complete,
        "levels": [level_data(depth, level) for depth, level in enumerate(tree.levels[:12])],
        "tables": [name for level in tree.levels for name in level.tables][:50],
        "images": images,
        "checked": checked,
        "hidden": dict(tree.hidden),
        "unreadable": tree.unreadable[:50],
        "unreadable_count": len(tree.unreadable),
        "skipped": tree.skipped[:20],
        "tree": list(tree.branches.values()),
    }
    return {"summary": summarise(data, checked), "data": data}


if __name__ == "__main__":
    print(json.dumps(preview(sys.argv[1])))
