"""The shape of a folder tree, as one JSON line: {"summary", "data"}. Counts every file and opens a few images.

Usage: preview_dirs.py /data/folder
"""

import json
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

MAX_FILES = 3_000_000
_IMAGES = 12
_SECONDS = 60.0
"""For opening images."""
_NAMES, _EXAMPLES, _TABLES = 50, 10, 50
_TEXTS = (".md", ".rst", ".cfg", ".ini")
"""Beside tables, what may say what a dataset is."""


def preview(virtual: str) -> dict[str, Any]:
    from _paths import real_path

    from shared.dataset.files.listing import Listing, list_files
    from shared.dataset.tables.tables import is_table

    listing: Listing = list_files(real_path(virtual), MAX_FILES)
    levels = levels_of(listing.files)
    images, unreadable = look(listing.root, listing.images)
    data: dict[str, Any] = {
        "path": virtual,
        "total_files": len(listing.files),
        "total_folders": len(listing.folders),
        "complete": listing.complete,
        "levels": levels[:12],
        "tables": _by_name([file for file in listing.files if is_table(file) or file.endswith(_TEXTS)]),
        "images": images,
        "unreadable": unreadable,
        "skipped": listing.skipped,
    }
    return {"summary": summarise(data), "data": data}


def levels_of(files: Iterable[str]) -> list[dict[str, Any]]:
    """Of each depth: folders and files in all, suffixes, names of folders, examples of files, files in each folder."""
    from shared.imaging.formats import suffix_of
    from shared.imaging.order import natural

    suffixes: defaultdict[int, Counter[str]] = defaultdict(Counter)
    inside: defaultdict[int, Counter[str]] = defaultdict(Counter)
    folders: defaultdict[int, set[str]] = defaultdict(set)
    examples: defaultdict[int, dict[str, str]] = defaultdict(dict)
    for file in files:
        parts = file.split("/")
        depth, folder = len(parts) - 1, "/".join(parts[:-1])
        suffixes[depth][suffix_of(file) or Path(file).suffix.lower() or "(none)"] += 1
        inside[depth][folder] += 1
        # One of each folder, so that ten examples show ten folders.
        if len(examples[depth]) < _EXAMPLES:
            examples[depth].setdefault(folder, file)
        if inside[depth][folder] == 1:
            for level in range(1, depth + 1):
                folders[level - 1].add("/".join(parts[:level]))
    found = []
    for depth in range(max(suffixes, default=-1) + 1):
        names = natural({folder.rpartition("/")[2] for folder in folders[depth]})
        counts = inside[depth].values()
        found.append(
            {
                "depth": depth,
                "folders": len(folders[depth]),
                "files": sum(counts),
                "suffixes": dict(suffixes[depth].most_common(50)),
                "folder_names": names[:_NAMES],
                "file_examples": list(examples[depth].values()),
                "files_per_folder": {
                    "min": min(counts, default=0),
                    "median": int(median(counts)) if counts else 0,
                    "max": max(counts, default=0),
                },
            }
        )
    return found


def _by_name(files: list[str]) -> list[str]:
    """Each, but of many with one name (Info.cfg of every case) one."""
    named: defaultdict[str, list[str]] = defaultdict(list)
    for file in files:
        named[file.rpartition("/")[2]].append(file)
    shown = [many[0] + (f" and {len(many) - 1} more of that name" if many[1:] else "") for many in named.values()]
    return shown[:_TABLES]


def look(root: Path, files: list[str]) -> tuple[list[dict[str, Any]], list[dict[str, str]]]:
    """Facts of a few images of each top folder and suffix, and those that cannot be read."""
    from _facts import image_facts
    from _paths import reason

    from shared.imaging.formats import suffix_of

    groups: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for file in files:
        groups[(file.partition("/")[0] if "/" in file else "", suffix_of(file))].append(file)
    # The first and others from all over each group, groups in turn.
    turns = [[group[len(group) * step // _IMAGES] for step in range(_IMAGES)] for group in groups.values()]
    chosen = list(dict.fromkeys(file for turn in zip(*turns, strict=True) for file in turn))[:_IMAGES]
    images, unreadable, began = [], [], time.monotonic()
    for file in chosen:
        if time.monotonic() - began > _SECONDS:
            break
        try:
            facts = image_facts(root / file)
        except Exception as error:  # libraries fail in their own ways; the reason is the answer
            unreadable.append({"path": file, "error": reason(error)})
        else:
            facts.pop("tags", None)
            images.append({"path": file, **facts})
    return images, unreadable


def summarise(data: dict[str, Any]) -> str:
    from _facts import line_of

    whole = "" if data["complete"] else f" so far; NOT COMPLETE: only {MAX_FILES:,} files are counted"
    lines = [f"{data['path']}: {data['total_files']:,} files in {data['total_folders']:,} folders below it{whole}"]
    if not data["total_files"]:
        lines = [f"{data['path']} is empty: no files in {data['total_folders']} folders."]
    for level in data["levels"]:
        kinds = ", ".join(f"{number:,} {kind}" for kind, number in list(level["suffixes"].items())[:8])
        per, names = level["files_per_folder"], level["folder_names"]
        lines.append(f"Level {level['depth']}: {level['folders']:,} folders, {level['files']:,} files ({kinds or '-'})")
        if level["depth"] and level["files"]:
            lines[-1] += f"; files a folder min {per['min']}, median {per['median']}, max {per['max']}"
        if names:
            more = f" and more ({level['folders']:,})" if level["folders"] > 15 else ""
            lines.append(f"  folders: {', '.join(names[:15])}{more}")
        if level["file_examples"]:
            lines.append("  files: " + ", ".join(level["file_examples"][:4]))
    if data["tables"]:
        lines.append("Tables and texts: " + ", ".join(data["tables"][:15]))
    if data["images"]:
        lines.append(f"Images opened ({len(data['images'])}):")
    lines += [f"  {image['path']}: {line_of(image)}" for image in data["images"]]
    lines += [f"Unreadable: {item['path']}: {item['error']}" for item in data["unreadable"]]
    lines += [f"Passed over: {number:,} x {why}" for why, number in data["skipped"].items()]
    return "\n".join(lines[:75])


if __name__ == "__main__":
    print(json.dumps(preview(sys.argv[1])))
