"""Preprocessed samples, so that they are decoded and resampled once. Local and rebuildable at any time."""

import os
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shared.training.checkpoints import fingerprint
from shared.training.imports import followed

Array = NDArray[Any]


class ArrayCache:
    """float16 arrays in `folder`, keyed by the content of a sample's files and `recipe`. A folder that cannot be
    written is done without. What was read once stays in memory up to `memory_mb`."""

    def __init__(self, folder: Path, recipe: Any, memory_mb: int = 2048) -> None:
        self.folder = folder
        self.recipe = recipe
        self.room = memory_mb * 2**20
        self.memory: dict[str, Array] = {}

    def get(self, sample: str, files: Sequence[Path], make: Callable[[], Array]) -> Array:
        """`make()` as float16, from memory or disk where possible. `sample` must name the sample uniquely."""
        if sample in self.memory:
            return self.memory[sample]
        array = self._from_disk(files, make)
        if array.nbytes <= self.room:
            self.room -= array.nbytes
            self.memory[sample] = array
        return array

    def _from_disk(self, files: Sequence[Path], make: Callable[[], Array]) -> Array:
        if not all(file.is_file() for file in files):
            return make().astype(np.float16)
        path = self.folder / f"{fingerprint(self.recipe, files)}.npy"
        with suppress(OSError, ValueError):
            found: Array = np.load(path, allow_pickle=False)
            return found
        array = make().astype(np.float16)
        with suppress(OSError):
            self.folder.mkdir(parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(dir=self.folder, suffix=".part")
            with os.fdopen(handle, "wb") as file:
                np.save(file, array)
            Path(name).replace(path)
        return array


def cache_of(folder: str | None, recipe: Any, program: Path) -> ArrayCache:
    """For what `program` and the files that it imports make by `recipe`; without `folder` in memory only."""
    return ArrayCache(Path(folder or os.devnull), fingerprint(recipe, [*followed(program).files.values()]))
