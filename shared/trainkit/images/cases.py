"""One split of the index as images that are preprocessed once: what the templates' datasets build on."""

import os
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch

from shared.trainkit.cache import ArrayCache
from shared.trainkit.images import augment

Row = Mapping[str, Any]


def data_root(config: Any) -> Path:
    return Path(config.data_root or os.environ.get("M3_DATA") or ".")


class Images(torch.utils.data.Dataset[dict[str, torch.Tensor]]):  # type: ignore[misc]
    """`recipe` is all that `read` depends on beside the row; a template gives `read` and `__getitem__`."""

    def __init__(self, config: Any, rows: Sequence[Row], targets: Sequence[torch.Tensor], recipe: Any, train: bool):
        self.rows = list(rows)
        self.targets = list(targets)
        self.root = data_root(config)
        self.how = config.preprocess
        self.wanted = config.augmentation if train else None
        self.cache = ArrayCache(Path(config.cache) if config.cache else Path(os.devnull), recipe)

    def __len__(self) -> int:
        return len(self.rows)

    def read(self, row: Row) -> np.ndarray:
        """Preprocessed, not augmented: float (C, ...). Raises BadImage."""
        raise NotImplementedError

    def image(self, row: Row) -> np.ndarray:
        """What `read` gives, from the cache where it is."""
        return self.cache.get(str(row["sample_id"]), self.files(row), row["attributes"], lambda: self.read(row))

    def files(self, row: Row) -> list[Path]:
        return [self.root / file for file in row["files"]]

    @cached_property
    def augment(self) -> augment.Augment | None:
        """None without augmentation. Made on first use: the import takes seconds, and the images are checked before."""
        return augment.make(self.wanted, self.how.input_shape) if self.wanted is not None else None

    def seen(self, number: int) -> torch.Tensor:
        """The image of a sample as the network gets it: float32, augmented in training."""
        image = torch.from_numpy(self.image(self.rows[number]).astype(np.float32))
        return image if self.augment is None else self.augment(image)
