"""How much a folder holds on disk, counted while a stranger fills it. For the launcher: standard library only."""

from __future__ import annotations

import os

TYPE_CHECKING = False  # mypy takes it for true
if TYPE_CHECKING:
    from collections.abc import Iterator

STEP = 1000
"""Files that one look counts, in some milliseconds, however many there are."""


class Held:
    """Counts a part of the folder at each look, and begins anew after its last file."""

    def __init__(self, folder: str) -> None:
        self._folder, self._sizes, self._sum = folder, sizes(folder), 0

    def look(self) -> int:
        """Bytes counted since the last beginning."""
        for _ in range(STEP):
            size = next(self._sizes, None)
            if size is None:
                held, self._sizes, self._sum = self._sum, sizes(self._folder), 0
                return held
            self._sum += size
        return self._sum


def sizes(folder: str) -> Iterator[int]:
    """Bytes on disk of every entry below `folder`, no link followed; of a file with several names a share for each."""
    queue = [folder]
    while queue:
        try:
            with os.scandir(queue.pop()) as entries:
                for entry in entries:
                    try:
                        found = entry.stat(follow_symlinks=False)
                        if entry.is_dir(follow_symlinks=False):
                            queue.append(entry.path)
                    except OSError:
                        continue
                    yield found.st_blocks * 512 // max(1, found.st_nlink)
        except OSError:
            continue
