"""Rows of the index -> what the network is fed. The file to edit when a dataset needs something of its own.

Kept by whoever edits it, because train.py and the checks call them:
`resolve(config) -> Config` (no `auto` left), `build(config, split) -> Dataset` with `len()`, `.rows`, `.label_names`
and items {"image": float32 (C, D, H, W) or (C, H, W), "labels": int64 (D, H, W) or (H, W), class numbers 1..N in the
order of `.label_names`, 0 background}.
"""

from collections.abc import Sequence

import numpy as np
import torch
from config import Config

from shared.trainkit.segmentation.augment import augment
from shared.trainkit.segmentation.cases import Cases, fresh_generator, label_values
from shared.trainkit.segmentation.patches import Places, cut, lesion_places
from shared.trainkit.segmentation.rows import split_rows
from shared.trainkit.segmentation.survey import resolve

__all__ = ["Dataset", "build", "resolve"]


class Dataset(Cases):
    """One split: an item is a patch of the image of that number, another one each time."""

    sides_only = True  # lesions of many kinds have no places of their own

    def __getitem__(self, number: int) -> dict[str, torch.Tensor]:
        row, generator, wanted = self.rows[number], fresh_generator(), self.config.sampling
        share = wanted.foreground if self.train else 1.0
        image, target = cut(
            *self.case(row), self.how.patch, self.places(row), share, generator, balance=wanted.small_lesions
        )
        if self.train:
            image, target = augment(image, target, self.config.augmentation, self.axes, generator)
        return self.item(image, target)

    def find_places(self, target: np.ndarray) -> Places:
        return lesion_places(target)

    def turns(self, times: int) -> list[Sequence[int]]:
        """Each image with a lesion `times` an epoch; the others take turns in what `empty_images` leaves them."""
        empty = [number for number, row in enumerate(self.rows) if not self.places(row)]
        ill = sorted(set(range(len(self))) - set(empty))
        found: list[Sequence[int]] = [(number,) for _ in range(times) for number in ill]
        share = self.config.sampling.empty_images
        count = min(len(empty) * times, round(len(found) * share / (1 - share)))
        return found + [empty] * count


def build(config: Config, split: str) -> Dataset:
    """`split` is train (augmented) or val. `auto` in the configuration is settled first."""
    config = resolve(config)
    return Dataset(config, split_rows(config, split), label_values(config), train=split == "train")
