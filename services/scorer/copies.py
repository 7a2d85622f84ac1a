"""Exact copies across the sides of a split, found in the packs themselves.

Test packs have other member names than training packs, so their digests differ where their contents do not: members are
compared. Packs that cannot hold the same files, going by number and bytes, are not fetched.
"""

import hashlib
import tarfile
import tempfile
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Sequence
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
    split_of = {row.sample_id: row.split for row in rows}
    left = limit
    skipped = 0
    for pack in wanted:
        left -= pack.pack.size
        if left < 0:
            skipped += 1
            continue
        digests[_content(store, pack)].append((split_of[pack.sample_id], pack.sample_id))
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
    """Packs that may hold the same files as a pack on another side: as many files, and as many bytes of them."""
    split_of = {row.sample_id: row.split for row in rows}
    known = [pack for pack in packs.samples if pack.sample_id in split_of]
    sizes: defaultdict[tuple[Split, int], list[int]] = defaultdict(list)
    for pack in known:
        sizes[(split_of[pack.sample_id], len(pack.files))].append(_payload(pack))
    for listed in sizes.values():
        listed.sort()

    def has_match(pack: PackedSample) -> bool:
        size = _payload(pack)
        others = [sizes.get((split, len(pack.files)), []) for split in SPLITS if split != split_of[pack.sample_id]]
        return any(
            bisect_left(listed, size - tarfile.RECORDSIZE + 1) < bisect_right(listed, size + tarfile.RECORDSIZE - 1)
            for listed in others
        )

    return tuple(pack for pack in known if has_match(pack))


def _payload(pack: PackedSample) -> int:
    """Bytes of a tar without its headers, up to less than one record of padding.

    A header's length depends on the name: long or non-ASCII names, which test packs do not have, take more.
    """
    headers = sum(len(tarfile.TarInfo(name).tobuf(tarfile.PAX_FORMAT)) for name in pack.files)
    return pack.pack.size - headers


def _content(store: Store, pack: PackedSample) -> str:
    """Digest of the members' contents, whatever they are called and in whatever order."""
    digests = []
    with tempfile.TemporaryDirectory(prefix="m3-compare-") as folder:
        path = Path(folder) / "pack.tar"
        store.get_file(pack.pack, path)
        with tarfile.open(path, "r:") as archive:
            for member in archive:
                content = archive.extractfile(member)
                if content is not None:
                    digest = hashlib.sha256()
                    while chunk := content.read(1 << 20):
                        digest.update(chunk)
                    digests.append(digest.hexdigest())
    return hashlib.sha256("".join(sorted(digests)).encode()).hexdigest()
