"""Pictures of one study that no name takes together: neighbours by number that are more alike than strangers are.

For datasets in which each picture counts as one patient. Cases are laid in rows, one for all of a class whose names
differ in numbers alone. How alike strangers are is seen from cases of a row that stand far apart. Two neighbours are of
one study where hardly any strangers are as alike and of equal size. Without it slices of one scan stand on both sides
of a split.
"""

import re
from collections import defaultdict
from collections.abc import Hashable, Iterator, Sequence

import numpy as np
import numpy.typing as npt

from services.scorer.lock.near import Floats, Ints, Records, described
from shared.contracts.cases import CaseRecord
from shared.imaging.order import natural_key
from shared.looks import FLAT

CHANCE = 0.005
"""Share of strangers that may be as alike as two neighbours of one study."""
ENOUGH = 0.2
"""Share of neighbours that must be of one study; below it, numbers say nothing of studies."""
FAR = 50
"""Places between strangers, or a third of the row where it is short: nearer ones may be of one study."""
SHORT = 20
"""Cases that a row needs."""
_STRANGERS = 20_000
_NUMBER = re.compile("[0-9]+")


def series(cases: Sequence[CaseRecord], records: Records) -> list[tuple[int, int]]:
    """Pairs of places, one or two apart in their row, that show one study; `records` in the order of the cases."""
    rows = list(_rows(cases, records))
    if not rows:
        return []
    shown = np.concatenate(rows)
    looks, sizes = described(records, shown), _sizes([cases[place] for place in shown.tolist()])
    ends = np.cumsum([len(row) for row in rows]).tolist()
    # From here on a case is its place in `shown`: row after row.
    lines = [np.arange(end - len(row), end) for row, end in zip(rows, ends, strict=True)]

    one, other = _strangers(lines)
    usual, equal = np.sort(_alike(looks, one, other)), float((sizes[one] == sizes[other]).mean())

    def of_one_study(apart: int) -> tuple[Ints, Ints, npt.NDArray[np.bool_]]:
        first = np.concatenate([line[:-apart] for line in lines])
        chance = 1 - np.searchsorted(usual, _alike(looks, first, first + apart)) / len(usual)
        same_size = sizes[first] == sizes[first + apart]
        return first, first + apart, np.where(same_size, chance * equal, chance) <= CHANCE

    pairs: list[tuple[int, int]] = []
    for apart in (1, 2):
        first, second, joined = of_one_study(apart)
        if apart == 1 and joined.mean() < ENOUGH:
            return []
        pairs += zip(shown[first[joined]].tolist(), shown[second[joined]].tolist(), strict=True)
    return pairs


def _rows(cases: Sequence[CaseRecord], records: Records) -> Iterator[Ints]:
    """Places of pictures of a class whose names differ in numbers alone, in natural order."""
    rows: defaultdict[Hashable, list[int]] = defaultdict(list)
    for place in np.flatnonzero(records["kind"] == FLAT).tolist():
        # Where classes come one after the other, neighbours are alike for being of one class.
        rows[_NUMBER.sub("#", cases[place].key), cases[place].label].append(place)
    for places in rows.values():
        if len(places) >= SHORT:
            yield np.array(sorted(places, key=lambda place: natural_key(cases[place].key)), dtype=np.int64)


def _sizes(cases: Sequence[CaseRecord]) -> Ints:
    """A number for each size of picture."""
    sizes = [str(case.wrapping.numbers.get("dimensions")) for case in cases]
    return np.unique(sizes, return_inverse=True)[1].astype(np.int64)


def _strangers(lines: Sequence[Ints]) -> tuple[Ints, Ints]:
    """Pairs of cases of a row that stand far apart; the same ones each time."""
    rng = np.random.default_rng(0)
    one, other = [], []
    total = sum(len(line) for line in lines)
    for line in lines:
        far = min(FAR, len(line) // 3)
        first = rng.integers(0, len(line) - far, max(1, _STRANGERS * len(line) // total))
        one.append(line[first])
        other.append(line[rng.integers(first + far, len(line))])
    return np.concatenate(one), np.concatenate(other)


def _alike(looks: Floats, one: Ints, other: Ints) -> Floats:
    return np.asarray(np.einsum("ij,ij->i", looks[one], looks[other]))
