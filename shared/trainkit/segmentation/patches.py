"""Which part of an image the network sees next."""

from collections.abc import Sequence

import numpy as np

from shared.trainkit.exported.segmenter.inference import pad

REMEMBERED = 4096
"""Voxels of a structure, or of a lesion, that patches are centred on."""

Places = list[list[np.ndarray]]
"""For each structure that an image has, groups of flat voxel numbers: one of all, or one a lesion."""


def structure_places(target: np.ndarray) -> Places:
    """Class numbers (D, H, W) -> a group for each structure."""
    present = np.flatnonzero(np.bincount(target.ravel())[1:]) + 1
    return [[thin(np.flatnonzero(target == number))] for number in present]


def lesion_places(target: np.ndarray) -> Places:
    """Class numbers (D, H, W) -> groups of touching voxels, by class."""
    from scipy.ndimage import find_objects, label

    found = []
    for number in np.flatnonzero(np.bincount(target.ravel())[1:]) + 1:
        lesions, _ = label(target == number, np.ones((3, 3, 3)))
        groups = []
        for one, box in enumerate(find_objects(lesions), 1):
            places = np.argwhere(lesions[box] == one) + [side.start for side in box]
            groups.append(thin(np.ravel_multi_index(tuple(places.T), target.shape)))
        found.append(groups)
    return found


def thin(numbers: np.ndarray) -> np.ndarray:
    """At most REMEMBERED of them, evenly."""
    return numbers[:: -(-len(numbers) // REMEMBERED)].astype(np.int64)


def cut(
    image: np.ndarray,
    target: np.ndarray,
    patch: Sequence[int],
    places: Places,
    foreground: float,
    generator: np.random.Generator,
    balance: float = 0.0,
) -> tuple[np.ndarray, np.ndarray]:
    """A patch of image (C, D, H, W) and class numbers (D, H, W), padded where the image is smaller.

    By the share `foreground` it holds a voxel of one of `places`: the structure is drawn first, each alike, then a
    group by its voxels to the power of 1 - `balance` (0: by size, 1: each alike), then the voxel.
    """
    widths = []
    for size, edge in zip(target.shape, patch, strict=True):
        before = max(0, edge - size) // 2
        widths.append((before, max(0, edge - size) - before))
    shape = target.shape
    if any(before or after for before, after in widths):
        image, target = pad(image, widths), np.pad(target, widths)
    room = [size - edge for size, edge in zip(target.shape, patch, strict=True)]
    start = [int(generator.integers(0, free + 1)) for free in room]
    if any(room) and places and generator.random() < foreground:
        groups = places[int(generator.integers(len(places)))]
        weights = np.array([len(group) for group in groups]) ** (1.0 - balance)
        group = groups[int(generator.choice(len(groups), p=weights / weights.sum()))]
        middle = np.unravel_index(int(generator.choice(group)), shape)
        # Anywhere in the middle half of the patch, so that structures are not always seen from within.
        start = [
            int(np.clip(at + before - edge // 2 + generator.integers(-(edge // 4), edge // 4 + 1), 0, free))
            for at, (before, _), edge, free in zip(middle, widths, patch, room, strict=True)
        ]
    window = tuple(slice(begin, begin + edge) for begin, edge in zip(start, patch, strict=True))
    return image[(slice(None), *window)], target[window]
