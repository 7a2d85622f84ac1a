"""What a runner remembers of a local workspace between calls, and what of a workspace is never stored."""

import json
import os
import re
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from shared.contracts.base import Ref
from shared.store import FileEntry, FolderManifest
from shared.store.client import ref_of
from shared.store.folders import Found

_LOCAL_ONLY = frozenset({"__pycache__", ".cache", "cache", "preprocessed"})
_CHECKPOINT = re.compile(r"((?:.*/)?checkpoints/)checkpoint-([^/]*)/")
_KEPT_CHECKPOINTS = 2


class Saved(NamedTuple):
    """A file as it was when its content was last known."""

    found: Found
    sha256: str

    def unsettled(self) -> "Saved":
        """The same content, but to be hashed again at the next save."""
        return Saved(self.found._replace(mtime_ns=-1), self.sha256)


class State(NamedTuple):
    """Kept in `<area>.state.jsonl` beside the workspace, where sandboxed code cannot reach it."""

    head: Ref | None
    """The head that the folder was last equal to; None while it is being changed."""
    files: dict[str, Saved]
    links: dict[str, str]

    @classmethod
    def load(cls, folder: Path) -> "State":
        """Empty when there is none or it cannot be read: then everything is compared afresh."""
        try:
            head, _, rest = _path(folder).read_bytes().partition(b"\n")
            known = json.loads(rest)
            files = {path: Saved(Found(*found), sha256) for path, (found, sha256) in known["files"].items()}
            return cls(_head(head), files, known["links"])
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            return cls(None, {}, {})

    @staticmethod
    def head_of(folder: Path) -> Ref | None:
        """Only the head, without reading what is known of thousands of files."""
        try:
            with _path(folder).open("rb") as file:
                return _head(file.readline())
        except (FileNotFoundError, ValueError):
            return None

    def dump(self, folder: Path) -> None:
        path = _path(folder)
        partial = path.with_name(path.name + ".part")
        head = self.head.model_dump_json() if self.head else "null"
        partial.write_text(f"{head}\n{json.dumps({'files': self.files, 'links': self.links})}")
        partial.replace(path)

    def manifest(self) -> FolderManifest:
        entries = {
            path: FileEntry(ref=ref_of("work", saved.sha256, saved.found.size), mode=saved.found.mode)
            for path, saved in self.files.items()
        }
        return FolderManifest(files=entries, links=self.links)


def excluded(relative: str) -> bool:
    """Caches and preprocessed data: local to a runner and rebuildable."""
    return relative.rpartition("/")[2] in _LOCAL_ONLY


def old_checkpoints(files: Mapping[str, Found]) -> set[str]:
    """Files of all but the newest two folders `checkpoints/checkpoint-*`, by number, else by time of change."""
    members: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for path in files:
        if match := _CHECKPOINT.match(path):
            members[match[1], match[2]].append(path)
    folders: defaultdict[str, list[tuple[int, int, str]]] = defaultdict(list)
    for (parent, name), paths in members.items():
        number = int(digits[0]) if (digits := re.findall(r"\d+$", name)) else -1
        folders[parent].append((number, max(files[path].mtime_ns for path in paths), name))
    return {
        path
        for parent, ranked in folders.items()
        for _, _, name in sorted(ranked)[:-_KEPT_CHECKPOINTS]
        for path in members[parent, name]
    }


def _head(line: bytes) -> Ref | None:
    return None if line.strip() == b"null" else Ref.model_validate_json(line)


def _path(folder: Path) -> Path:
    return Path(os.fspath(folder) + ".state.jsonl")
