"""Exact copies of images across the sides of a split, found in the packs themselves.

Test packs have other member names than training packs, so their digests differ where their contents do not: members are
compared. Masks, which only training packs hold, are left out of it. Packs that cannot hold the same images, going by
number and bytes, are not fetched.
"""

import hashlib
import tarfile
import tempfile
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from services.scorer.lock import SIDES, SPLITS, Copies, Pair
from shared.contracts.data import IndexRow, PackedSample, PackList, Split
from shared.store import Store

MAX_BYTES = 64 * 1024**3
"""Of packs that are fetched for one comparison."""


def find_copies(store: Store, rows: Sequence[IndexRow], packs: PackList, limit: int = MAX_BYTES) -> Copies:
    """Compare all candidates, holding one pack at a time on disk. Blocks."""
    wanted = candidates(rows, packs)
    digests: defaultdict[str, list[tuple[Split, str]]] = defaultdict(list)
    row_of = {row.sample_id: row for row in rows}
    left = limit
    skipped = 0
    for pack in wanted:
        left -= pack.pack.size
        if left < 0:
            skipped += 1
            continue
        row = row_of[pack.sample_id]
        digests[_content(store, pack, len(row.files))].append((row.split, pack.sample_id))
    pairs: list[Pair] = []
    for same in digests.values():
        first: dict[Split, str] = {}
        for split, name in same:
            first.setdefault(split, name)
        for left_side, right_side in SIDES:
            if left_side in first:
                pairs += [(first[left_side], name) for split, name in same if split == right_side]
    return Copies(pairs=tuple(pairs), not_compared=skipped)


def candidates(rows: Sequence[IndexRow], packs: PackList) -> tuple[PackedSample, ...]:
    """Packs that may hold the same images as a pack on another side: as many of them, and as many bytes."""
    row_of = {row.sample_id: row for row in rows}
    known = [pack for pack in packs.samples if pack.sample_id in row_of]
    least: defaultdict[tuple[Split, int], list[int]] = defaultdict(list)
    most: defaultdict[tuple[Split, int], list[int]] = defaultdict(list)
    for pack in known:
        row = row_of[pack.sample_id]
        low, high = _payload(pack, row)
        least[(row.split, len(row.files))].append(low)
        most[(row.split, len(row.files))].append(high)
    for listed in (*least.values(), *most.values()):
        listed.sort()

    def has_match(pack: PackedSample) -> bool:
        row = row_of[pack.sample_id]
        low, high = _payload(pack, row)
        others = [(split, len(row.files)) for split in SPLITS if split != row.split]
        # Ranges that begin before this one's end, less those that end before its start: those that overlap.
        return any(
            bisect_right(least[key], high + tarfile.RECORDSIZE - 1)
            > bisect_left(most[key], low - tarfile.RECORDSIZE + 1)
            for key in others
            if key in least
        )

    return tuple(pack for pack in known if has_match(pack))


def _payload(pack: PackedSample, row: IndexRow) -> tuple[int, int]:
    """Least and most bytes of a pack's images, up to less than one record of padding.

    A header's length depends on the name: long or non-ASCII names, which test packs do not have, take more. Where a
    mask comes with them, how many of the bytes are its own is not known.
    """
    headers = sum(len(tarfile.TarInfo(name).tobuf(tarfile.PAX_FORMAT)) for name in pack.files)
    size = pack.pack.size - headers
    return (size, size) if len(pack.files) == len(row.files) else (0, size)


def _content(store: Store, pack: PackedSample, images: int) -> str:
    """Digest of the contents of the first `images` members, whatever they are called and in whatever order."""
    digests = []
    with tempfile.TemporaryDirectory(prefix="m3-compare-") as folder:
        path = Path(folder) / "pack.tar"
        store.get_file(pack.pack, path)
        with tarfile.open(path, "r:") as archive:
            for member in islice(archive, images):
                content = archive.extractfile(member)
                if content is not None:
                    digest = hashlib.sha256()
                    while chunk := content.read(1 << 20):
                        digest.update(chunk)
                    digests.append(digest.hexdigest())
    return hashlib.sha256("".join(sorted(digests)).encode()).hexdigest()
