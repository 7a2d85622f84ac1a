"""Rows of the index -> what the network is fed. The file to edit when a dataset needs something of its own.

Kept by whoever edits it, because train.py and the checks call them:
`resolve(config) -> Config` (no `auto` left), `build(config, split) -> Dataset` with `len()`, `.rows`, `.label_names`
and items {"image": float32 (C, D, H, W) or (C, H, W), "labels": int64 (D, H, W) or (H, W), class numbers 1..N in the
order of `.label_names`, 0 background}.
"""

import torch
from config import Config

from shared.trainkit.segmentation.augment import augment
from shared.trainkit.segmentation.cases import Cases, fresh_generator, label_values
from shared.trainkit.segmentation.patches import cut
from shared.trainkit.segmentation.rows import split_rows
from shared.trainkit.segmentation.survey import resolve

__all__ = ["Dataset", "build", "resolve"]


class Dataset(Cases):
    """One split: an item is a patch of the image of that number, another one each time."""

    def __getitem__(self, number: int) -> dict[str, torch.Tensor]:
        row, generator = self.rows[number], fresh_generator()
        share = self.config.sampling.foreground if self.train else 1.0
        image, target = cut(*self.case(row), self.how.patch, self.places(row), share, generator)
        if self.train:
            image, target = augment(image, target, self.config.augmentation, self.axes, generator)
        return self.item(image, target)


def build(config: Config, split: str) -> Dataset:
    """`split` is train (augmented) or val. `auto` in the configuration is settled first."""
    config = resolve(config)
    return Dataset(config, split_rows(config, split), label_values(config), train=split == "train")
