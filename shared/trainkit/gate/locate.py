"""From what a table calls a file or a scan to the file or the scan."""

import re
from pathlib import PurePosixPath

from shared.trainkit.collect import stem_of
from shared.trainkit.gate.dataset import Dataset
from shared.trainkit.listings import Places


class Finder:
    """Finds the file or sample that a cell names: by path, by name, by its stem, or the folder of a scan."""

    def __init__(self, data: Dataset) -> None:
        names = [name for name in data.tree.images if name not in data.masks and name not in data.aside]
        names += [name for name in data.samples if name not in data.tree.sizes]
        # An image and its mask often have one name; then the image is meant.
        self._places, self._others = Places(names), Places(sorted(data.masks | data.aside))
        self._stems: dict[str, str | None] = {}
        self._numbers: dict[tuple[int, ...], str | None] = {}
        self._above: set[str] = set()
        for name in names:
            stem = stem_of(name).lower()
            self._stems[stem] = None if stem in self._stems else name
            numbers = _numbers(stem)
            self._numbers[numbers] = None if numbers in self._numbers else name
        alone: dict[str, str | None] = {}
        for name in data.samples:  # a folder with one scan is called by its own name, too
            *above, _ = PurePosixPath(name.lower()).parts
            self._above.update(above)
            if above:
                alone[above[-1]] = None if above[-1] in alone else name
        self._alone = {folder: name for folder, name in alone.items() if name}
        self._folders = {name for name in data.samples if name not in data.tree.sizes}

    def __call__(self, cell: str, base: PurePosixPath) -> str | None:
        found = self._places.find(cell, base) or self._others.find(cell, base)
        low = cell.strip().lower()
        return found or self._stems.get(low) or self._alone.get(low)

    def exists(self, cell: str, base: PurePosixPath) -> bool:
        """Whether there is a file of this name, be it in several folders; where the cell names its folder, in that."""
        parts = PurePosixPath(cell.strip().replace("\\", "/").lower()).parts or ("",)
        tail = "/".join(parts[-2:])
        same = [*self._places.names.get(parts[-1], ()), *self._others.names.get(parts[-1], ())]
        here = any(name.lower().endswith(tail) for name in same)
        return (
            here or (len(parts) == 1 and (parts[0] in self._stems or parts[0] in self._above)) or bool(self(cell, base))
        )

    def sample(self, name: str) -> str:
        """The scan that a slice belongs to, else the file itself."""
        folder = name.rpartition("/")[0]
        return folder if folder in self._folders else name

    def like(self, cell: str) -> str:
        """A file with the same number, for the detail of a row without a file."""
        numbers = _numbers(stem_of(cell))
        found = self._numbers.get(numbers) if numbers else None
        return f"perhaps {found}, which has the same numbers" if found else ""


def _numbers(stem: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", stem))
