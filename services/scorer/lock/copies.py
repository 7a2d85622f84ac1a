"""Cases that show the same: exact copies by digest, near-duplicates of different patients and neighbours in a study by
their looks.

No image is fetched: canonical files have their digests in the case table, and intake made a look of 4 KB of each case.
"""

import tempfile
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from services.scorer.lock.near import Ints, Records, comparable, near
from services.scorer.lock.series import series
from shared.contracts.cases import CaseRecord, CaseTable
from shared.looks import RECORD
from shared.store import Store

Pair = tuple[int, int]


@dataclass(frozen=True)
class Copies:
    """What a comparison of all cases with each other found; a case is its place in the table."""

    content: Ints
    """(cases,) number of the content: equal for exact copies."""
    near: tuple[Pair, ...] = ()
    """Near-duplicates of different patients that are no exact copies."""
    series: tuple[Pair, ...] = ()
    """Neighbours by number that show one study, where nothing says whose pictures are whose."""
    no_look: int = 0
    """Cases of which only the exact content was compared."""

    def only(self, kept: Sequence[int]) -> "Copies":
        """The same of some of the cases, numbered anew."""
        place = {number: new for new, number in enumerate(kept)}

        def there(pairs: Iterable[Pair]) -> tuple[Pair, ...]:
            return tuple((place[one], place[other]) for one, other in pairs if one in place and other in place)

        return Copies(self.content[list(kept)], there(self.near), there(self.series), self.no_look)


def find_copies(store: Store, table: CaseTable) -> Copies:
    """Blocks."""
    if not table.looks or not table.cases or table.looks.size != len(table.cases) * RECORD.itemsize:
        return compare(table.cases)
    with tempfile.TemporaryDirectory(prefix="m3-looks-") as folder:
        path = Path(folder) / "looks"
        store.get_file(table.looks, path)
        return compare(table.cases, np.memmap(path, dtype=RECORD, mode="r"), table.coverage.grouping == "inferred")


def compare(cases: Sequence[CaseRecord], records: Records | None = None, unnamed: bool = False) -> Copies:
    """`records` in the order of the cases; without them there are no near-duplicates. `unnamed`: nothing says whose
    pictures are whose."""
    same = equal([tuple(sorted(image.sha256 for image in case.images)) for case in cases])
    if records is None:
        return Copies(joined(len(cases), same), no_look=len(cases))
    # Intake's own digest too: it may see that two files hold one image. None was noted where it is zero.
    same += equal([digest.tobytes() if digest.any() else None for digest in records["content"]])
    content = joined(len(cases), same)
    found = near(records, numbered([case.patient for case in cases]), named=not unnamed)
    pairs = tuple((one, other) for one, other in found if content[one] != content[other])
    studies = tuple(series(cases, records)) if unnamed else ()
    return Copies(content, pairs, studies, int((~comparable(records)).sum()))


def joined(count: int, pairs: Iterable[Pair]) -> Ints:
    """Number of the group of each of `count` things, where the things of a pair belong together."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    one, other = np.array([*pairs], dtype=np.int64).reshape(-1, 2).T
    graph = coo_array((np.ones(len(one)), (one, other)), shape=(count, count))
    return np.asarray(connected_components(graph, directed=False)[1], dtype=np.int64)


def numbered(names: Sequence[str]) -> Ints:
    """0, 1, ... for each name, equal for equal ones."""
    return np.unique(names, return_inverse=True)[1].astype(np.int64)


def equal(keys: Sequence[Hashable]) -> list[Pair]:
    """Each place with the first one that has its key; None is no key."""
    first: dict[Hashable, int] = {}
    return [
        (first[key], place)
        for place, key in enumerate(keys)
        if key is not None and first.setdefault(key, place) < place
    ]
