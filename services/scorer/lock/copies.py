"""Samples that show the same on two sides of a split: exact copies by digest, near-duplicates by their looks.

Nothing is fetched but the records that the pack job made: one file of 4 KB a sample, read from disk in parts.
"""

import tempfile
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from services.scorer.lock.near import Ints, Records, comparable, near
from shared.contracts.data import IndexRow, PackList, Split
from shared.looks import RECORD
from shared.store import Store

SPLITS: tuple[Split, ...] = ("train", "val", "test")
SIDES: tuple[tuple[Split, Split], ...] = (("train", "test"), ("val", "test"), ("train", "val"))

Pair = tuple[str, str]


@dataclass(frozen=True)
class Copies:
    """What a comparison of all samples across the sides of the split found."""

    pairs: tuple[Pair, ...] = ()
    """Exact copies, the one that is nearer to training first."""
    near: tuple[Pair, ...] = ()
    """Near-duplicates of different patients on two sides; exact copies are not repeated here."""
    merge: tuple[Pair, ...] = ()
    """Pairs of samples whose patients belong together, on one side or two: enough of them to join all."""
    compared: bool = True
    """False when there was nothing to compare with: the pack job noted no digests."""
    no_look: int = 0
    """Samples of which only the exact content was compared."""


def find_copies(store: Store, rows: Sequence[IndexRow], packs: PackList) -> Copies:
    """Blocks. `packs` has one entry a row, in the same order."""
    if packs.looks is None or packs.looks.size != len(rows) * RECORD.itemsize or len(packs.samples) != len(rows):
        return Copies(compared=False, no_look=len(rows))
    with tempfile.TemporaryDirectory(prefix="m3-looks-") as folder:
        path = Path(folder) / "looks"
        store.get_file(packs.looks, path)
        records = np.memmap(path, dtype=RECORD, mode="r")
        return compare(rows, records)


def compare(rows: Sequence[IndexRow], records: Records) -> Copies:
    """`records` in the order of the rows."""
    numbers = {split: np.array([n for n, row in enumerate(rows) if row.split == split], np.int64) for split in SPLITS}
    patients = np.unique([row.patient for row in rows], return_inverse=True)[1].astype(np.int64)
    exact = _exact(rows, records)
    found = [pair for left, right in SIDES for pair in near(records, patients, numbers[left], numbers[right])]
    found = [(one, other) for one, other in found if (records["content"][one] != records["content"][other]).any()]
    merge: list[tuple[int, int]] = []
    if found:
        # The split will be made again: who belongs together on one side may then stand on two.
        within = [pair for side in SPLITS for pair in near(records, patients, numbers[side], numbers[side])]
        merge = _joining([*found, *within], patients)

    def named(pairs: Sequence[tuple[int, int]]) -> tuple[Pair, ...]:
        return tuple((rows[one].sample_id, rows[other].sample_id) for one, other in pairs)

    return Copies(pairs=exact, near=named(found), merge=named(merge), no_look=int((~comparable(records)).sum()))


def _exact(rows: Sequence[IndexRow], records: Records) -> tuple[Pair, ...]:
    same: defaultdict[bytes, list[int]] = defaultdict(list)
    for number, digest in enumerate(records["content"]):
        same[digest.tobytes()].append(number)
    pairs: list[Pair] = []
    for numbers in same.values():
        first: dict[Split, str] = {}
        for number in numbers:
            first.setdefault(rows[number].split, rows[number].sample_id)
        for left, right in SIDES:
            if left in first:
                pairs += [(first[left], rows[n].sample_id) for n in numbers if rows[n].split == right]
    return tuple(pairs)


def _joining(pairs: Sequence[tuple[int, int]], patients: Ints) -> list[tuple[int, int]]:
    """As few of the pairs as join all patients that all of them join."""
    group = list(range(int(patients.max()) + 1))

    def root(patient: int) -> int:
        while group[patient] != patient:
            patient = group[patient]
        return patient

    kept = []
    for one, other in pairs:
        first, second = root(int(patients[one])), root(int(patients[other]))
        if first != second:
            group[second] = first
            kept.append((one, other))
    return kept
