"""copy_files: files and folders into the workspace, from the runner's own process."""

import os
import stat
from collections.abc import Iterator
from typing import BinaryIO

from pydantic import JsonValue

from services.tool_runner.paths import Place, kind_of, open_file, open_folder
from services.tool_runner.tools.context import Answer, Context
from services.tool_runner.tools.staging import Staging
from services.tool_runner.tools.text import count_text, size_text
from shared.contracts.tools import CopyFiles
from shared.errors import ToolRefused

_MAX_COPIED_FILES = 5000
_MAX_COPIED_BYTES = 2_000_000_000


def copy_files(args: CopyFiles, context: Context) -> Answer:
    source = context.roots.locate(args.source)
    target = context.roots.locate(args.destination, for_write=True)
    kind = kind_of(source)
    if kind == "nothing":
        with open_file(source):  # says what is near
            pass
    if kind == "file":
        if args.destination.endswith("/") or kind_of(target) == "folder":
            target = target.below(source.name)
        pairs, left_out, folders = [(source, target)], list[str](), list[Place]()
    else:
        if source.top == target.top and target.parts[: len(source.parts)] == source.parts:
            raise ToolRefused(f"{target.virtual} lies inside {source.virtual}. Copy to a folder outside of it.")
        if kind_of(target) == "file":
            raise ToolRefused(
                f"{target.virtual} is a file. Give a folder as destination for the folder {source.virtual}."
            )
        left_out = []
        pairs, folders = [], []
        for item in _walk(source, (), left_out):
            place = target.below(*item[0])
            if item[1]:
                folders.append(place)
            else:
                pairs.append((source.below(*item[0]), place))
            if len(pairs) > _MAX_COPIED_FILES:
                raise ToolRefused(
                    f"{source.virtual} has more than {_MAX_COPIED_FILES:,} files. Read them where they are."
                )
    return _copy(source, target, pairs, folders, left_out, args.overwrite)


def _copy(
    source: Place,
    target: Place,
    pairs: list[tuple[Place, Place]],
    folders: list[Place],
    left_out: list[str],
    overwrite: bool,
) -> Answer:
    copied: list[JsonValue] = []
    same, size = 0, 0
    refused: list[str] = []
    with Staging() as staging:
        for folder in [target, *folders] if kind_of(source) == "folder" else []:
            staging.make_folder(folder)
        for origin, place in pairs:
            with open_file(origin) as file:
                found = os.fstat(file.fileno())
                size += found.st_size
                if size > _MAX_COPIED_BYTES:
                    raise ToolRefused(
                        f"More than {size_text(_MAX_COPIED_BYTES)} to copy. Read the files where they are."
                    )
                if kind_of(place) == "file":
                    if _same(file, place):
                        same += 1
                        continue
                    if not overwrite:
                        refused.append(place.virtual)
                        continue
                # The owner may write the copy of a read-only template: that is what copies are for.
                staging.add(place, file, mode=(stat.S_IMODE(found.st_mode) & 0o777) | 0o600)
                copied.append(place.virtual)
        if refused:
            raise ToolRefused(
                f"Nothing was copied: {', '.join(refused[:10])} exists with other content. "
                "Copy to another folder, change that file with edit_files, or set overwrite."
            )
        staging.commit()
    said = f"Copied {count_text(len(copied), 'file')} ({size_text(size)}) from {source.virtual} to {target.virtual}."
    said += f" {count_text(same, 'file')} already there with the same content." if same else ""
    said += f" Left out: {', '.join(left_out[:10])}." if left_out else ""
    if not pairs:
        said = f"{source.virtual} has no files; {target.virtual} is there as an empty folder."
    names = [str(name) for name in copied[:40]]
    text = "\n".join([said, *names, *([f"and {len(copied) - 40} more"] if len(copied) > 40 else [])])
    return Answer(True, text, {"copied": copied[:1000], "already_there": same, "left_out": list(left_out[:100])})


def _walk(place: Place, inner: tuple[str, ...], left_out: list[str]) -> Iterator[tuple[tuple[str, ...], bool]]:
    """Relative parts and whether it is a folder, of everything that is copied."""
    with open_folder(place) as descriptor, os.scandir(descriptor) as entries:
        found = sorted(
            (entry.name, entry.is_dir(follow_symlinks=False), entry.is_file(follow_symlinks=False)) for entry in entries
        )
    for name, is_folder, is_file in found:
        parts = (*inner, name)
        if name == "__pycache__":
            left_out.append("/".join(parts))
        elif is_folder:
            if len(parts) > 40:
                raise ToolRefused(f"{place.virtual} is nested too deeply to copy.")
            yield parts, True
            yield from _walk(place.below(name), parts, left_out)
        elif is_file:
            yield parts, False
        else:
            left_out.append("/".join(parts) + " (link or special file)")


def _same(source: BinaryIO, place: Place) -> bool:
    with open_file(place) as other:
        if os.fstat(other.fileno()).st_size != os.fstat(source.fileno()).st_size:
            return False
        while block := source.read(1 << 20):
            if block != other.read(1 << 20):
                return False
    return True
