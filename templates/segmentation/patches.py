"""The patches that the network is trained on: drawn around structures, and augmented. Axes are those of data.py."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from data import margins, pad, patch_edges, seen_axes, without_depth

from shared.training.sides import sided

REMEMBERED = 4096
"""Voxels of a structure, or of one connected piece of it, that patches are centred on; evenly drawn."""

Places = list[list[np.ndarray]]
"""For each structure that an image has, groups of flat voxel numbers: one of all, or one for each connected piece."""


class Patches(torch.utils.data.Dataset[dict[str, torch.Tensor]]):
    """Item n is a patch of image n, another one each time: {"image": float32 (C, D, H, W) or (C, H, W), "labels": int64
    without C, class numbers, 0 background}.

    `cases` gives the images: `.rows` (of the index), `.names` (of the structures) and `.load(row)` -> image, class
    numbers, preprocessed. Validation patches are drawn around structures and not augmented.
    """

    def __init__(self, cases: Any, config: Any, train: bool) -> None:
        self.cases, self.config, self.train = cases, config, train
        self.rows, self.label_names = cases.rows, cases.names
        self.augment = augmentation(config, self.label_names) if train else None
        self.known: dict[str, Places] = {}

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, number: int) -> dict[str, torch.Tensor]:
        row, how = self.rows[number], self.config.preprocess
        seed = int(torch.randint(2**31, ()))  # torch's state differs by worker and stands in checkpoints
        sampling, generator = self.config.sampling, np.random.default_rng(seed)
        foreground = sampling.foreground if self.train else 1.0
        places, edges = self.places(row), patch_edges(how)
        image, labels = cut(*self.cases.load(row), edges, places, foreground, sampling.small_lesions, generator)
        item = {
            "image": torch.from_numpy(without_depth(image, how).astype(np.float32)),
            "labels": torch.from_numpy(without_depth(labels, how)[None].astype(np.float32)),
        }
        if self.augment is not None:
            self.augment.set_random_state(seed=seed)
            item = self.augment(item)
        return {"image": item["image"].contiguous(), "labels": item["labels"][0].round().long()}

    def places(self, row: Any, labels: np.ndarray | None = None) -> Places:
        """Voxels that patches of a row (whose class numbers are `labels`) are drawn around, looked for once."""
        name = str(row["sample_id"])
        if name not in self.known:
            labels = self.cases.load(row)[1] if labels is None else labels
            self.known[name] = places_in(labels, apart=self.config.sampling.small_lesions > 0)
        return self.known[name]


class Turns(torch.utils.data.Sampler[int]):
    """Numbers of the images that an epoch's patches are drawn from; process `rank` of `count` has its part of them."""

    def __init__(self, data: Patches, seed: int, rank: int = 0, count: int = 1) -> None:
        self.data, self.seed, self.rank, self.count, self.epoch = data, seed, rank, count, 0  # to be set
        self.length = -(-len(self.whole()) // count)

    def __len__(self) -> int:
        return self.length

    def __iter__(self) -> Iterator[int]:
        order = self.whole()
        return iter([*order, *order[: -len(order) % self.count]][self.rank :: self.count])

    def whole(self) -> list[int]:
        """Each image `patches_per_image` times; those without a structure take turns in what `empty_images` leaves."""
        sampling, generator = self.data.config.sampling, np.random.default_rng([self.seed, self.epoch])
        empty = [number for number, row in enumerate(self.data.rows) if not self.data.places(row)]
        if sampling.empty_images is None or len(empty) == len(self.data):
            empty = []
        order = sorted(set(range(len(self.data))) - set(empty)) * sampling.patches_per_image
        if empty:
            share = sampling.empty_images
            most = min(len(empty) * sampling.patches_per_image, round(len(order) * share / (1 - share)))
            order += generator.permutation(empty * sampling.patches_per_image)[:most].tolist()
        return [int(number) for number in generator.permutation(order)]


def places_in(labels: np.ndarray, apart: bool) -> Places:
    """Class numbers (D, H, W) -> for each structure one group, or `apart` a group for each connected piece."""
    from scipy.ndimage import find_objects, label

    found = []
    for number in np.flatnonzero(np.bincount(labels.ravel())[1:]) + 1:
        inside = labels == number
        pieces = label(inside, np.ones((3, 3, 3)))[0] if apart else inside.astype(np.uint8)
        groups = []
        for one, box in enumerate(find_objects(pieces), 1):
            places = np.argwhere(pieces[box] == one) + [side.start for side in box]
            numbers = np.ravel_multi_index(tuple(places.T), labels.shape)
            groups.append(numbers[:: -(-len(numbers) // REMEMBERED)].astype(np.int64))
        found.append(groups)
    return found


def cut(
    image: np.ndarray, labels: np.ndarray, edges: Sequence[int], places: Places, foreground: float, balance: float,
    generator: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """A patch of image (C, D, H, W) and class numbers (D, H, W), padded where the image is smaller.

    By the share `foreground` it holds a voxel of one of `places`: the structure is drawn first, each alike, then a
    group by its voxels to the power of 1 - `balance` (0: by size, 1: each alike), then the voxel.
    """
    shape, widths = labels.shape, margins(labels.shape, edges)
    if any(before or after for before, after in widths):
        image, labels = pad(image, widths), np.pad(labels, widths)
    room = [size - edge for size, edge in zip(labels.shape, edges, strict=True)]
    start = [int(generator.integers(0, free + 1)) for free in room]
    if any(room) and places and generator.random() < foreground:
        groups = places[int(generator.integers(len(places)))]
        weights = np.array([len(group) for group in groups]) ** (1.0 - balance)
        group = groups[int(generator.choice(len(groups), p=weights / weights.sum()))]
        middle = np.unravel_index(int(generator.choice(group)), shape)
        # Anywhere in the middle half of the patch, so that structures are not always seen from within.
        start = [
            int(np.clip(at + before - edge // 2 + generator.integers(-(edge // 4), edge // 4 + 1), 0, free))
            for at, (before, _), edge, free in zip(middle, widths, edges, room, strict=True)
        ]
    window = tuple(slice(begin, begin + edge) for begin, edge in zip(start, edges, strict=True))
    return image[(slice(None), *window)], labels[window]


def augmentation(config: Any, names: Sequence[str]) -> Any:
    """MONAI transforms of {"image", "labels"}, both channel first, that leave the anatomy true: mirroring where it
    does, small turns in the plane of a slice, brightness, noise."""
    from monai_parts import set_track_meta, transforms

    set_track_meta(False)
    wanted, flat = config.augmentation, config.preprocess.dimensions == 2
    seen = seen_axes(config.preprocess)
    both, chance = ("image", "labels"), wanted.probability
    steps: list[Any] = [
        transforms.RandFlipd(both, prob=0.5, spatial_axis=axis) for axis in flip_axes(wanted, names, seen)
    ]
    if wanted.rotate_degrees or wanted.scale:
        angle, scale = np.deg2rad(wanted.rotate_degrees), wanted.scale
        steps.append(
            transforms.RandAffined(
                both, prob=chance, rotate_range=angle if flat else (angle, 0, 0), padding_mode="border",
                scale_range=(scale, scale) if flat else (0, scale, scale), mode=("bilinear", "nearest"),
            )
        )  # fmt: skip
    if wanted.brightness:
        steps.append(transforms.RandScaleIntensityd("image", factors=wanted.brightness, prob=chance))
        steps.append(transforms.RandShiftIntensityd("image", offsets=wanted.brightness, prob=chance))
    if wanted.noise:
        steps.append(transforms.RandGaussianNoised("image", std=wanted.noise, prob=chance / 2))
    return transforms.Compose(steps)


def flip_axes(wanted: Any, names: Sequence[str], seen: str) -> tuple[int, ...]:
    """Numbers of the axes that may be mirrored, of those that are seen (DHW, or in 2D two of them)."""
    axes = wanted.flip_axes
    if axes in ("auto", "unsided"):
        axes = () if sided(names) or (axes == "auto" and len(names) > 2) else ("W",)
    return tuple(seen.index(axis) for axis in axes if axis in seen)
