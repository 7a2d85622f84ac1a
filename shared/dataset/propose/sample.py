"""A part of a large listing on which rules are tried first: whole cases, with all that belongs to them."""

import re
import zlib

from shared.dataset.files.listing import Listing
from shared.dataset.files.packed import Names, Numbers

LARGE = 6_000
"""Files from which on rules are tried on a part."""
KEPT = 4_000
_NUMBER = re.compile(r"\d+")


def sampled(listing: Listing) -> Listing:
    """The listing itself where it is small; else files by a hash of what names their case, so that an image keeps its
    mask and its other channels, and all files that are no images."""
    if len(listing.files) <= LARGE:
        return listing
    images = set(listing.images)
    share = KEPT / max(1, len(images))
    kept = [at for at, file in enumerate(listing.files) if file not in images or _drawn(file, share)]
    if len(kept) > 4 * KEPT:
        kept = [at for at in kept if listing.files[at] in images or _drawn(listing.files[at], share)
                or not _NUMBER.search(listing.files[at])]  # fmt: skip
    return Listing(
        root=listing.root,
        files=Names(listing.files[at] for at in kept),
        sizes=Numbers(listing.sizes[at] for at in kept),
        mtimes=Numbers(listing.mtimes[at] for at in kept),
        folders=listing.folders,
        changes=listing.changes,
    )


def _drawn(file: str, share: float) -> bool:
    """By the longest number of the path: patients' and cases' numbers stand in images and masks alike."""
    numbers = _NUMBER.findall(file)
    key = max(numbers, key=len) if numbers else file
    return zlib.crc32(key.lstrip("0").encode()) % 10_000 < share * 10_000
