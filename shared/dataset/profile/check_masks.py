"""Masks: without image, on another grid, with odd values."""

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from shared.dataset.profile.findings import DOUBTFUL, NOTE, UNUSABLE, Findings
from shared.dataset.survey.mask_looks import MaskLook, off_grid
from shared.dataset.survey.naming import evenly
from shared.imaging.errors import BadImage
from shared.imaging.masks import read_label_map

if TYPE_CHECKING:
    from shared.dataset.survey.survey import Survey

MOST_MASKS = 12
_MANY = 300
"""Values of a mask from which it is an image."""


def check_masks(seen: "Survey", found: Findings) -> None:
    for one in seen.masks:
        if one.kind != "file" or one.family is None:
            continue
        masks = seen.families[one.family]
        found.add(UNUSABLE, [one.without_example], "image(s) without mask",
                  "they are left out, or count as healthy where rules say so", one.without)  # fmt: skip
        found.add(DOUBTFUL, [one.alone_example], "mask(s) without image", "have the images added", one.alone)
        if not one.images:
            found.add(DOUBTFUL, masks.files, "mask(s) without an image of like name", "name masks and images alike")
        _grids(seen, one, found)
        _values(seen, one, found)


def _grids(seen: "Survey", one: MaskLook, found: Findings) -> None:
    """Headers only. Of several sequences of a patient a mask lies on one."""
    fits: set[str] = set()
    reasons: dict[str, str] = {}
    for image, mask in one.pairs:
        reason = off_grid(image, mask, seen.looker)
        if reason is None:
            continue
        if reason:
            reasons[mask] = reason
        else:
            fits.add(mask)
    wrong = [f"{mask} (it {reason})" for mask, reason in reasons.items() if mask not in fits]
    looked = len(fits | reasons.keys())
    found.add(UNUSABLE, wrong, f"of {looked:,} masks looked at do not lie on the grid of an image of theirs",
              "resample them with nearest neighbours onto the image's grid, or leave them out")  # fmt: skip


def _values(seen: "Survey", one: MaskLook, found: Findings) -> None:
    assert one.family is not None
    masks = seen.families[one.family]
    held: Counter[int] = Counter()
    faults, empty, negative, many = [], [], [], []
    looked = 0
    for file in evenly(masks.files, MOST_MASKS):
        look = seen.looker.known.get(file)
        if seen.looker.left <= 0 or (look and look.fault):
            continue
        looked += 1
        try:
            labels, _ = read_label_map(seen.root / file)
        except BadImage as error:
            faults.append(f"{file} ({error})")
            continue
        values = np.unique(labels)
        held.update(int(value) for value in values[:_MANY] if value)
        if len(values) > _MANY:
            many.append(file)
        if values.min() < 0:
            negative.append(file)
        if not values.any():
            empty.append(file)
    masks.opened, masks.empty = looked - len(faults), len(empty)
    of = f"of {looked:,} masks looked into"
    found.add(UNUSABLE, faults, f"{of} cannot be used as they are", "export them again as whole numbers")
    found.add(UNUSABLE, many, f"{of} hold more values than a mask can have structures",
              "they are images: name the right masks")  # fmt: skip
    found.add(DOUBTFUL, negative, f"{of} hold negative values",
              "ask what they mean; list the values that count in the rules")  # fmt: skip
    found.add(NOTE, empty, f"{of} mark nothing", "right where nothing is there to mark; else leave them out")
    rare = [value for value, count in held.items() if looked >= 5 and count * 5 < looked and value >= 0]
    if rare and len(rare) < len(held):
        found.add(NOTE, [f"value {value}" for value in sorted(rare)], f"mask value(s) are rare in {masks.pattern}",
                  "expect no score for them: leave them out of the structures, or add cases")  # fmt: skip
    if set(held) == {255} and not faults:
        found.say(NOTE, f"Masks {masks.pattern} hold 0 and 255: name 255 as the structure's value in the rules")
