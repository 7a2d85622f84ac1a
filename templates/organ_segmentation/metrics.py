"""Dice. A structure that neither mask nor prediction has is left out, one that only one of them has counts 0."""

from collections.abc import Sequence

import numpy as np


def dice_scores(found: np.ndarray, truth: np.ndarray, structures: int) -> list[float | None]:
    """One image's Dice by structure; both arrays hold class numbers, 0 background."""
    length = structures + 1
    same = np.bincount(truth[found == truth].ravel(), minlength=length)
    sizes = np.bincount(found.ravel(), minlength=length) + np.bincount(truth.ravel(), minlength=length)
    return [float(2 * same[k] / sizes[k]) if sizes[k] else None for k in range(1, length)]


def summary(scores: Sequence[Sequence[float | None]], names: Sequence[str]) -> dict[str, float | None]:
    """`dice`: mean over the structures of an image, then over images; `dice <name>`: mean over images."""
    by_image = [mean(image) for image in scores]
    found = {"dice": mean(by_image)}
    return found | {f"dice {name}": mean([image[k] for image in scores]) for k, name in enumerate(names)}


def mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None
